-- Format 7: the instants of schedules that were claimed.
CREATE TABLE ticks (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
