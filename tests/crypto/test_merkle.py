"""The tree and its proofs, against the values of RFC 6962's reference implementation and against the definition."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.crypto import merkle
from kfm.crypto.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    is_beginning,
    is_included,
    leaf_hash,
    root_of,
)
from kfm.errors import Corrupt
from tests.sampling import tries

LEAVES = [
    bytes.fromhex(text)
    for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def hashes(size: int) -> list[bytes]:
    return [leaf_hash(str(n).encode()) for n in range(size)]


def defined(leaves: list[bytes]) -> bytes:
    """MTH, word for word."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + defined(leaves[:k]) + defined(leaves[k:])).digest()


def test_the_roots_are_those_of_certificate_transparency() -> None:
    tree = Frontier()
    for size, root in enumerate(ROOTS):
        known = [leaf_hash(leaf) for leaf in LEAVES[:size]]
        assert tree.root().hex() == root_of(known).hex() == defined(known).hex() == root
        if size < len(LEAVES):
            tree.append(leaf_hash(LEAVES[size]))


def test_the_proofs_are_those_of_certificate_transparency() -> None:
    known = [leaf_hash(leaf) for leaf in LEAVES]
    assert [each.hex() for each in inclusion_proof(known, 5)] == [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]
    assert [each.hex() for each in consistency_proof(known, 6)] == [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


def test_every_leaf_of_every_small_tree_is_proved_and_at_no_other_place() -> None:
    for size in range(1, 33):
        known = hashes(size)
        root = root_of(known)
        for index in range(size):
            proof = inclusion_proof(known, index)
            assert is_included(known[index], index, size, proof, root)
            for other in range(-1, size + 2):
                assert is_included(known[index], other, size, proof, root) == (other == index)
            assert not is_included(leaf_hash(b"x"), index, size, proof, root)
            assert not is_included(known[index], index, size, [*proof, root], root)
            assert not proof or not is_included(known[index], index, size, proof[:-1], root)


def test_every_beginning_of_every_small_tree_is_proved_and_no_other() -> None:
    for size in range(1, 33):
        known = hashes(size)
        for old in range(1, size + 1):
            proof = consistency_proof(known, old)
            was, now = root_of(known[:old]), root_of(known)
            assert is_beginning(old, size, was, now, proof)
            assert not is_beginning(old, size, leaf_hash(b"x"), now, proof)
            assert not is_beginning(old, size, was, leaf_hash(b"x"), proof)
            assert not is_beginning(old, size, was, now, [*proof, now])
            for at in range(len(proof)):
                assert not is_beginning(old, size, was, now, proof[:at] + proof[at + 1 :])
                assert not is_beginning(old, size, was, now, [*proof[:at], leaf_hash(b"x"), *proof[at + 1 :]])


@settings(max_examples=tries(40), deadline=None)
@given(st.integers(0, 600), st.integers(0, 100))
def test_a_tree_that_is_written_down_and_read_grows_as_one_that_was_not(size: int, more: int) -> None:
    tree = Frontier()
    for each in hashes(size):
        tree.append(each)
    again = Frontier.unpacked(tree.packed())
    for each in hashes(size + more)[size:]:
        again.append(each)
    assert again.size == size + more and again.root() == defined(hashes(size + more))


def test_a_tree_that_does_not_fit_its_size_is_refused() -> None:
    tree = Frontier()
    for each in hashes(7):
        tree.append(each)
    for body in (b"", tree.packed()[:-1], tree.packed() + bytes(32), bytes(7) + b"\x08" + tree.packed()[8:]):
        with pytest.raises(Corrupt):
            Frontier.unpacked(body)
    assert Frontier.unpacked(bytes(8)).root() == merkle.EMPTY
