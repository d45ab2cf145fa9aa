-- Format 8: rows that may be large, each kept whole in the order in which it came, with a small index beside them.
-- Where a table is sorted by its keys, SQLite reads the whole of every row that it compares with one it looks for, and
-- a part of a plan or of a journal can be 400 KiB.
ALTER TABLE segments RENAME TO segments_by_key;
CREATE TABLE segments (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO segments SELECT key, value, sum FROM segments_by_key ORDER BY key;
DROP TABLE segments_by_key;
ALTER TABLE archived RENAME TO archived_by_key;
CREATE TABLE archived (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO archived SELECT key, value, sum FROM archived_by_key ORDER BY key;
DROP TABLE archived_by_key;
ALTER TABLE plans RENAME TO plans_by_key;
CREATE TABLE plans (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO plans SELECT key, value, sum FROM plans_by_key ORDER BY key;
DROP TABLE plans_by_key;
ALTER TABLE runs RENAME TO runs_by_key;
CREATE TABLE runs (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO runs SELECT key, value, sum FROM runs_by_key ORDER BY key;
DROP TABLE runs_by_key;
ALTER TABLE checkpoints RENAME TO checkpoints_by_key;
CREATE TABLE checkpoints (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO checkpoints SELECT key, value, sum FROM checkpoints_by_key ORDER BY key;
DROP TABLE checkpoints_by_key;
