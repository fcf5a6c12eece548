-- Format 4 adds what models were sent.
CREATE TABLE request (
    thread      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    turn        BIGINT,
    attempt     BIGINT,
    about       TEXT NOT NULL,
    outcome     TEXT,
    PRIMARY KEY (thread, number)
);
CREATE TABLE request_text (
    thread      TEXT NOT NULL,
    text        TEXT NOT NULL,
    number      BIGINT NOT NULL,
    depth       BIGINT NOT NULL,
    from_start  BIGINT NOT NULL,
    from_end    BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    hash        BLOB NOT NULL,
    packed      BLOB NOT NULL,
    PRIMARY KEY (thread, text, number)
);
