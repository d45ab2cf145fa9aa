"""What `--json` writes about when things run; see json_shapes.py."""

from __future__ import annotations

from typing import NamedTuple

from kfm.model.records import Trigger


class Shape(NamedTuple):
    """An object with these keys; or, with `many`, a list of such objects."""

    keys: dict[str, str]
    many: bool = False
    about: str = ""


RUNS = {
    "receipts": "a [receipt](../../schemas/receipt.json) for every run that left one",
    "errors": "`dataset`, `code`, `message`, `hint` of runs that left no receipt, and of committed work that "
    "was not delivered",
    "effects": "the changes outside the state, or with `--dry-run` the predicted ones: see "
    "[effect](../../schemas/effect.json)",
}
_BACKFILL = {
    "backfill": "its name",
    "dataset": "the dataset of the partitions",
    "state": "`not started`, `waiting` for a worker, `at work`, `paused`, `finished` or `cancelled`",
    "total": "how many partitions its plan has",
    "counts": "partitions by result: `done` before, `made`, `unchanged`, `held`, `failed`, `denied`, "
    "`cancelled`, `at work`",
    "left": "the number of partitions not tried yet",
    "downstream": "`emit`, `coalesce` or `suppress`; null before it is started",
    "asked": "the number of requested runs of later datasets",
    "started_at": "the time of its last start, pause or resume",
    "actor": "who did that",
    "plan": "the digest of its plan",
    "failing": "the first failed partitions: `partition`, `result` and `run_id`",
}
_SCHEDULE = {
    "id": "its name",
    "dataset": "its dataset",
    "cron": "the times, in five fields; null: it does not follow a clock",
    "after": "the datasets whose new versions request a run; null: it follows a clock",
    "on": "`event` or `anomaly`; null: neither",
    "of": "the datasets whose anomalies request a run; null: its own",
    "when": "the thresholds of an anomaly, by name; null: none",
    "timezone": "the time zone of `cron`",
    "overlap": "`skip`, `queue` or `cancel-older`",
    "catch_up": "`none`, `last` or `all`",
    "jitter_s": "the most seconds by which it may begin later",
    "start": "no run before this instant; null: no bound",
    "end": "no run after this instant; null: no bound",
    "window": "the requested days; null: all",
    "pool": "the pool of its runs; null: that of the dataset, if it has one",
    "declared": "file, line and column",
}
_TICK = "`at`, `claimed`, `why`, `missed` and the `trigger` that it left in the inbox"

_CLAIM = "`dataset`, `partition`, `slot`, `since`, `waited_ms`, `priority` (`normal` or `low`), `process`"

