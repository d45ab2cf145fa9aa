"""Compares exported files with the state: receipts, checkpoints of the ledger, and the artifacts of the last run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Literal

from kfm.app.metadata.catalogs import differences
from kfm.app.runs.run_exports import LISTED, NEXT, artifacts_of
from kfm.app.session.session import Session, published_files, trust_of
from kfm.delivery.public_files import CHECKPOINTS, RECEIPTS
from kfm.errors import KfmError
from kfm.fsio import REAL, read_whole
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.ports import Outside
from kfm.model.records import Difference, Receipt
from kfm.projections.artifact_list import named_runs, open_list, receipts_in, without_state
from kfm.projections.artifacts import ARTIFACTS
from kfm.projections.file_paths import checkpoint_path, receipt_path
from kfm.projections.signed_lists import MARK

NEXT_RUN = "look at who changed them; the next `kfm run` writes them again"


Kind = Literal["receipts", "checkpoints", "artifacts", "catalog"]


def exported_differences(session: Session) -> dict[Kind, list[Difference]]:
    """Return the exported files that differ from the state, by kind. Public files are compared elsewhere."""
    found: dict[Kind, list[Difference]] = {
        "receipts": list(receipt_files(session)),
        "checkpoints": list(checkpoint_files(session)),
        "artifacts": list(artifact_files(session)),
    }
    if session.config.catalog:
        found["catalog"] = differences(session)
    return found


def receipt_files(session: Session, dataset: str = "") -> Iterator[Difference]:
    """Yield exported receipts that are missing or altered: of one dataset, or of all."""
    if session.resolved.location(session.config.publish)[0] == "noop":
        return
    last, outside = session.state.outbox.cursor(RECEIPTS), published_files(session)
    for entry in session.state.ledger.entries():
        if entry.index > last:
            return
        if dataset in ("", entry.dataset) and (path := _receipt_path(session, entry.run_id)):
            yield from _compared(entry.dataset, path, outside, entry.receipt_digest)


def _receipt_path(session: Session, run_id: str) -> str:
    """Return where a receipt is exported; empty if `kfm gc` took the file away, or if the receipt cannot be read, which
    `receipt_check` reports."""
    try:
        if session.state.ledger.is_short(run_id):
            return ""
        receipt = session.state.ledger.receipt(run_id)
        return "" if receipt is None else receipt_path(receipt)
    except (KfmError, ValueError):
        return ""


def checkpoint_files(session: Session) -> Iterator[Difference]:
    """Yield exported checkpoints that are missing or altered, and those that the state does not have."""
    if session.resolved.location(session.config.publish)[0] == "noop":
        return
    last, known, outside = session.state.outbox.cursor(CHECKPOINTS), set(), published_files(session)
    for size, note in session.state.ledger.checkpoints():
        known.add(checkpoint_path(size))
        if size <= last:
            yield from _compared("", checkpoint_path(size), outside, digest(note.encode()))
    for name in outside.names("ledger/checkpoints"):
        if name.isascii() and name.isdigit() and f"ledger/checkpoints/{name}" not in known:
            yield Difference(dataset="", path=f"ledger/checkpoints/{name}", kind="foreign")


def artifact_files(session: Session) -> Iterator[Difference]:
    """Yield the artifacts of the last run that are missing or altered.

    Two of them are compared with the state, for the runs that they name. If one of these runs signed, all are compared
    with the signed list next to them. A run that was killed while it wrote them leaves two lists, and each file matches
    one of these. Runs of a newer state that an older copy replaced are compared with their exported receipts."""
    folder = session.resolved.at(session.config.artifacts)
    bodies = {name: _read(os.path.join(folder, name)) for name in ARTIFACTS}
    if all(body is None for body in bodies.values()):
        return
    for name, body in bodies.items():
        if body is None:
            yield Difference(dataset="", path=name, kind="missing")
    later = later_receipts(session, bodies["run.jsonl"] or b"")
    runs = named_runs(bodies["run.jsonl"] or b"")
    known = [session.state.ledger.receipt(run_id) for run_id in runs or ()]
    signed = any(receipt is not None and receipt.provenance.get(MARK) is True for receipt in known)
    lists = list(_artifact_lists(session, folder)) if signed else []
    if signed and not lists:
        yield Difference(
            dataset="", path=LISTED, kind="altered" if os.path.lexists(f"{folder}/{LISTED}") else "missing"
        )
    for name, body in bodies.items():
        if body is None:
            continue
        rebuilt = _rebuilt(session, name, body, later)
        is_other = rebuilt is not None and rebuilt != (without_state(body) if later else body)
        if is_other or (lists and all(one.get(name) != digest(body) for one in lists)):
            yield Difference(dataset="", path=name, kind="altered")


def _rebuilt(session: Session, name: str, body: bytes, later: dict[str, Receipt]) -> bytes | None:
    """Return an artifact as it would be made today for the runs that it names, without what only the newer state held
    if one of them is `later`; None if the state does not hold what it is made from."""
    if name not in ("run.jsonl", "idempotency.json"):
        return None
    runs = named_runs(body)
    if runs is None:
        return b""
    found = (session.state.ledger.receipt(run_id) or later.get(run_id) for run_id in runs)
    receipts = [receipt for receipt in found if receipt is not None]
    if len(receipts) < len(runs):
        return b""
    rebuilt = artifacts_of(session, receipts, [], [])[name]
    return without_state(rebuilt) if later else rebuilt


def later_receipts(session: Session, lines: bytes) -> dict[str, Receipt]:
    """Return the receipts in run.jsonl that the state does not hold and that were exported with the same bytes, by run.

    They are there after an operator put back an older state. An installation that signs has none: files that are not
    signed must not explain why its ledger is shorter."""
    if session.config.attest.sign_with:
        return {}
    found, outside = {}, published_files(session)
    for receipt in receipts_in(lines):
        with contextlib.suppress(KfmError, ValueError):
            is_unknown = session.state.ledger.receipt(receipt.run_id) is None
            if is_unknown and outside.digest_of_file(receipt_path(receipt)) == digest(canonical(receipt)):
                found[receipt.run_id] = receipt
    return found


def are_of_later_runs(session: Session) -> bool:
    """Say whether the artifacts are of a run that the state does not hold."""
    lines = _read(os.path.join(session.resolved.at(session.config.artifacts), "run.jsonl"))
    return bool(later_receipts(session, lines or b""))


def _artifact_lists(session: Session, folder: str) -> Iterator[dict[str, str]]:
    """Yield the digests in each list of artifacts that a trusted key signed."""
    for name in (LISTED, NEXT):
        body = _read(os.path.join(folder, name))
        if body is not None:
            with contextlib.suppress(KfmError):
                yield open_list(body, trust_of(session).believed("attest").public)


def _read(path: str) -> bytes | None:
    try:
        return read_whole(REAL, path)
    except OSError:
        return None


def _compared(dataset: str, path: str, outside: Outside, wanted: str) -> Iterator[Difference]:
    found = outside.digest_of_file(path)
    if found != wanted:
        yield Difference(dataset=dataset, path=path, kind="missing" if found is None else "altered")


def export_again(session: Session) -> None:
    """Write receipts and checkpoints again that are missing or altered. An altered receipt is renamed and kept."""
    for different in list(receipt_files(session)):
        run_id = different.path.rpartition("/")[2].removesuffix(".json")
        body = session.state.ledger.receipt_body(run_id)
        if body is not None:
            session.publisher.write_file(different.path, digest(body), len(body), f"receipt/{run_id}", [body])
    notes = {checkpoint_path(size): (size, note.encode()) for size, note in session.state.ledger.checkpoints()}
    for different in list(checkpoint_files(session)):
        if different.kind == "foreign":  # it may prove that the ledger was cut
            continue
        size, body = notes[different.path]
        if different.kind == "altered":
            session.publisher.remove_file(different.path, f"repair/{different.path}", lambda: None)
        session.publisher.write_file(different.path, digest(body), len(body), f"checkpoint/{size}", [body])
