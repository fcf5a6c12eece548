-- Format 6 adds the messages of people that are not stored yet.
CREATE TABLE inbox (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    session     TEXT NOT NULL,
    said        BLOB NOT NULL
);
CREATE INDEX inbox_session ON inbox (session, number);
