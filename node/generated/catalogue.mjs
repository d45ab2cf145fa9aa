// Made by `make schemas` from the code of Python; change that, not this file.

export const VITAL = ["guard", "meta", "refs", "open_runs", "leases", "inbox"];
