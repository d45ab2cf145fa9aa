"""Signed notes: KFM reads those of other programs and refuses every changed one."""

from __future__ import annotations

import pytest

from kfm.crypto.checkpoints import TreeHead, Unsigned, Verifier, open_checkpoint, open_note, sign_checkpoint, sign_note
from kfm.errors import BadInput
from tests.crypto.world import signer

ORIGIN = "kfm.example.org/ledger"
LEDGER = signer("ledger")
OURS = Verifier(ORIGIN, LEDGER.public)
HEAD = TreeHead(origin=ORIGIN, size=1000, root="ab" * 32)
NOTE = sign_checkpoint(HEAD, LEDGER)

# From the documentation of Go's package note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def test_a_note_of_others_is_read() -> None:
    assert open_note(PETERS, [Verifier.parsed(PETER)]).endswith("your problem is.\n")
    known = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8"
    assert str(Verifier.parsed(known)) == known


def test_a_checkpoint_says_what_was_signed() -> None:
    assert NOTE.startswith(f"{ORIGIN}\n1000\nq6ur")
    assert open_checkpoint(NOTE, [OURS], ORIGIN) == HEAD
    assert open_checkpoint(NOTE, [Verifier.parsed(str(OURS))]) == HEAD
    assert sign_checkpoint(HEAD, LEDGER) == NOTE, "the same checkpoint again is the same bytes"


def test_signatures_of_others_are_passed_over_and_a_bad_one_of_ours_is_not() -> None:
    line = PETERS.rpartition("\n\n")[2]
    assert open_checkpoint(NOTE + line, [OURS]) == HEAD
    with pytest.raises(Unsigned, match="does not match"):
        open_checkpoint(NOTE + line, [OURS, Verifier.parsed(PETER)])
    with pytest.raises(Unsigned, match="no trusted key"):
        open_checkpoint(NOTE, [Verifier.parsed(PETER)])
    with pytest.raises(Unsigned):
        open_checkpoint(NOTE, [Verifier(ORIGIN, signer("other").public)])
    with pytest.raises(Unsigned):
        open_checkpoint(NOTE, [])


def test_no_character_of_a_checkpoint_can_be_changed() -> None:
    for at in range(len(NOTE)):
        for other in ("x", "\n", "0", "=", ""):
            bent = NOTE[:at] + other + NOTE[at + 1 :]
            if bent != NOTE:
                with pytest.raises(Unsigned):
                    open_checkpoint(bent, [OURS], ORIGIN)
    for size in range(len(NOTE)):
        with pytest.raises(Unsigned):
            open_checkpoint(NOTE[:size], [OURS], ORIGIN)


@pytest.mark.parametrize(
    "text", ["\n", f"{ORIGIN}\n", f"{ORIGIN}\n01\nq6ur\n", f"{ORIGIN}\n-1\n{'A' * 43}=\n", "a\n1\nAA==\n"]
)
def test_a_signed_text_that_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(Unsigned):
        open_checkpoint(sign_note(text, ORIGIN, LEDGER), [OURS])


def test_a_checkpoint_of_another_ledger_is_refused() -> None:
    with pytest.raises(Unsigned, match="another ledger"):
        open_checkpoint(NOTE, [OURS], "kfm.example.org/other")


def test_what_cannot_be_signed_or_is_no_key_is_refused() -> None:
    for text in ("no end", "a\tb\n", "a\r\n"):
        with pytest.raises(BadInput):
            sign_note(text, ORIGIN, LEDGER)
    for name in ("", "a b", "a+b", "a\n"):
        with pytest.raises(BadInput):
            sign_note("text\n", name, LEDGER)
    for text in ("", "a+b", PETER[:-1], PETER.replace("c74f20a3", "c74f20a4"), PETER.replace("Peter", "Petra")):
        with pytest.raises(BadInput):
            Verifier.parsed(text)
    with pytest.raises(BadInput):  # a point of small order, under which one signature fits many texts
        Verifier(ORIGIN, b"\1" + bytes(31))