WHEN: dict[str, Shape] = {
    "kfm status": Shape(
        {
            "at": "the time of this report",
            "datasets": "by name: `dataset`, `version` and `published` (empty: there is none, or it may not be shown), "
            "`is_made`, `is_public`, `is_withdrawn` (versions were public, none is now), `is_behind` (a version waits "
            "to be promoted), `withdrawal` (null, or of the processed version: `version`, `by`, `at`, `reason`, "
            "`run_id`, `current`), `level` (the strictest "
            "label), `as_of`, `age_min`, `freshness` (as `verdict` of `kfm schedule freshness`), `late_min`, "
            "`is_held`, `held_rows` (null: may not be shown), `is_frozen`, "
            "`is_amber` (risky work is stopped), `waiting` (triggers), `dead` (dead letters "
            "of jobs), `at_work` and "
            "`unfinished` (runs), `is_undelivered`, `last_run` and `last_outcome`",
            "is_frozen": "whether everything is frozen",
            "pending": "sinks that have not followed some committed runs: `sink`, `runs`, `run_id`, `dataset`, "
            "`since`, `waits_for` (`sink`, `thaw` or `retry`)",
            "next": "recommended commands, the most urgent first: `command`, `why`, `dataset`",
            "ok": "whether every check passed",
            "checks": "the checks of `kfm doctor` that change nothing",
        }
    ),
    "kfm schedule freshness": Shape(
        {
            "dataset": "its name",
            "verdict": "`fresh`, `late`, `never` made, or `no target`",
            "as_of": "the end of the run that made the public version, or else the processed one",
            "age_min": "minutes since then; null: nothing was made",
            "target": "as declared",
            "late_min": "minutes beyond the target",
            "blame": "minutes by cause, which add up to the age",
        },
        many=True,
    ),
    "kfm backfill plan": Shape(
        {
            "backfill": "its name",
            "dataset": "the dataset of the partitions",
            "kind": "what the partitions are: `day`, `tile`, `station`, …",
            "total": "how many partitions there are",
            "counts": "how many are `missing`, `stale` and `done`",
            "runs": "how many it would run",
            "pool": "the pool of the runs; empty: none",
            "expected_ms": "the predicted duration of all runs, from earlier ones; null: unknown",
            "gates": "the gates that each run passes",
            "policies": "the digest of the policies in force",
            "downstream": "`emit`, `coalesce` or `suppress`",
            "after": "the schedules that follow the dataset",
            "asks_for": "the largest number of runs that they would request",
            "plan": "the digest of this plan",
            "partitions": "the first of them: `partition` and `state`",
        }
    ),
    "kfm backfill start": Shape(_BACKFILL),
    "kfm backfill resume": Shape(_BACKFILL),
    "kfm backfill status": Shape(_BACKFILL, many=True),
    "kfm backfill pause": Shape(RUNS),
    "kfm backfill cancel": Shape(_BACKFILL),
    "kfm schedule pools": Shape(
        {
            "pool": "its name",
            "slots": "how many runs may be active at once",
            "free": "the number of free slots",
            "held": f"the runs that have a slot: {_CLAIM}",
            "waiting": f"the runs that wait, the next one first: {_CLAIM}",
        },
        many=True,
    ),
    "kfm schedule list": Shape(
        {
            **_SCHEDULE,
            "paused": "whether an operator paused it",
            "ahead": "whether KFM claimed an instant in the future: the clock was set back since",
            "last": f"its last tick: {_TICK}",
            "next": "when it is due next",
            "overdue": "whether that is more than five minutes ago: no process claims it",
        },
        many=True,
    ),
    "kfm schedule show": Shape(
        {**_SCHEDULE, "paused": "whether an operator paused it", "ticks": f"newest first: {_TICK}"}
    ),
    "kfm schedule next": Shape(
        {
            "schedule": "its name",
            "at": "the instant",
            "acted_on": "the instant with its jitter",
            "local": "the instant in its time zone",
            "note": "the effect of a change to or from summer time",
        },
        many=True,
    ),
    "kfm schedule check": Shape({"schedules": "all of them, as in `kfm schedule list`", "new": "names of new ones"}),
    "kfm search": Shape(
        {
            "query": "the words",
            "indexes": "the version of each index that was searched, by its alias",
            "epochs": "by the dataset of an index: the count that changes whenever what is public of it changes",
            "meaning": "true: vectors were compared, too",
            "hits": "the best first: `dataset`, its `version`, `key`, `title`, `snippet`, `score` and `alias`",
            "hidden": "versions in the indexes whose text may not be shown now: `alias`, `dataset`, `version`, `why`",
        }
    ),
    "kfm runners write": Shape(
        {
            "kind": "the runner",
            "file": "its path from the folder of kfm.yml",
            "state": "`written`, or `current`: it was up to date",
            "about": "empty",
        },
        many=True,
        about="With `--stdout` the files themselves.",
    ),
    "kfm runners check": Shape(
        {
            "kind": "the runner",
            "file": "its path from the folder of kfm.yml",
            "state": "`current`, `stale`, `absent`, or `secret`: it holds one",
            "about": "the place, and what to do; empty: nothing",
        },
        many=True,
    ),
    "kfm schedule pause": Shape(RUNS),
    "kfm schedule resume": Shape(RUNS),
    "kfm schedule trigger": Shape(
        dict.fromkeys(Trigger.__struct_fields__, "see [trigger](../../schemas/trigger.json)")
    ),
}
