"""Holds canonical JSON, as Python writes and reads it, against Node.

`python -m tests.node.fuzz_canonical [COUNT] [SEED]` prints what they differ in.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Iterator
from typing import Any

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.parsing.strict_json import decode, ecmascript_number
from tests.node.twin import Twin, batches, encoded, essence, refusal

CHARACTERS = "aZ09 _-.\"\\/'\x00\x08\x1f\x7f\x80\xe9\u2028\ud7ff\ue000\ufb33\uffff\U00010000\U0001f600\U0010ffff"
NUMBERS = (
    "0", "-0", "1", "-1", "9007199254740992", "9007199254740993", "-9007199254740993", "123456789012345678901",
    "1.0", "-0.0", "1e5", "1E+400", "1e-400", "5e-324", "1e21", "0.1e-6", "01", "1.", ".5", "+1", "1e", "NaN",
    "-Infinity",
)  # fmt: skip
CUTS = (
    '"', "\\", "{", "}", "[", "]", ",", ":", " ", "\n", "\t", "\x0b", "\x01", "\\u",
    "\\ud800", "\\udc00", "\\x", "NaN", "é", "😀",
)  # fmt: skip


def doubles(pick: random.Random, count: int) -> Iterator[float]:
    """Any bits at all, and numbers near the edges where their writing changes."""
    for _ in range(count):
        kind = pick.randrange(4)
        if kind == 0:
            value = struct.unpack(">d", pick.randbytes(8))[0]
        elif kind == 1:
            value = pick.randrange(-(2**60), 2**60) / 2 ** pick.randrange(70)
        elif kind == 2:
            value = float(f"{pick.randrange(10 ** pick.randrange(1, 18))}e{pick.randrange(-330, 300)}")
        else:
            value = 10.0 ** pick.choice((-7, -6, -5, 15, 16, 20, 21, 22)) * (1 + pick.randrange(-3, 4) * 2**-52)
        if value - value == 0:
            yield value


def text(pick: random.Random) -> str:
    return "".join(pick.choice(CHARACTERS) for _ in range(pick.randrange(7)))


def value(pick: random.Random, room: int) -> Any:
    kind = pick.randrange(8 if room else 5)
    if kind == 0:
        return pick.choice((None, True, False))
    if kind == 1:
        return pick.randrange(-(2**53), 2**53 + 1) >> pick.randrange(54)
    if kind == 2:
        return next(doubles(pick, 10))
    if kind <= 4:
        return text(pick)
    if kind == 5:
        return [value(pick, room - 1) for _ in range(pick.randrange(5))]
    return {text(pick): value(pick, room - 1) for _ in range(pick.randrange(6))}


def json_text(pick: random.Random) -> bytes:
    """JSON as people and machines write it, then perhaps broken."""
    written = json.dumps(
        value(pick, pick.randrange(5)), ensure_ascii=pick.random() < 0.3, indent=pick.choice((None, None, 1))
    )
    for _ in range(pick.choice((0, 0, 0, 1, 1, 2, 4))):
        at = pick.randrange(len(written) + 1)
        kind = pick.randrange(4)
        if kind == 0:
            written = written[:at] + pick.choice(NUMBERS) + written[at:]
        elif kind == 1:
            written = written[:at] + pick.choice(CUTS) + written[at:]
        elif kind == 2:
            written = written[:at] + written[at + pick.randrange(1, 4) :]
        else:
            again = written[at : at + pick.randrange(1, 20)]
            written = written[:at] + again + written[at:]
    if pick.random() < 0.01:
        depth = pick.choice((199, 200, 201, 300, 5000))
        written = pick.choice(("[", '{"a":')) * depth + written + pick.choice(("", "]" * depth))
    body = written.encode("utf-8", "surrogatepass")
    if pick.random() < 0.05:
        at = pick.randrange(len(body) + 1)
        body = (
            body[:at] + pick.choice((b"\xff", b"\xed\xa0\x80", b"\xf0\x90", b"\xc0\x80", b"\xef\xbb\xbf")) + body[at:]
        )
    return body


def read(body: bytes) -> dict[str, Any]:
    try:
        return {"ok": canonical(decode(body, "the text")).decode()}
    except BadInput as problem:
        return refusal(problem)


def run(count: int, seed: int) -> list[str]:
    """`count` numbers written and `count` // 10 texts read, by both. What they differ in, if anything."""
    pick = random.Random(seed)
    differences = []
    with Twin() as twin:
        for numbers in batches(doubles(pick, count), 5000):
            answer = twin.ask("doubles", [struct.pack(">d", number).hex() for number in numbers])["ok"]
            for number, theirs in zip(numbers, answer, strict=True):
                ours = canonical(number).decode()
                if not ours == theirs == ecmascript_number(number):
                    differences.append(f"{number!r}: {ours} here, {theirs} in Node")
        for texts in batches(json_text(pick) for _ in range(count // 10)):
            answers = twin.ask_all([("decode", encoded(body)) for body in texts])
            for body, theirs in zip(texts, answers, strict=True):
                if read(body) != essence(theirs):
                    differences.append(f"{body!r}:\n  {read(body)} here\n  {theirs} in Node")
    return differences


if __name__ == "__main__":
    found = run(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for difference in found[:20]:
        sys.stdout.write(difference[:2000] + "\n")
    sys.stdout.write(f"{len(found)} differences\n")
    sys.exit(bool(found))
