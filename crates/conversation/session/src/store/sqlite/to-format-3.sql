-- Format 3 says whose a thread is, and what each of its lines can tell of. Until then the name of a
-- member's thread was all that told its session: the session's id, a hyphen, the member. What the lines
-- there are tell of, nobody has written down.
CREATE TABLE thread (
    name        TEXT PRIMARY KEY,
    session     TEXT
);
CREATE INDEX thread_session ON thread (session) WHERE session IS NOT NULL;
INSERT INTO thread (name, session)
    SELECT DISTINCT thread, (
        SELECT id FROM session WHERE id = substr(thread, 1, 36) AND substr(thread, 37, 1) = '-'
    ) FROM thread_line;
ALTER TABLE thread_line ADD COLUMN as_of BIGINT;
