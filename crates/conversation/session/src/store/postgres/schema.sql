-- Format 5 of a store in PostgreSQL: the tables of `sqlite/schema.sql`. Texts that people and agents wrote are
-- BYTEA, because a TEXT cannot contain U+0000.
CREATE TABLE session (
    id          TEXT COLLATE "C" PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        BYTEA,
    directory   BYTEA NOT NULL,
    team        BYTEA NOT NULL,
    first_task  BYTEA,
    rehearsal   TEXT,
    events      BIGINT NOT NULL,
    state       TEXT NOT NULL,
    messages    BIGINT NOT NULL,
    turns       BIGINT NOT NULL,
    removed_at  BIGINT
);

-- The process that may write a session, for as long as the database's clock says. The epoch rises with each claim.
CREATE TABLE lease (
    session     TEXT COLLATE "C" PRIMARY KEY,
    epoch       BIGINT NOT NULL,
    until       TIMESTAMPTZ NOT NULL,
    pid         BIGINT NOT NULL,
    host        BYTEA NOT NULL,
    since       BIGINT NOT NULL,
    stopped     TEXT
);

-- Messages of people that the holder of the session has not stored yet.
CREATE TABLE inbox (
    session     TEXT COLLATE "C" NOT NULL,
    number      BIGINT GENERATED ALWAYS AS IDENTITY,
    said        BYTEA NOT NULL,
    PRIMARY KEY (session, number)
);

-- What people ask of the process that runs a turn: an answer to a question of its agent or, without a question, to cancel
-- the turn. The rows of a turn are removed by the commit that ends it.
CREATE TABLE signal (
    session     TEXT COLLATE "C" NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    question    BYTEA NOT NULL,
    answer      TEXT,
    PRIMARY KEY (session, turn, attempt, question)
);

-- The processes that can ask a person about a session, for as long as the database's clock says.
CREATE TABLE attendance (
    session     TEXT COLLATE "C" NOT NULL,
    process     TEXT NOT NULL,
    until       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (session, process)
);

-- The sessions that go on, each with its next turn. Without a turn any process can go on. Each has a row in `lease`.
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

-- The project of a session, for machines that have it in another directory.
CREATE TABLE project (
    session     TEXT COLLATE "C" PRIMARY KEY,
    remote      BYTEA NOT NULL,
    revision    TEXT NOT NULL,
    below       BYTEA NOT NULL
);

-- The machines that take turns, for as long as the database's clock says.
CREATE TABLE node (
    name        BYTEA PRIMARY KEY,
    epoch       BIGINT NOT NULL,
    until       TIMESTAMPTZ NOT NULL,
    pid         BIGINT NOT NULL,
    host        BYTEA NOT NULL,
    since       BIGINT NOT NULL,
    about       TEXT NOT NULL
);

CREATE TABLE event (
    session     TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    packed      BYTEA NOT NULL,
    PRIMARY KEY (session, number)
);

CREATE TABLE message (
    session     TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    answers     BIGINT,
    content     BYTEA NOT NULL,
    rest        TEXT NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE INDEX message_answers ON message (session, answers, number) WHERE answers IS NOT NULL;

-- The words of messages. One with many words has several rows, because a TSVECTOR has a limit.
CREATE TABLE message_words (
    session     TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    part        BIGINT NOT NULL,
    words       TSVECTOR NOT NULL,
    PRIMARY KEY (session, number, part)
);
CREATE INDEX message_words_search ON message_words USING GIN (words);

CREATE TABLE mail (
    session     TEXT COLLATE "C" NOT NULL,
    reader      BYTEA NOT NULL,
    number      BIGINT NOT NULL,
    PRIMARY KEY (session, reader, number)
);

CREATE TABLE turn (
    session     TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    member      BYTEA NOT NULL,
    answers     BIGINT NOT NULL,
    intent      TEXT NOT NULL,
    asker       BYTEA NOT NULL,
    state       TEXT NOT NULL,
    reply       BIGINT,
    problem     BYTEA,
    attempts    BIGINT NOT NULL,
    queued_at   BIGINT NOT NULL,
    ended_at    BIGINT,
    PRIMARY KEY (session, number)
);
CREATE INDEX turn_open ON turn (session, number) WHERE state IN ('queued', 'running');

CREATE TABLE attempt (
    session     TEXT COLLATE "C" NOT NULL,
    turn        BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    has_ended   BIGINT NOT NULL,
    record      TEXT NOT NULL,
    PRIMARY KEY (session, turn, number)
);

CREATE TABLE piece (
    session     TEXT COLLATE "C" NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    text        BYTEA NOT NULL,
    PRIMARY KEY (session, turn, attempt, position)
);

CREATE TABLE content (
    hash        BYTEA PRIMARY KEY,
    bytes       BIGINT NOT NULL,
    packed      BYTEA NOT NULL
);

CREATE TABLE content_use (
    hash        BYTEA NOT NULL,
    session     TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (hash, session)
);
CREATE INDEX content_use_session ON content_use (session);

CREATE TABLE thread (
    name        TEXT COLLATE "C" PRIMARY KEY,
    session     TEXT COLLATE "C"
);
CREATE INDEX thread_session ON thread (session) WHERE session IS NOT NULL;

CREATE TABLE thread_line (
    thread      TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    line        BYTEA NOT NULL,
    as_of       BIGINT,
    PRIMARY KEY (thread, number)
);

CREATE TABLE request (
    thread      TEXT COLLATE "C" NOT NULL,
    number      BIGINT NOT NULL,
    turn        BIGINT,
    attempt     BIGINT,
    about       TEXT NOT NULL,
    outcome     TEXT,
    PRIMARY KEY (thread, number)
);

CREATE TABLE request_text (
    thread      TEXT COLLATE "C" NOT NULL,
    text        TEXT NOT NULL,
    number      BIGINT NOT NULL,
    depth       BIGINT NOT NULL,
    from_start  BIGINT NOT NULL,
    from_end    BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    hash        BYTEA NOT NULL,
    packed      BYTEA NOT NULL,
    PRIMARY KEY (thread, text, number)
);
