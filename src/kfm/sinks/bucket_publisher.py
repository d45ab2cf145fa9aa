"""Publish into an S3 bucket: immutable files, and pointers that only move forward.

A bucket has no folders, no rename and no lock. A file is written in one step: a small one is created only if its name
is free, a large one appears when all its parts have arrived. A pointer is replaced only if it is still the one that was
compared. So neither needs the lock. The lock keeps a withdrawal and the writing of files apart, as no condition of S3
can: whoever removes files waits until nobody writes. A holder of a lock that expired looks again after each write, and
the caller takes back what was withdrawn meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from kfm.bucket import AT_ONCE, Bucket, Found, md5_of, sum_in
from kfm.errors import Busy, Corrupt, StorageFailed, Unavailable
from kfm.model.canonical import canonical
from kfm.model.keys import digest as digest_of
from kfm.model.names import check_path
from kfm.model.ports import Lock, PublicFile
from kfm.model.records import Difference
from kfm.sinks.bucket_files import AT_A_TIME, SUM, digest_of_bytes, media_type
from kfm.sinks.noop import TracingPublisher, publish_turn

BATCH_FILES, BATCH_BYTES = 64, 16 << 20  # files that are written under one lock
ATTEMPTS = 50  # to replace a pointer that others replace too


class BucketPublisher(TracingPublisher):
    """Publishes into a bucket. `lock` opens the lock that one process at a time holds while it adds or removes files.
    `is_latest` says whether a pointer is the state's newest; such a pointer is written even if the state was restored
    from a backup and counts lower."""

    def __init__(
        self,
        bucket: Bucket,
        lock: Callable[[], Lock],
        is_latest: Callable[[Mapping[str, Any]], bool] = lambda _pointer: False,
    ) -> None:
        super().__init__(dry_run=False)
        self._bucket = bucket
        self._open_lock = lock
        self._is_latest = is_latest

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """Write a file. The same bytes again change nothing; other bytes under the same name raise Corrupt.

        Only a receipt follows the state alone: if a backup was restored, a receipt of an unknown run is renamed and
        kept.
        """
        check_path(path)
        if not self.has_file(path, digest):
            with self._turn():
                if path.startswith("receipts/"):
                    self._set_aside(path, digest)
                if not self._is_there(path, digest):
                    self._write(path, digest, body)
        self._note("write_file", path, digest, size, key)

    def write_files(self, folder: str, files: Iterable[PublicFile], check: Callable[[], None]) -> None:  # noqa: ARG002
        """Write files, as `write_file` does, several at a time. A file under its name is always complete."""
        for batch in _batches(files):
            for each in batch:
                check_path(each.path)
            with self._turn(), ThreadPoolExecutor(AT_A_TIME) as pool:
                there = pool.map(self._is_there, *zip(*((each.path, each.digest) for each in batch), strict=True))
                new = [each for each, is_there in zip(batch, there, strict=True) if not is_there]
                if new:
                    check()
                    self._write_new(pool, new, check)
            for each in batch:
                self._note("write_file", *each[:4])

    def _write_new(self, pool: ThreadPoolExecutor, files: Sequence[PublicFile], check: Callable[[], None]) -> None:
        """Write files that are not there, and check again at the end: the lock may have expired meanwhile. The caller
        takes back what was withdrawn."""
        waiting = []
        try:
            for each in files:
                start, rest = _start(each.body)
                if rest is None:
                    waiting.append(pool.submit(self._write, each.path, each.digest, [start]))
                else:
                    check()  # the files before it may have taken long
                    self._write(each.path, each.digest, chain([start], rest))
        finally:
            for done in waiting:
                done.exception()
        for done in waiting:
            done.result()
        check()

    def _write(self, path: str, digest: str, body: Iterable[bytes]) -> None:
        """Write a file whose name is free. Its bytes are checked before anything is visible."""
        start, rest = _start(body)
        attributes = {"Content-Type": media_type(path), SUM: digest}
        if rest is not None:
            self._bucket.upload(path, _checked(chain([start], rest), digest), attributes)
        elif digest_of(start) != digest:
            raise _other_bytes()
        else:
            for _ in range(ATTEMPTS):
                if etag := self._bucket.create(path, start, attributes):
                    if sum_in(etag) == md5_of(start):
                        return  # the server computed the sum of what it stored
                    break
                if self._is_there(path, digest):  # written by another process, or by this one: its answer was lost
                    return
            else:
                raise Unavailable(f"the bucket neither has nor takes {path}", hint="`kfm resume` tries again")
        found = self._bucket.find(path)
        if found is None or found.attributes.get(SUM, digest) != digest:
            raise StorageFailed(
                f"the bucket did not keep {path} as written", hint="check the server, then `kfm resume`"
            )

    def _is_there(self, path: str, digest: str) -> bool:
        """Return whether the file is there. Raise Corrupt if it has other bytes."""
        if (found := self._bucket.find(path)) is None:
            return False
        if self._digest(path, found) != digest:
            raise _altered(path)
        return True

    def _digest(self, path: str, found: Found) -> str:
        """Return the digest that was stored together with the bytes; an object that was written by others has none, and
        is read."""
        return found.attributes.get(SUM) or digest_of_bytes(self._bucket, path)

    def _set_aside(self, path: str, digest: str) -> None:
        """Give a receipt with other bytes another name, so that its own is free."""
        kept = self._bucket.read(path)
        if kept is not None and (name := digest_of(kept[0])) != digest:
            self._bucket.create(f"{path}.set-aside-{name[7:19]}", kept[0], kept[1].attributes)
            self._bucket.remove(path)

    def has_file(self, path: str, digest: str) -> bool:
        """Return whether a file with these bytes is there."""
        found = self._bucket.find(check_path(path))
        return found is not None and self._digest(path, found) == digest

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        """Remove a file. No reader finds it any more when this returns."""
        if self._bucket.find(check_path(path)) is not None:
            with self._turn():
                check()
                self._bucket.remove(path)
        self._note("remove_file", path, "", 0, key)

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """Remove every file below the folder of a version."""
        check_path(folder)
        with self._turn(), ThreadPoolExecutor(AT_A_TIME) as pool:
            check()
            list(pool.map(self._bucket.remove, [each.path for each in self._bucket.below(folder)]))

    def digest_of_file(self, path: str) -> str | None:
        return digest_of_bytes(self._bucket, check_path(path)) or None

    def names(self, folder: str) -> list[str]:
        return sorted(each.path[len(folder) + 1 :] for each in self._bucket.below(check_path(folder)))

    def datasets(self) -> list[str]:
        """Return the datasets that have a file there: some servers list a folder after its last file is gone."""
        found = self._bucket.folders("datasets")
        return [name for name in found if next(self._bucket.below(f"datasets/{name}"), None) is not None]

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:  # noqa: ARG002
        """Return the differences from `expected`. Every file of the dataset is read."""
        paths = [each.path for each in self._bucket.below(f"datasets/{dataset}")]
        found = dict.fromkeys(expected, "missing") | {path: "foreign" for path in paths if path not in expected}
        known = [path for path in paths if path in expected]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            for path, digest in zip(known, pool.map(partial(digest_of_bytes, self._bucket), known), strict=True):
                if digest == expected[path]:
                    del found[path]
                elif digest:
                    found[path] = "altered"
        return [Difference(dataset=dataset, path=path, kind=found[path]) for path in sorted(found)]  # type: ignore[arg-type]

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        body = canonical(event)
        digest = digest_of(body)
        path = f"events/{digest_of(key.encode())[7:39]}.json"
        self._bucket.create(path, body, {"Content-Type": media_type(path), SUM: digest})
        self._note("emit_event", str(event.get("type", "")), digest, len(body), key)

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        """Write a pointer. A pointer with a lower `seq` than the existing one is late and ignored, unless it is the
        latest. It replaces only the pointer that was compared with it; if another process was quicker, it is compared
        again."""
        check_path(target)
        body = canonical(value)
        name = digest_of(body)
        attributes = {"Content-Type": media_type(target), "Cache-Control": "no-cache", SUM: name}
        for _ in range(ATTEMPTS):
            if (kept := self._bucket.read(target)) is None:
                done = bool(self._bucket.create(target, body, attributes))
            else:
                later = _seq_in(kept[0]) < int(value.get("seq", 0))
                wanted = later or (kept[0] != body and self._is_latest(value))
                done = not wanted or bool(self._bucket.replace(target, body, kept[1].etag, attributes))
            if done:
                break
        else:
            raise Busy(f"other processes replace {target} all the time", hint="`kfm resume` publishes it later")
        self._note("update_metadata", target, name, len(body), key)

    def publish_release(self, name: str, files: list[str], key: str) -> None:
        body = canonical({"name": name, "files": files})
        self.write_file(f"releases/{name}.json", digest_of(body), len(body), key, [body])

    def _turn(self) -> AbstractContextManager[None]:
        return publish_turn(self._open_lock)


def _start(body: Iterable[bytes]) -> tuple[bytes, Iterator[bytes] | None]:
    """Return the bytes of a small body, or the start of a large one with the iterator of the rest."""
    pieces, parts, size = iter(body), [], 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size > AT_ONCE:
            return b"".join(parts), pieces
    return b"".join(parts), None


def _checked(body: Iterable[bytes], digest: str) -> Iterator[bytes]:
    """Yield a large body. Raise Corrupt after its last piece if its digest is another one, to abort the upload."""
    total = hashlib.sha256()
    for piece in body:
        total.update(piece)
        yield piece
    if "sha256:" + total.hexdigest() != digest:
        raise _other_bytes()


def _batches(files: Iterable[PublicFile]) -> Iterator[list[PublicFile]]:
    """Yield the files in batches that are written under one lock."""
    batch: list[PublicFile] = []
    size = 0
    for each in files:
        batch.append(each)
        size += each.size
        if len(batch) == BATCH_FILES or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _seq_in(body: bytes) -> int:
    try:
        return int(msgspec.json.decode(body).get("seq", 0))
    except (ValueError, AttributeError, TypeError, msgspec.MsgspecError):
        return 0


def _altered(path: str) -> Corrupt:
    return Corrupt(f"published file {path} was altered", hint="check the file and remove it, then run `kfm resume`")


def _other_bytes() -> Corrupt:
    return Corrupt("the bytes to publish do not have the expected digest", hint="run `kfm doctor --deep`")
