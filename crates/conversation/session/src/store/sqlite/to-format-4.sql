-- Format 4 adds what has come of attempts that have not ended, and how a session is rehearsed,
-- and what models were sent.
CREATE TABLE progress (
    session     TEXT NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    events      TEXT NOT NULL,
    PRIMARY KEY (session, turn, attempt, number)
);
ALTER TABLE session ADD COLUMN rehearsal TEXT;
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
