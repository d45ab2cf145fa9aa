"""Exports of runs: logs, artifacts, telemetry bundles, workflows. All of them can be made again from the state."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any

from kfm import DISTRIBUTION, __version__
from kfm.app.session.protection_files import readable_row
from kfm.app.session.session import Session, trust_of
from kfm.config import Resolved
from kfm.engine.run_journal import SettledPlan
from kfm.errors import Refused
from kfm.fsio import REAL, failing_as_storage, write_apart
from kfm.model.canonical import canonical
from kfm.model.records import Effect, Receipt, TelemetryBundle, WalRecord
from kfm.projections import artifacts
from kfm.projections.file_paths import shared_folder, version_path

LISTED, NEXT = "signed_list.json", "signed_list.next.json"  # of the artifacts


def wal(session: Session, run_id: str) -> Iterator[WalRecord]:
    """Yield the write-ahead log of a run, one record for each fact. It is the same before and after compaction. Refused
    if the run has no journal."""
    from kfm.app.metadata.completion_records import sinks_of_run
    from kfm.projections.wal_records import wal_records

    known = session.state.runs.get(run_id)
    if known is None:
        raise Refused(f"no run with a journal is called {run_id[:80]!r}", hint="see `kfm runs list`")
    plan = SettledPlan(
        plan_hash=known.plan_hash,
        steps=0,
        complete=False,
        has_needs=False,
        chunks=None,
        opened=partial(readable_row, session),
    )
    steps = itertools.chain.from_iterable(plan.each(session.state)) if known.plan_hash else ()
    segments = (segment for segment, _ in session.state.journal.segments(run_id))
    return wal_records(known, steps, segments, sinks_of_run(session, run_id))


def export_wal(session: Session, run_id: str, form: str, out: IO[bytes]) -> int:
    """Write the log of a run as json, avro or parquet, and return the number of records."""
    from kfm.projections.wal_records import export

    return export(wal(session, run_id), form, out)


def artifacts_of(
    session: Session, receipts: list[Receipt], effects: list[Effect], events: list[dict[str, Any]]
) -> dict[str, bytes]:
    """Return the artifacts of these runs, by file name."""
    dry = session.mode == "dry"
    with session.state.recent():
        inputs = {r.run_id: known.inputs for r in receipts if (known := session.state.runs.get(r.run_id)) is not None}
        telemetry = [(r, session.state.ledger.telemetry(r.run_id)) for r in receipts]
    return {
        "run.jsonl": artifacts.run_lines(telemetry),
        "event_log.jsonl": artifacts.event_lines(events, dry),
        "idempotency.json": artifacts.idempotency([(r, inputs.get(r.run_id, [])) for r in receipts], dry),
        "publisher_trace.jsonl": artifacts.trace_lines(effects),
    }


def write_artifacts(folder: str, files: Mapping[str, bytes], signed: bytes | None = None) -> None:
    """Write artifacts into a folder, over those of an earlier run. They are not synced, because they can be made
    again. `signed` is their signed list.

    A process that is killed here leaves nothing that looks altered. The new list takes its name when all files are
    there, so every file matches the older list or the new one. Only run.jsonl says whether a list applies: it is
    written last if there is one, and else first."""
    with failing_as_storage("write the artifacts"):
        os.makedirs(folder, 0o700, exist_ok=True)
        if signed is not None:
            _replace(os.path.join(folder, NEXT), signed)
        for name, body in sorted(files.items(), key=lambda one: (one[0] == "run.jsonl") is (signed is not None)):
            _replace(os.path.join(folder, name), body)
        if signed is not None:
            REAL.replace(os.path.join(folder, NEXT), os.path.join(folder, LISTED))
        elif os.path.lexists(os.path.join(folder, LISTED)):
            REAL.unlink(os.path.join(folder, LISTED))


def _replace(target: str, body: bytes) -> None:
    temporary = f"{target}.{os.getpid()}.tmp"
    write_apart(REAL, temporary, [body], synced=False)
    REAL.replace(temporary, target)


def artifact_list(session: Session, receipts: Sequence[Receipt], files: Mapping[str, bytes]) -> bytes | None:
    """Return the signed list of the artifacts of these runs; None if none of the runs signed."""
    if session.mode != "write" or not any(receipt.provenance.get("signed_list") is True for receipt in receipts):
        return None
    from kfm.projections.artifact_list import signed

    signer = trust_of(session).signer("attest")
    return signed(files, signer) if signer is not None else None


def write_file(path: str, body: Iterable[bytes]) -> int:
    """Replace an export in one step and return its size. A reader never sees a partial file."""
    size = 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for piece in body:
            size += len(piece)
            yield piece

    with failing_as_storage("write the export"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{path}.{os.getpid()}.tmp"
        write_apart(REAL, temporary, counted(), synced=False)
        REAL.replace(temporary, path)
    return size


def published_folder(session: Session, dataset: str, version: str) -> str:
    """Return the folder of a published version's files, which it may share with other versions; empty if they are not
    published as files."""
    scheme, place = session.resolved.location(session.config.publish)
    if scheme != "file":
        return ""
    from kfm.delivery.public_layout import Layout

    shared = Layout(session.state, session.objects, dataset).is_shared(version)
    folder = shared_folder(dataset) if shared else version_path(dataset, version)
    return os.path.join(place, *folder.split("/"))


def telemetry_bundle(session: Session) -> tuple[str, bytes]:
    """Return the path for the telemetry of all runs, and the bundle itself."""
    found = (session.state.ledger.telemetry(entry.run_id) for entry in session.state.ledger.entries())
    runs = [telemetry for telemetry in found if telemetry is not None]
    by_status: dict[str, int] = {}
    for telemetry in runs:
        by_status[telemetry.status] = by_status.get(telemetry.status, 0) + 1
    bundle = TelemetryBundle(version=__version__, runs=runs, by_status=by_status)
    return f"releases/{__version__}/updater-telemetry.json", canonical(bundle)


def github_workflow(resolved: Resolved, cron: str) -> str:
    """Return the GitHub Actions workflow that runs this installation."""
    from kfm.projections.runners.github_workflow import workflow

    releases = resolved.config.publish.startswith("github:")
    names = sorted(resolved.config.datasets)
    return workflow(names, cron=cron, package=f"{DISTRIBUTION}=={__version__}", writes_releases=releases)


def report_job(receipts: Sequence[Receipt]) -> None:
    """Write the summary and outputs of the GitHub Actions job, if this process runs in one."""
    from kfm.sinks.github_actions import report

    report(os.environ, receipts)
