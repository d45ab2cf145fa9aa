"""Publish in two places: receipts and events in a private one, all other files in a public one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kfm.model.ports import PublicFile, Publisher
from kfm.model.records import Difference, Effect

PRIVATE = ("receipts", "events")  # the first parts of the paths of private files


class SplitPublisher:
    """Publishes in two places with one trace."""

    def __init__(self, public: Publisher, private: Publisher) -> None:
        self._public = public
        self._private = private
        self._trace: list[Effect] = []

    @property
    def trace(self) -> list[Effect]:
        return self._trace

    @property
    def shares_files(self) -> bool:
        return self._public.shares_files

    def noop_guard(self) -> bool:
        return self._public.noop_guard()

    def _place(self, path: str) -> Publisher:
        return self._private if path.partition("/")[0] in PRIVATE else self._public

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        place = self._place(path)
        self._traced(place, lambda: place.write_file(path, digest, size, key, body))

    def write_files(self, folder: str, files: Iterable[PublicFile], check: Callable[[], None]) -> None:
        self._traced(self._public, lambda: self._public.write_files(folder, files, check))

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        self._traced(self._public, lambda: self._public.remove_file(path, key, check))

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        self._public.remove_rest(folder, check)

    def has_file(self, path: str, digest: str) -> bool:
        return self._place(path).has_file(path, digest)

    def sync_removed(self, check: Callable[[], None]) -> None:
        self._public.sync_removed(check)

    def digest_of_file(self, path: str) -> str | None:
        return self._place(path).digest_of_file(path)

    def names(self, folder: str) -> list[str]:
        return self._place(folder).names(folder)

    def datasets(self) -> list[str]:
        return self._public.datasets()

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:
        return self._public.differences(dataset, expected, gone)

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        self._traced(self._private, lambda: self._private.emit_event(event, key))

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        self._traced(self._public, lambda: self._public.update_metadata(target, value, key))

    def publish_release(self, name: str, files: list[str], key: str) -> None:
        self._traced(self._public, lambda: self._public.publish_release(name, files, key))

    def _traced(self, place: Publisher, work: Callable[[], None]) -> None:
        """Do the work, and move the effects of the place into this trace, also if the work fails halfway."""
        try:
            work()
        finally:
            for effect in place.trace:
                self._trace.append(msgspec.structs.replace(effect, seq=len(self._trace) + 1))
            place.trace.clear()
