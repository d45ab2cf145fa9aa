"""Verifies the ledger (its chain, tree, receipts and signed heads) and makes proofs for auditors."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b, sha256
from typing import Any, Literal

import msgspec

from kfm.app.authority.classification import protection_for
from kfm.app.metadata.catalogs import build
from kfm.app.runs.queries import find_run
from kfm.app.session.session import Session, trust_of
from kfm.app.session.trust import Trusted
from kfm.crypto import merkle
from kfm.crypto.checkpoints import TreeHead, Unsigned, Verifier, open_checkpoint
from kfm.crypto.encryption import decrypted, encryption_key_id
from kfm.crypto.ledger_verify import EXIT, Kind, LedgerResult, export_lines, read_export, verify_export, verify_leaves
from kfm.delivery.public_files import export_checkpoints
from kfm.errors import BadInput, Corrupt, Denied, KfmError, Refused
from kfm.model.keys import GENESIS, digest
from kfm.model.records import LedgerEntry, Record

EXPORT = "docs/reports/audit/data_provenance_ledger.json"
_STEP = 10_000  # entries between two progress reports


class Audit(Record, frozen=True):
    """The result of `kfm audit verify`."""

    verdict: Kind
    why: str
    entries: int
    root: str  # root of the tree over the entries, in hex
    covered: int  # entries up to the last signed head
    checkpoints: int  # signed heads that were compared, including those kept elsewhere
    first_bad: int = 0  # the first bad entry; 0 if there is none or it is unknown
    vouched: bool = False  # whether the keys come from a key list
    keys: list[str] = []  # the trusted keys, as auditors write them
    passed_over: int = 0  # heads that only a revoked key signed

    @property
    def exit_code(self) -> int:
        return EXIT[self.verdict]


class _Spoiled(Exception):
    """An entry does not match its receipt or its number, although the chain holds."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index


class _Row(msgspec.Struct):
    run_id: str
    receipt_digest: str


_decode_row = msgspec.json.Decoder(_Row).decode


def audit(session: Session, key: str = "", held: Sequence[str] = ()) -> Audit:
    """Verify the whole ledger as it is at one moment, and return the result. `key` replaces the trusted keys of the
    installation; `held` are checkpoints that the caller kept elsewhere."""
    keys, names = verifiers(session, key)
    with session.state.reading():
        notes = [*held, *_outside(session), *(note for _, note in session.state.ledger.checkpoints())]
        try:
            heads, passed_over = _opened(notes, keys, names)
        except Unsigned as problem:
            return _result(LedgerResult("unsigned", problem.message), 0, keys, names)
        return _result(_followed(session, heads), len(heads), keys, names, passed_over)


def audit_export(path: str, keys: Trusted, names: Sequence[Verifier], held: Sequence[str] = ()) -> Audit:
    """Verify an exported ledger: chain, tree and checkpoints. BadInput if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            found = verify_export(file, names, held)
            file.seek(0)
            count = len(held) + (len(read_export(file)[1]) if found.kind == "intact" else 0)
    except OSError as problem:
        why = (problem.strerror or "").lower()
        raise BadInput(f"the export {path} cannot be read: {why}", hint="look at the path") from None
    return _result(found, count, keys, names)


def given_key(key: str) -> tuple[Trusted, list[Verifier]]:
    """Return a key that the caller typed, as the only trusted one."""
    given = Verifier.parsed(key)
    return Trusted([given.public], [], vouched=False), [given]


def verifiers(session: Session, key: str) -> tuple[Trusted, list[Verifier]]:
    """Return the trusted keys: the one that the caller typed, else those of the installation."""
    if key:
        return given_key(key)
    keys, origin = trust_of(session).believed("checkpoint"), session.config.ledger.origin
    return keys, [Verifier(origin, public) for public in keys.public] if origin else []


def _opened(notes: Iterable[str], keys: Trusted, names: Sequence[Verifier]) -> tuple[list[TreeHead], int]:
    origin = names[0].name if names else ""
    gone = [Verifier(origin, public) for public in keys.revoked] if origin else []
    heads, passed_over = [], 0
    for note in dict.fromkeys(notes):
        try:
            heads.append(open_checkpoint(note, names, origin))
        except Unsigned:
            if not gone:
                raise
            open_checkpoint(note, gone, origin)
            passed_over += 1
    return heads, passed_over


def _outside(session: Session) -> Iterator[str]:
    """Yield the checkpoints in the public folder."""
    scheme, place = session.resolved.location(session.config.publish)
    folder = os.path.join(place, "ledger", "checkpoints")
    if scheme == "file" and os.path.isdir(folder):
        for name in sorted(os.listdir(folder)):
            if name.isascii() and name.isdigit():
                yield read_note(os.path.join(folder, name))


def read_note(path: str) -> str:
    """Return the checkpoint of a file. BadInput if it cannot be read."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(1_000_001)
    except (OSError, UnicodeDecodeError) as problem:
        why = (getattr(problem, "strerror", "") or "it is no text").lower()
        raise BadInput(f"the checkpoint {path} cannot be read: {why}", hint="look at the path") from None


