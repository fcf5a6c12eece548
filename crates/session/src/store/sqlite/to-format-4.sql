-- Format 4 adds what has come of attempts that have not ended, and how a session is rehearsed.
CREATE TABLE progress (
    session     TEXT NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    number      BIGINT NOT NULL,
    events      TEXT NOT NULL,
    PRIMARY KEY (session, turn, attempt, number)
);
ALTER TABLE session ADD COLUMN rehearsal TEXT;
