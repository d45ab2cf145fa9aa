-- What became of every trigger that was kept, and which deliveries of webhooks were taken: no replay begins another run.
CREATE TABLE triggers   (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE deliveries (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
