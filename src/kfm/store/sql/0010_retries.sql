-- Format 10: circuit breakers and retry budgets, shared by all processes. Nothing older is rewritten.
CREATE TABLE breakers (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE budgets (key TEXT PRIMARY KEY, value BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
