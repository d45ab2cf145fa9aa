-- Format 6: who used what, the way back from an input to the runs that read it. What is older is filled in by formats.py.
CREATE TABLE lineage (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
