-- A session, and the state of its files when its figures and its words were read.
CREATE TABLE session (
    number INTEGER PRIMARY KEY,
    program TEXT NOT NULL,
    id TEXT NOT NULL,
    path BLOB NOT NULL,
    figures TEXT,
    words TEXT,
    UNIQUE (program, id, path)
);

-- A response that a provider counted.
CREATE TABLE response (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    project TEXT,
    model TEXT,
    answer INTEGER,
    at INTEGER,
    input INTEGER NOT NULL,
    cached INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    output INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost REAL
);
CREATE INDEX response_session ON response (session);

-- The words of a part of a session. Texts are not stored: what contains a word is read in the session's own file.
CREATE VIRTUAL TABLE said USING fts5 (
    words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);
CREATE TABLE part (
    number INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE
);
CREATE INDEX part_session ON part (session);

-- Sessions that the person had removed from here: they do not come back by themselves.
CREATE TABLE forgotten (
    program TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (program, id)
) WITHOUT ROWID;
