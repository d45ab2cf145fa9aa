"""What stands around a table in its file and is no row of it: lines above it, comments, a row of units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from kfm.model.records import DataContract

T = TypeVar("T")


class Skips(NamedTuple):
    lines: int  # above the table, whatever is in them
    comment: str  # with which a line begins that is none; empty: there are none
    after_header: int  # rows

    def table(self, blocks: Iterator[str], delimiter: str) -> Iterator[str]:
        """The same runs of whole lines without what is no row. A line inside quotes is part of a value, and stays."""
        left = self.lines
        quoted = False
        for block in blocks:
            if left:
                found = lines_of(block)
                block = "".join(found[left:])
                left -= min(left, len(found))
            if self.comment and (quoted or self.comment in block):
                kept = []
                for line in lines_of(block):
                    if quoted or not line.startswith(self.comment):
                        quoted = ends_quoted(line, delimiter, quoted)
                        kept.append(line)
                block = "".join(kept)
            elif self.comment and '"' in block:
                for line in lines_of(block):
                    quoted = ends_quoted(line, delimiter, quoted)
            if block:
                yield block


def skips_of(contract: DataContract) -> Skips | None:
    """What a contract says of it; None: the file is the table."""
    skips = Skips(_plain(contract.skip_lines, 0), _plain(contract.comment, ""), _plain(contract.skip_after_header, 0))
    return skips if any(skips) else None


def _plain(value: T | msgspec.UnsetType, nothing: T) -> T:
    return nothing if isinstance(value, msgspec.UnsetType) else value


def comment_problem(contract: DataContract) -> str:
    """Why lines cannot be told to be comments by what the contract says, or empty."""
    comment = _plain(contract.comment, "")
    if any(sign in comment for sign in '"\r\n\0'):
        return "holds a quote or a line ending"
    if comment and comment.startswith(contract.delimiter):
        return "begins with the delimiter, as a row may"
    return ""


def lines_of(block: str) -> list[str]:
    """With their endings. Not splitlines: to it a form feed, too, ends a line."""
    if "\r" not in block:
        found = block.split("\n")
        last = found.pop()
        lines = [line + "\n" for line in found]
        return [*lines, last] if last else lines
    import io

    return list(io.StringIO(block, newline=""))


def ends_quoted(line: str, delimiter: str, quoted: bool) -> bool:
    """Whether a value is still within quotes at the end of a line. A quote opens at the start of a field only."""
    at, end = 0, len(line)
    if not quoted and '"' not in line:
        return False
    while at < end:
        if quoted:
            close = line.find('"', at)
            if close < 0:
                return True
            at = close + 1
            if line.startswith('"', at):  # doubled: part of the value
                at += 1
                continue
            quoted = False
        elif line.startswith('"', at):
            at, quoted = at + 1, True
            continue
        field = line.find(delimiter, at)
        if field < 0:
            return False
        at = field + 1
    return quoted
