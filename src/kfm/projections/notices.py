"""Notices: what people are told of a run or of a state, as CloudEvents 1.0. Pure.

A notice is made from the public record of a run. It holds names, digests, counts and codes from a short list, and no
text that a person or a source wrote. Of data that is neither public nor masked it says only what happened to which
dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kfm.model import refs
from kfm.model.public_run import PublicRun
from kfm.model.reports.state_changes import StateChange

PREFIX = "org.kfm."
FAILED = ("failed", "denied", "escalated", "abandoned")
UNATTENDED = ("ingest", "job", "promote")  # operations that may fail while nobody looks
STOPPED = ("denied", "escalated")  # by a gate, and a person decides
QUIET = ("noop", "frozen", "superseded", "merged", "cancelled")  # outcomes of which no notice is made


class Notice(NamedTuple):
    """One event for people. `event` is its word in the setting `on`."""

    event: str
    datasets: tuple[str, ...]  # that it is about; empty: all
    body: dict[str, Any]


def run_notices(run: PublicRun, code: str = "", *, waits: bool = False) -> Iterator[Notice]:
    """Yield the notices of a run. `code` is that of its first error; `waits` says that a person publishes the versions
    of its dataset."""
    if run.dry_run or run.outcome in QUIET:
        return
    data = _about_run(run, code)
    if run.outcome in FAILED and run.op in UNATTENDED:
        yield _of_run(run, "failed", "run.failed", run.dataset, {**data, "next": f"kfm runs show {run.run_id}"})
    if run.outcome in STOPPED or (run.op == "request" and run.outcome == "done"):
        yield _of_run(run, "review", "review.wanted", run.dataset, {**data, "next": "kfm review list"})
    if run.outcome == "held" or run.held_rows:
        quarantine = {**data, "next": f"kfm quarantine {run.dataset}"}
        yield _of_run(run, "held", "rows.held", run.dataset, quarantine)
    if run.outcome != "done":
        return
    if waits and any(move.ref == refs.processed(run.dataset) and move.after != move.before for move in run.moves):
        publish = {**data, "next": f"kfm publish {run.dataset} --reason …"}
        yield _of_run(run, "held", "version.pending", run.dataset, publish)
    for move in run.moves:
        if move.ref.startswith(refs.PUBLISHED) and move.after != move.before:
            dataset = refs.parse(move.ref).dataset
            moved = {**data, "dataset": dataset, "next": f"kfm refs history {move.ref}"}
            is_back = run.op == "rollback" or not move.after
            named = {"version": move.after, "before": move.before} if _is_shown(run) else {}
            kind = "withdrawn" if is_back else "published"
            yield _of_run(run, kind, f"version.{kind}", dataset, {**moved, **named})


def _is_shown(run: PublicRun) -> bool:
    """Return whether the versions of a run may be named: those of public and of masked data."""
    return run.labels is None or run.labels.level == "generalised"


def _about_run(run: PublicRun, code: str) -> dict[str, Any]:
    """Return what every notice of a run says."""
    data: dict[str, Any] = {
        "dataset": run.dataset,
        "run_id": run.run_id,
        "op": run.op,
        "status": run.status,
        "outcome": run.outcome,
        "receipt": run.receipt_digest,
    }
    if _is_shown(run) and run.version:
        data["version"] = run.version
    if run.labels is None:
        data |= {"error": code} if code else {}
        data |= {"rows": run.rows, "held_rows": run.held_rows} if run.rows else {}
    return data


def _of_run(run: PublicRun, event: str, kind: str, dataset: str, data: dict[str, Any]) -> Notice:
    id = f"msg_{run.run_id}_{kind.replace('.', '_')}" + (f"_{dataset}" if dataset != run.dataset else "")
    return Notice(event, (dataset,), _event(id, "kfm://ledger", kind, dataset, run.finished_at, data))


def state_notice(change: StateChange) -> Notice:
    """Return the notice of a changed state."""
    kinds = {"late": ("dataset.in_time", "dataset.late"), "burnt": ("budget.recovered", "budget.burnt")}
    kind = kinds[change.event][not change.is_over]
    subject = change.datasets[0] if len(change.datasets) == 1 else ""
    data: dict[str, Any] = {"datasets": list(change.datasets)} if not subject else {"dataset": subject}
    for field in ("objective", "version", "made_at"):
        if value := getattr(change, field):
            data[field] = value
    show = f"kfm slo show {change.objective}" if change.objective else "kfm slo"
    data["next"] = f"kfm why-not {subject}" if change.event == "late" else show
    id = f"msg_{_plain(change.at)}_{change.n}_{kind.replace('.', '_')}"
    return Notice(change.event, change.datasets, _event(id, "kfm://states", kind, subject, change.at, data))


def probe(id: str, at: str) -> dict[str, Any]:
    """Return the event that tries a receiver."""
    return _event(id, "kfm://test", "notice.test", "", at, {"next": "kfm sinks"})


def _plain(at: str) -> str:
    return "".join(character for character in at if character.isalnum())


def _event(id: str, source: str, kind: str, subject: str, time: str, data: dict[str, Any]) -> dict[str, Any]:
    event = {
        "specversion": "1.0",
        "id": id,
        "source": source,
        "type": f"{PREFIX}{kind}.v1",
        "time": time,
        "datacontenttype": "application/json",
        "data": data,
    }
    return {**event, "subject": subject} if subject else event
