-- Format 2 adds the threads of model members.
CREATE TABLE thread_line (
    thread      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    line        TEXT NOT NULL,
    PRIMARY KEY (thread, number)
);
