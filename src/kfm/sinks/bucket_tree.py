"""A bucket as a place for files by path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import TypeVar

from kfm.bucket import Bucket, Found
from kfm.errors import Busy
from kfm.model.keys import digest as digest_of
from kfm.model.names import check_path
from kfm.sinks.bucket_files import AT_A_TIME, SUM, digest_of_bytes, media_type
from kfm.sinks.file_tree import Recognises

_HEAD = 1 << 20  # bytes of an object by which KFM recognises it
A = TypeVar("A")
B = TypeVar("B")


class BucketTree:
    """Implements FileTree over a bucket, several requests at a time. An object is replaced only if it is still the one
    that was looked at. `connect` is called at the first request."""

    def __init__(self, connect: Callable[[], Bucket]) -> None:
        self._connect = connect
        self._seen: dict[str, Found | None] = {}  # what `unknown` found, until it is written

    @cached_property
    def _bucket(self) -> Bucket:
        return self._connect()

    def digests_of(self, paths: Sequence[str]) -> Iterator[str | None]:
        yield from _each(lambda path: digest_of_bytes(self._bucket, check_path(path)) or None, paths)

    def holds(self, path: str, digest: str) -> bool:
        found = self._bucket.find(check_path(path))
        return found is not None and found.attributes.get(SUM) == digest

    def unknown(self, paths: Sequence[str], recognises: Recognises) -> set[str]:
        self._seen = {}
        found = list(_each(partial(self._is_unknown, recognises=recognises), paths))
        return {path for path, is_unknown in zip(paths, found, strict=True) if is_unknown}

    def _is_unknown(self, path: str, recognises: Recognises) -> bool:
        """Return whether others wrote an object. They put a whole object there, without the digest that KFM stores with
        each of its own."""
        found = self._bucket.find(check_path(path))
        self._seen[path] = found
        if found is None or SUM in found.attributes:
            return False
        start = self._bucket.read_start(path, _HEAD) if found.size else None
        return not recognises(path, b"" if start is None else bytes(start[0]))

    def write(self, files: Sequence[tuple[str, bytes]]) -> int:
        return sum(_each(self._write, files))

    def _write(self, file: tuple[str, bytes]) -> bool:
        path, body = file
        name = digest_of(body)
        found = self._seen.pop(path) if path in self._seen else self._bucket.find(check_path(path))
        if found is not None and found.attributes.get(SUM) == name:
            return False
        attributes = {"Content-Type": media_type(path), "Cache-Control": "no-cache", SUM: name}
        if found is None:
            done = self._bucket.create(path, body, attributes)
        else:
            done = self._bucket.replace(path, body, found.etag, attributes)
        if not done and not self.holds(path, name):  # else it was written, and the answer was lost
            raise Busy(f"{path} was changed while it was written", hint="`kfm resume` looks again")
        return True

    def remove(self, path: str) -> bool:
        if self._bucket.find(check_path(path)) is None:
            return False
        self._bucket.remove(path)
        return True

    def remove_below(self, folder: str, paths: Sequence[str]) -> int:  # noqa: ARG002 - a bucket has no folders
        for _ in _each(lambda path: self._bucket.remove(check_path(path)), paths):
            pass
        return len(paths)

    def names(self, folder: str) -> list[str]:
        return self._bucket.files(check_path(folder))

    def folders(self) -> list[str]:
        return self._bucket.folders("")


def _each(work: Callable[[A], B], of: Sequence[A]) -> Iterator[B]:
    """Yield the results in order, several at a time. After a failure nothing more is begun."""
    if not of:
        return
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield from pool.map(work, of)
