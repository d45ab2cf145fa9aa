"""Write YAML with a serializer, so that a name can only become text. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Pinned(NamedTuple):
    """A GitHub action pinned by commit, and the version of that commit."""

    uses: str
    version: str


def yaml(document: dict[str, Any]) -> str:
    return "\n".join(_lines(document, 0)) + "\n"


def _lines(value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _pair(f"{indent}{_key(key)}:", item, depth)
    else:
        for item in value:
            inner = list(_lines(item, depth + 1)) if isinstance(item, dict) and item else [f"{indent}  {_scalar(item)}"]
            yield f"{indent}- {inner[0].lstrip()}"
            yield from inner[1:]


def _pair(head: str, item: Any, depth: int) -> Iterator[str]:
    if isinstance(item, Pinned):
        yield f"{head} {item.uses} # {item.version}"
    elif isinstance(item, (dict, list)) and item:
        yield head
        yield from _lines(item, depth + 1)
    elif isinstance(item, str) and "\n" in item:
        yield f"{head} |"
        yield from (f"{'  ' * (depth + 1)}{line}" for line in item.rstrip("\n").split("\n"))
    else:
        yield f"{head} {_scalar(item)}"


def _key(key: str) -> str:
    return json.dumps(key) if key == "on" else key  # YAML 1.1 reads `on` as true


def _scalar(value: Any) -> str:
    """Return a value as JSON, which is valid YAML."""
    return json.dumps(value)
