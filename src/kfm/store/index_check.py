"""Compares the index tables of the state with the records they are built from, in both directions.

An index row is written in one transaction with its record, so a difference is damage or a bug.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfm.model.lineage_edges import made_by
from kfm.model.records import LedgerEntry, Run, Trigger
from kfm.store.codec import decode
from kfm.store.job_table import place_of
from kfm.store.lineage_index import rows_of
from kfm.store.state import StoredState


def differences(state: StoredState, most: int = 5) -> list[str]:
    """Return the names of the first few index rows that differ.

    Other processes may write meanwhile, so an apparent difference is checked again inside a transaction.
    """
    if not any(True for _ in _found(state)):
        return []
    with state.transaction(durable=False):
        return [what for what, _ in zip(_found(state), range(most), strict=False)]


def _found(state: StoredState) -> Iterator[str]:
    yield from _open_runs(state)
    yield from _ended_runs(state)
    yield from _claims(state)
    yield from _inbox(state)
    yield from _refs(state)
    yield from _lineage(state)
    yield from _jobs(state)


def _open_runs(state: StoredState) -> Iterator[str]:
    tables = state.tables
    for key, _ in tables.scan("open_runs"):
        run = state.runs.get(key.rpartition("/")[2])
        if run is None or run.status != "RUNNING" or key != f"{run.dataset}/{run.run_id}":
            yield f"open_runs/{key} leads to no unfinished run"
    for run_id, body in tables.scan("runs"):
        run = decode(body, Run, f"runs/{run_id}")
        if run.status == "RUNNING" and tables.get("open_runs", f"{run.dataset}/{run_id}") is None:
            yield f"open_runs/{run.dataset}/{run_id} is missing"


def _ended_runs(state: StoredState) -> Iterator[str]:
    tables = state.tables
    for key, _ in tables.scan("ended_runs"):
        dataset, _, index = key.rpartition("/")
        body = tables.get("ledger", index)
        if body is None or decode(body, LedgerEntry, f"ledger/{index}").dataset != dataset:
            yield f"ended_runs/{key} leads to no ledger entry of {dataset}"
    for entry in state.ledger.entries():
        key = f"{entry.dataset}/{entry.index:012d}"
        if tables.get("ended_runs", key) is None:
            yield f"ended_runs/{key} is missing"


def _claims(state: StoredState) -> Iterator[str]:
    tables = state.tables
    for key, latest_id in tables.scan("claims"):
        run = state.runs.get(latest_id.decode())
        if run is None or run.claim_key != key:
            yield f"claims/{key} leads to no run of this work"
    for run_id, body in tables.scan("runs"):
        run = decode(body, Run, f"runs/{run_id}")
        latest = state.runs.claimed(run.claim_key)
        if latest is None or latest.n < run.n:
            yield f"claims/{run.claim_key} does not lead to its last run, {run_id}"


def _inbox(state: StoredState) -> Iterator[str]:
    for key, body in state.tables.scan("inbox"):
        trigger = decode(body, Trigger, f"inbox/{key}")
        if key != f"{trigger.dataset}/{trigger.trigger_id}":
            yield f"inbox/{key} is a trigger of {trigger.dataset or 'no dataset'}"


def _jobs(state: StoredState) -> Iterator[str]:
    """Yield the jobs at a wrong place or without an id, the ids that lead to no job, and the dead letters whose
    triggers still wait."""
    tables = state.tables
    for key, body in tables.scan("jobs"):
        what, _, at = key.partition("/")
        job = state.jobs.get(body.decode() if what == "id" else at)
        if job is None or key not in (place_of(job), f"id/{job.envelope.job_id}"):
            yield f"jobs/{key} leads to no job"
        elif what != "id" and tables.get("jobs", f"id/{job.envelope.job_id}") is None:
            yield f"jobs/id/{job.envelope.job_id} is missing"
        elif what == "dead" and state.inbox.kept(job.trigger) is not None:
            yield f"inbox/{job.trigger.dataset}/{at} is of a dead letter"


def _lineage(state: StoredState) -> Iterator[str]:
    """Yield the differences between the lineage index and the receipts."""
    tables = state.tables
    for key, run_id in tables.scan("lineage"):
        index = key.rpartition("@")[2]
        if (key, run_id) not in _edges(state, tables.get("ledger", index)):
            yield f"lineage/{key} is no edge of a run"
    for _, body in tables.scan("ledger"):
        for key, run_id in _edges(state, body):
            if tables.get("lineage", key) != run_id:
                yield f"lineage/{key} is missing"


def _edges(state: StoredState, entry_body: bytes | None) -> list[tuple[str, bytes]]:
    """Return the lineage rows that the run of a ledger entry must have."""
    if entry_body is None:
        return []
    entry = decode(entry_body, LedgerEntry, "ledger")
    receipt = state.ledger.receipt(entry.run_id)
    if receipt is None:
        return []
    version = state.ledger.version(receipt.dataset, made_by(receipt))
    return rows_of(entry.index, receipt, version.run_id if version is not None else receipt.run_id)


def _refs(state: StoredState) -> Iterator[str]:
    """Yield the refs whose value differs from the last move in their history."""
    for name, at in state.refs.all():
        last = next(state.refs.history(name, reverse=True, limit=1), None)
        if last is None or last.after != at:
            yield f"refs/{name} is not where its last move put it"
    last = None
    for entry in state.refs.histories():
        if last is not None and last.ref != entry.ref and state.refs.at(last.ref) != last.after:
            yield f"refs/{last.ref} is not where its last move put it"
        last = entry
    if last is not None and state.refs.at(last.ref) != last.after:
        yield f"refs/{last.ref} is not where its last move put it"
