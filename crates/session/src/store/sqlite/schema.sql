CREATE TABLE session (
    id          TEXT PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        TEXT,
    directory   TEXT NOT NULL,
    team        TEXT NOT NULL,
    first_task  TEXT,
    head        BIGINT NOT NULL,
    state       TEXT NOT NULL,
    messages    BIGINT NOT NULL,
    turns       BIGINT NOT NULL
);

CREATE TABLE message (
    session     TEXT NOT NULL,
    number      BIGINT NOT NULL,
    answers     BIGINT,
    content     TEXT NOT NULL,
    rest        TEXT NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX message_answers ON message (session, answers, number) WHERE answers IS NOT NULL;

-- What each member wrote or was sent, by every name that a message used; '' is everyone.
CREATE TABLE mail (
    session     TEXT NOT NULL,
    reader      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    PRIMARY KEY (session, reader, number)
);

CREATE TABLE turn (
    session     TEXT NOT NULL,
    number      BIGINT NOT NULL,
    member      TEXT NOT NULL,
    answers     BIGINT NOT NULL,
    intent      TEXT NOT NULL,
    asker       TEXT NOT NULL,
    state       TEXT NOT NULL,
    reply       BIGINT,
    problem     TEXT,
    attempts    BIGINT NOT NULL,
    queued_at   BIGINT NOT NULL,
    ended_at    BIGINT,
    PRIMARY KEY (session, number)
);
CREATE INDEX turn_open ON turn (session, number) WHERE state IN ('queued', 'running');

-- What was sent, and what came back, as one JSON record.
CREATE TABLE attempt (
    session     TEXT NOT NULL,
    turn        BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    has_ended   BIGINT NOT NULL,
    record      TEXT NOT NULL,
    PRIMARY KEY (session, turn, number)
);

-- Texts by the SHA-256 of their bytes, each once, compressed.
CREATE TABLE content (
    hash        BLOB PRIMARY KEY,
    bytes       BIGINT NOT NULL,
    packed      BLOB NOT NULL
);

CREATE TABLE content_use (
    hash        BLOB NOT NULL,
    session     TEXT NOT NULL,
    PRIMARY KEY (hash, session)
);
CREATE INDEX content_use_session ON content_use (session);

-- The threads of models, and the session whose member's one is; `convoke ask` has threads of no session.
CREATE TABLE thread (
    name        TEXT PRIMARY KEY,
    session     TEXT
);
CREATE INDEX thread_session ON thread (session) WHERE session IS NOT NULL;

-- Lines only grow. What they say is the model crate's matter; none tells of a message after `as_of`.
CREATE TABLE thread_line (
    thread      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    line        TEXT NOT NULL,
    as_of       BIGINT,
    PRIMARY KEY (thread, number)
);
