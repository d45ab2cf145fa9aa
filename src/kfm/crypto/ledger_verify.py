"""Verifies a ledger: its chain, its tree, and the checkpoints signed over it.

The export is one JSON document in which every entry is a line of its own, byte for byte the leaf of the tree:

    {"format":"kfm-ledger/1","origin":"kfm.example.org/ledger","checkpoints":["…\\n1000\\n…"],"entries":[
    {…},
    {…}
    ]}

The chain reveals changes inside the ledger. The checkpoints reveal entries that were cut off, or rewritten from some
index on. Entries that no checkpoint covers do not count as verified.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from kfm.crypto.checkpoints import TreeHead, Unsigned, Verifier, open_checkpoint
from kfm.crypto.merkle import Frontier
from kfm.model.keys import GENESIS

FORMAT: Final = "kfm-ledger/1"
Kind = Literal["intact", "tampered", "forked", "unsigned", "unverifiable"]
EXIT: dict[Kind, int] = {"intact": 0, "tampered": 65, "forked": 66, "unsigned": 67, "unverifiable": 68}


class LedgerResult(NamedTuple):
    """The result of a verification; `first_bad` is the first invalid entry, 0 if it is unknown."""

    kind: Kind
    why: str
    size: int = 0
    root: str = ""
    first_bad: int = 0
    covered: int = 0  # entries up to the last checkpoint
    head: str = GENESIS  # digest of the last entry


class _Link(msgspec.Struct):
    index: int
    prev: str


_decode_link = msgspec.json.Decoder(_Link).decode
_encode = msgspec.json.Encoder().encode
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class NoLedgerExport(ValueError):
    """The export does not have its canonical form."""


def export_lines(origin: str, leaves: Iterable[bytes], checkpoints: Sequence[str]) -> Iterator[bytes]:
    """Yield the export of a ledger piece by piece. Each leaf is the stored bytes of one ledger entry."""
    head = _encode(_Head(format=FORMAT, origin=origin, checkpoints=list(checkpoints), entries=[]))
    yield head.removesuffix(b"]}")
    comma = b"\n"
    for leaf in leaves:
        yield comma + leaf
        comma = b",\n"
    yield b"\n]}\n"


class _Head(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    format: Literal["kfm-ledger/1"]
    origin: str
    checkpoints: list[str]
    entries: list[int]


def read_export(lines: Iterable[bytes]) -> tuple[str, list[str], Iterator[bytes]]:
    """Return the origin, the checkpoints and the leaves of an exported ledger. The lines are those of the file, with
    their ends. Raise NoLedgerExport if they do not have the form of an export."""
    rest = iter(lines)
    try:
        head = msgspec.json.decode(next(rest, b"").removesuffix(b"\n") + b"]}", type=_Head)
    except _UNREADABLE:
        raise NoLedgerExport("its first line is not that of a ledger export") from None
    if head.entries:
        raise NoLedgerExport("its first line is not that of a ledger export")
    return head.origin, head.checkpoints, _leaves(rest)


def _leaves(rest: Iterator[bytes]) -> Iterator[bytes]:
    more: bool | None = None
    for line in rest:
        if line == b"]}\n":
            if more or next(rest, None) is not None:
                raise NoLedgerExport("its last line is not that of a ledger export")
            return
        if more is False:
            raise NoLedgerExport("a comma between two entries is missing")
        more = line.endswith(b",\n")
        yield line[:-2] if more else line.removesuffix(b"\n")
    raise NoLedgerExport("its last line is missing")


def verify_export(lines: Iterable[bytes], verifiers: Sequence[Verifier], held: Sequence[str] = ()) -> LedgerResult:
    """Verify an export with the checkpoints in it and those that a third party keeps elsewhere."""
    try:
        origin, checkpoints, leaves = read_export(lines)
        return verify_leaves(leaves, [open_checkpoint(note, verifiers, origin) for note in (*held, *checkpoints)])
    except NoLedgerExport as problem:
        return LedgerResult("tampered", str(problem))
    except Unsigned as problem:
        return LedgerResult("unsigned", problem.message)


def verify_leaves(leaves: Iterable[bytes], heads: Iterable[TreeHead], noted: Frontier | None = None) -> LedgerResult:
    """Verify ledger entries against checkpoints whose signatures are verified, and against `noted`, the tree that the
    state stored. Only a checkpoint makes an entry count as covered."""
    wanted: dict[int, set[str]] = {}
    for head in heads:
        wanted.setdefault(head.size, set()).add(head.root)
    for size in sorted(wanted):
        if len(wanted[size]) > 1:
            return LedgerResult("forked", f"two checkpoints of {size} entries differ")
    tree = Frontier()
    append, sha256 = tree.append, hashlib.sha256
    before, count, covered = GENESIS, 0, 0
    if 0 in wanted and wanted[0] != {tree.root().hex()}:
        return LedgerResult("forked", "a checkpoint of an empty ledger has another root")
    for leaf in leaves:
        count += 1
        try:
            link = _decode_link(leaf)
        except _UNREADABLE:
            return LedgerResult("tampered", f"entry {count} cannot be read", count - 1, first_bad=count)
        if link.index != count or link.prev != before:
            return LedgerResult(
                "tampered", f"entry {count} does not follow the one before it", count - 1, first_bad=count
            )
        before = "sha256:" + sha256(leaf).hexdigest()
        append(sha256(b"\0" + leaf).digest())
        if count in wanted:
            if tree.root().hex() not in wanted[count]:
                why = f"entries {covered + 1} to {count} do not match the checkpoint of {count}"
                return LedgerResult("forked", why, count, first_bad=covered + 1)
            covered = count
        if noted is not None and count == noted.size and tree.peaks != noted.peaks:
            return LedgerResult(
                "tampered", f"entries up to {count} do not match the tree", count, first_bad=covered + 1
            )
    root = tree.root().hex()
    whole = max([*wanted, noted.size if noted is not None else 0], default=0)
    if whole > count:
        what = "a checkpoint" if whole in wanted else "the tree"
        return LedgerResult(
            "forked", f"{what} covers {whole} entries, and the ledger has {count}", count, root, count + 1
        )
    if not wanted:
        return LedgerResult("unverifiable", "there is no checkpoint", count, root, 0, 0, before)
    if covered < count:
        why = f"no checkpoint covers entries {covered + 1} to {count}"
        return LedgerResult("unverifiable", why, count, root, covered + 1, covered, before)
    return LedgerResult("intact", f"{count} entries", count, root, 0, covered, before)
