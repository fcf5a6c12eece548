-- Format 2 adds the threads of models.
CREATE TABLE thread_line (
    thread      TEXT NOT NULL,
    number      BIGINT NOT NULL,
    line        TEXT NOT NULL,
    PRIMARY KEY (thread, number)
);
