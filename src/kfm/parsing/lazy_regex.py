"""Regular expressions that are compiled on first use, so that a start of the program compiles none in vain."""

from __future__ import annotations

import re
from typing import Any


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self._arguments = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._arguments), name)
        setattr(self, name, found)  # the next access finds it without __getattr__
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern like `re.compile`; an invalid text raises on first use."""
    found: Any = _Pattern(text, int(flags))
    return found  # type: ignore[no-any-return]
