-- Format 5 adds sessions that can be restored after their removal, and a full-text index of messages.
ALTER TABLE session ADD COLUMN removed_at BIGINT;
CREATE VIRTUAL TABLE message_search USING fts5 (
    content, content = 'message', content_rowid = 'rowid', tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER message_added AFTER INSERT ON message BEGIN
    INSERT INTO message_search (rowid, content) VALUES (new.rowid, new.content);
END;
CREATE TRIGGER message_removed AFTER DELETE ON message BEGIN
    INSERT INTO message_search (message_search, rowid, content) VALUES ('delete', old.rowid, old.content);
END;
INSERT INTO message_search (message_search) VALUES ('rebuild');
