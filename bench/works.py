"""The programme: every piece of work, who does it, how much of it, and what KFM is meant to reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import peers
from contest import Contestant, Work

INTENT = "intent before the step, output and DONE after it"
STEP = "output when the step returns; no intent"
ENTRY = "journal entry when the step returns"
FILE = "file renamed into place, never synced"
LATER = "not at the end of the task: states follow in the background"
EVENTS = "event log; the output file is not synced"


def raw(n: int) -> Contestant:
    return Contestant("raw SQLite commit", ("yardsticks.py", "sqlite"), n, "each row when its commit returns")


def append(n: int) -> Contestant:
    return Contestant("raw append + fdatasync", ("yardsticks.py", "append"), n, "each 300 bytes when the call returns")


def kfm(name: str, case: str, n: int, durable: str = INTENT, rounds: int = 99) -> Contestant:
    return Contestant(name, ("kfm_cases.py", case), n, durable, rounds=rounds)


def dbos(case: str, n: int, mode: str = "wal", durable: str = STEP, rounds: int = 3) -> Contestant:
    name = "DBOS (SQLite, WAL)" if mode == "wal" else "DBOS (SQLite as it comes)"
    return Contestant(name, ("peer_dbos.py", case), n, durable, "dbos", rounds, (mode,))


def restate(case: str, n: int, durable: str = ENTRY, rounds: int = 3, traced: bool = False) -> Contestant:
    server = str(peers.restate_server())
    return Contestant("Restate", ("peer_restate.py", case), n, durable, "restate", rounds, (server,), traced)


def luigi(case: str, n: int, durable: str = FILE, rounds: int = 3) -> Contestant:
    return Contestant("Luigi", ("peer_luigi.py", case), n, durable, "luigi", rounds)


def prefect(case: str, n: int, durable: str = LATER) -> Contestant:
    return Contestant("Prefect", ("peer_prefect.py", case), n, durable, "prefect", 1)


def dagster(case: str, n: int, durable: str = EVENTS) -> Contestant:
    return Contestant("Dagster (in process)", ("peer_dagster.py", case), n, durable, "dagster", 1)


def imports(module: str) -> Contestant:
    return Contestant(f"`import {module}`", ("yardsticks.py", "start"), 3, "", module, 3, (module,))


ONE_RUN = "plan, intent, output, version, receipt and ledger entry when the run returns"
BARE = Contestant("bare interpreter", ("yardsticks.py", "start"), 20, tail=("pass",))
KEPT = "nothing is written"
RECEIPTS = "receipt, ledger entry and telemetry of all of them, by one sync at the end"
ONE_OF_MANY = (
    "Each sample is the median of nine runs, from the trigger to the receipt, each with another value under one key."
)

WORKS: tuple[Work, ...] = (
    Work(
        "chain", "Strict chain: 1,000 steps, each needing the one before", "steps/s", "rate",
        (
            kfm("KFM, 300-byte outputs", "chain", 1000),
            kfm("KFM, empty outputs", "empty_chain", 1000),
            append(1000),
            dbos("chain", 1000), dbos("chain", 500, "default"), restate("chain", 500, traced=True),
            luigi("chain", 500), prefect("chain", 300), dagster("chain", 100),
        ),
        raw(1000),
    ),
    Work(
        "wide", "Wide plan: 10,000 ready steps with 300-byte outputs", "steps/s", "rate",
        (
            kfm("KFM", "wide", 10_000),
            append(2000),
            dbos("wide", 1000), restate("wide", 2000, traced=True), luigi("wide", 500), prefect("wide", 300),
            dagster("wide", 100),
        ),
        raw(2000),
        note="DBOS runs its steps one after another here: gathering 4 or 32 of them at once was slower. "
        "Restate awaits 16 at a time, Prefect has 16 threads.",
    ),
    Work(
        "chain-slow", "The strict chain with 1 ms added to every sync", "steps/s", "rate",
        (
            kfm("KFM, 300-byte outputs", "chain", 1000),
            kfm("KFM, empty outputs", "empty_chain", 1000),
            append(500),
            dbos("chain", 300, rounds=2), dbos("chain", 100, "default", rounds=2),
        ),
        raw(500), delay_us=1000,
    ),
    Work(
        "wide-slow", "The wide plan with 1 ms added to every sync", "steps/s", "rate",
        (kfm("KFM", "wide", 10_000), append(500), dbos("wide", 300, rounds=2)),
        raw(500), delay_us=1000,
    ),
    Work(
        "one-step", "One-step runs, one after another", "runs/s", "rate",
        (
            kfm("KFM", "one", 1000, ONE_RUN),
            kfm("KFM, a declared step over a changed file", "one_declared", 500, ONE_RUN),
            kfm("KFM, a ref moved", "moved", 500, ONE_RUN),
            dbos("one", 200), restate("one", 200), luigi("one", 200), prefect("one", 5), dagster("one", 10),
        ),
        raw(1000), per="run",
    ),
    Work(
        "one-of-many", "One changed key of a dataset", "ms", "ms",
        (kfm("KFM, of 1,000 keys", "one_of_many", 1000, ""), kfm("KFM, of 100,000 keys", "one_of_many", 100_000, "")),
        note=ONE_OF_MANY,
    ),
    Work(
        "one-of-a-million", "One changed key of a million", "ms", "ms",
        (kfm("KFM, of 1,000,000 keys", "one_of_many", 1_000_000, "", rounds=1),),
        note=ONE_OF_MANY, big=True,
    ),
    Work(
        "backfill", "A backfill of 100,000 partitions: planned; paused and resumed", "ms", "ms",
        (
            kfm("KFM, planned, each partition looked up", "backfill_plan", 100_000, "", rounds=3),
            kfm("KFM, paused and resumed", "backfill_pause", 100_000, "", rounds=3),
        ),
        note="A plan is read, looked up and stored chunk by chunk: of the partitions no more than numbers are held.",
    ),
    Work(
        "by-column", "An output with `partition_by`: the first run", "ms", "ms",
        (
            kfm("KFM, 1,000 keys", "by_column", 1_000, "", rounds=3),
            kfm("KFM, 10,000 keys", "by_column", 10_000, "", rounds=3),
            kfm("KFM, 100,000 keys", "by_column", 100_000, "", rounds=1),
        ),
        note="The source is read once. Before, 10,000 keys took 24 s, and 100,000 more than 7 minutes.",
    ),
    Work(
        "promote-one", "One changed key, promoted into the public folder and the catalog", "ms", "ms",
        (
            kfm("KFM, of 1,000 keys", "promote_one", 1_000, "", rounds=3),
            kfm("KFM, of 10,000 keys", "promote_one", 10_000, "", rounds=1),
        ),
        note="A promotion writes what changed; versions share the rest. Before, one of 10,000 keys wrote 10,008 files.",
    ),
    Work(
        "hosts", "The first run of 30 datasets, each from a server of its own that answers after 0.5 s", "ms", "ms",
        (
            Contestant("KFM", ("hosts.py", "default"), 30),
            Contestant("KFM, `--jobs 1`", ("hosts.py", "serial"), 30, rounds=2),
        ),
        note="From the start of the process to its end. With one job, 15,000 ms are waiting for the servers.",
    ),
    Work(
        "partitions", "Partitions of a dataset, one run each, one after another", "runs/s", "rate",
        (kfm("KFM, by a backfill", "backfill_runs", 500, ONE_RUN), kfm("KFM, by hand", "partition_runs", 500, ONE_RUN)),
        raw(1000), per="run",
    ),
    Work(
        "noop", "Work that is done already", "runs/s", "rate",
        (
            kfm("KFM, admission check alone", "admission", 20_000, KEPT),
            kfm("KFM, whole skipped runs", "skip", 5000, RECEIPTS),
            kfm("KFM, the same with receipt files", "skip_files", 500, "that, and each receipt as a file", rounds=3),
            dbos("skip", 200, durable=KEPT), restate("skip", 200, durable=KEPT), luigi("skip", 200, durable=KEPT),
            prefect("skip", 100, durable="the skipped task's state, in the background"),
        ),
        raw(1000), per="run",
    ),
    Work(
        "resume", "Killed halfway: from process start to the first step that was not done", "ms", "ms",
        (
            kfm("KFM", "resume", 100_000, "", rounds=3),
            dbos("resume", 1000, durable=""), restate("resume", 1000, durable=""), luigi("resume", 1000, durable=""),
        ),
        note="SIGKILL, then `kfm resume` and its like. The peers' plans are shorter because they replay or look at "
        "every finished step, which a plan of 100,000 would make long. Prefect and Dagster start over.",
    ),
    Work(
        "schedules", "10,000 schedules, of which 1,000 are due at one instant", "ms", "ms",
        (
            Contestant("KFM", ("schedules.py", "due"), 10_000, "every tick with its trigger, when the call returns"),
            dagster("queued", 1000, "each of 1,000 runs to start, when its call returns; no schedule is looked at"),
        ),
        note="From looking at the clock to triggers that are durable.",
    ),
    Work(
        "idle", "An idle `kfm up` with 10,000 schedules: milliseconds of a processor in a second", "ms", "ms",
        (Contestant("KFM", ("schedules.py", "idle"), 10_000, rounds=1),),
    ),
    Work(
        "idle-memory", "An idle `kfm up` with 10,000 schedules: memory", "MiB", "mib",
        (Contestant("KFM", ("schedules.py", "idle"), 10_000, rounds=1),),
    ),
    Work(
        "freshness", "How old 10,000 datasets are, and whom to blame", "ms", "ms",
        (Contestant("KFM", ("schedules.py", "freshness"), 10_000, rounds=1),),
    ),
    Work(
        "canonical", "Canonical JSON of a 2 KB record", "records/s", "rate",
        (
            kfm("KFM, a receipt", "canonical_receipt", 20_000, ""),
            kfm("KFM, mixed values", "canonical", 20_000, ""),
            kfm("KFM, with numbers that need rewriting", "canonical_odd", 5000, ""),
            Contestant("msgspec, sorted (not exact)", ("yardsticks.py", "canonical_msgspec"), 50_000),
            Contestant("json, sorted (not exact)", ("yardsticks.py", "canonical_json"), 5000),
        ),
        Contestant("rfc8785", ("yardsticks.py", "canonical_rfc8785"), 500), per="record",
    ),
    Work(
        "fetch", "Fetch, hash and durably store 1 GiB", "GiB/s", "rate",
        (
            kfm("KFM, over HTTP from this machine", "fetch", 1024, "the bytes, the version and the receipt", rounds=3),
            Contestant("write + fdatasync alone", ("yardsticks.py", "write"), 1024, "the bytes", rounds=3),
        ),
        Contestant("SHA-256 alone", ("yardsticks.py", "sha256"), 1024), per="GiB",
    ),
    Work(
        "seal", "Seal 256 MiB with the custodian's key, and open them", "GiB/s", "rate",
        (kfm("KFM, sealing", "seal", 256, ""), kfm("KFM, opening", "unseal", 256, "")),
        Contestant("SHA-256 alone", ("yardsticks.py", "sha256"), 256), per="GiB",
    ),
    Work(
        "table", "A CSV of 1,000,000 rows through contract, filter, sort and deduplication", "rows/s", "rate",
        (
            kfm("KFM, declared", "table", 1_000_000, "the bytes, the held rows, the version and the receipt", rounds=3),
            Contestant("DuckDB, by hand", ("peer_duckdb.py", "table"), 1_000_000, "nothing is synced", "duckdb", 3),
        ),
        Contestant("Polars, by hand", ("peer_polars.py", "table"), 1_000_000, "nothing is synced", "polars", 3),
        per="row",
        note="All three make the same bytes. KFM also hashes what it reads and writes, reads its output back and "
        "syncs it. It inspects in one thread; its steps, by columns of Arrow, have two, as the others do.",
    ),
    Work(
        "parquet", "A Parquet of 10,000,000 rows through contract, filter, sort and deduplication", "rows/s", "rate",
        (
            kfm("KFM, declared", "parquet", 10_000_000, "the bytes, held rows, version and receipt", rounds=3),
        ),
        Contestant("Polars, by hand", ("peer_polars.py", "parquet"), 10_000_000, "nothing is synced", "polars", 3),
        per="row",
        note="Both make the same rows in the same order; each writes Parquet in its own way. KFM also hashes what it "
        "reads and writes, validates every page, reads its output back and syncs it.",
    ),
    Work(
        "cold", "Cold start", "ms", "ms",
        (
            kfm("`kfm --version`", "version", 20, ""),
            kfm("`kfm run`, 10 files, all unchanged", "noop_files", 10, ""),
            kfm("`kfm run`, 10 URLs, all 304", "noop_http", 10, ""),
            *(imports(module) for module in ("luigi", "dbos", "restate", "prefect", "dagster")),
        ),
        BARE,
    ),
    Work(
        "memory", "Peak memory", "MiB", "mib",
        (
            kfm("KFM, a plan of 1,000,000 steps", "big_plan", 1_000_000, "", rounds=1),
            kfm("KFM, a source of 5 GiB", "fetch", 5 * 1024, "", rounds=1),
        ),
        big=True,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """What KFM is meant to reach. `times`: the peer it is compared with, in the same work."""

    work: str
    contestant: str
    kind: Literal["ratio", "value", "syncs", "times"]
    least: float | None = None
    most: float | None = None
    times: str = ""


_DBOS = "DBOS (SQLite, WAL)"
TARGETS: tuple[Target, ...] = (
    Target("chain", "KFM, 300-byte outputs", "ratio", least=0.75),
    Target("chain", "KFM, empty outputs", "ratio", least=0.8),
    Target("chain", "KFM, 300-byte outputs", "syncs", most=1.05),
    Target("chain", "KFM, 300-byte outputs", "times", least=10, times=_DBOS),
    Target("wide", "KFM", "ratio", least=6),
    Target("wide", "KFM", "syncs", most=0.05),
    Target("wide", "KFM", "times", least=100, times=_DBOS),
    Target("chain-slow", "KFM, 300-byte outputs", "ratio", least=0.95),
    Target("wide-slow", "KFM", "ratio", least=25),
    Target("one-step", "KFM", "ratio", least=0.25),
    Target("one-step", "KFM", "times", least=10, times=_DBOS),
    Target("backfill", "KFM, planned, each partition looked up", "value", most=5000),
    Target("backfill", "KFM, paused and resumed", "value", most=1000),
    Target("hosts", "KFM", "value", most=1500),
    Target("hosts", "KFM", "times", least=10, times="KFM, `--jobs 1`"),
    Target("partitions", "KFM, by a backfill", "times", least=0.83, times="KFM, by hand"),
    Target("noop", "KFM, admission check alone", "value", least=20_000),
    Target("noop", "KFM, whole skipped runs", "value", least=8000),
    Target("resume", "KFM", "value", most=250),
    Target("schedules", "KFM", "value", most=2000),
    Target("idle", "KFM", "value", most=10),
    Target("idle-memory", "KFM", "value", most=120),
    Target("freshness", "KFM", "value", most=1000),
    Target("canonical", "KFM, a receipt", "value", least=100_000),
    Target("canonical", "KFM, mixed values", "value", least=100_000),
    Target("fetch", "KFM, over HTTP from this machine", "ratio", least=0.6),
    Target("seal", "KFM, sealing", "ratio", least=0.5),
    Target("table", "KFM, declared", "ratio", least=0.5),
    Target("parquet", "KFM, declared", "ratio", least=0.7),
    Target("cold", "`kfm --version`", "ratio", most=5),
    Target("cold", "`kfm run`, 10 files, all unchanged", "ratio", most=6),
    Target("memory", "KFM, a source of 5 GiB", "value", most=200),
)
