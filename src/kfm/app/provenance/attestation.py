"""Attestations of versions: signed statements, made at the commit or on request, and verified without a network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from kfm.app.metadata.catalogs import build
from kfm.app.metadata.catalogs import differences_of as catalog_differences
from kfm.app.metadata.pages_sink import expected_pages
from kfm.app.provenance.audit import included
from kfm.app.session.attester import Attester
from kfm.app.session.session import Session, trust_of
from kfm.app.session.trust import Trusted
from kfm.app.stewards.evidence import Check, Evidence, State, gather, list_check, receipt_check
from kfm.app.stewards.exported_files import artifact_files, checkpoint_files, receipt_files
from kfm.app.stewards.public_repair import (
    differences,
    expected_files,
    public_lists,
    publish_lists,
    published_datasets,
)
from kfm.crypto.envelopes import unwrap
from kfm.errors import BadInput, Corrupt, KfmError
from kfm.model import manifests
from kfm.model.keys import digest
from kfm.model.names import dataset_uri
from kfm.model.records import DatasetVersion, Difference, LedgerEntry, Receipt
from kfm.projections.attestations import PAYLOAD, PROVENANCE, verify_envelope
from kfm.projections.attestations import InTotoStatement as Read

EXIT: dict[State, int] = {"ok": 0, "bad": 65, "unsigned": 67, "missing": 68, "unverified": 0}
SHOWN = 20  # differences of files that are named one by one


# -- signing


def attest(session: Session, dataset: str, version: str) -> list[str]:
    """Sign statements about a version by the run that made it and by every run whose gates decided about it. Return
    their names. BadInput if there is no such version."""
    made = session.state.ledger.version(dataset, version)
    if made is None:
        raise BadInput(f"{dataset} has no version {version[:80]}", hint=f"see `kfm refs history processed/{dataset}`")
    attester = Attester(trust_of(session), session.config.attest.builder)
    found: list[str] = []
    lists = public_lists(session, dataset)
    with session.state.transaction() as tx:
        for entry, receipt in reversed(list(_concerned(session, made))):  # a list names the one before it
            if _concerns(receipt, made):
                run = session.state.runs.get(receipt.run_id)
                found += attester.again(receipt, run.inputs if run else (), entry.index, tx)
            else:
                found.append(attester.list_again(receipt, made, entry.index, tx))
    publish_lists(session, dataset, lists)
    if session.config.catalog:  # its proofs hold the statements
        build(session)
    return found


def _concerned(session: Session, version: DatasetVersion) -> Iterator[tuple[LedgerEntry, Receipt]]:
    """Yield the runs that made a version, decided about it or signed a list about it, newest first. Each list names the
    one before it, so a list that is signed again changes those that follow."""
    about = f"{version.dataset}@{version.digest}"
    listed = {key.rpartition("/")[2] for key, _ in session.state.ledger.signed_lists(about)}
    for entry in session.state.ledger.entries_of(version.dataset):
        receipt = session.state.ledger.receipt(entry.run_id)
        if receipt is None or receipt.status != "SUCCESS":
            continue
        if receipt.run_id in listed or _concerns(receipt, version):
            yield entry, receipt


def _concerns(receipt: Receipt, version: DatasetVersion) -> bool:
    """Return whether a run made a version or decided about it. An earlier run that made the same bytes did not: its
    statements stay as they are."""
    spoken = any(decision.subject == version.digest for decision in receipt.policy_decisions)
    return spoken or receipt.run_id in (version.run_id, version.validated_by)


def bundle(session: Session, dataset: str, version: str) -> Iterator[bytes]:
    """Yield the envelopes of a version, one per line: the content of an `.intoto.jsonl` file."""
    for _, envelope in session.state.ledger.attestations(f"{dataset}@{version}"):
        yield envelope + b"\n"


# -- verifying


def verify(session: Session, dataset: str, version: str, keys: Trusted) -> list[Check]:
    """Verify a version: its objects, its signed statements and lists, its receipts and ledger entries, and the files
    that were exported about it. Return the results."""
    checks = [_objects(session, version)]
    stated = list(session.state.ledger.attestations(f"{dataset}@{version}"))
    receipts: dict[str, str] = {}
    for key, envelope in stated:
        checks.append(_statement(key.partition("/")[2], envelope, keys, dataset, version, receipts))
    if not any(key.partition("/")[2].startswith("provenance/") for key, _ in stated):
        checks.append(
            Check(what="provenance", state="missing", found="no attestation says how it was made: `kfm attest`")
        )
    made = session.state.ledger.version(dataset, version)
    runs = receipts or ({made.run_id: ""} if made else {})
    with session.state.reading():
        evidence = gather(session).get(dataset, Evidence(0, [], {}))
        checks += [list_check(session, dataset, version, evidence), receipt_check(evidence)]
        checks += _ledger_checks(session, runs)
    return [*checks, *_file_checks(session, dataset)]


def _file_checks(session: Session, dataset: str) -> Iterator[Check]:
    """Yield whether the exported files about a dataset are as the state says: public files, catalog, receipts,
    checkpoints and artifacts."""
    pending = dataset in set(session.state.outbox.due("publish"))
    if not pending:
        yield from _file_check("public", lambda: differences(session, dataset), dataset)
    else:
        found = "a committed version is not delivered yet: `kfm resume`"
        yield Check(what="public", state="unverified", found=found)
    if session.config.catalog and not pending:
        yield from _file_check("catalog", lambda: catalog_differences(session, dataset), dataset)
    yield from _file_check("receipt", lambda: receipt_files(session, dataset), dataset)
    yield from _file_check("checkpoint", lambda: checkpoint_files(session))
    yield from _file_check("artifact", lambda: artifact_files(session))


def _file_check(what: str, compare: Callable[[], Iterable[Difference]], dataset: str = "") -> Iterator[Check]:
    """Yield the files that differ. Those that several datasets share are compared by `kfm doctor --deep`."""
    try:
        found = list(compare())
    except KfmError as problem:
        yield Check(what=f"{what} files", state="bad", found=problem.message)
        return
    for one in found[:SHOWN]:
        yield Check(what=f"{what} file", state="bad", found=f"{one.path} is {one.kind}")
    if found[SHOWN:]:
        yield Check(what=f"{what} file", state="bad", found=f"{len(found) - SHOWN} more differ: `kfm reconcile`")
    if not found:
        found_ok = f"those of {dataset} are as the state says" if dataset else "as the state says"
        yield Check(what=f"{what} files", state="ok", found=found_ok)


def verify_file(session: Session, path: str, keys: Trusted) -> list[Check]:
    """Verify a file that was published, wherever it is now. It is recognised by its bytes, or by its place in the
    public folder."""
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            total.update(piece)
    own, place = "sha256:" + total.hexdigest(), os.path.realpath(path)
    scheme, root = session.resolved.location(session.config.publish)

    def here(at: str) -> bool:
        return scheme == "file" and os.path.realpath(os.path.join(root, at)) == place

    for dataset in published_datasets(session):
        for at, name, version in expected_files(session, dataset):
            if name == own and version:
                first = Check(what="file", state="ok", found=f"{at} of {dataset} {version[:19]}")
                return [first, *verify(session, dataset, version, keys)]
            if name != own and here(at):
                return [Check(what="file", state="bad", found=f"what is published as {at} is {name[:19]}")]
    return _page(session, own, here, keys)


def _page(session: Session, own: str, here: Callable[[str], bool], keys: Trusted) -> list[Check]:
    """Verify a page for readers. A page is not signed, so it is compared with the one that was made, and the versions
    it was made from are verified."""
    for at, name, versions in expected_pages(session):
        if name == own:
            made_from = ", ".join(f"{dataset} {version[:19]}" for dataset, version in versions.items())
            found = f"{at} is a page, made from {made_from or 'nothing'}; pages are not signed, only their versions"
            checks = [Check(what="file", state="ok", found=found)]
            for dataset, version in versions.items():
                about = f"{dataset}/" if len(versions) > 1 else ""
                checks += [replace(each, what=about + each.what) for each in verify(session, dataset, version, keys)]
            return checks
        if here(at):
            return [Check(what="file", state="bad", found=f"{at} is not the page that was made from what is published")]
    return [Check(what="file", state="missing", found="nothing that is public here has these bytes")]


def is_bundle(path: str) -> bool:
    """Return whether a file holds envelopes, one per line."""
    with open(path, "rb") as file:
        start = file.read(1 << 16).lstrip()
    return not start or path.endswith(".intoto.jsonl") or (start[:1] == b"{" and b'"payloadType"' in start)


def _objects(session: Session, version: str) -> Check:
    """Read every object of a version and compare it with its digest."""
    count = size = 0
    try:
        for name in _names(session, version):
            total = hashlib.sha256()
            with session.objects.open(name) as file:
                while piece := file.read(1 << 20):
                    total.update(piece)
                    size += len(piece)
            if "sha256:" + total.hexdigest() != name:
                raise Corrupt(f"object {name} is not what it was", hint="")
            count += 1
    except KfmError as problem:
        return Check(what="objects", state="bad", found=problem.message)
    return Check(what="objects", state="ok", found=f"{count} objects, {size} bytes")


def _names(session: Session, version: str) -> Iterator[str]:
    seen: set[str] = set()
    for name in (version, *manifests.parts(session.objects, version)):
        seen.add(name)
        yield name
    for entry in manifests.entries(session.objects, version):
        if entry.digest not in seen:
            seen.add(entry.digest)
            yield entry.digest


def _statement(
    what: str, envelope: bytes, keys: Trusted, dataset: str, version: str, receipts: dict[str, str]
) -> Check:
    try:
        said = verify_envelope(envelope, keys.public, version)
    except KfmError as problem:
        return Check(what=what, state="unsigned", found=problem.message)
    if not dataset or any(subject.name == dataset_uri(dataset) for subject in said.subject):
        if said.predicate_type == PROVENANCE:
            details: Any = said.predicate.get("runDetails", {})
            run_id = str(details.get("metadata", {}).get("invocationId", ""))
            receipts[run_id] = "sha256:" + str(details["byproducts"][0]["digest"]["sha256"])
        return Check(what=what, state="ok", found=said.predicate_type)
    return Check(what=what, state="bad", found="it is about another dataset")


def _ledger_checks(session: Session, runs: Mapping[str, str]) -> Iterator[Check]:
    """Yield for each run whether its ledger entry names this receipt and is covered by a signed head."""
    for run_id, attested in runs.items():
        entry, state, found = included(session, run_id)
        body = session.state.ledger.receipt_body(run_id)
        if entry is not None and (body is None or digest(body) != entry.receipt_digest):
            state, found = "bad", "the receipt is not the one that its entry names"
        elif entry is not None and attested and attested != entry.receipt_digest:
            state, found = "bad", "the attested receipt is not the one that the ledger names"
        yield Check(what=f"ledger/{run_id}", state=state, found=found)


def verify_bundle(lines: Iterable[bytes], keys: Trusted) -> list[Check]:
    """Verify envelopes from a file, one per line: who signed them, and about what."""
    checks = []
    for number, line in enumerate((line for line in lines if line.strip()), 1):
        try:
            said = msgspec.json.decode(unwrap(line, PAYLOAD, keys.public).body, type=Read)
            about = ", ".join(f"{each.name} sha256:{each.digest.get('sha256', '')[:12]}" for each in said.subject)
            checks.append(Check(what=f"line {number}", state="ok", found=f"{said.predicate_type} of {about}"))
        except KfmError as problem:
            checks.append(Check(what=f"line {number}", state="unsigned", found=problem.message))
        except msgspec.MsgspecError:
            checks.append(Check(what=f"line {number}", state="bad", found="what was signed is no statement"))
    return checks or [Check(what="file", state="missing", found="there is no attestation in it")]


def worst(checks: Sequence[Check]) -> int:
    """Return the exit code for these results. Altered data decides before bad signatures, and bad signatures before
    missing ones."""
    states = {check.state for check in checks}
    return next((EXIT[state] for state in ("bad", "unsigned", "missing") if state in states), 0)
