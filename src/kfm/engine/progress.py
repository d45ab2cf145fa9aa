"""Reports the progress of downloads: the bytes so far, and the total if it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from kfm.model.ports import Objects, Staging

Progress = Callable[[str, int, int], None]


def counted(objects: Objects, progress: Progress, expected: int) -> Objects:
    """Return a view of the object store that reports the progress of every write. `expected` is the previous size of
    the source, or 0; the size that the server announces replaces it."""
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
        """Set the total size that the server announced, for the progress display."""
        self._total = total

    def write(self, chunk: bytes) -> None:
        self._real.write(chunk)
        self._done += len(chunk)
        self._progress("fetch", self._done, self._total if self._done <= self._total else 0)

    def commit(self) -> tuple[str, int]:
        return self._real.commit()

    def abort(self) -> None:
        self._real.abort()
