"""The list of all tables of the state; all other lists are generated from it.

These are the reference page of the state, the tables that both languages check on opening a large database, and the
lists that the tests compare. The SQL next to it creates the tables; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kfm.model.labels import Classification
from kfm.model.records import (
    Checkpoint,
    DatasetVersion,
    Delivery,
    EndedTrigger,
    Lease,
    LedgerEntry,
    Receipt,
    RefEntry,
    Run,
    RunTelemetry,
    Segment,
    Trigger,
)
from kfm.model.schedules import Tick
from kfm.store.codec import ArchivePlace

WHOLE = "*"


class StateTable(NamedTuple):
    """One table. `row` is the record in it, or a description of its value.

    `differs`: the fields (or the whole row, `WHOLE`) that may differ after a kill and a recovery, each with the reason.
    Everything else is compared.
    """

    name: str
    about: str
    key: str
    row: type[Any] | str
    node: bool = True  # does the Node runner write it?
    vital: bool = False  # is it checked whole whenever a database is opened, however large that is?
    differs: Mapping[str, str] = {}


_TOKENS = "each attempt gets a higher one"
CATALOGUE = (
    StateTable(
        "guard", "for the store itself: the expected layout of the tables, and the number of commits", "its name",
        "bytes", vital=True, differs={WHOLE: "it counts commits, and only a database has it"},
    ),
    StateTable(
        "meta",
        "counters: lease token, head of the ledger, cursor of each sink, time up to which old ids were dropped; where "
        "`kfm move` takes or took the state (`place`)",
        "its name", "counters by name, a digest or a number", vital=True, differs={"token": _TOKENS},
    ),
    StateTable("refs", "the current target of every ref", "the ref", "a digest, `frozen` or `open`", vital=True),
    StateTable("history", "the earlier targets of every ref", "the ref, @ and a number", RefEntry),
    StateTable(
        "runs", "one row for each run: the claim on its work, its inputs, its status", "its id", Run,
        differs={"attempt": "it counts the kills"},
    ),
    StateTable("open_runs", "the runs that are unfinished", "the dataset and the run's id", "`{}`", vital=True),
    StateTable(
        "ended_runs", "the runs of each dataset that have ended, in the order of the ledger",
        "the dataset and the number in the ledger", "`{}`",
    ),
    StateTable("claims", "the last run of every piece of work", "a digest of the work", "the run's id"),
    StateTable(
        "segments", "the journal: the content of each durable write of a run", "the run's id and a number", Segment,
        differs={WHOLE: "a kill moves the cuts between them; their joined content is compared"},
    ),
    StateTable(
        "archived", "where the journal of a compacted run is", "the run's id", ArchivePlace, node=False,
        differs=dict.fromkeys(("object", "offset", "length"), "it follows from how the journal was cut"),
    ),
    StateTable("plans", "the plans, in pieces", "the plan's digest and a number", "lines of JSON, one for each step"),
    StateTable("plan_locks", "the plan of each piece of work", "a digest of the work", "the plan's digest"),
    StateTable(
        "objects",
        "bytes up to 64 KiB, by digest; larger ones are files; for each object that `kfm gc` set aside, when that was",
        "the digest, or `aside/` and the digest",
        "bytes; for `aside/`, the time, the size, and the bytes of a small one",
    ),
    StateTable(
        "versions", "one row for each version: its run, its inputs, its declaration", "the dataset, @ and the digest",
        DatasetVersion,
    ),
    StateTable(
        "receipts",
        "one receipt for each run, written once; after its retention, that of a run that changed nothing is kept as "
        "`short`, the id of the run that it is like, and what differs, compressed",
        "the run's id", Receipt,
    ),
    StateTable(
        "telemetry", "what each run cost", "the run's id", RunTelemetry,
        differs={
            "wal_replay_count": "it counts the kills",
            "idempotency_state": "a resumed run says so",
            "bytes_in": "a resumed run reads its recorded inputs, not the source",
            "energy_kwh": "no two runs use the same, and of a resumed run only the last attempt is known",
            "co2e_g": "the same",
            "energy_method": "it names the meter of the machine and the hour, and a resumed run says so",
        },
    ),
    StateTable("ledger", "the chain of all receipts", "a number", LedgerEntry),
    StateTable(
        "lineage",
        "the embedded graph: from each input to the runs that read it, from a version to the runs that made it again",
        "`used/`, address, `#`, digest, `@` and the number in the ledger; `made/`, dataset, `@`, digest, `@`, number",
        "the run's id",
    ),
    StateTable(
        "outbox", "for each published dataset, what was last reported to each sink, and whether a report is pending; "
        "for each sink, why it stopped, its dead letters, and the entries that wait for a thaw; the runs that a sink "
        "has yet to follow, and the completions of the others; for each backfill, its progress; the states that "
        "notices are about",
        "`told/` or `due/`, the sink and the dataset; `sink/` and the sink; `dead/` or `wait/`, the sink and a number; "
        "`pending/` and the number in the ledger; `complete/` and the run's id; "
        "`told/backfill/`, its name and `cursor` or a number; `told/layout/` and the dataset; "
        "`told/states/` and `known` or `receivers`",
        "SinkPosition, PublicLayout, Stopped, DeadLetter, PendingRun, Completion (in a DSSE envelope if it is signed), "
        "or `{}` where something is pending or waits; Progress, and one character for each partition; KnownStates",
    ),
    StateTable(
        "leases", "the worker on each piece of work, with the fencing tokens", "the updater and the dataset", Lease,
        vital=True, differs={"token": _TOKENS, "holder": "each attempt is another process"},
    ),
    StateTable(
        "inbox", "triggers that wait, such as those of a frozen dataset", "the dataset and the trigger's id", Trigger,
        vital=True,
    ),
    StateTable("triggers", "triggers that ended, and the run that answered each", "the trigger's id", EndedTrigger),
    StateTable(
        "deliveries", "requests of webhooks that were accepted, so that none is accepted twice",
        "the webhook and the id of the delivery", Delivery, node=False,
    ),
    StateTable(
        "checkpoints", "the last known version of each source, to save a download", "the source's URI", Checkpoint,
        differs={"etag": "for a file it holds the inode and the time of its last change"},
    ),
    StateTable(
        "standings", "the remembered classification of addresses and exact bytes, whatever a file of labels says later",
        "`source/` and the address, `bytes/`, the key's id and the digest under it, `sealed/` and the digest, or "
        "`unjudged/` and the digest of bytes that are encrypted until the verdict on their run",
        Classification, node=False,
    ),
    StateTable(
        "first_cells", "the cell in which each protected record and place was first made public, and coarser values",
        "the custodian's key and the record's public id, `place/` and a digest, or `coarse/` and a digest",
        "an H3 cell; for `coarse/`, columns and their forms, as JSON", node=False,
    ),
    StateTable(
        "fingerprints", "keyed fingerprints of protected ids and places, to recognise them before publication",
        "the custodian's key and the digest of the encrypted source", "fingerprints, as JSON", node=False,
    ),
    StateTable(
        "orders", "change requests that one person alone may not carry out: the request, its signatures, its result",
        "the request's digest", "a request with its approvals, as JSON", node=False,
    ),
    StateTable(
        "attestations", "signed statements about versions",
        "the dataset, @, the digest of the version, the kind of statement, and the run", "a DSSE envelope", node=False,
    ),
    StateTable(
        "ledger_tree", "the right edge of the Merkle tree over the ledger, enough to extend it", "`frontier`",
        "bytes", node=False,
    ),
    StateTable(
        "ledger_private", "the private content behind the commitments in the ledger, encrypted",
        "a number, as in the ledger", "encrypted bytes", node=False,
    ),
    StateTable(
        "ledger_checkpoints", "signed heads of the ledger tree", "its number of entries", "a signed note", node=False,
    ),
    StateTable(
        "ticks", "the claimed instants of schedules; the newest of each schedule says how far KFM has processed it",
        "the schedule and the instant in milliseconds", Tick, node=False,
    ),
    StateTable(
        "jobs", "the jobs of workers: envelopes, attempts, dead letters",
        "`open/`, `dead/` or `done/` and the id of the trigger, or `id/` and the id of the job",
        "JobState; for `id/` the id of the trigger", node=False,
    ),
    StateTable(
        "breakers", "the circuit breakers that have failures or are open, for all processes together",
        "the operation, such as `source/` and a host", "BreakerState", node=False,
    ),
    StateTable(
        "budgets", "the tokens that each operation has left for retries, for all processes together",
        "the operation, such as `source/` and a host", "BudgetState", node=False,
    ),
)  # fmt: skip
VITAL = tuple(table.name for table in CATALOGUE if table.vital)
