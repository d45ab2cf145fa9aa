"""Value types that the sections share, and functions over single settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta

from kfm.parsing.documents import Path

Text = Annotated[str, Meta(min_length=1, max_length=4096)]
Seconds = Annotated[float, Meta(gt=0, le=31_536_000)]
Interval = Annotated[float, Meta(ge=0, le=31_536_000)]
Days = Annotated[int, Meta(ge=1, le=36_500)]
ID_PATTERN = "^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield each setting with its path, such as execute.threads. A list of plain values is one setting."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    else:
        yield path, value


def given(raw: Any, path: Path) -> bool:
    for part in path:
        in_mapping = isinstance(raw, dict) and part in raw
        in_list = isinstance(raw, list) and isinstance(part, int) and part < len(raw)
        if not in_mapping and not in_list:
            return False
        raw = raw[part]
    return True
