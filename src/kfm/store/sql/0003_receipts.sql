-- Two rows for every run, at random keys, and never rewritten: kept in the order in which they come, with a small index
-- beside them. Sorted by their keys, four or seven to a page, every other one of them split a page of some branch.
ALTER TABLE receipts RENAME TO receipts_by_key;
CREATE TABLE receipts (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO receipts SELECT key, value, sum FROM receipts_by_key ORDER BY key;
DROP TABLE receipts_by_key;
ALTER TABLE telemetry RENAME TO telemetry_by_key;
CREATE TABLE telemetry (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL);
INSERT INTO telemetry SELECT key, value, sum FROM telemetry_by_key ORDER BY key;
DROP TABLE telemetry_by_key;
