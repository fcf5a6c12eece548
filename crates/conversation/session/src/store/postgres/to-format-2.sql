-- From format 1 to format 2: sessions that several machines take part in.
ALTER TABLE lease ADD COLUMN stopped TEXT;
CREATE TABLE inbox (
    session     TEXT COLLATE "C" NOT NULL,
    number      BIGINT GENERATED ALWAYS AS IDENTITY,
    said        BYTEA NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE TABLE offer (
    session     TEXT COLLATE "C" PRIMARY KEY,
    since       TIMESTAMPTZ NOT NULL,
    turn        BIGINT,
    member      BYTEA,
    agent       BYTEA,
    node        BYTEA,
    guard       TEXT
);
CREATE INDEX offer_since ON offer (since);
CREATE TABLE project (
    session     TEXT COLLATE "C" PRIMARY KEY,
    remote      BYTEA NOT NULL,
    revision    TEXT NOT NULL,
    below       BYTEA NOT NULL
);
CREATE TABLE node (
    name        BYTEA PRIMARY KEY,
    epoch       BIGINT NOT NULL,
    until       TIMESTAMPTZ NOT NULL,
    pid         BIGINT NOT NULL,
    host        BYTEA NOT NULL,
    since       BIGINT NOT NULL,
    about       TEXT NOT NULL
);
UPDATE convoke_store SET format = 2;