def _followed(session: Session, heads: list[TreeHead]) -> LedgerResult:
    ledger = session.state.ledger
    noted = session.tables.get("ledger_tree", "frontier")
    try:
        tree = merkle.Frontier.unpacked(noted) if noted is not None else None
        vouched = Vouched()
        found = verify_leaves(_rows(session, vouched), heads, tree)
        if found.size and not vouched.by(ledger.receipt_bodies()):
            _name_the_first(session)
    except _Spoiled as problem:
        return LedgerResult("tampered", str(problem), problem.index - 1, first_bad=problem.index)
    except Corrupt as problem:
        return LedgerResult("tampered", problem.message)
    if found.kind not in ("intact", "unverifiable"):
        return found
    if (ledger.head() or GENESIS) != found.head or session.state.counters().get("ledger", 0) != found.size:
        why = f"the ledger has {found.size} entries, and they do not end where it should"
        return LedgerResult("tampered", why, found.size, found.root, found.size + 1)
    every = session.config.ledger.every if session.config.ledger.sign_with else 0
    if found.kind == "unverifiable" and heads and found.size - found.covered < every:
        why = f"{found.size} entries; the last {found.size - found.covered} are newer than the last checkpoint"
        return found._replace(kind="intact", why=why, first_bad=0)
    return found


def _rows(session: Session, vouched: Vouched) -> Iterator[bytes]:
    """Yield the ledger's leaves, and record the receipt that each names. Raises _Spoiled if a number is missing. An
    unreadable row is passed on, because the chain check reports it."""
    total = session.state.counters().get("ledger", 0)
    note = vouched.note
    for count, (key, leaf) in enumerate(session.tables.scan("ledger"), 1):
        if key != f"{count:012d}":
            raise _Spoiled(count, f"entry {count} is missing, or there is one too many")
        try:
            row = _decode_row(leaf)
        except msgspec.MsgspecError:
            yield leaf
            continue
        note(row.run_id, row.receipt_digest)
        yield leaf
        if not count % _STEP:
            session.progress("verify", count, max(total, count))


def _name_the_first(session: Session) -> None:
    """Raise _Spoiled for the first entry whose receipt is missing or altered. This looks up each receipt, and is
    slow."""
    body_of = session.state.ledger.receipt_body
    for count, (_, leaf) in enumerate(session.tables.scan("ledger"), 1):
        row = _decode_row(leaf)
        receipt = body_of(row.run_id)
        if receipt is None or digest(receipt) != row.receipt_digest:
            raise _Spoiled(count, f"the receipt of entry {count} is missing or altered")


