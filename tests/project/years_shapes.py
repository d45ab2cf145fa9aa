"""What the commands that look after an installation over the years write with `--json`."""

from __future__ import annotations

from tests.project.json_when import Shape

YEARS: dict[str, Shape] = {
    "kfm backup": Shape(
        {
            "backup": "its name",
            "taken": "when the state was read",
            "to": "the place",
            "rows": "rows of the state",
            "objects": "objects that are files",
            "new": "files that were not there before",
            "bytes": "their bytes",
            "lacks": "the settings of keys and secrets, which no backup holds",
            "removed": "with `--keep`: the older backups that were removed",
        },
        about="With `--list`: a list of `backup`, `taken` and `objects`.",
    ),
    "kfm energy": Shape(
        {
            "meter": "what is read here: `method`, `why`, `watts_per_core`, `region`, and the factor of now, `grid`",
            "total": "`runs`, `unknown` (runs in no sum), `merged`, and `methods`: a list of `method`, `runs`, "
            "`joules`, `grams`, `without_carbon`",
            "datasets": "a list of the same, each with its `dataset`",
            "runs": "with a DATASET or RUN: a list of `ended_at`, `op_type`, `outcome`, "
            "[`energy`](../../schemas/telemetry/energy-v2.json) and [`carbon`](../../schemas/telemetry/carbon-v2.json)",
        }
    ),
    "kfm gc": Shape(
        {
            "dry_run": "true with `--dry-run`: nothing was removed",
            "kinds": "a list of `kind` (objects, aside, back, receipts, previews, rows), `count`, `bytes` or null",
            "waits_for": "the unfinished run for which objects stay that would be removed else; empty: none",
        }
    ),
    "kfm restore": Shape(
        {
            "backup": "its name",
            "taken": "when its state was read",
            "restored": "false with `--verify`",
            "rows": "rows of the state",
            "objects": "objects that are files",
            "withdrawn": "datasets whose public files have moved on since the backup",
            "unseen": "datasets of which nothing public shows whether they were withdrawn since the backup",
        }
    ),
    "kfm report quarter": Shape(
        {
            "quarter": "such as 2026-Q3",
            "begin": "its first instant",
            "end": "the first instant after it",
            "made": "when the report was made",
            "is_over": "false: the quarter goes on",
            "entries": "entries of the ledger in the quarter",
            "datasets": "a list of counts by dataset; `energy_wh` and `carbon_g` are null where nothing is known",
            "denials": "a list of `dataset`, `rule` and `count`",
            "overrides": "a list of `at`, `dataset`, `what`, `who`, `has_reason`, `until`; null: withheld, or one run",
            "objectives": "a list of `name`, `target`, `actual`, `kept`, null if nothing was counted; null: unreadable",
            "open_reviews": "items that wait for a review now",
            "broken_links": "links that are broken now",
            "orphan_links": "links that lead to a dataset without a version now",
        }
    ),
    "kfm upgrade": Shape(
        {
            "dry_run": "true with `--dry-run`: nothing was written",
            "from": "the format of the state before",
            "to": "the format of this version",
            "unfinished": "unfinished runs, which `kfm resume` finishes after the upgrade",
            "backup": "the name of the backup; null if nothing was to upgrade, or in a dry run",
            "at": "the place of the backups",
        }
    ),
}
