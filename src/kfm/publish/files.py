"""Publishes into folders: immutable files, and pointers that only ever move forward.

Every file here is an export of the state and can be made again from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from kfm.contract.canonical import canonical
from kfm.contract.keys import digest as digest_of
from kfm.contract.names import check_path
from kfm.contract.ports import Lock
from kfm.contract.records import Difference
from kfm.errors import Busy, Corrupt, StorageFailed
from kfm.publish.noop import TracingPublisher


class FilesPublisher(TracingPublisher):
    """`roots` maps the first part of a path to a folder; "" is the folder for all others.

    Processes that publish take turns at a lock, which `lock` opens: looking at what is there and replacing it is
    one act, so that a pointer never goes back, however late a slow process wakes up. `is_latest` tells whether a
    pointer is what the state says last: it is written even if an older state was put back, which counts less.
    """

    def __init__(
        self,
        roots: Mapping[str, str],
        lock: Callable[[], Lock],
        is_latest: Callable[[Mapping[str, Any]], bool] = lambda _pointer: False,
    ) -> None:
        super().__init__(dry_run=False)
        self._roots = dict(roots)
        self._open_lock = lock
        self._is_latest = is_latest
        self._made: set[str] = set()

    def _place(self, path: str) -> str:
        head = check_path(path).partition("/")[0]
        root = self._roots.get(head, self._roots[""])
        return os.path.join(root, *path.split("/"))

    def _is_private(self, place: str) -> bool:
        """Below the folder of receipts and events, which is for us alone; all else is for everybody to read."""
        private = self._roots.get("receipts", "")
        return bool(private) and f"{place}/".startswith(f"{private}/")

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        """The same bytes again change nothing; other bytes under the same name are an error. Only a receipt is told
        by the state alone: where an older state was put back, what a run left that it knows nothing of is set aside."""
        target = self._place(path)
        if _digest_of_file(target) != digest:
            with self._turn():
                found = _digest_of_file(target)
                if found != digest and os.path.lexists(target):
                    if not path.startswith("receipts/") or not found:
                        raise Corrupt(
                            f"published file {path} has other bytes than it should",
                            hint="look at it and remove it, then `kfm resume`",
                        )
                    with _as_storage_failed():
                        os.replace(target, f"{target}.set-aside-{found[7:19]}")
                if found != digest:
                    self._write(target, body, digest)
        try:
            _keep_name(target)
        except StorageFailed as problem:
            # A version whose folder is gone was taken back meanwhile, by a process that knew more.
            if not path.startswith("datasets/") or not isinstance(problem.__cause__, FileNotFoundError):
                raise
        self._note("write_file", path, digest, size, key)

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        """Gone for readers at once. That it stays gone is sure when its folder is, see `remove_rest`."""
        target = self._place(path)
        if os.path.lexists(target):
            with self._turn(), _as_storage_failed():
                check()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(target)
        self._note("remove_file", path, "", 0, key)

    def remove_rest(self, folder: str, check: Callable[[], None]) -> None:
        """What broke off while it was published lies there, too. Without its name nothing below it comes back."""
        target = self._place(folder)
        with self._turn(), _as_storage_failed():
            check()
            _remove_tree(target)
            if os.path.isdir(os.path.dirname(target)):
                _sync_dir(os.path.dirname(target))

    def datasets(self) -> list[str]:
        try:
            return sorted(os.listdir(self._place("datasets")))
        except OSError:
            return []

    def differences(self, dataset: str, expected: Mapping[str, str], gone: Sequence[str]) -> list[Difference]:  # noqa: ARG002
        """Reads every file of the dataset; folders that should be gone are seen by what lies in them."""
        found = dict.fromkeys(expected, "missing")
        for path in _files_below(self._place(f"datasets/{dataset}"), f"datasets/{dataset}"):
            if path not in expected:
                found[path] = "foreign"
            elif _digest_of_file(self._place(path)) == expected[path]:
                del found[path]
            else:
                found[path] = "altered"
        return [Difference(dataset=dataset, path=path, kind=found[path]) for path in sorted(found)]  # type: ignore[arg-type]

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        body = canonical(event)
        name = digest_of(key.encode())[7:39]
        target = self._place(f"events/{name}.json")
        with self._turn():
            if not os.path.lexists(target):
                self._write(target, [body], digest_of(body))
        _keep_name(target)
        self._note("emit_event", str(event.get("type", "")), digest_of(body), len(body), key)

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        """A pointer. One with a lower `seq` than is there already comes late and is ignored, if not the latest."""
        body = canonical(value)
        name = digest_of(body)
        place = self._place(target)
        with self._turn():
            later = _seq_of_file(place) < int(value.get("seq", 0))
            if later or (self._is_latest(value) and _digest_of_file(place) != name):
                self._write(place, [body], name)
        _keep_name(place)
        self._note("update_metadata", target, name, len(body), key)

    def publish_release(self, name: str, files: list[str], key: str) -> None:
        body = canonical({"name": name, "files": files})
        self.write_file(f"releases/{name}.json", digest_of(body), len(body), key, [body])

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        import time

        lock = self._open_lock()
        try:
            for _ in range(1000):
                with _as_storage_failed():
                    if lock.take():
                        break
                time.sleep(0.01)
            else:
                raise Busy(
                    "another process is publishing", hint="what was committed is kept; `kfm resume` publishes it later"
                )
            yield
        finally:
            lock.close()

    def _write(self, target: str, body: Iterable[bytes], digest: str) -> None:
        """Whole or not at all; its name is not durable yet.

        The name it has meanwhile is the same every time: nothing is left by the dead.
        """
        folder = os.path.dirname(target)
        temporary = os.path.join(folder, ".publishing")
        with _as_storage_failed():
            pieces = iter(body)
            first = next(pieces, b"")  # before anything is made here: this is where it is said if it may not be
            try:
                self._make_dirs(folder)
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                total = hashlib.sha256()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with open(os.open(temporary, flags, 0o600 if self._is_private(target) else 0o644), "wb") as file:
                    for chunk in chain([first], pieces):
                        total.update(chunk)
                        file.write(chunk)
                    file.flush()
                    os.fsync(file.fileno())
                if "sha256:" + total.hexdigest() != digest:
                    raise Corrupt("the bytes to publish are not the ones named", hint="run `kfm doctor --deep`")
                os.replace(temporary, target)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise

    def _make_dirs(self, path: str) -> None:
        """Durable from the first folder that was there: whoever made that one may have died before syncing it."""
        if path in self._made and os.path.isdir(path):  # it may have been removed since
            return
        missing = []
        folder = path
        while not os.path.isdir(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        with contextlib.suppress(PermissionError):  # not ours: then it is not of our making either
            _sync_dir(os.path.dirname(folder))
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700 if self._is_private(folder) else 0o755)  # whatever the umask would allow
            _sync_dir(os.path.dirname(folder))
        self._made.add(path)


@contextlib.contextmanager
def _as_storage_failed() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise StorageFailed(
            f"cannot publish a file: {problem.strerror}", hint="make room or fix the folder, then `kfm resume`"
        ) from problem


def _remove_tree(path: str) -> None:
    """A folder with all in it; a link in it is removed and never followed."""
    if not os.path.isdir(path) or os.path.islink(path):
        return
    for name in os.listdir(path):
        below = os.path.join(path, name)
        if os.path.isdir(below) and not os.path.islink(below):
            _remove_tree(below)
        else:
            os.unlink(below)
    os.rmdir(path)


def _files_below(folder: str, name: str) -> Iterator[str]:
    """Whatever is no folder, by its path; what breaks off while it is written is no file yet."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for each in names:
        below = os.path.join(folder, each)
        if os.path.isdir(below) and not os.path.islink(below):
            yield from _files_below(below, f"{name}/{each}")
        elif each != ".publishing":
            yield f"{name}/{each}"


def _keep_name(path: str) -> None:
    """Also of a file that was there already: whoever gave it its name may have died before syncing that."""
    with _as_storage_failed():
        _sync_dir(os.path.dirname(path))


def _sync_dir(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest_of_file(path: str) -> str:
    total = hashlib.sha256()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            while chunk := file.read(1 << 20):
                total.update(chunk)
    except OSError:
        return ""
    return "sha256:" + total.hexdigest()


def _seq_of_file(path: str) -> int:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            return int(msgspec.json.decode(file.read()).get("seq", 0))
    except (OSError, ValueError, AttributeError, msgspec.MsgspecError):
        return 0
