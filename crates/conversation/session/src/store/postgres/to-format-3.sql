-- From format 2 to format 3: cancelling turns of other machines, and answering the questions of their agents.
CREATE TABLE signal (
    session     TEXT COLLATE "C" NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    question    BYTEA NOT NULL,
    answer      TEXT,
    PRIMARY KEY (session, turn, attempt, question)
);
CREATE TABLE attendance (
    session     TEXT COLLATE "C" NOT NULL,
    process     TEXT NOT NULL,
    until       TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (session, process)
);
UPDATE convoke_store SET format = 3;
