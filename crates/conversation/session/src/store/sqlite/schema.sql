CREATE TABLE session (
    id          TEXT PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        TEXT,
    directory   TEXT NOT NULL,
    team        TEXT NOT NULL,
    first_task  TEXT,
    rehearsal   TEXT,
    events      BIGINT NOT NULL,
    state       TEXT NOT NULL,
    messages    BIGINT NOT NULL,
    turns       BIGINT NOT NULL,
    -- When the user removed it; it can be restored for a while.
    removed_at  BIGINT
);

-- The log of a session: its events, from 1 without gaps, compressed. The tables of messages, turns and attempts follow from
-- it and can be rebuilt.
CREATE TABLE event (
    session     TEXT NOT NULL,
    number      BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    packed      BLOB NOT NULL,
    PRIMARY KEY (session, number)
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

-- The full-text index of `message`. It stores no text of its own.
CREATE VIRTUAL TABLE message_search USING fts5 (
    content, content = 'message', content_rowid = 'rowid', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    INSERT INTO message_search (rowid, content) VALUES (new.rowid, new.content);
END;
CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN
    INSERT INTO message_search (message_search, rowid, content) VALUES ('delete', old.rowid, old.content);
END;

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

-- The text that the agent of a running attempt is writing, in pieces. The whole text replaces them, in the log.
CREATE TABLE piece (
    session     TEXT NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (session, turn, attempt, position)
);

-- Messages of people that the holder of the session has not stored yet.
CREATE TABLE inbox (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    session     TEXT NOT NULL,
    said        BLOB NOT NULL
);
CREATE INDEX inbox_session ON inbox (session, number);

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

-- What models were sent, from 1 in each thread. `about` and `outcome` are the model crate's matter.
CREATE TABLE request (
    thread      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    turn        BIGINT,
    attempt     BIGINT,
    about       TEXT NOT NULL,
    outcome     TEXT,
    PRIMARY KEY (thread, number)
);

-- The texts of requests (`body`, `ledger`): what is not at the beginning or the end of the same text of
-- the request before, compressed. `depth` such steps lead back to a text that is there whole.
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
