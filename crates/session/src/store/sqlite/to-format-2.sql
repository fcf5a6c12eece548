-- Format 2 adds the threads of model members.
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS thread_line (
    thread      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    line        TEXT NOT NULL,
    PRIMARY KEY (thread, number)
);
PRAGMA user_version = 2;
COMMIT;
