"""A secret that code cannot show by accident."""

from __future__ import annotations

from typing import NoReturn

SHORTEST = 32  # bytes; a shorter one can be guessed


class Secret:
    """Bytes that no repr, text, log line or JSON encoder reveals; only `reveal` returns them."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret cannot be pickled")
