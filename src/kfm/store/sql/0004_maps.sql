-- Format 4: see formats.py for what is made anew out of older rows.
-- Objects come in the order of the work and at random keys, as receipts do, and are never rewritten: kept in that order,
-- a run fills pages one after another instead of splitting them.
ALTER TABLE objects RENAME TO objects_by_key;
CREATE TABLE objects (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO objects SELECT key, value, sum FROM objects_by_key ORDER BY key;
DROP TABLE objects_by_key;
-- Which entries of the ledger are about a dataset.
CREATE TABLE ended_runs (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
