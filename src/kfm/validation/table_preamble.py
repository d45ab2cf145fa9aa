"""Lines around a table that are no rows of it: lines above it, comments, a row of units."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from kfm.model.records import DataContract

T = TypeVar("T")


class Skips(NamedTuple):
    lines: int  # lines above the table
    comment: str  # the prefix of a comment line; empty: there are no comments
    after_header: int  # rows

    def table(self, blocks: Iterator[str], delimiter: str) -> Iterator[str]:
        """Yield the text in runs of whole lines, without the lines that are no rows. A line inside quotes is part of a
        value, and stays."""
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
    """Return which lines of a source are not rows of its table, by its contract; None if every line is one."""
    skips = Skips(_plain(contract.skip_lines, 0), _plain(contract.comment, ""), _plain(contract.skip_after_header, 0))
    return skips if any(skips) else None


def _plain(value: T | msgspec.UnsetType, nothing: T) -> T:
    return nothing if isinstance(value, msgspec.UnsetType) else value


def comment_problem(contract: DataContract) -> str:
    """Return why comments cannot be recognised by what the contract says; "" if they can."""
    comment = _plain(contract.comment, "")
    if any(sign in comment for sign in '"\r\n\0'):
        return "holds a quote or a line ending"
    if comment and comment.startswith(contract.delimiter):
        return "begins with the delimiter, as a row may"
    return ""


def lines_of(block: str) -> list[str]:
    """Return the lines of a block with their endings. splitlines would also split at a form feed."""
    if "\r" not in block:
        found = block.split("\n")
        last = found.pop()
        lines = [line + "\n" for line in found]
        return [*lines, last] if last else lines
    import io

    return list(io.StringIO(block, newline=""))


def ends_quoted(line: str, delimiter: str, quoted: bool) -> bool:
    """Return whether a value is still within quotes at the end of a line. A quote opens only at the start of a
    field."""
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
