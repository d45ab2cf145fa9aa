// Made by `make schemas` from the code of Python; change that, not this file.

export const VITAL = ["guard", "meta", "refs", "open_runs", "leases", "inbox"];
export const SINKS = [["catalog", "catalog"], ["pages", "pages"], ["worker_receipts", "worker-receipts"], ["graph", "graph"], ["openlineage.file", "openlineage.file"], ["openlineage.url", "openlineage.http"]];
