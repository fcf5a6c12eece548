-- Format 7 adds the log of each session. Programs of earlier versions that are still running cannot write any more: they would
-- change rows without events, and do not know this column.
ALTER TABLE session RENAME COLUMN head TO events;
CREATE TABLE event (
    session     TEXT NOT NULL,
    number      BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    packed      BLOB NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE TABLE piece (
    session     TEXT NOT NULL,
    turn        BIGINT NOT NULL,
    attempt     BIGINT NOT NULL,
    position    BIGINT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (session, turn, attempt, position)
);
