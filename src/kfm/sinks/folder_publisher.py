"""Publish into folders: immutable files, and pointers that only move forward.

Every file is an export of the state and can be written again from it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import msgspec

from kfm.errors import Corrupt, StorageFailed
from kfm.fsio import REAL, Fs, digest_at, read_whole, write_apart
from kfm.model.canonical import canonical
from kfm.model.keys import digest as digest_of
from kfm.model.names import check_path
from kfm.model.ports import Lock, PublicFile
from kfm.model.records import Difference
from kfm.sinks.noop import TracingPublisher, publish_turn

_UNFINISHED = ".publishing"  # in each folder: the temporary name of a file until it is complete
_UNFINISHED_MANY = ".publishing-many"  # a folder of files that are written together, until all are complete
MANY = 16  # so many files, or more, are synced together
BATCH_FILES, BATCH_BYTES = 512, 16 << 20  # files that are written under one lock, so that no process waits long


class FilesPublisher(TracingPublisher):
    """Publishes into folders. `roots` maps the first part of a path to a folder; "" is the folder for all other paths.

    A process publishes under a lock, which `lock` opens: it reads and replaces a pointer in one step, so a slow process
    never moves one back. `is_latest` says whether a pointer is the state's newest; such a pointer is written even if
    the state was restored from a backup and counts lower.
    """

    def __init__(
        self,
        roots: Mapping[str, str],
        lock: Callable[[], Lock],
        is_latest: Callable[[Mapping[str, Any]], bool] = lambda _pointer: False,
        fs: Fs = REAL,
    ) -> None:
        super().__init__(dry_run=False)
        self._roots = dict(roots)
        self._open_lock = lock
        self._is_latest = is_latest
        self._fs = fs
        self._made: set[str] = set()
        self._thinned: set[str] = set()  # folders from which files were removed

    def _place(self, path: str) -> str:
        head = check_path(path).partition("/")[0]
        root = self._roots.get(head, self._roots[""])
        return os.path.join(root, *path.split("/"))

    def _is_private(self, place: str) -> bool:
        """Say whether a path is in the private folder of receipts and events. All other files are readable for
        everyone.
        """
        private = self._roots.get("receipts", "")
        return bool(private) and f"{place}/".startswith(f"{private}/")

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """Write a file. The same bytes again change nothing; other bytes under the same name raise Corrupt.

        Only a receipt follows the state alone: if a backup was restored, a receipt of an unknown run is renamed and
        kept.
        """
        target = self._place(path)
        if digest_at(self._fs, target) != digest:
            with self._turn():
                found = digest_at(self._fs, target)
                if found != digest and self._fs.exists(target):
                    if not path.startswith("receipts/") or not found:
                        raise _altered(path)
                    with _as_storage_failed():
                        self._fs.replace(target, f"{target}.set-aside-{found[7:19]}")
                if found != digest:
                    self._write(target, body, digest)
        try:
            self._keep_name(target)
        except StorageFailed as problem:
            # The version's folder was removed meanwhile by a process that knows a newer state.
            if not path.startswith("datasets/") or not isinstance(problem.__cause__, FileNotFoundError):
                raise
        self._note("write_file", path, digest, size, key)

    def write_files(self, folder: str, files: Iterable[PublicFile], check: Callable[[], None]) -> None:
        """Write files, as `write_file` does. Many are written and synced together, and then get their names: a file
        under its name is always complete. All are durable when this returns.
        """
        apart = os.path.join(self._place(folder), _UNFINISHED_MANY)
        if self._fs.exists(apart):
            with self._turn(), _as_storage_failed():
                self._fs.remove_tree(apart)  # left by a killed process
        for batch in _batches(files):
            if len(batch) < MANY:
                super().write_files(folder, batch, check)
                continue
            with self._turn(), _as_storage_failed():
                self._write_many(apart, batch, check)
            for each in batch:
                self._note("write_file", *each[:4])

    def _write_many(self, apart: str, batch: Sequence[PublicFile], check: Callable[[], None]) -> None:
        fs, targets = self._fs, [self._place(each.path) for each in batch]
        ready: dict[str, str] = {}  # temporary path → path
        check()
        try:
            fs.remove_tree(apart)  # left by a process that was killed meanwhile
            for each, target in zip(batch, targets, strict=True):
                if (found := digest_at(fs, target)) == each.digest:
                    continue
                if found or fs.exists(target):
                    raise _altered(each.path)
                pieces = iter(each.body)
                first = next(pieces, b"")  # read before anything is created: an unreadable body raises here
                if not ready:
                    fs.make_dirs(apart, 0o755)
                temporary = os.path.join(apart, str(len(ready)))
                if write_apart(fs, temporary, chain([first], pieces), mode=0o644, synced=False) != each.digest:
                    raise _other_bytes()
                ready[temporary] = target
            if ready:
                fs.sync_all(apart)
                check()
            for folder in dict.fromkeys(map(os.path.dirname, ready.values())):
                if not fs.is_dir(folder):
                    fs.make_dirs(folder, 0o755)
            for temporary, target in ready.items():
                fs.replace(temporary, target)
            # Also the folders of files that were there: the process that named them may have died before the sync.
            for folder in dict.fromkeys([*map(os.path.dirname, targets), *([apart] if ready else [])]):
                fs.sync_dir(folder)
            fs.remove_tree(apart)
        except BaseException:
            with contextlib.suppress(OSError):
                fs.remove_tree(apart)
                self._without_empty(os.path.dirname(apart))
            raise

    def has_file(self, path: str, digest: str) -> bool:
        """Return whether a file with these bytes is there."""
        return digest_at(self._fs, self._place(path)) == digest

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        """Remove a file, so that readers no longer find it. The removal is durable when its folder is gone, see
        `remove_rest`."""
        target = self._place(path)
        if self._fs.exists(target):
            with self._turn(), _as_storage_failed():
                check()
                self._fs.unlink(target)
        if path.split("/")[2:3] in (["files"], ["parts"]):
            self._thinned.add(os.path.dirname(target))
        self._note("remove_file", path, "", 0, key)

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """Remove the folder of a version with all unfinished files in it and next to it, and sync the folder above, so
        that nothing comes back.
        """
        target = self._place(folder)
        beside = os.path.dirname(target)
        with self._turn(), _as_storage_failed():
            check()
            self._fs.remove_tree(target)
            if self._fs.exists(os.path.join(beside, _UNFINISHED)):
                self._fs.unlink(os.path.join(beside, _UNFINISHED))
            if self._fs.is_dir(beside):
                self._fs.sync_dir(beside)
            shared = os.path.join(os.path.dirname(beside), "files")  # of versions that share their files
            if self._fs.exists(os.path.join(shared, _UNFINISHED_MANY)):
                self._fs.remove_tree(os.path.join(shared, _UNFINISHED_MANY))
                self._fs.sync_dir(self._without_empty(shared))

    def sync_removed(self, check: Callable[[], None]) -> None:
        """Make removals durable: remove unfinished files next to the removed ones, and folders that are empty now, and
        sync the folders."""
        thinned, self._thinned = self._thinned, set()
        with self._turn(), _as_storage_failed():
            check()
            for folder in sorted(thinned, reverse=True):
                if self._fs.is_dir(folder):
                    if self._fs.exists(unfinished := os.path.join(folder, _UNFINISHED)):
                        self._fs.unlink(unfinished)
                    self._fs.sync_dir(self._without_empty(folder))

    def _without_empty(self, folder: str) -> str:
        """Remove a folder and those above it as long as they are empty; return the first that stays."""
        while os.path.basename(folder) not in ("datasets", ""):
            try:
                self._fs.rmdir(folder)
            except OSError:
                break
            folder = os.path.dirname(folder)
        return folder

    def digest_of_file(self, path: str) -> str | None:
        place = self._place(path)
        return digest_at(self._fs, place) if self._fs.exists(place) else None

    def names(self, folder: str) -> list[str]:
        return self._fs.list(self._place(folder))

    def datasets(self) -> list[str]:
        try:
            return sorted(os.listdir(self._place("datasets")))
        except OSError:
            return []

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:  # noqa: ARG002
        """Return the differences from `expected`. Every file of the dataset is read."""
        found = dict.fromkeys(expected, "missing")
        for path in _files_below(self._place(f"datasets/{dataset}"), f"datasets/{dataset}"):
            if path not in expected:
                found[path] = "foreign"
            elif digest_at(self._fs, self._place(path)) == expected[path]:
                del found[path]
            else:
                found[path] = "altered"
        return [Difference(dataset=dataset, path=path, kind=found[path]) for path in sorted(found)]  # type: ignore[arg-type]

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        body = canonical(event)
        name = digest_of(key.encode())[7:39]
        target = self._place(f"events/{name}.json")
        with self._turn():
            if not self._fs.exists(target):
                self._write(target, [body], digest_of(body))
        self._keep_name(target)
        self._note("emit_event", str(event.get("type", "")), digest_of(body), len(body), key)

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        """Write a pointer file. A pointer with a lower `seq` than the existing one is late and ignored, unless it is
        the latest."""
        body = canonical(value)
        name = digest_of(body)
        place = self._place(target)
        with self._turn():
            later = self._seq_at(place) < int(value.get("seq", 0))
            if later or (self._is_latest(value) and digest_at(self._fs, place) != name):
                self._write(place, [body], name)
        self._keep_name(place)
        self._note("update_metadata", target, name, len(body), key)

    def publish_release(self, name: str, files: list[str], key: str) -> None:
        body = canonical({"name": name, "files": files})
        self.write_file(f"releases/{name}.json", digest_of(body), len(body), key, [body])

    def _turn(self) -> AbstractContextManager[None]:
        return publish_turn(self._open_lock)

    def _write(self, target: str, body: Iterable[bytes], digest: str) -> None:
        """Write a file completely or not at all; its name is not durable yet.

        The temporary name is always the same, so the next writer in this folder replaces what a killed process left,
        and `remove_rest` removes it for a version that is never written again.
        """
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, _UNFINISHED)
        private = self._is_private(target)
        with _as_storage_failed():
            pieces = iter(body)
            first = next(pieces, b"")  # read before anything is created: an unreadable body raises here
            try:
                if folder not in self._made or not self._fs.is_dir(folder):  # it may have been removed since
                    self._fs.make_dirs(folder, 0o700 if private else 0o755)  # independent of the umask
                    self._made.add(folder)
                whole = chain([first], pieces)
                if write_apart(self._fs, temporary, whole, mode=0o600 if private else 0o644) != digest:
                    raise _other_bytes()
                self._fs.replace(temporary, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._fs.unlink(temporary)
                raise

    def _keep_name(self, path: str) -> None:
        """Sync the folder, also for a file that existed already: the process that named it may have died before the
        sync.
        """
        with _as_storage_failed():
            self._fs.sync_dir(os.path.dirname(path))

    def _seq_at(self, path: str) -> int:
        try:
            return int(msgspec.json.decode(read_whole(self._fs, path)).get("seq", 0))
        except (OSError, ValueError, TypeError, AttributeError, msgspec.MsgspecError):
            return 0


def _altered(path: str) -> Corrupt:
    return Corrupt(f"published file {path} was altered", hint="check the file and remove it, then run `kfm resume`")


def _other_bytes() -> Corrupt:
    return Corrupt("the bytes to publish do not have the expected digest", hint="run `kfm doctor --deep`")


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


@contextlib.contextmanager
def _as_storage_failed() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise StorageFailed(
            f"cannot publish a file: {problem.strerror}",
            hint="free some space or fix the folder, then run `kfm resume`",
        ) from problem


def _files_below(folder: str, name: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, except unfinished ones."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for each in names:
        below = os.path.join(folder, each)
        if each in (_UNFINISHED, _UNFINISHED_MANY):
            continue
        if os.path.isdir(below) and not os.path.islink(below):
            yield from _files_below(below, f"{name}/{each}")
        else:
            yield f"{name}/{each}"
