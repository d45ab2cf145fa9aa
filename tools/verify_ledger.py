"""Verifies an export of the ledger. Shares no code with KFM: the standard library, and Ed25519 from `cryptography`.

python verify_ledger.py LEDGER.json --key NAME+HINT+KEY [--checkpoint FILE …]

LEDGER.json has every entry on a line of its own: that line, without its comma, is the leaf. What is checked:

1. Entries are numbered 1, 2, 3 …, and each names the SHA-256 of the one before it (`prev`).
2. The Merkle tree of RFC 6962 over the leaves has the root that each signed checkpoint names for its size: those in
   the file, and those given with --checkpoint, which somebody kept elsewhere. One shorter than these was cut.
3. Every checkpoint is signed with the key given (Ed25519, C2SP signed-note), and the last one covers all entries.

Exit: 0 intact, 2 usage, 65 tampered, 66 cut off or forked, 67 badly signed, 68 not covered by a checkpoint.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

DASH = "\u2014 "


class Bad(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


def exactly(text: str) -> bytes:
    """Base64 in its one form."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Bad(67, "a checkpoint holds no base64 where it should") from None
    if base64.b64encode(raw).decode() != text:
        raise Bad(67, "a checkpoint holds base64 in another form")
    return raw


def key_of(text: str) -> tuple[str, bytes, bytes]:
    """Name, hint and public key of NAME+HINT+KEY."""
    name, hint, key = text.strip().split("+", 2)
    raw = base64.b64decode(key, validate=True)
    if len(raw) != 33 or raw[0] != 1 or hashlib.sha256(f"{name}\n".encode() + raw).hexdigest()[:8] != hint:
        raise ValueError("not a key")
    return name, bytes.fromhex(hint), raw[1:]


def checkpoint(note: str, key: tuple[str, bytes, bytes], origin: str) -> tuple[int, bytes]:
    """Size and root that a note says, if it is signed with the key."""
    text, blank, below = note.rpartition("\n\n")
    text += "\n"
    if not blank or not below.endswith("\n") or any(c < " " and c != "\n" for c in note):
        raise Bad(67, "a checkpoint is no signed note")
    name, hint, public = key
    signed = 0
    for line in below[:-1].split("\n"):
        who, space, signature = line.removeprefix(DASH).partition(" ")
        if not line.startswith(DASH) or not space:
            raise Bad(67, "a checkpoint has a line that is no signature")
        raw = exactly(signature)
        if who == name and raw[:4] == hint:
            try:
                Ed25519PublicKey.from_public_bytes(public).verify(raw[4:], text.encode())
            except (InvalidSignature, ValueError):
                raise Bad(67, "the signature of a checkpoint does not fit it") from None
            signed += 1
    if not signed:
        raise Bad(67, "a checkpoint is not signed with the key given")
    lines = text.split("\n")
    if len(lines) < 4 or lines[0] != origin:
        raise Bad(67, "a checkpoint is of another ledger")
    if not (lines[1].isascii() and lines[1].isdigit() and str(int(lines[1])) == lines[1]):
        raise Bad(67, "a checkpoint has no size")
    root = exactly(lines[2])
    if len(root) != 32:
        raise Bad(67, "a checkpoint has no root")
    return int(lines[1]), root


def head_of(line: bytes) -> tuple[str, list[str]]:
    """Origin and checkpoints, from the first line."""
    try:
        head = json.loads(line.removesuffix(b"\n") + b"]}")
        if list(head) != ["format", "origin", "checkpoints", "entries"] or head["entries"] != []:
            raise ValueError
        texts = [head["format"], head["origin"], *head["checkpoints"]]
        if head["format"] != "kfm-ledger/1" or not all(isinstance(text, str) for text in texts):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise Bad(65, "the file is no export of a ledger") from None
    return head["origin"], head["checkpoints"]


def leaves_of(lines: Iterator[bytes]) -> Iterator[bytes]:
    """The entries, byte for byte; the lines must be as they are written."""
    comma = None
    for line in lines:
        if line == b"]}\n":
            if comma or next(lines, None) is not None:
                raise Bad(65, "the file does not end as it should")
            return
        if comma is False:
            raise Bad(65, "there is no comma between two entries")
        comma = line.endswith(b",\n")
        yield line[: -2 if comma else -1]
    raise Bad(65, "the file is cut off")


def root_of(stack: list[tuple[int, bytes]]) -> bytes:
    """Whole subtrees, the largest first, as one tree."""
    root = stack[-1][1] if stack else hashlib.sha256(b"").digest()
    for _, left in stack[-2::-1]:
        root = hashlib.sha256(b"\1" + left + root).digest()
    return root


def follow(leaves: Iterator[bytes], heads: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    """Chain and tree, entry by entry, against the checkpoints."""
    decode, sha256 = json.JSONDecoder().decode, hashlib.sha256
    before = "sha256:" + "0" * 64
    stack: list[tuple[int, bytes]] = []
    sizes = {size for size, _ in heads}
    count = 0
    for count, leaf in enumerate(leaves, 1):
        if count - 1 in sizes:
            compare(count - 1, stack, heads)
        try:
            entry = decode(str(leaf, "utf-8"))
            right = entry["index"] == count and type(entry["index"]) is int and entry["prev"] == before
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Bad(65, f"entry {count} cannot be read") from None
        if not right:
            raise Bad(65, f"entry {count} does not follow the one before it")
        before = "sha256:" + sha256(leaf).hexdigest()
        height, node = 0, sha256(b"\0" + leaf).digest()
        while stack and stack[-1][0] == height:
            node = sha256(b"\1" + stack.pop()[1] + node).digest()
            height += 1
        stack.append((height, node))
    compare(count, stack, heads)
    return count, root_of(stack)


def compare(count: int, stack: list[tuple[int, bytes]], heads: list[tuple[int, bytes]]) -> None:
    if any(size == count and root != root_of(stack) for size, root in heads):
        raise Bad(66, f"the first {count} entries are not those of the checkpoint of {count}")


def verify(lines: Iterable[bytes], key: str, held: Iterable[str] = ()) -> tuple[int, str]:
    """The exit code and what is said. Lines are as a file gives them, each with its end."""
    try:
        trusted = key_of(key)
    except ValueError:
        return 2, "the key does not look like NAME+HINT+KEY"
    try:
        rest = iter(lines)
        origin, notes = head_of(next(rest, b""))
        heads = [checkpoint(note, trusted, origin) for note in (*held, *notes)]
        if not heads:
            raise Bad(68, "there is no checkpoint")
        count, root = follow(leaves_of(rest), heads)
        covered = max(size for size, _ in heads)
        if covered > count:
            raise Bad(66, f"a checkpoint is of {covered} entries, and there are {count}: the end was cut off")
        if covered < count:
            raise Bad(68, f"entries {covered + 1} to {count} are covered by no checkpoint")
    except Bad as bad:
        return bad.code, str(bad)
    return 0, f"intact: {count} entries, root {root.hex()}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="verify_ledger.py", description="Verifies an export of the ledger.")
    parser.add_argument("ledger")
    parser.add_argument("--key", required=True, help="NAME+HINT+KEY, from whoever runs the ledger, by another way")
    parser.add_argument("--checkpoint", action="append", default=[], help="a checkpoint that was kept elsewhere")
    words = parser.parse_args(arguments)
    held = []
    for name in words.checkpoint:
        with open(name, encoding="utf-8", newline="") as file:
            held.append(file.read())
    with open(words.ledger, "rb") as file:
        code, said = verify(file, words.key, held)
    print(said, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
