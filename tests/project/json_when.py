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
    "errors": "`dataset`, `code`, `message`, `hint` of runs that left none, and of what was committed, not delivered",
    "effects": "what was changed outside, or with `--dry-run` would be: see [effect](../../schemas/effect.json)",
}
_BACKFILL = {
    "backfill": "its name",
    "dataset": "whose parts they are",
    "state": "`not started`, `waiting` for a worker, `at work`, `paused`, `finished` or `cancelled`",
    "total": "how many partitions its plan has",
    "counts": "how many are `done` before, `made`, `unchanged`, `held`, `failed`, `denied`, `cancelled` or `at work`",
    "left": "how many were not tried",
    "downstream": "`emit`, `coalesce` or `suppress`; null before it is started",
    "asked": "how many runs of what comes after were asked for",
    "started_at": "when its ref moved last",
    "actor": "by whom",
    "plan": "the digest of its plan",
    "failing": "the first that ended badly: `partition`, `result` and `run_id`",
}
_SCHEDULE = {
    "id": "its name",
    "dataset": "which dataset it is of",
    "cron": "when, in five fields; null: it has no clock",
    "after": "the datasets whose new versions ask for a run; null: it has a clock",
    "on": "`event` or `anomaly`; null: neither",
    "of": "on an anomaly of these datasets; null: of its own",
    "when": "the thresholds of an anomaly, by name; null: none",
    "timezone": "whose clock is meant",
    "overlap": "`skip`, `queue` or `cancel-older`",
    "catch_up": "`none`, `last` or `all`",
    "jitter_s": "how much later it may begin",
    "start": "nothing before this instant; null: no bound",
    "end": "nothing after this instant; null: no bound",
    "window": "the days meant; null: all",
    "pool": "whose slots its runs take; null: that of the dataset, if it has one",
    "declared": "file, line and column",
}
_TICK = "`at`, `claimed`, `why`, `missed` and the `trigger` it put into the inbox"

_CLAIM = "`dataset`, `partition`, `slot`, `since`, `waited_ms`, `priority` (`normal` or `low`), `process`"

WHEN: dict[str, Shape] = {
    "kfm status": Shape(
        {
            "at": "when it was looked at",
            "datasets": "by name: `dataset`, `version` and `published` (empty: there is none, or it may not be told), "
            "`is_made`, `is_public`, `is_behind` (a version waits to be promoted), `level` (how open, by all that "
            "is said of it), `as_of`, `age_min`, `freshness` (as `verdict` of `kfm schedule freshness`), `late_min`, "
            "`is_held`, `held_rows` (null: not to be told), `is_frozen`, `waiting` (triggers), `at_work` and "
            "`unfinished` (runs), `is_undelivered`, `last_run` and `last_outcome`",
            "is_frozen": "whether everything is",
            "next": "what to do, the most urgent first: `command`, `why`, `dataset`",
            "ok": "whether every check is well",
            "checks": "as of `kfm doctor`, those that change nothing",
        }
    ),
    "kfm schedule freshness": Shape(
        {
            "dataset": "its name",
            "verdict": "`fresh`, `late`, `never` made, or `no target`",
            "as_of": "when the run ended that made what is public now, or else what is processed",
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
            "dataset": "whose parts they are",
            "kind": "what the partitions are: `day`, `tile`, `station`, …",
            "total": "how many partitions there are",
            "counts": "how many are `missing`, `stale` and `done`",
            "runs": "how many it would run",
            "pool": "whose slots they take; empty: none",
            "expected_ms": "how long all of them take, by those of before; null: nobody knows",
            "gates": "what each run is asked at",
            "policies": "the digest of the policies that are asked",
            "downstream": "`emit`, `coalesce` or `suppress`",
            "after": "the schedules that come after the dataset",
            "asks_for": "how many runs of them it would ask for, at most",
            "plan": "the digest of all this",
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
            "slots": "how many runs may be at work at once",
            "free": "slots that nobody has",
            "held": f"who has one: {_CLAIM}",
            "waiting": f"who waits, the next one first: {_CLAIM}",
        },
        many=True,
    ),
    "kfm schedule list": Shape(
        {
            **_SCHEDULE,
            "paused": "whether it is held",
            "ahead": "whether an instant was claimed that has not come: the clock was set back since",
            "last": f"its last tick: {_TICK}",
            "next": "when it is due next",
            "overdue": "whether that is more than five minutes past: nobody claims",
        },
        many=True,
    ),
    "kfm schedule show": Shape({**_SCHEDULE, "paused": "whether it is held", "ticks": f"newest first: {_TICK}"}),
    "kfm schedule next": Shape(
        {
            "schedule": "its name",
            "at": "the instant",
            "acted_on": "with its jitter",
            "local": "on the clock of its zone",
            "note": "what a change of the clock does to it",
        },
        many=True,
    ),
    "kfm schedule check": Shape({"schedules": "all of them, as in `kfm schedule list`", "new": "names of unseen ones"}),
    "kfm runners write": Shape(
        {
            "kind": "of which runner",
            "file": "from the folder of kfm.yml",
            "state": "`written`, or `current`: it was so already",
            "about": "empty",
        },
        many=True,
        about="With `--stdout`: the files themselves, always.",
    ),
    "kfm runners check": Shape(
        {
            "kind": "of which runner",
            "file": "from the folder of kfm.yml",
            "state": "`current`, `stale`, `absent`, or `secret`: it holds one",
            "about": "where, and what to do; empty: nothing",
        },
        many=True,
    ),
    "kfm schedule pause": Shape(RUNS),
    "kfm schedule resume": Shape(RUNS),
    "kfm schedule trigger": Shape(
        dict.fromkeys(Trigger.__struct_fields__, "see [trigger](../../schemas/trigger.json)")
    ),
}