class Vouched:
    """Compares the receipts that entries name with all stored receipts, in storage order, because a million single
    lookups are slow. It keeps eight bytes of a keyed hash for each, under a random key."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._said = [bytearray() for _ in range(256)]

    def note(self, run_id: str, receipt_digest: str) -> None:
        mark = blake2b(f"{receipt_digest}{run_id}".encode(), key=self._key, digest_size=9).digest()
        self._said[mark[0]] += mark[1:]

    def by(self, receipts: Iterable[tuple[str, bytes]]) -> bool:
        """Return whether every recorded receipt is stored unaltered. Additional receipts are ignored."""
        found, key = [bytearray() for _ in range(256)], self._key
        for run_id, body in receipts:
            said = f"sha256:{sha256(body).hexdigest()}{run_id}".encode()
            mark = blake2b(said, key=key, digest_size=9).digest()
            found[mark[0]] += mark[1:]
        return all(_numbers(said) <= _numbers(there) for said, there in zip(self._said, found, strict=True))


def _numbers(marks: bytearray) -> set[int]:
    return set(array("Q", bytes(marks)))


def _result(
    found: LedgerResult, checkpoints: int, keys: Trusted, names: Sequence[Verifier], passed_over: int = 0
) -> Audit:
    return Audit(
        verdict=found.kind,
        why=found.why,
        entries=found.size,
        root=found.root,
        covered=found.covered,
        checkpoints=checkpoints,
        first_bad=found.first_bad,
        vouched=keys.vouched,
        keys=[str(each) for each in names],
        passed_over=passed_over,
    )


def included(session: Session, run_id: str) -> tuple[LedgerEntry | None, Literal["ok", "bad", "missing"], str]:
    """Return the ledger entry of a run, whether a signed head covers it, and a text about that."""
    index = next((entry.index for entry in session.state.ledger.entries() if entry.run_id == run_id), 0)
    if not index:
        return None, "bad", "its run has no entry in the ledger"
    entry = next(session.state.ledger.entries(after=index - 1, limit=1))
    try:
        size, note = _last_note(session, index)
        keys, names = verifiers(session, "")
        (head, *_), _ = _opened([note], keys, names)
    except Unsigned as problem:
        return entry, "bad", problem.message
    except (KfmError, ValueError):
        return entry, "missing", f"entry {index}; no signed checkpoint covers it yet"
    hashes = _hashes(session)[:size]
    way = merkle.inclusion_proof(hashes, index - 1) if len(hashes) == size else []
    if not merkle.is_included(hashes[index - 1], index - 1, size, way, bytes.fromhex(head.root)):
        return entry, "bad", f"entry {index} is not in the ledger of the checkpoint of {size}"
    return entry, "ok", f"entry {index}, in the ledger of the checkpoint of {size}"


# -- proofs for auditors


def sign_head(session: Session) -> None:
    """Sign the present head of the ledger, if there is a key, so that an export is covered to its end, and write the
    proofs of the catalog again."""
    if session.state.notary is not None:
        before = max((size for size, _ in session.state.ledger.checkpoints()), default=0)
        with session.state.transaction() as tx:
            size = tx.ledger.checkpoint()
        export_checkpoints(session.state, session.publisher, size)
        if session.config.catalog and size > before:
            build(session)


def export(session: Session) -> Iterator[bytes]:
    """Yield the public ledger: every leaf and every signed head."""
    ledger = session.state.ledger
    return export_lines(session.config.ledger.origin, ledger.leaves(), [note for _, note in ledger.checkpoints()])


def export_key(session: Session) -> str:
    """Return the key that auditors verify with, in their notation; empty if there is none."""
    signer = trust_of(session).signer("checkpoint")
    return str(Verifier(session.config.ledger.origin, signer.public)) if signer is not None else ""


def prove(session: Session, what: str, *, openings: bool = False) -> dict[str, Any]:
    """Return the proof that an entry is in the ledger of the last signed head: entry, hashes and head. With `openings`,
    also the values behind its commitments, which needs the custodian's key."""
    index = _index_of(session, what)
    hashes = _hashes(session)
    if not 1 <= index <= len(hashes):
        raise Refused(f"there is no entry {index}", hint=f"the ledger has {len(hashes)} entries")
    size, note = _last_note(session, index)
    way = merkle.inclusion_proof(hashes[:size], index - 1)
    leaf = next(session.state.ledger.leaves(after=index - 1))
    shown = {"openings": _openings(session, index)} if openings else {}
    return _proof("inclusion", note, way, index=index, entry=leaf.decode(), **shown)


