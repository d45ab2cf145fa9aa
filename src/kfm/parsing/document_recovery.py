"""Reads a file with syntax errors as far as possible, so that all of them are found, and the mistakes in the rest.

A block that does not parse is left out: an entry of a section (one dataset, one label), or a section if the error is on
its first line. Each syntax error is therefore in a block of its own, and none follows from another.
"""

from __future__ import annotations

import re
from typing import Any

from kfm.errors import BadInput
from kfm.parsing import documents
from kfm.parsing.documents import Document, Path

MOST = 20  # syntax errors of one file
_MOST_BYTES = 2 << 20  # read in all attempts together
_KEY = re.compile(rb" *(?:\"([^\"]+)\"|'([^']+)'|([^\s#:\"'\[\]{}-][^#:]*?))\s*:(?:\s|$)")


def read_all(body: bytes, where: str, *, json: bool) -> Document:
    """Return the parsed document with all syntax errors of the file among its collected mistakes. If no part of the
    file parses, the document is an empty mapping, and no part of it is reported as missing."""
    problems: list[BadInput] = []
    left_out: list[Path] = []
    document = None
    while document is None:
        try:
            document = documents.read(body, where, json=json)
        except BadInput as problem:
            if not (problems and _is_empty(body)):
                problems.append(problem)
            line = problem.fields.get("line")
            again = not json and len(problems) < MOST and len(problems) * len(body) < _MOST_BYTES
            if again and isinstance(line, int) and not _is_empty(body):
                body, path = _without_block(body.split(b"\n"), line - 1)
                left_out += [path] if path else []
            else:
                document = Document({}, where, lambda _: None)
                document.assumed.add(())
    document.collect().extend(problems)
    if isinstance(document.value, dict):
        for path in left_out:
            _stand_in(document, document.value, path)
    return document


def _is_empty(body: bytes) -> bool:
    return not any(_is_content(line) for line in body.split(b"\n"))


def _is_content(line: bytes) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(b"#")


def _indent(line: bytes) -> int:
    line = line.expandtabs(8)  # a tab belongs to the entry that it was meant to indent
    return len(line) - len(line.lstrip(b" "))


def _without_block(lines: list[bytes], at: int) -> tuple[bytes, Path]:
    """Return the text with the block around a line blanked, and the path of that block in the document; () if it is not
    known."""
    at = min(at, len(lines) - 1)
    section = _start(lines, at, 0)
    start, depth, path = section, 0, _key(lines[section])
    if start < at and not lines[start].startswith((b"---", b"...", b"- ")):
        depth = next((_indent(line) for line in lines[section + 1 :] if _is_content(line)), 0)
        entry = _start(lines, at, depth)
        if depth and entry > section:
            start = entry
            path = (*path, *(_key(lines[entry]) or (0,))) if path else ()
    end = start + 1
    if lines[start].startswith((b"---", b"...")):
        end = len(lines)
    while end < len(lines) and not (_is_content(lines[end]) and _indent(lines[end]) <= depth):
        end += 1
    kept = [b"" if start <= n < max(end, at + 1) else line for n, line in enumerate(lines)]
    return b"\n".join(kept), path


def _start(lines: list[bytes], at: int, depth: int) -> int:
    """Return the number of the nearest line, at `at` or above it, that is indented by at most `depth`."""
    while at > 0 and not (_is_content(lines[at]) and _indent(lines[at]) <= depth):
        at -= 1
    return at


def _key(line: bytes) -> tuple[str, ...]:
    found = _KEY.match(line)
    return (next(filter(None, found.groups())).decode("utf-8", "replace"),) if found else ()


def _stand_in(document: Document, value: dict[Any, Any], path: Path) -> None:
    """Add an empty value for a part that was left out, so that references to that part are not reported as mistakes."""
    section = path[0]
    if len(path) == 1:
        if section not in value:
            document.assumed.add(path)
    elif path[1] == 0:  # an entry of a list
        value[section] = value.get(section) or []
    else:
        inside = value.get(section) or {}
        if isinstance(inside, dict) and path[1] not in inside:
            value[section] = inside
            inside[path[1]] = {}
            document.assumed.add(path)
