"""Bytes on their way into the store, told as they come: how many, and of how many where that is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kfm.model.ports import Objects, Staging

Progress = Callable[[str, int, int], None]


def counted(objects: Objects, progress: Progress, expected: int) -> Objects:
    """The same store. `expected`: the size it had the last time, until somebody knows better; 0: nobody knows."""
    return cast(Objects, _Counted(objects, progress, expected))


class _Counted:
    def __init__(self, objects: Objects, progress: Progress, expected: int) -> None:
        self._objects = objects
        self._progress = progress
        self._expected = expected

    def stage(self) -> Staging:
        return _Staging(self._objects.stage(), self._progress, self._expected)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)


class _Staging:
    def __init__(self, real: Staging, progress: Progress, expected: int) -> None:
        self._real = real
        self._progress = progress
        self._total = expected
        self._done = 0

    def expect(self, total: int) -> None:
        """Of whom the bytes come said how many there are."""
        self._total = total

    def write(self, chunk: bytes) -> None:
        self._real.write(chunk)
        self._done += len(chunk)
        self._progress("fetch", self._done, self._total if self._done <= self._total else 0)

    def commit(self) -> tuple[str, int]:
        return self._real.commit()

    def abort(self) -> None:
        self._real.abort()
