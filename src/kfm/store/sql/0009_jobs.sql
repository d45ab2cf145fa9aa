-- Format 9: the jobs of workers, with their attempts and dead letters. Nothing older is rewritten: a trigger that waits
-- gets its row when a worker first claims it.
CREATE TABLE jobs (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
