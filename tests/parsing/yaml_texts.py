"""Random values, written as YAML in the many ways in which people write it."""

from __future__ import annotations

import json
import random
from typing import Any

TEXTS = [
    "a", "plain text", "x: y", "# no comment", "it's", 'say "so"', "", " led", "1", "true", "2026-01-01", "ä😀", "a#b",
    "- x", "{", "[1]", "line\nbreak", "\u2028", "~", "null", "a, b", "@", "%", "!", "&", "*", "?", "|", ">",
]  # fmt: skip
COMMENTS = ("# why", "# a: b", "# - y", "# {", "# about it")
KEYS = ["a", "b", "key", "two words", "x-y", "x.y", "kfm", "a:b", "1", "true", "ünï", "#", "'"]


def value(pick: random.Random, depth: int = 3) -> Any:
    """A mapping, a list, or what is in them."""
    kind = pick.randrange(10) if depth else 9
    if kind < 4:
        return {key: value(pick, depth - 1) for key in pick.sample(KEYS, pick.randrange(4))}
    if kind < 6:
        return [value(pick, depth - 1) for _ in range(pick.randrange(4))]
    return pick.choice([*TEXTS, *TEXTS, 0, -7, 1.5, True, False, None])


class Writer:
    """Writes a value as one person would: with their indentation, line ends, quotes, comments and empty lines."""

    def __init__(self, pick: random.Random) -> None:
        self.pick = pick
        self.step = pick.choice((2, 2, 4, 3))
        self.hangs = pick.random() < 0.5  # the dashes of a list stand in the column of its key
        self.comments = pick.choice((0, 0.1, 0.4))

    def document(self, content: dict[str, Any]) -> str:
        lines = self.mapping(content, 0) if content else ["{}"]
        if self.pick.random() < 0.2:
            lines = ["---", *lines]
        text = "\n".join(lines) + "\n" * self.pick.randrange(3)
        if self.pick.random() < 0.3:
            text = text.replace("\n", "\r\n")
        return ("\ufeff" if self.pick.random() < 0.1 else "") + text

    def mapping(self, content: dict[str, Any], indent: int) -> list[str]:
        lines: list[str] = []
        for key, each in content.items():
            lines += self.between(indent)
            lines += self.behind(f"{' ' * indent}{self.text(key, is_key=True)}:", each, indent)
        return lines

    def behind(self, head: str, each: Any, indent: int) -> list[str]:
        """The value of a key or of a dash, on the same line or below it."""
        if isinstance(each, dict) and each and self.pick.random() < 0.7:
            return [head + self.comment(), *self.mapping(each, indent + self.step)]
        if isinstance(each, list) and each and self.pick.random() < 0.7:
            return [head + self.comment(), *self.items(each, indent if self.hangs else indent + self.step)]
        if isinstance(each, str) and "\n" in each and self.pick.random() < 0.7:
            pad = " " * (indent + self.step)
            return [f"{head} |-{self.comment()}", *(pad + line for line in each.split("\n"))]
        if each is None and self.pick.random() < 0.5:
            return [head + self.comment()]
        return [f"{head}{' ' * self.pick.choice((1, 1, 3))}{self.flow(each)}{self.comment()}"]

    def items(self, content: list[Any], indent: int) -> list[str]:
        lines: list[str] = []
        for each in content:
            lines += self.between(indent)
            if isinstance(each, dict) and each and self.pick.random() < 0.8:
                inside = self.mapping(each, indent + 2)
                at = next(n for n, line in enumerate(inside) if line.strip() and line.lstrip()[0] != "#")
                lines += [*inside[:at], f"{' ' * indent}- {inside[at][indent + 2 :]}", *inside[at + 1 :]]
            else:
                lines.append(f"{' ' * indent}- {self.flow(each)}{self.comment()}")
        return lines

    def flow(self, each: Any) -> str:
        space = self.pick.choice(("", "", " "))
        if isinstance(each, dict):
            inside = f",{self.pick.choice((' ', ' ', '   '))}".join(
                f"{self.text(key, is_key=True)}: {self.flow(one)}" for key, one in each.items()
            )
            return f"{{{space}{inside}{self.tail(each)}{space}}}"
        if isinstance(each, list):
            return f"[{space}{', '.join(map(self.flow, each))}{self.tail(each)}{space}]"
        return self.text(each) if isinstance(each, str) else json.dumps(each)

    def tail(self, each: Any) -> str:
        return "," if each and self.pick.random() < 0.1 else ""

    def text(self, text: str, *, is_key: bool = False) -> str:
        if (
            text in ("a", "b", "key", "plain text", "x-y", "x.y", "kfm", "two words", "ünï")
            and self.pick.random() < 0.6
        ):
            return text
        if text.isprintable() and self.pick.random() < 0.5:
            return "'" + text.replace("'", "''") + "'"
        return json.dumps(text)

    def comment(self) -> str:
        return f"  {self.pick.choice(COMMENTS)}" if self.pick.random() < self.comments else ""

    def between(self, indent: int) -> list[str]:
        lines = []
        if self.pick.random() < self.comments:
            lines.append(f"{' ' * self.pick.choice((0, indent))}{self.pick.choice(COMMENTS)}")
        if self.pick.random() < 0.1:
            lines.append("")
        return lines
