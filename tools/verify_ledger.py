"""Verifies an export of the ledger, or a proof. Shares no code with KFM: the standard library, and Ed25519.

python verify_ledger.py FILE --key NAME+HINT+KEY [--checkpoint FILE …]

An export has every entry on a line of its own: that line, without its comma, is the leaf. What is checked:
1. Entries are numbered 1, 2, 3 …, and each names the SHA-256 of the one before it (`prev`).
2. The Merkle tree of RFC 6962 over the leaves has the root that each signed checkpoint names for its size: those in
   the file, and those given with --checkpoint, which somebody kept elsewhere. One shorter than these was cut.
3. Every checkpoint is signed with the key given (Ed25519, C2SP signed-note), and the last one covers all entries.
Of a proof: that its entry is in the ledger of its checkpoint, or that of the old checkpoint is its beginning.
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


class Bad(Exception):
    """An exit code, and why."""


def exactly(text: str) -> bytes:
    raw = base64.b64decode(text)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("base64 in another form")
    return raw


def key_of(text: str) -> tuple[str, bytes, bytes]:
    name, hint, key = text.strip().split("+", 2)
    raw = exactly(key)
    if len(raw) != 33 or raw[0] != 1 or hashlib.sha256(f"{name}\n".encode() + raw).hexdigest()[:8] != hint:
        raise ValueError("not a key")
    return name, bytes.fromhex(hint), raw[1:]


def checkpoint(note: str, key: tuple[str, bytes, bytes], origin: str) -> tuple[int, bytes]:
    """Size and root that a note says, if it is signed with the key."""
    text, blank, below = note.rpartition("\n\n")
    (name, hint, public), signed, whole = key, 0, bool(blank) and below.endswith("\n")
    try:
        for line in below.removesuffix("\n").split("\n"):
            dash, who, signature = line.split(" ")
            raw, whole = exactly(signature), whole and dash == "\u2014"
            if who == name and raw[:4] == hint:
                Ed25519PublicKey.from_public_bytes(public).verify(raw[4:], f"{text}\n".encode())
                signed += 1
        whole = whole and not any(c < " " and c != "\n" for c in note)
        said, size, root = (*text.split("\n"), "", "")[:3]
        if whole and signed and said == origin and str(int(size)) == size.lstrip("-") and len(exactly(root)) == 32:
            return int(size), exactly(root)
    except (InvalidSignature, ValueError):
        pass
    raise Bad(67, "a checkpoint is not signed with the key given, or is of another ledger")


def head_of(line: bytes) -> tuple[str, list[str]]:
    head = json.loads(line.removesuffix(b"\n") + b"]}")
    texts = [head["format"], head["origin"], *head["checkpoints"]]
    named = list(head) == ["format", "origin", "checkpoints", "entries"] and head["entries"] == []
    if not named or texts[0] != "kfm-ledger/1" or not all(isinstance(text, str) for text in texts):
        raise ValueError
    return texts[1], texts[2:]


def leaves_of(lines: Iterator[bytes]) -> Iterator[bytes]:
    """The entries, byte for byte; the lines must be as they are written."""
    comma = None
    for line in lines:
        if line == b"]}\n" and not comma and next(lines, None) is None:
            return
        if comma is False:
            raise Bad(65, "the file does not end as it should, or there is no comma between two entries")
        comma = line.endswith(b",\n")
        yield line[: -2 if comma else -1]
    raise Bad(65, "the file is cut off")


def pair(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def compare(count: int, stack: list[tuple[int, bytes]], heads: list[tuple[int, bytes]]) -> bytes:
    """The root of whole subtrees, the largest first, which is that of every checkpoint of this size."""
    root = stack[-1][1] if stack else hashlib.sha256(b"").digest()
    for _, left in stack[-2::-1]:
        root = pair(left, root)
    if any(size == count and named != root for size, named in heads):
        raise Bad(66, f"the first {count} entries are not those of the checkpoint of {count}")
    return root


def follow(leaves: Iterator[bytes], heads: list[tuple[int, bytes]]) -> tuple[int, bytes]:
    decode, sha256 = json.JSONDecoder().decode, hashlib.sha256
    before, stack, sizes, count = "sha256:" + "0" * 64, list[tuple[int, bytes]](), {size for size, _ in heads}, 0
    for count, leaf in enumerate(leaves, 1):
        if count - 1 in sizes:
            compare(count - 1, stack, heads)
        try:
            entry = decode(str(leaf, "utf-8"))
            if entry["index"] != count or type(entry["index"]) is not int or entry["prev"] != before:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise Bad(65, f"entry {count} cannot be read, or does not follow the one before it") from None
        before = "sha256:" + sha256(leaf).hexdigest()
        height, node = 0, sha256(b"\0" + leaf).digest()
        while stack and stack[-1][0] == height:
            node = sha256(b"\1" + stack.pop()[1] + node).digest()
            height += 1
        stack.append((height, node))
    return count, compare(count, stack, heads)


def climb(node: bytes, at: int, size: int, way: list[bytes]) -> bytes:
    """The root above leaf `at`, by the siblings on its way up."""
    if size == 1:
        return node
    cut, other = 1 << (size - 1).bit_length() - 1, way.pop()
    left = at < cut
    return pair(climb(node, at, cut, way), other) if left else pair(other, climb(node, at - cut, size - cut, way))


def grow(old: int, new: int, root: bytes, way: list[bytes]) -> tuple[bytes, bytes]:
    """The roots of the first `old` and of all `new` leaves; `root` is the old one, while nothing is left of it."""
    if old == new:
        return (both := root or way.pop()), both
    cut, other = 1 << (new - 1).bit_length() - 1, way.pop()
    left = old <= cut
    before, after = grow(old, cut, root, way) if left else grow(old - cut, new - cut, b"", way)
    return (before, pair(after, other)) if left else (pair(other, before), pair(other, after))


def proved(body: bytes, key: tuple[str, bytes, bytes]) -> str:
    """What a proof shows."""
    proof = json.loads(body)
    size, root = checkpoint(proof["checkpoint"], key, key[0])
    way = [bytes.fromhex(each) for each in proof["hashes"]]
    if proof["kind"] == "inclusion":
        leaf = proof["entry"].encode()
        index, hashed = json.loads(leaf)["index"], hashlib.sha256(b"\0" + leaf).digest()
        said = f"entry {index} is in the ledger of {size}"
        good = index == proof["index"] and 1 <= index <= size and climb(hashed, index - 1, size, way) == root
    else:
        old, old_root = checkpoint(proof["old"], key, key[0])
        said = f"the ledger of {old} entries is the beginning of that of {size}"
        good = 1 <= old <= size and grow(old, size, old_root, way) == (old_root, root)
    if way or not good:
        raise Bad(66, f"it is not shown that {said}")
    return said


def verify(lines: Iterable[bytes], key: str, held: Iterable[str] = ()) -> tuple[int, str]:
    """The exit code and what is said. Lines are as a file gives them, each with its end."""
    try:
        trusted = key_of(key)
    except ValueError:
        return 2, "the key does not look like NAME+HINT+KEY"
    try:
        rest = iter(lines)
        first = next(rest, b"")
        if b"kfm-ledger/" not in first:
            return 0, proved(first + b"".join(rest), trusted)
        origin, notes = head_of(first)
        heads = [checkpoint(note, trusted, origin) for note in (*held, *notes)]
        count, root = follow(leaves_of(rest), heads)
        covered = max((size for size, _ in heads), default=0)
        if covered != count or not heads:
            why = "cut off" if covered > count else "not covered to the end"
            raise Bad(66 if covered > count else 68, f"{why}: {count} entries, and the last checkpoint of {covered}")
    except Bad as bad:
        return bad.args[0], bad.args[1]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return 65, "the file is neither an export of a ledger nor a proof"
    return 0, f"intact: {count} entries, root {root.hex()}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Verifies an export of the ledger, or a proof.")
    parser.add_argument("file")
    parser.add_argument("--key", required=True, help="NAME+HINT+KEY, from whoever runs the ledger, by another way")
    parser.add_argument("--checkpoint", action="append", default=[], help="a checkpoint that was kept elsewhere")
    words = parser.parse_args(arguments)
    held = [open(name, "rb").read().decode() for name in words.checkpoint]  # noqa: SIM115
    with open(words.file, "rb") as file:
        code, said = verify(file, words.key, held)
    print(said, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
