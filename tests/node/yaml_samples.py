"""Makes YAML and JSON texts, good and broken: what people write, and mutations of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

WORDS = (
    "a", "b", "kfm", "state", "memory", "datasets", "updater", "u.py:U", "title", "no", "on", "12:30", "2026-01-01",
    "http://h:1/?a=b#c", "a b", "x-y", "é", "😀", "a:b", "-1", "- b", "1", "1.0", "1e3", "0x1F", "0o17", "010", "+7",
    ".5", "5.", "1e999", ".inf", "~", "null", "True", "FALSE", "9007199254740993", "1_000", "<<", "=", "a#b", "a #b",
    "---", "...",
)  # fmt: skip
BITS = (
    " ", "  ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", ":", ": ", " :", "- ", "-", "? ", "#", " # c", "'", '"',
    "''", "\\", "\\n", "\\x41", "\\u00e9", "\\ud83d\\ude00", "\\ud800", "\\U0001F600", "\\\n", "[", "]", "{", "}",
    ",", ", ", "|", ">", "|-", ">+", "|2", ">1-", "&a", "*a", "!", "!!str ", "%", "%YAML 1.2\n", "@", "`", "---\n",
    "...\n", "--- ", "\x00", "\x7f", "\x85", "\u2028", "\ufeff", "\ufffe", "\u00a0",
)  # fmt: skip


def scalar(pick: random.Random) -> str:
    word = pick.choice(WORDS)
    kind = pick.randrange(8)
    if kind < 4:
        return word
    if kind == 4:
        return "'" + word.replace("'", "''") + "'"
    if kind == 5:
        return json.dumps(word, ensure_ascii=pick.random() < 0.5)
    if kind == 6:
        return word + " " + pick.choice(WORDS)
    return (
        '"'
        + word.replace('"', "")
        + pick.choice(("\\n", "\\t", "\\\\", "\\/", "\\e", "\\x41", "\\u263a", " ", ""))
        + '"'
    )


def flow(pick: random.Random, room: int) -> str:
    kind = pick.randrange(3 if room else 1)
    if kind == 0:
        return scalar(pick)
    gap = pick.choice(("", " ", "", "\n  ", " # c\n "))
    items = []
    for _ in range(pick.randrange(4)):
        item = flow(pick, room - 1)
        items.append(item if kind == 1 else f"{scalar(pick)}{pick.choice((': ', ': ', ':', ' : '))}{item}")
    inside = pick.choice((", ", ",", ",\n ")).join(items) + pick.choice(("", "", "", ","))
    return f"[{gap}{inside}{gap}]" if kind == 1 else f"{{{gap}{inside}{gap}}}"


def block(pick: random.Random, indent: int, room: int) -> str:
    """Lines, the first without its indentation."""
    pad = " " * indent
    kind = pick.randrange(8 if room else 5)
    if kind < 2:
        return scalar(pick) + pick.choice(("", "", " # c", "  ")) + "\n"
    if kind == 2:
        return flow(pick, 2) + pick.choice(("", "", " # c")) + "\n"
    if kind == 3:
        return block_text(pick, indent)
    if kind == 4:
        more = "".join(f"{pad}{' ' * pick.randrange(3)}{pick.choice(WORDS)}\n" for _ in range(pick.randrange(3)))
        return pick.choice(("", '"', "'")) + pick.choice(WORDS) + "\n" + pick.choice(("", "\n")) + more
    items = pick.randrange(1, 4)
    out = ""
    for number in range(items):
        lead = pad if number else ""
        lead += pick.choice(("", "", "", "", "# c\n" + pad, "\n" + pad))
        if kind == 5:
            deeper = indent + 2
            out += f"{lead}- {block(pick, deeper, room - 1)}"
        else:
            out += f"{lead}{scalar(pick)}:" + member(pick, indent, room)
    return out


def member(pick: random.Random, indent: int, room: int) -> str:
    kind = pick.randrange(4)
    if kind == 0:
        return pick.choice((" ", " ", "\t", "  ")) + flow(pick, 2) + "\n"
    if kind == 1:
        return " " + block_text(pick, indent + 1)
    if kind == 2:
        deeper = indent + pick.choice((0, 1, 2, 2, 4))
        return "\n" + " " * deeper + block(pick, deeper, room - 1)
    return " " + scalar(pick) + "\n"


def block_text(pick: random.Random, indent: int) -> str:
    header = pick.choice("|>") + pick.choice(("", "", "+", "-", "2", "1-", "+3")) + pick.choice(("", " # c"))
    lines = [
        pick.choice(("", " ", "   ", "\t", "  ", "")) + pick.choice((*WORDS, "", "")) for _ in range(pick.randrange(5))
    ]
    pad = " " * (indent + pick.choice((0, 1, 2)))
    return header + "\n" + "".join((pad if line or pick.random() < 0.5 else "") + line + "\n" for line in lines)


def broken(pick: random.Random, text: str) -> str:
    """The same with something put in, taken out, doubled or cut off."""
    for _ in range(pick.choice((0, 1, 1, 1, 2, 3))):
        at = pick.randrange(len(text) + 1)
        kind = pick.randrange(5)
        if kind == 0:
            text = text[:at] + pick.choice(BITS) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + pick.randrange(1, 6) :]
        elif kind == 2:
            text = text[:at] + text[max(0, at - pick.randrange(1, 20)) :]
        elif kind == 3:
            text = text[:at]
        else:
            text = text[:at] + pick.choice(WORDS) + text[at:]
    return text


def from_bits(pick: random.Random) -> str:
    return "".join(pick.choice((*BITS, *WORDS)) for _ in range(pick.randrange(12)))


def yaml_text(pick: random.Random, examples: list[str]) -> str:
    kind = pick.randrange(5)
    if kind == 0:
        return broken(pick, pick.choice(examples))
    if kind == 1:
        return from_bits(pick)
    text = pick.choice(("", "", "", "---\n", "# c\n", "\n")) + block(pick, 0, pick.randrange(4))
    return text if kind < 4 else broken(pick, text)
