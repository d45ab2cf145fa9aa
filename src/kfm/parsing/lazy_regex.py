"""Patterns that are compiled when they are first used: a start compiles none that nobody asks."""

from __future__ import annotations

import re
from typing import Any


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._said = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._said), name)
        setattr(self, name, found)  # asked once: then it is as near as that of a pattern
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, but what is wrong with the text is told when it is used."""
    found: Any = _Pattern(text, int(flags))
    return found  # type: ignore[no-any-return]
