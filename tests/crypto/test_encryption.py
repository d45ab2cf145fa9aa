"""Encrypted bytes: published test vectors, and inputs that must not decrypt."""

from __future__ import annotations

import builtins
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.crypto import encryption
from kfm.crypto.custodian_key import CustodianKey, hkdf
from kfm.crypto.encryption import CHUNK, HEADER, TAG, decrypted, encrypted, encrypted_size, encryption_key_id
from kfm.errors import BadInput, Corrupt, Denied
from kfm.model.secret import Secret
from tests.crypto.world import custodian_key
from tests.sampling import tries

VECTORS = Path(__file__).parent / "vectors"
KEY, OTHER = custodian_key("one"), custodian_key("two")
WHOLE = CHUNK + TAG


def keys(*known: CustodianKey) -> encryption.Keys:
    return {key.key_id: key for key in known}.get


def seal(body: bytes, key: CustodianKey = KEY, step: int = 100_003) -> bytes:
    return b"".join(encrypted((body[at : at + step] for at in range(0, len(body), step)), key))


def unseal(body: bytes, step: int = 70_001) -> bytes:
    return b"".join(decrypted((body[at : at + step] for at in range(0, len(body), step)), keys(KEY)))


def noise(size: int) -> bytes:
    return hashlib.shake_128(size.to_bytes(8, "big")).digest(size)


def test_the_cipher_answers_as_rfc_5297_says() -> None:
    for case in json.loads((VECTORS / "aes_siv_rfc5297.json").read_text())["tests"]:
        made = AESSIV(bytes.fromhex(case["key"])).encrypt(
            bytes.fromhex(case["msg"]), [bytes.fromhex(each) for each in case["aad"]]
        )
        assert made.hex() == case["ct"]


def test_the_cipher_answers_as_wycheproof_says() -> None:
    cases = json.loads((VECTORS / "aes_siv_wycheproof.json").read_text())["tests"]
    refused = 0
    for case in cases:
        key, aad, ct = (bytes.fromhex(case[name]) for name in ("key", "aad", "ct"))
        if case["result"] == "valid":
            assert AESSIV(key).encrypt(bytes.fromhex(case["msg"]), [aad]) == ct, case["why"]
            assert AESSIV(key).decrypt(ct, [aad]).hex() == case["msg"], case["why"]
        else:
            refused += 1
            with pytest.raises(InvalidTag):
                AESSIV(key).decrypt(ct, [aad])
    assert len(cases) == 148 and refused > 50


def test_keys_are_derived_as_rfc_5869_says() -> None:
    okm = (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    )
    ikm = b"\x0b" * 22
    assert hkdf(ikm, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42).hex() == okm[0]
    assert hkdf(ikm, b"", b"", 42).hex() == okm[1]


def test_a_chunk_can_be_decrypted_from_the_format_alone() -> None:
    """Written from the page that says the format, with nothing of ours but the key."""
    body = noise(CHUNK + 5)
    made = seal(body)
    cipher = AESSIV(KEY.derived("seal/aes-siv-256", 32).reveal())
    header, first, last = made[:32], made[32 : 32 + WHOLE], made[32 + WHOLE :]
    assert header[:16] == b"KFMSEAL\x01\x10" + bytes(7) and header[16:].hex() == KEY.key_id
    one = cipher.decrypt(first, [header + bytes(8) + b"\0" + bytes(16)])
    assert one + cipher.decrypt(last, [header + bytes(7) + b"\1" + b"\1" + first[:16]]) == body


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 17])
def test_what_was_sealed_is_opened_and_sealed_again_is_the_same_bytes(size: int) -> None:
    body = noise(size)
    made = seal(body)
    assert len(made) == encrypted_size(size)
    assert unseal(made) == body
    assert seal(body, step=CHUNK) == seal(body, step=4 * CHUNK) == made
    assert encryption_key_id(made) == KEY.key_id
    assert hashlib.sha256(seal(body, OTHER)).digest() != hashlib.sha256(made).digest()


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.binary(max_size=3000), max_size=6), st.integers(1, 5000))
def test_however_it_is_cut_it_is_the_same(blocks: list[bytes], step: int) -> None:
    made = b"".join(encrypted(blocks, KEY))
    assert made == seal(b"".join(blocks))
    assert unseal(made, step) == b"".join(blocks)


