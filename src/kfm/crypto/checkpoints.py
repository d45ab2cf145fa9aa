"""Signed notes (C2SP signed-note) and the checkpoints of the ledger in that form (C2SP tlog-checkpoint).

kfm.example.org/ledger
1000
<root, base64>

— kfm.example.org/ledger <base64 of 4 bytes of key id and the signature>
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable

from kfm.crypto.merkle import HASH
from kfm.crypto.signatures import Signer, check_public, is_signed
from kfm.errors import BadInput, Denied
from kfm.model.records import Record

_ED25519 = b"\x01"
_NAME = re.compile(r"[^\s+\x00-\x1f\x7f]{1,200}\Z")
_LINE = re.compile(r"\u2014 ([^\s+]+) ([A-Za-z0-9+/=]+)\Z")
_SIZE = re.compile(r"(?:0|[1-9][0-9]{0,15})\Z")
_MOST = 1_000_000  # bytes of a note
_MOST_SIGNATURES = 100


class Unsigned(Denied):
    """No trusted key signed the note, or the signature of a trusted key does not match."""

    code = "note.unsigned"


class TreeHead(Record, frozen=True):
    """The content of a checkpoint: the ledger of this name had `size` entries with this root."""

    origin: str
    size: int
    root: str  # hex


class Verifier:
    """A name and a public key that may sign a note."""

    __slots__ = ("hint", "name", "public")

    def __init__(self, name: str, public: bytes) -> None:
        self.name = checked_name(name)
        self.public = check_public(public)
        self.hint = hashlib.sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]

    def __str__(self) -> str:
        """Return name+hint+key, the standard text that an auditor needs."""
        return f"{self.name}+{self.hint.hex()}+{b64encode(_ED25519 + self.public).decode()}"

    @classmethod
    def parsed(cls, text: str) -> Verifier:
        name, _, rest = text.strip().partition("+")
        hint, _, key = rest.partition("+")
        raw = _decoded(key)
        if raw[:1] == _ED25519 and len(raw) == 33:
            found = cls(name, raw[1:])
            if found.hint.hex() == hint:
                return found
        raise BadInput("the text is not a verifier key", hint="it looks like name+1234abcd+AQ…")


def checked_name(name: str) -> str:
    if not _NAME.match(name):
        raise BadInput(
            "the key of a note has no valid name", hint="use one like kfm.example.org/ledger, without spaces"
        )
    return name


def sign_note(text: str, name: str, *signers: Signer) -> str:
    """Return the text, which must end with a line end, and below it one signature per signer."""
    _check_text(text)
    lines = []
    for signer in signers:
        hint = Verifier(name, signer.public).hint
        lines.append(f"\u2014 {name} {b64encode(hint + signer.sign(text.encode())).decode()}\n")
    return text + "\n" + "".join(lines)


def _check_text(text: str) -> None:
    if not text.endswith("\n") or any(ord(c) < 32 and c != "\n" for c in text):
        raise BadInput(
            "a note must end with a line end and hold no other control character",
            hint="see the C2SP signed-note specification",
        )


def open_note(note: str, verifiers: Iterable[Verifier]) -> str:
    """Return the text if one of the verifiers signed it. Raise Unsigned if none did, or if the signature of a verifier
    does not match; signatures of unknown keys are skipped."""
    known = {(each.name, each.hint): each for each in verifiers}
    text, mark, below = note.rpartition("\n\n")
    text += "\n"
    lines = below.split("\n")
    if len(note) > _MOST or not mark or lines.pop() != "" or not 0 < len(lines) <= _MOST_SIGNATURES:
        raise Unsigned("the text is not a signed note", hint="it must end with a blank line and lines of signatures")
    try:
        _check_text(text)
        body = text.encode()
    except (BadInput, UnicodeEncodeError):
        raise Unsigned(
            "the text is not a signed note", hint="it holds control characters, or half a surrogate pair"
        ) from None
    signed = False
    for line in lines:
        found = _LINE.match(line)
        raw = _decoded(found[2]) if found else b""
        if found is None or len(raw) < 5:
            raise Unsigned("a signature line of a note is malformed", hint="use the note exactly as it was written")
        verifier = known.get((found[1], raw[:4]))
        if verifier is not None:
            if not is_signed(verifier.public, raw[4:], body):
                raise Unsigned(
                    f"the signature of {verifier.name} does not match the note",
                    hint="the note was changed: get it again from its origin",
                )
            signed = True
    if not signed:
        raise Unsigned("no trusted key signed the note", hint="add the key of its signer")
    return text


def sign_checkpoint(head: TreeHead, signer: Signer) -> str:
    """Return the signed checkpoint. The key has the name of the ledger, as in other transparency logs."""
    root = b64encode(bytes.fromhex(head.root)).decode()
    return sign_note(f"{checked_name(head.origin)}\n{head.size}\n{root}\n", head.origin, signer)


def open_checkpoint(note: str, verifiers: Iterable[Verifier], origin: str = "") -> TreeHead:
    """Return the content of a signed checkpoint. Raise Unsigned if it is not signed, not a checkpoint, or of another
    ledger; lines below the root are extensions and are ignored."""
    lines = open_note(note, verifiers).split("\n")
    root = _decoded(lines[2]) if len(lines) > 3 else b""
    if len(lines) < 4 or not lines[0] or not _SIZE.match(lines[1]) or len(root) != HASH:
        raise Unsigned("a signed note is not a checkpoint", hint="a checkpoint holds a name, a size and a root")
    if origin and lines[0] != origin:
        raise Unsigned("a checkpoint belongs to another ledger", hint="its first line names the ledger")
    return TreeHead(origin=lines[0], size=int(lines[1]), root=root.hex())


def _decoded(text: str) -> bytes:
    """Return the bytes of a base64 text; empty if the text is not canonical base64."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        return b""
    return raw if b64encode(raw).decode() == text else b""
