"""Reads runs for one audience. The steps and the journal of a run are read as far as a page needs them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from kfm.app.authority.private_reasons import shown_reason
from kfm.app.metadata.completion_records import pending_run, sinks_left
from kfm.app.serving.discretion import EVERYTHING, Discretion, named_by
from kfm.app.serving.run_answers import (
    JournalPage,
    ReceiptAnswer,
    RunAnswer,
    RunCost,
    RunList,
    RunRow,
    RunStage,
    StepCounts,
    StepList,
    StepRow,
)
from kfm.app.serving.served_records import Link
from kfm.app.session.protection_files import readable_row
from kfm.delivery.public_runs import entry_of, public_run
from kfm.model import refs
from kfm.model.records import Step

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.public_run import PublicRun
    from kfm.model.records import LedgerEntry, Receipt, Run, RunTelemetry, WalRecord

LONG = 5_000  # steps of a committed run whose journal is not read as a whole
EXAMINED = 20_000  # entries that one request looks at
PHASES = ("ADMIT", "QUARANTINE", "PLAN", "EXECUTE", "UPSERT", "LINEAGE")
RUNNING = "RUNNING"
_SHOWN = frozenset({"digest", "size", "media_type", "code", "plan_hash", "receipt"})  # of a journal, to everybody


class FoundRun(NamedTuple):
    """A run that this audience may see."""

    run_id: str
    dataset: str
    run: Run | None  # its row; None: it ended before anything was planned
    entry: LedgerEntry | None  # None: it has not ended
    receipt: Receipt | None
    record: PublicRun | None  # as the audience may see it
    is_open: bool  # keys, steps and addresses of it may be shown


# -- lists


def run_list(
    session: Session, seen: Discretion, dataset: str, status: str, after: int, limit: int, index: int
) -> RunList:
    """Return a page of runs. `after` is the ledger index at which the page before ended; 0: the first page."""
    rows = list(unfinished_rows(session, seen, dataset)) if not after and status in ("", RUNNING) else []
    following = ""
    if status != RUNNING:
        for looked, entry in enumerate(entries_shown(session, seen, dataset, after), 1):
            row = entry_row(session, seen, entry)
            if row is not None and status in ("", row.status):
                if len(rows) >= limit:
                    following = str(rows[-1].index or entry.index + 1)
                    break
                rows.append(row)
            if looked >= EXAMINED:
                following = str(entry.index)
                break
    return RunList(runs=tuple(rows), next=following, ledger_entries=index)


def entries_shown(session: Session, seen: Discretion, dataset: str, before: int) -> Iterator[LedgerEntry]:
    """Yield the ledger entries about datasets that the audience may know of, newest first."""
    names = [dataset] if dataset else [*seen.names(), *([EVERYTHING] if seen.is_staff else [])]
    ledger = session.state.ledger
    every = [ledger.entries_of(name, before=before) for name in names]
    return heapq.merge(*every, key=lambda entry: entry.index, reverse=True)


def unfinished_rows(session: Session, seen: Discretion, dataset: str) -> Iterator[RunRow]:
    """Yield the runs that have not ended. Only the staff sees them."""
    if not seen.is_staff:
        return
    for run in session.state.runs.unfinished(dataset):
        if seen.may_name(run.dataset):
            yield RunRow(
                run_id=run.run_id,
                dataset=run.dataset,
                partition=run.trigger.partition if seen.is_plain(run.dataset) else "",
                op=run.updater_id.removeprefix("kfm-") if run.trigger.kind == "operation" else "ingest",
                status=RUNNING,
                outcome="unfinished",
                started_at=run.started_at,
                finished_at="",
                version="",
                index=0,
            )


def entry_row(session: Session, seen: Discretion, entry: LedgerEntry) -> RunRow | None:
    """Return the row of an ended run; None if the audience may not see it."""
    record = public_run(session.state, session.objects, entry, parts=False)
    if not seen.may_show(record):
        return None
    record = seen.of(record)
    return RunRow(
        run_id=record.run_id,
        dataset=record.dataset,
        partition=record.partition,
        op=record.op,
        status=record.status,
        outcome=record.outcome,
        started_at=record.started_at,
        finished_at=record.finished_at,
        version=record.version if seen.is_open(record) or seen.shelf.may_show(record.dataset, record.version) else "",
        index=entry.index,
    )


# -- one run


def find_shown_run(session: Session, seen: Discretion, run_id: str) -> FoundRun | None:
    """Return a run, given its whole id; None if there is none that the audience may see."""
    if len(run_id) != 36 or not all(sign in "0123456789abcdef-" for sign in run_id):
        return None
    run, receipt = session.state.runs.get(run_id), session.state.ledger.receipt(run_id)
    if receipt is None:
        if run is None or not seen.is_staff or not seen.may_name(run.dataset):
            return None
        return FoundRun(run_id, run.dataset, run, None, None, None, seen.is_plain(run.dataset))
    entry = entry_of(session.state, run_id)
    record = public_run(session.state, session.objects, entry, parts=False)
    if not seen.may_show(record):
        return None
    return FoundRun(run_id, record.dataset, run, entry, receipt, seen.of(record), seen.is_open(record))


def run_answer(session: Session, seen: Discretion, found: FoundRun, come: Progress, index: int) -> RunAnswer:
    run, receipt, record = found.run, found.receipt, found.record
    telemetry = session.state.ledger.telemetry(found.run_id)
    done = len(come.done)
    planned = run.steps if run is not None and run.plan_hash else 0
    if run is not None and run.status == "COMMITTED":
        done = planned
    own = seen.is_staff and found.is_open
    waiting = pending_run(session, found.run_id) if seen.is_staff else None
    made = record.updater_id if record is not None else run.updater_id if run is not None else ""
    by_version = record.updater_version if record is not None else run.updater_version if run is not None else ""
    correlation = record.correlation_id if record is not None else run.trigger.correlation_id if run is not None else ""
    return RunAnswer(
        run_id=found.run_id,
        dataset=found.dataset,
        op=record.op if record is not None else "ingest",
        status=record.status if record is not None else RUNNING,
        outcome=record.outcome if record is not None else "unfinished",
        started_at=record.started_at if record is not None else run.started_at if run is not None else "",
        finished_at=record.finished_at if record is not None else "",
        attempt=run.attempt if run is not None else 1,
        updater=made,
        updater_version=by_version,
        correlation_id=correlation if found.is_open else "",
        index=found.entry.index if found.entry is not None else 0,
        is_withheld=not found.is_open,
        stages=come.stages,
        steps=StepCounts(planned=planned, done=done, failed=len(come.failed)) if found.is_open else None,
        plan_hash=run.plan_hash if run is not None and found.is_open else "",
        cost=_cost(telemetry, is_open=found.is_open),
        record=record,
        actor=receipt.actor if receipt is not None and own else "",
        reason=shown_reason(session, receipt.reason) if receipt is not None and own else "",
        errors=tuple(f"{each.code}: {each.message}" for each in receipt.errors) if receipt is not None and own else (),
        sinks_left=tuple(sinks_left(session, waiting)) if waiting is not None else (),
        links=tuple(_links(found)),
        ledger_entries=index,
    )


class Progress(NamedTuple):
    """How far a run came, by its journal."""

    done: dict[int, str]  # the digest of each finished step, by its position in the plan
    failed: frozenset[int]
    begun: int  # steps before this position were begun
    stages: tuple[RunStage, ...]


def progress(session: Session, found: FoundRun, after: int, limit: int) -> Progress:
    """Read the journal of a run. Of a committed run with many steps only as much is read as some steps need: all of its
    steps are done, and then the times of its last stages stay empty."""
    run, receipt = found.run, found.receipt
    done: dict[int, str] = {}
    failed: set[int] = set()
    at: dict[str, str] = {}
    begun, wanted = 0, 0
    if run is not None:
        at.update(dict.fromkeys(PHASES[:2], run.started_at))
        wanted = min(after + limit, run.steps)
    is_long = run is not None and run.status == "COMMITTED" and run.steps > LONG
    for segment, _ in session.state.journal.segments(found.run_id):
        done.update((position, digest) for position, digest, *_ in segment.done)
        failed.update(position for position, _ in segment.failed)
        begun = max([begun, *(end for _, end in segment.intent)])
        at.update(dict.fromkeys(segment.phases, segment.ts))
        for phase in segment.then if receipt is None else ():
            at.setdefault(phase, "")
        if is_long and all(position in done for position in range(after, wanted)):
            at.pop("EXECUTE", None)
            at.update(dict.fromkeys(PHASES[3:], ""))
            break
    telemetry = session.state.ledger.telemetry(found.run_id)
    broken = telemetry.failure_stage if telemetry is not None else None
    last = next((each for each in reversed(PHASES) if each in at), "")
    stages = []
    for stage in PHASES:
        status = "FAILED" if stage == broken else "DONE" if stage in at else ""
        if receipt is None and stage == last:
            status = "IN_PROGRESS"
        stages.append(RunStage(stage=stage, status=status, at=at.get(stage, "")))
    return Progress(done, frozenset(failed - done.keys()), begun, tuple(stages))


def _cost(known: RunTelemetry | None, *, is_open: bool) -> RunCost:
    if known is None:
        return RunCost(
            duration_ms=None, latency_ms=None, retries=None, resumed=None, energy_wh=None, co2e_g=None,
            energy_method="unknown", bytes_in=None, bytes_out=None,
        )  # fmt: skip
    return RunCost(
        duration_ms=known.duration_ms,
        latency_ms=known.latency_ms,
        retries=known.retries if is_open else None,
        resumed=known.wal_replay_count,
        energy_wh=None if known.energy_kwh is None else known.energy_kwh * 1000,
        co2e_g=known.co2e_g,
        energy_method=known.energy_method,
        bytes_in=known.bytes_in if is_open else None,
        bytes_out=known.bytes_out if is_open else None,
    )


def _links(found: FoundRun) -> Iterator[Link]:
    at = f"/v1/runs/{found.run_id}"
    yield Link(rel="self", href=at)
    yield Link(rel="alternate", href=f"/runs/{found.run_id}", type="text/html", title="the page")
    yield Link(rel="steps", href=f"{at}/steps")
    yield Link(rel="journal", href=f"{at}/journal")
    if found.entry is not None:
        yield Link(rel="receipt", href=f"{at}/receipt")
        yield Link(rel="ledger", href=f"/v1/ledger/{found.entry.index}", title="its entry, with a proof")


# -- steps, journal, receipt


def step_list(session: Session, found: FoundRun, come: Progress, after: int, limit: int, index: int) -> StepList:
    """Return a page of steps. `after` counts the steps of the pages before. The other steps are not decoded."""
    run = found.run
    if run is None or not run.plan_hash or not found.is_open:
        hidden = not found.is_open
        return StepList(run_id=found.run_id, planned=0, is_withheld=hidden, steps=(), next="", ledger_entries=index)
    rows = []
    for position, step in _planned(session, run, after, limit):
        if position in come.done or run.status == "COMMITTED":
            status = "DONE"
        elif position in come.failed:
            status = "FAILED"
        else:
            status = "IN_PROGRESS" if position < come.begun and run.status == RUNNING else "PENDING"
        rows.append(
            StepRow(
                position=position, id=step.id, key=step.key or (), needs=step.needs, status=status,
                digest=come.done.get(position, ""),
            )
        )  # fmt: skip
    return StepList(
        run_id=found.run_id,
        planned=run.steps,
        is_withheld=False,
        steps=tuple(rows),
        next=str(after + limit) if after + limit < run.steps else "",
        ledger_entries=index,
    )


def _planned(session: Session, run: Run, after: int, limit: int) -> Iterator[tuple[int, Step]]:
    decode, position = msgspec.json.Decoder(Step).decode, 0
    chunks = map(partial(readable_row, session), session.state.journal.plan_chunks(run.plan_hash))
    for n, body in enumerate(chunks):
        text = body[body.index(b"\n") + 1 :] if n == 0 else body
        count = text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
        if position + count > after:
            for at, line in enumerate(text.splitlines(), position):
                if after <= at < after + limit:
                    yield at, decode(line)
        position += count
        if position >= after + limit:
            return


def journal_page(
    session: Session, seen: Discretion, found: FoundRun, after: int, limit: int, index: int
) -> JournalPage:
    """Return a page of the write-ahead log. `after` is the number of the last record of the page before."""
    from kfm.app.runs.run_exports import wal

    records: tuple[WalRecord, ...] = ()
    following = ""
    if found.is_open and found.run is not None:
        page = list(islice(wal(session, found.run_id), after, after + limit + 1))
        following = str(after + limit) if len(page) > limit else ""
        records = tuple(_fact(seen, each) for each in page[:limit])
    return JournalPage(
        run_id=found.run_id, is_withheld=not found.is_open, records=records, next=following, ledger_entries=index
    )


def _fact(seen: Discretion, fact: WalRecord) -> WalRecord:
    if seen.is_staff:
        return fact
    shown = {name: value for name, value in fact.payload.items() if name in _SHOWN}
    return replace(fact, payload=shown, step_id="" if fact.phase == "LINEAGE" else fact.step_id)


def receipt_answer(session: Session, seen: Discretion, found: FoundRun, index: int) -> ReceiptAnswer | None:
    """Return the receipt of a run; None if it has not ended."""
    if found.record is None or found.entry is None or found.receipt is None:
        return None
    shows = seen.is_staff and found.is_open and _names_nothing_closed(seen, found.receipt)
    receipt = replace(found.receipt, reason=shown_reason(session, found.receipt.reason)) if shows else None
    return ReceiptAnswer(
        run_id=found.run_id,
        index=found.entry.index,
        receipt_digest=found.entry.receipt_digest,
        record=found.record,
        receipt=receipt,
        ledger_entries=index,
    )


def _names_nothing_closed(seen: Discretion, receipt: Receipt) -> bool:
    """Return whether every dataset that a receipt names is plainly public."""
    names = {refs.parse(move.ref).dataset for move in receipt.moves}
    names |= {named_by(each.id) for each in (*receipt.inputs, *receipt.outputs)}
    return all(seen.may_name(name) and seen.is_plain(name) for name in names if name)