def test_nothing_of_the_bytes_shows() -> None:
    body = b"39.0437,-95.6892;14SH301\n" * 20_000
    made = seal(body)
    assert b"14SH301" not in made and b"95.6892" not in made
    pieces = [made[at : at + 16] for at in range(HEADER, len(made) - 16, 16)]
    assert len(set(pieces)) == len(pieces), "rows that repeat do not show as repeating"


def chunks(made: bytes) -> tuple[bytes, list[bytes]]:
    return made[:HEADER], [made[at : at + WHOLE] for at in range(HEADER, len(made), WHOLE)]


def test_chunks_that_are_cut_off_left_out_moved_doubled_or_of_another_file_do_not_open() -> None:
    head, own = chunks(seal(noise(4 * CHUNK + 9)))
    _, other = chunks(seal(noise(CHUNK) + noise(3 * CHUNK + 8) + b"x"))
    same_start = noise(4 * CHUNK + 9)[: 2 * CHUNK] + noise(2 * CHUNK + 9)
    _, sibling = chunks(seal(same_start))
    assert sibling[:2] == own[:2] and sibling[2] != own[2]
    wrong = {f"cut after {n}": own[:n] for n in range(5)}
    wrong |= {f"without {n}": own[:n] + own[n + 1 :] for n in range(5)}
    wrong |= {f"twice {n}": [*own[: n + 1], *own[n:]] for n in range(5)}
    wrong |= {
        f"{a} and {b} swapped": [own[b] if n == a else own[a] if n == b else own[n] for n in range(5)]
        for a in range(4)
        for b in range(a + 1, 4)
    }
    wrong |= {f"{n} of another file": [*own[:n], other[n], *own[n + 1 :]] for n in range(4)}
    wrong |= {f"{n} of a file that begins alike": [*own[:n], sibling[n], *own[n + 1 :]] for n in (2, 3, 4)}
    wrong |= {"more at the end": [*own, b"x" * 40], "a file after it": [*own, head, *own]}
    for name, parts in wrong.items():
        with pytest.raises(Corrupt):
            unseal(head + b"".join(parts))
            pytest.fail(name)


def test_every_bit_of_a_sealed_file_counts() -> None:
    made = seal(b"a small file")
    for at in range(len(made) * 8):
        bent = bytearray(made)
        bent[at // 8] ^= 1 << at % 8
        with pytest.raises((Corrupt, Denied)):
            unseal(bytes(bent))
        known = bytes(bent[:HEADER])
        assert at >= 128 or encryption_key_id(known) == "", (
            "of a header that is not ours nobody says whose key it takes"
        )
    for size in range(len(made)):
        with pytest.raises((Corrupt, Denied)):
            unseal(made[:size])


def test_without_the_key_it_is_denied_and_plain_bytes_are_not_taken_for_sealed() -> None:
    with pytest.raises(Denied, match=OTHER.key_id):
        unseal(seal(b"x", OTHER))
    with pytest.raises(Denied):  # somebody's keys answer with another key
        list(decrypted([seal(b"x", OTHER)], lambda _name: KEY))
    with pytest.raises(Corrupt, match="are not"):
        unseal(b"id,latitude,longitude\n" * 10)
    assert encryption_key_id(b"id,latitude,longitude\n" * 10) == encryption_key_id(b"KFM") == ""


def test_a_key_that_can_be_guessed_is_refused_and_none_is_ever_shown() -> None:
    for weak in (b"", b"short", b"a" * 64, b"ab" * 32):
        with pytest.raises(BadInput):
            CustodianKey(Secret(weak))
    shown = f"{KEY!r} {KEY} {KEY.derived('x')!r}"
    assert KEY.key_id in shown and hashlib.sha512(b"one").hexdigest()[:8] not in shown
    assert KEY.derived("a").reveal() != KEY.derived("b").reveal()


def test_where_the_library_is_missing_all_is_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError("no", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Denied, match="not installed"):
        encryption.Encryptor(KEY)
    with pytest.raises(Denied, match="not installed"):
        from kfm.crypto.signatures import is_signed

        is_signed(b"", b"", b"")
