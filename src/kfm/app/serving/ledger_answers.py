"""The answers about the governance ledger: its entries, and the proof that one of them is in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from kfm.app.provenance.audit import verifiers
from kfm.app.serving.discretion import Discretion
from kfm.app.serving.run_reader import entries_shown
from kfm.app.serving.served_records import Link
from kfm.crypto import merkle
from kfm.crypto.checkpoints import Unsigned, open_checkpoint
from kfm.model import refs
from kfm.model.keys import digest
from kfm.model.records import Record, RefMove

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import LedgerEntry

_hashes: WeakKeyDictionary[Session, list[bytes]] = WeakKeyDictionary()


class LedgerRow(Record, frozen=True):
    """One entry of the ledger, without what people typed."""

    index: int
    at: str
    op: str
    dataset: str
    outcome: str
    run_id: str
    receipt_digest: str
    moves: tuple[RefMove, ...]


class LedgerList(Record, frozen=True):
    """Entries of the ledger, the newest first."""

    entries: tuple[LedgerRow, ...]
    next: str
    ledger_entries: int


class LedgerProof(Record, frozen=True):
    """An entry, and the proof that it is in the ledger of a signed head (RFC 6962)."""

    entry: LedgerRow
    digest: str  # of the entry as it is stored, which the next entry names
    leaf: str  # the hash of the entry in the tree, in hex
    stored: str  # the entry as it is stored, for the staff; the hash is of this text
    hashes: tuple[str, ...]  # from the leaf to the root, in hex
    size: int  # entries under the signed head; 0: no signed head covers this entry yet
    checkpoint: str  # the signed head, a C2SP note
    keys: tuple[str, ...]  # that this server trusts: name+hint+key
    links: tuple[Link, ...]
    ledger_entries: int


def ledger_list(session: Session, seen: Discretion, dataset: str, after: int, limit: int, index: int) -> LedgerList:
    """Return a page of entries; `after` is the index at which the page before ended, 0: the first page."""
    rows: list[LedgerRow] = []
    following = ""
    for entry in entries_shown(session, seen, dataset, after):
        if not _may_show(seen, entry):
            continue
        if len(rows) >= limit:
            following = str(rows[-1].index)
            break
        rows.append(_row(seen, entry))
    return LedgerList(entries=tuple(rows), next=following, ledger_entries=index)


def _may_show(seen: Discretion, entry: LedgerEntry) -> bool:
    """Return whether every dataset that an entry names may be named."""
    names = {entry.dataset, *(refs.parse(move.ref).dataset for move in entry.moves)}
    return all(seen.may_name(name) for name in names if name)


def _row(seen: Discretion, entry: LedgerEntry) -> LedgerRow:
    plain = seen.is_plain(entry.dataset)
    zones = refs.SHOWN if plain else refs.VERSIONS  # a digest of a hotfix or a source would confirm a guess
    moves = tuple(
        move
        for move in entry.moves
        if move.ref.startswith((*zones, refs.SWITCH, refs.AMBER)) and (seen.is_staff or _is_shown(seen, move))
    )
    return LedgerRow(
        index=entry.index,
        at=entry.ts,
        op=entry.op_type,
        dataset=entry.dataset,
        outcome=entry.outcome,
        run_id=entry.run_id,
        receipt_digest=entry.receipt_digest,
        moves=moves,
    )


def _is_shown(seen: Discretion, move: RefMove) -> bool:
    name = refs.parse(move.ref).dataset
    return all(seen.shelf.may_show(name, at) for at in (move.before, move.after) if at.startswith("sha256:"))


def ledger_proof(session: Session, seen: Discretion, number: int, index: int) -> LedgerProof | None:
    """Return an entry with its proof; None if there is none that the audience may see."""
    entry = session.state.ledger.entry(number) if 1 <= number <= index else None
    if entry is None or not seen.may_name(entry.dataset) or not _may_show(seen, entry):
        return None
    stored = next(session.state.ledger.leaves(after=number - 1))
    note, size, way, keys = _proof(session, number, index)
    shows = seen.is_staff and seen.is_plain(entry.dataset)
    return LedgerProof(
        entry=_row(seen, entry),
        digest=digest(stored),
        leaf=merkle.leaf_hash(stored).hex(),
        stored=stored.decode() if shows else "",
        hashes=tuple(each.hex() for each in way),
        size=size,
        checkpoint=note,
        keys=keys,
        links=(
            Link(rel="self", href=f"/v1/ledger/{number}"),
            Link(rel="alternate", href=f"/ledger/{number}", type="text/html", title="the page"),
            Link(rel="run", href=f"/v1/runs/{entry.run_id}"),
        ),
        ledger_entries=index,
    )


def _proof(session: Session, number: int, index: int) -> tuple[str, int, list[bytes], tuple[str, ...]]:
    _, names = verifiers(session, "")
    keys = tuple(map(str, names))
    notes = [(size, note) for size, note in session.state.ledger.checkpoints() if number <= size <= index]
    for size, note in notes[-1:]:
        try:
            root = open_checkpoint(note, names).root
        except Unsigned:
            break
        for fresh in (False, True):
            hashes = _leaf_hashes(session, index, fresh=fresh)
            way = merkle.inclusion_proof(hashes[:size], number - 1)
            if merkle.is_included(hashes[number - 1], number - 1, size, way, bytes.fromhex(root)):
                return note, size, way, keys
    return "", 0, [], keys


def _leaf_hashes(session: Session, index: int, *, fresh: bool) -> list[bytes]:
    """Return the hashes of all leaves. The ledger only grows, so those that were read before are kept."""
    if fresh or len(_hashes.get(session, ())) > index:
        _hashes.pop(session, None)
    known = _hashes.setdefault(session, [])
    known.extend(merkle.leaf_hash(leaf) for leaf in session.state.ledger.leaves(after=len(known)))
    return known


def shown_fields(proof: LedgerProof) -> Iterator[tuple[str, str]]:
    """Yield the fields of a stored entry, as texts."""
    if proof.stored:
        for name, value in msgspec.json.decode(proof.stored).items():
            yield name, value if isinstance(value, str) else msgspec.json.encode(value).decode()
