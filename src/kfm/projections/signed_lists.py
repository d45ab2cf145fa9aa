"""The signed list of a version: which receipts and statements must be there, and how the version was published. Pure.

Every run that states something about a version signs one list in its commit. A list names the list before it by digest,
so removing one in the middle breaks the chain. The receipt of the run says that it signs lists, and the ledger holds
the digest of the receipt, so removing the last list is noticed, too. A list names no place, address or file: the
version's digest, which is its subject, covers the files.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec

from kfm.crypto.envelopes import Envelope
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.names import dataset_uri, is_digest
from kfm.model.records import DatasetVersion, Receipt, Record
from kfm.projections.attestations import STATEMENT, InTotoStatement, InTotoSubject

LIST = "urn:kfm:attestation:list:1"
MARK = "signed_list"  # in the provenance of a receipt: its run signs a list with every statement


class ListedReceipt(Record, frozen=True):
    run_id: str
    digest: str


class ListedStatement(Record, frozen=True):
    kind: str  # provenance | quality | masking | verdict-<gate>
    digest: str  # of the envelope


class Publication(Record, frozen=True):
    """The move that published the version, as `current.json` has it."""

    seq: int
    before: str


class SignedList(Record, frozen=True):
    """What one run added about a version."""

    run_id: str
    entry: int  # index of the run in the ledger
    previous: str  # digest of the list before; empty for the first
    receipts: list[ListedReceipt]
    statements: list[ListedStatement]
    publication: Publication | None = None


def list_statement(version: DatasetVersion, listed: SignedList) -> InTotoStatement:
    """Return the statement about a version that holds this list."""
    subject = InTotoSubject(
        name=dataset_uri(version.dataset), digest={"sha256": version.digest.removeprefix("sha256:")}
    )
    predicate: dict[str, Any] = msgspec.to_builtins(listed)
    return InTotoStatement(kind=STATEMENT, subject=[subject], predicate_type=LIST, predicate=predicate)


def list_of(statement: InTotoStatement) -> SignedList:
    """Return the list that a statement holds. BadInput if it holds none."""
    try:
        if statement.predicate_type == LIST:
            return msgspec.convert(statement.predicate, SignedList)
    except msgspec.ValidationError:
        pass
    raise BadInput("the statement is not a signed list", hint="use a list that KFM wrote")


def statement_in(envelope: bytes) -> InTotoStatement | None:
    """Return the statement in an envelope; None if it holds none. Its signature is not verified here."""
    try:
        payload = msgspec.json.decode(envelope, type=Envelope).payload
        return msgspec.json.decode(b64decode(payload), type=InTotoStatement)
    except (msgspec.MsgspecError, ValueError):
        return None


def list_in(envelope: bytes, dataset: str = "", version: str = "") -> SignedList | None:
    """Return the list in an envelope; None if it holds none, or one about another version than the one named. Its
    signature is not verified here."""
    statement = statement_in(envelope)
    if statement is None:
        return None
    if version:
        about = InTotoSubject(name=dataset_uri(dataset), digest={"sha256": version.removeprefix("sha256:")})
        if statement.subject != [about]:
            return None
    try:
        return list_of(statement)
    except BadInput:
        return None


def kind_of(what: str) -> str:
    """Return the kind of a stored statement. The name of a masking policy stays out of the list, which is public."""
    return "masking" if what.startswith("masking-") else what


def list_key(dataset: str, version: str, entry: int, run_id: str) -> str:
    return f"{dataset}@{version}/list-{entry:012d}/{run_id}"


def is_list(key: str) -> bool:
    return "/list-" in key


def marks(receipt: Receipt, version: str) -> bool:
    """Return whether the run of this receipt must have signed a list about a version."""
    if receipt.status != "SUCCESS" or receipt.dry_run or receipt.provenance.get(MARK) is not True:
        return False
    return concerns(receipt, version)


def concerns(receipt: Receipt, version: str) -> bool:
    """Return whether a run made a version or a gate decided about it."""
    if any(item.kind == "dataset" and item.checksum == version for item in receipt.outputs):
        return True
    return any(one.subject == version and is_digest(one.policy_digest) for one in receipt.policy_decisions)


def published_by(receipt: Receipt, version: str) -> bool:
    """Return whether a run moved the published ref to a version."""
    return any(move.ref == refs.published(receipt.dataset) and move.after == version for move in receipt.moves)
