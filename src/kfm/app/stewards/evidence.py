"""Compares the evidence about versions in the state with the signed lists: statements, lists and receipts.

A list says what one run added about a version. The receipt of the run says that it signs lists, and the ledger has the
digest of the receipt: so neither a statement nor a list nor a receipt can be removed unnoticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from kfm.app.session.session import Session
from kfm.errors import KfmError
from kfm.model.keys import digest
from kfm.model.names import is_digest
from kfm.model.records import LedgerEntry, Receipt, Record
from kfm.projections.signed_lists import MARK, SignedList, is_list, kind_of, list_in, marks

State = Literal["ok", "bad", "unsigned", "missing", "unverified"]
RESTORE = "restore the state from a backup; `kfm verify` says more"
BEFORE = "published before signed lists; verified without"
UNSIGNED = "without a key in attest.sign_with nothing is signed, and no list says what must be there"


class Check(Record, frozen=True):
    """The result of one verification. `unverified` is no failure: it says what could not be verified, and why."""

    what: str
    state: State
    found: str


class Evidence(NamedTuple):
    """The receipts of a dataset as the ledger names them."""

    entries: int
    wrong: list[tuple[str, str]]  # run id and `missing` or `altered`
    marked: dict[str, list[str]]  # version → runs that must have signed a list about it


def gather(session: Session) -> dict[str, Evidence]:
    """Return the evidence of each dataset. The whole ledger is read, because an index could have been shortened."""
    found: dict[str, Evidence] = {}
    for entry in session.state.ledger.entries():
        of = found.get(entry.dataset) or Evidence(0, [], {})
        body = session.state.ledger.receipt_body(entry.run_id)
        if body is None or digest(body) != entry.receipt_digest:
            of.wrong.append((entry.run_id, "missing" if body is None else "altered"))
        elif f'"{MARK}"'.encode() in body:
            _note_marks(session, entry, of)
        found[entry.dataset] = of._replace(entries=of.entries + 1)
    return found


def _note_marks(session: Session, entry: LedgerEntry, of: Evidence) -> None:
    receipt = session.state.ledger.receipt(entry.run_id)
    for version in _subjects(receipt) if receipt is not None else ():
        known = session.state.ledger.version(entry.dataset, version) is not None
        if receipt is not None and known and marks(receipt, version):
            of.marked.setdefault(version, []).append(entry.run_id)


def _subjects(receipt: Receipt) -> Iterable[str]:
    made = [item.checksum for item in receipt.outputs if item.kind == "dataset"]
    decided = [decision.subject for decision in receipt.policy_decisions]
    return dict.fromkeys(each for each in (*made, *decided) if is_digest(each))


def receipt_check(evidence: Evidence) -> Check:
    """Return whether every receipt of a dataset is the one that its ledger entry names."""
    if not evidence.wrong:
        found = f"{evidence.entries} receipts, each as the ledger names it"
        return Check(what="receipts", state="ok", found=found)
    named = ", ".join(f"{run_id} is {what}" for run_id, what in evidence.wrong[:3])
    found = f"{len(evidence.wrong)} of {evidence.entries} are not as the ledger names them: {named}"
    return Check(what="receipts", state="bad", found=found)


def list_check(session: Session, dataset: str, version: str, evidence: Evidence) -> Check:
    """Return whether everything that the signed lists of a version name is there. Signatures are verified elsewhere."""
    lists = list(session.state.ledger.signed_lists(f"{dataset}@{version}"))[::-1]
    wrong = list(list_problems(session, dataset, version, evidence))
    if wrong:
        more = f", and {len(wrong) - 3} more" if wrong[3:] else ""
        return Check(what="list", state="bad", found="; ".join(wrong[:3]) + more)
    if not lists:
        stated = any(True for _ in session.state.ledger.attestations(f"{dataset}@{version}"))
        return Check(what="list", state="unverified", found=BEFORE if stated else UNSIGNED)
    count = sum(len(one.statements) for _, body in lists if (one := list_in(body)) is not None)
    found = f"{len(lists)} signed lists name {count} statements, and all are there"
    return Check(what="list", state="ok", found=found)


def list_problems(session: Session, dataset: str, version: str, evidence: Evidence) -> Iterator[str]:
    """Yield what is missing or altered according to the signed lists of a version."""
    about = f"{dataset}@{version}"
    stored: dict[str, list[tuple[str, str]]] = {}  # run → kind and digest of its statements
    for key, envelope in session.state.ledger.attestations(about):
        _, what, run_id = key.split("/", 2)
        if not is_list(key):
            stored.setdefault(run_id, []).append((kind_of(what), digest(envelope)))
    listed, before = set(), ""
    for key, envelope in reversed(list(session.state.ledger.signed_lists(about))):
        _, what, run_id = key.split("/", 2)
        one = list_in(envelope, dataset, version)
        if one is None or (f"list-{one.entry:012d}", one.run_id) != (what, run_id):
            yield f"the signed list of run {run_id} was altered"
        else:
            if one.previous != before:
                yield f"the signed list before that of run {run_id} was removed or altered"
            yield from _differences(session, one, stored.get(run_id, []))
        listed.add(run_id)
        before = digest(envelope)
    for run_id in evidence.marked.get(version, ()):
        if run_id not in listed:
            yield f"the signed list of run {run_id} was removed"


def _differences(session: Session, one: SignedList, stored: list[tuple[str, str]]) -> Iterator[str]:
    left = list(stored)
    for statement in one.statements:
        if (statement.kind, statement.digest) in left:
            left.remove((statement.kind, statement.digest))
        else:
            there = any(kind == statement.kind for kind, _ in left)
            yield f"the statement {statement.kind} of run {one.run_id} was {'altered' if there else 'removed'}"
    wanted = {statement.kind for statement in one.statements}
    for kind, _ in left:
        if kind not in wanted:
            yield f"the statement {kind} of run {one.run_id} is not in its signed list"
    for receipt in one.receipts:
        body = session.state.ledger.receipt_body(receipt.run_id)
        if body is None or digest(body) != receipt.digest:
            yield f"the receipt of run {receipt.run_id} is not the one in the signed list"


def evidence_checks(session: Session) -> Iterator[tuple[str, Check]]:
    """Yield for each dataset what is wrong with its receipts, and with the lists of any of its versions."""
    for dataset, evidence in sorted(gather(session).items()):
        check = receipt_check(evidence)
        if check.state != "ok":
            yield dataset, check
        for version in _versions(session, dataset, evidence):
            try:
                wrong = list(list_problems(session, dataset, version, evidence))
            except KfmError as problem:
                wrong = [problem.message]
            for found in wrong:
                yield dataset, Check(what=f"list of {version[:19]}", state="bad", found=found)


def _versions(session: Session, dataset: str, evidence: Evidence) -> Iterable[str]:
    keys = (key for key, _ in session.tables.scan("attestations", f"{dataset}@"))
    stated = (key.partition("@")[2].partition("/")[0] for key in keys if is_list(key))
    return dict.fromkeys([*evidence.marked, *stated])
