"""The list of all tables of the state; all other lists are generated from it.

These are the reference page of the state, the tables that both languages check on opening a large database, and the
lists that the tests compare. The SQL next to it creates the tables; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kfm.model.labels import Standing
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
        "guard", "the store's own: how the tables should look, and how many commits there were", "its name", "bytes",
        vital=True, differs={WHOLE: "it counts commits, and only a database has it"},
    ),
    StateTable(
        "meta", "counters: lease token, the ledger's head, how far each sink followed it, until when ids were dropped",
        "its name", "counters by name, a digest or a number", vital=True, differs={"token": _TOKENS},
    ),
    StateTable("refs", "where every ref is now", "the ref", "a digest, `frozen` or `open`", vital=True),
    StateTable("history", "where every ref was", "the ref, @ and a number", RefEntry),
    StateTable(
        "runs", "a row a run: the claim on its work, its inputs, where it stands", "its id", Run,
        differs={"attempt": "it counts the kills"},
    ),
    StateTable("open_runs", "which of them are unfinished", "the dataset and the run's id", "`{}`", vital=True),
    StateTable(
        "ended_runs", "the runs of each dataset that have ended, in the order of the ledger",
        "the dataset and the number in the ledger", "`{}`",
    ),
    StateTable("claims", "the last run of every piece of work", "a digest of the work", "the run's id"),
    StateTable(
        "segments", "the journal: what each durable write of a run said", "the run's id and a number", Segment,
        differs={WHOLE: "a kill moves the cuts between them; compared is what they say together"},
    ),
    StateTable(
        "archived", "where the journal of a compacted run is", "the run's id", ArchivePlace, node=False,
        differs=dict.fromkeys(("object", "offset", "length"), "it follows from how the journal was cut"),
    ),
    StateTable("plans", "the plans, in pieces", "the plan's digest and a number", "lines of JSON, a step each"),
    StateTable("plan_locks", "which plan belongs to which work", "a digest of the work", "the plan's digest"),
    StateTable("objects", "bytes up to 64 KiB, by digest; larger ones are files", "the digest", "bytes"),
    StateTable(
        "versions", "a row a version: who made it, of what, under which declaration", "the dataset, @ and the digest",
        DatasetVersion,
    ),
    StateTable("receipts", "a receipt a run, written once", "the run's id", Receipt),
    StateTable(
        "telemetry", "what each run cost", "the run's id", RunTelemetry,
        differs={
            "wal_replay_count": "it counts the kills",
            "idempotency_state": "a run that was taken up says so",
            "bytes_in": "a run that was taken up reads its pinned inputs, not the source",
        },
    ),
    StateTable("ledger", "the chain of all receipts", "a number", LedgerEntry),
    StateTable(
        "lineage",
        "the embedded graph: from what was read to the runs that read it, from a version to those that made it again",
        "`used/`, address, `#`, digest, `@` and the number in the ledger; `made/`, dataset, `@`, digest, `@`, number",
        "the run's id",
    ),
    StateTable(
        "outbox", "of each published dataset, how far the outside was told of it, and whether something is due; of "
        "each sink, why it does not go on, which entries it could not be told of, and which wait for a thaw; of each "
        "backfill, how far it has come",
        "`told/` or `due/`, the sink and the dataset; `sink/` and the sink; `dead/` or `wait/`, the sink and a number; "
        "`told/backfill/`, its name and `cursor` or a number",
        "Told, Stopped, DeadLetter, or `{}` where something is due or waits; Progress, and a letter a partition",
    ),
    StateTable(
        "leases", "who is at work on what, with the fencing tokens", "the updater and the dataset", Lease, vital=True,
        differs={"token": _TOKENS, "holder": "each attempt is another process"},
    ),
    StateTable(
        "inbox", "triggers that wait, such as those of a frozen run", "the dataset and the trigger's id", Trigger,
        vital=True,
    ),
    StateTable("triggers", "triggers that ended, and the run that answered each", "the trigger's id", EndedTrigger),
    StateTable(
        "deliveries", "requests of webhooks that were taken, so that none is taken twice",
        "the webhook and the id of the delivery", Delivery, node=False,
    ),
    StateTable(
        "checkpoints", "what is known of each source, to save a download", "the source's URI", Checkpoint,
        differs={"etag": "of a file it holds the inode and when that last changed"},
    ),
    StateTable(
        "standings", "how protected an address or exact bytes are known to be, whatever a file of labels says later",
        "`source/` and the address, `bytes/`, the key's id and the digest under it, or `sealed/` and the digest",
        Standing, node=False,
    ),
    StateTable(
        "first_cells", "the cell in which each protected record was first made public",
        "the custodian's key and the record's public id", "an H3 cell", node=False,
    ),
    StateTable(
        "fingerprints", "keyed fingerprints of protected ids and places, to know them again before publication",
        "the custodian's key and the digest of the sealed source", "fingerprints, as JSON", node=False,
    ),
    StateTable(
        "orders", "what one person alone may not do: the request, its signatures, what became of it",
        "the request's digest", "a request with its acts, as JSON", node=False,
    ),
    StateTable(
        "attestations", "signed statements about versions",
        "the dataset, @, the version's digest, what is stated, and the run", "a DSSE envelope", node=False,
    ),
    StateTable(
        "ledger_tree", "the Merkle tree over the ledger, as far as it has to be known to go on", "`frontier`",
        "bytes", node=False,
    ),
    StateTable(
        "ledger_private", "what the ledger only commits to, sealed", "a number, as in the ledger", "sealed bytes",
        node=False,
    ),
    StateTable(
        "ledger_checkpoints", "signed heads of the tree", "how many entries it has then", "a signed note", node=False,
    ),
    StateTable(
        "ticks", "the instants of schedules that were claimed; the newest of each says how far it was followed",
        "the schedule and the instant in milliseconds", Tick, node=False,
    ),
)  # fmt: skip
VITAL = tuple(table.name for table in CATALOGUE if table.vital)
