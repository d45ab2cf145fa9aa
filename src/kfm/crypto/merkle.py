"""The Merkle tree of RFC 6962 over the ledger's leaves, and its proofs.

The hash of a leaf is SHA-256(0 | leaf), that of a node SHA-256(1 | left | right). Leaves are numbered from 0 here,
ledger entries from 1. The root commits to all leaves; a proof of a few hashes shows that a leaf is among them, or that
a smaller tree is the beginning of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from kfm.errors import Corrupt

HASH = 32
EMPTY = hashlib.sha256(b"").digest()  # the root of no leaves
_sha256 = hashlib.sha256


def leaf_hash(leaf: bytes) -> bytes:
    return _sha256(b"\0" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return _sha256(b"\1" + left + right).digest()


class Frontier:
    """A growing tree: its size, and the roots of its complete subtrees, the largest first.

    A commit needs only this to add a leaf and name the new root: one row of 8 bytes plus 32 for each 1 bit of the size,
    written in the transaction that writes the leaf.
    """

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)

    def append(self, hashed: bytes) -> None:
        """Add a leaf by its hash."""
        peaks = self.peaks
        size = self.size
        while size & 1:
            hashed = _sha256(b"\1" + peaks.pop() + hashed).digest()
            size >>= 1
        peaks.append(hashed)
        self.size += 1

    def root(self) -> bytes:
        return _folded(self.peaks) if self.peaks else EMPTY

    def packed(self) -> bytes:
        return self.size.to_bytes(8, "big") + b"".join(self.peaks)

    @classmethod
    def unpacked(cls, body: bytes) -> Frontier:
        size = int.from_bytes(body[:8], "big")
        if len(body) != 8 + HASH * size.bit_count():
            raise Corrupt("the stored tree of the ledger does not match its size", hint="see `kfm doctor --deep`")
        return cls(size, (body[at : at + HASH] for at in range(8, len(body), HASH)))


def _folded(hashes: Sequence[bytes]) -> bytes:
    """Return the root over roots of subtrees, the largest first."""
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Return the root of a tree from the hashes of all its leaves."""
    if not hashes:
        return EMPTY
    level = list(hashes)
    while len(level) > 1:
        pairs = iter(level)
        above = [_sha256(b"\1" + left + right).digest() for left, right in zip(pairs, pairs, strict=False)]
        if len(level) & 1:
            above.append(level[-1])
        level = above
    return level[0]


def inclusion_proof(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the proof that leaf `index` is in this tree: the sibling hashes on its way to the root."""
    assert 0 <= index < len(hashes)
    proof = []
    level = list(hashes)
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            proof.append(level[sibling])
        pairs = iter(level)
        above = [node_hash(left, right) for left, right in zip(pairs, pairs, strict=False)]
        if len(level) & 1:
            above.append(level[-1])
        level, index = above, index >> 1
    return proof


def consistency_proof(hashes: Sequence[bytes], old: int) -> list[bytes]:
    """Return the proof that the tree of the first `old` leaves is the beginning of this tree."""
    assert 0 < old <= len(hashes)
    return _subproof(hashes, old, whole=True)


def _subproof(hashes: Sequence[bytes], old: int, *, whole: bool) -> list[bytes]:
    size = len(hashes)
    if old == size:
        return [] if whole else [root_of(hashes)]
    cut = 1 << ((size - 1).bit_length() - 1)
    if old <= cut:
        return [*_subproof(hashes[:cut], old, whole=whole), root_of(hashes[cut:])]
    return [*_subproof(hashes[cut:], old - cut, whole=False), root_of(hashes[:cut])]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether the proof shows that the leaf with this hash is at this index (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size or not _hashes_only((leaf, root, *proof)):
        return False
    at, last, made = index, size - 1, leaf
    for other in proof:
        if not last:
            return False
        if at & 1 or at == last:
            made = node_hash(other, made)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            made = node_hash(made, other)
        at, last = at >> 1, last >> 1
    return not last and made == root


def is_beginning(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the old tree is the beginning of the new one (RFC 9162, 2.1.4.2)."""
    if not 0 < old <= new or not _hashes_only((old_root, new_root, *proof)):
        return False
    if old == new:
        return not proof and old_root == new_root
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    was = now = path[0]
    for other in path[1:]:
        if not last:
            return False
        if at & 1 or at == last:
            was, now = node_hash(other, was), node_hash(other, now)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            now = node_hash(now, other)
        at, last = at >> 1, last >> 1
    return not last and was == old_root and now == new_root


def _hashes_only(hashes: Iterable[bytes]) -> bool:
    return all(len(each) == HASH for each in hashes)
