"""A publisher that changes nothing and keeps the same trace as one that does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kfm.errors import Busy, StorageFailed
from kfm.model.canonical import canonical
from kfm.model.keys import digest as digest_of
from kfm.model.ports import Lock, PublicFile
from kfm.model.records import Difference, Effect


class TracingPublisher(ABC):
    """The base class of publishers: it keeps the trace of effects, and subclasses do the work."""

    shares_files = True

    def __init__(self, *, dry_run: bool) -> None:
        self._dry_run = dry_run
        self._trace: list[Effect] = []

    @property
    def trace(self) -> list[Effect]:
        return self._trace

    def noop_guard(self) -> bool:
        """Say whether this publisher changes nothing."""
        return self._dry_run

    def has_file(self, path: str, digest: str) -> bool:  # noqa: ARG002
        """Return True: what was reported as published is taken to be there."""
        return True

    @abstractmethod
    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """Publish a file. `key` names the effect: the same file is written once."""

    def write_files(self, folder: str, files: Iterable[PublicFile], check: Callable[[], None]) -> None:  # noqa: ARG002
        """Write one file after the other."""
        for path, digest, size, key, body in files:
            self.write_file(path, digest, size, key, _checked(body, check))

    def sync_removed(self, check: Callable[[], None]) -> None:
        """Do nothing: a removal is durable at once."""

    def _note(self, method: Any, target: str, digest: str, size: int, key: str) -> None:
        self._trace.append(
            Effect(
                seq=len(self._trace) + 1,
                method=method,
                target=target,
                digest=digest,
                size=size,
                key=key,
                dry_run=self._dry_run,
            )
        )


def _checked(body: Iterable[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    """Yield the body of a file after a check: the publisher now holds its lock and is about to write."""
    check()
    yield from body


class NoopPublisher(TracingPublisher):
    def __init__(self, *, dry_run: bool = True, shares_files: bool = True) -> None:
        super().__init__(dry_run=dry_run)
        self.shares_files = shares_files

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:  # noqa: ARG002
        self._note("write_file", path, digest, size, key)

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:  # noqa: ARG002
        self._note("remove_file", path, "", 0, key)

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """Do nothing: this publisher writes no files."""

    def datasets(self) -> list[str]:
        return []

    def digest_of_file(self, path: str) -> str | None:  # noqa: ARG002
        """Return None: nothing is outside."""
        return None

    def names(self, folder: str) -> list[str]:  # noqa: ARG002
        return []

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:  # noqa: ARG002
        """Return no differences: nothing is expected outside."""
        return []

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        body = canonical(event)
        self._note("emit_event", str(event.get("type", "")), digest_of(body), len(body), key)

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        body = canonical(value)
        self._note("update_metadata", target, digest_of(body), len(body), key)

    def publish_release(self, name: str, files: list[str], key: str) -> None:
        body = canonical({"name": name, "files": files})
        self._note("publish_release", name, digest_of(body), len(body), key)


@contextmanager
def publish_turn(opened: Callable[[], Lock]) -> Iterator[None]:
    """Hold the lock while the block runs. Busy if others keep it; StorageFailed if it cannot be taken at all."""
    import time

    lock = opened()
    try:
        for _ in range(1000):
            if _taken(lock):
                break
            time.sleep(0.01)
        else:
            raise Busy("another process is publishing", hint="the commit is kept; `kfm resume` publishes it later")
        yield
    finally:
        lock.close()


def _taken(lock: Lock) -> bool:
    try:
        return lock.take()
    except OSError as problem:
        raise StorageFailed(
            f"cannot publish a file: {problem.strerror}",
            hint="free some space or fix the folder, then run `kfm resume`",
        ) from problem