def _openings(session: Session, index: int) -> list[Any]:
    body, entry = session.state.ledger.private(index), next(session.state.ledger.entries(after=index - 1, limit=1))
    if body is None:
        raise Refused(f"entry {index} commits to nothing that could be shown", hint="see its `governed`, if it has one")
    protection = protection_for(session, entry.dataset)
    key = protection.with_id(encryption_key_id(body)) if protection is not None else None
    if key is None:
        raise Denied(f"what entry {index} commits to is encrypted", hint="this takes the custodian's key")
    found: list[Any] = msgspec.json.decode(b"".join(decrypted([body], protection.with_id)))  # type: ignore[union-attr]
    return found


def consistency(session: Session, old: str, new: str = "") -> dict[str, Any]:
    """Return the proof that an older head is the beginning of a newer one. Each is given as a size or a checkpoint
    file. Raises Forked if it is not."""
    hashes = _hashes(session)
    before, after = _note_of(session, old), _note_of(session, new) if new else _last_note(session, 0)
    if not 0 < before[0] <= after[0] <= len(hashes):
        raise Refused(
            f"{before[0]} and {after[0]} are not an older and a newer size of a ledger of {len(hashes)} entries",
            hint="see `kfm audit verify`",
        )
    way = merkle.consistency_proof(hashes[: after[0]], before[0])
    proof = _proof("consistency", after[1], way, old=before[1])
    _check_beginning(session, before, after, way)
    return proof


def _check_beginning(session: Session, before: tuple[int, str], after: tuple[int, str], way: list[bytes]) -> None:
    keys, names = verifiers(session, "")
    (old, new), _ = _opened([before[1], after[1]], keys, names) if before != after else (_twice(before, keys, names), 0)
    if not merkle.is_beginning(old.size, new.size, bytes.fromhex(old.root), bytes.fromhex(new.root), way):
        raise Forked(
            f"the ledger of {old.size} entries is not the beginning of the one of {new.size}",
            hint="one of the two checkpoints is of another history: see `kfm audit verify --checkpoint FILE`",
        )


def _twice(note: tuple[int, str], keys: Trusted, names: Sequence[Verifier]) -> tuple[TreeHead, TreeHead]:
    (head,), _ = _opened([note[1]], keys, names)
    return head, head


class Forked(KfmError):
    """Two signed heads of one ledger contradict each other."""

    code = "ledger.forked"
    exit_code = EXIT["forked"]


def _proof(kind: str, note: str, way: Sequence[bytes], **more: Any) -> dict[str, Any]:
    hashes = [each.hex() for each in way]
    return {"format": "kfm-proof/1", "kind": kind, **more, "hashes": hashes, "checkpoint": note}


def _hashes(session: Session) -> list[bytes]:
    return [merkle.leaf_hash(leaf) for leaf in session.state.ledger.leaves()]


def _index_of(session: Session, what: str) -> int:
    if what.isascii() and what.isdigit() and len(what) <= 12:
        return int(what)
    run_id = find_run(session, what)
    for entry in session.state.ledger.entries():
        if entry.run_id == run_id:
            return entry.index
    raise Refused(f"run {run_id} has no entry yet", hint="it has not ended: `kfm resume`")


def _last_note(session: Session, index: int) -> tuple[int, str]:
    notes = list(session.state.ledger.checkpoints())
    if not notes or notes[-1][0] < index:
        raise Refused(
            f"no signed checkpoint covers entry {index}" if notes else "the ledger has no signed checkpoint",
            hint="`kfm audit export` signs one, where `ledger.sign_with` is set",
        )
    return notes[-1]


def _note_of(session: Session, what: str) -> tuple[int, str]:
    if what.isascii() and what.isdigit() and len(what) <= 12:
        for size, note in session.state.ledger.checkpoints():
            if size == int(what):
                return size, note
        sizes = ", ".join(str(size) for size, _ in session.state.ledger.checkpoints())
        raise Refused(f"there is no checkpoint of {what} entries", hint=f"there are: {sizes or 'none'}")
    note = read_note(what)
    keys, names = verifiers(session, "")
    heads, _ = _opened([note], keys, names)
    return heads[0].size, note
