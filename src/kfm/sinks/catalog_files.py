"""Write a folder of catalog files. Each file is complete at any moment, and an unchanged file is not written again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from kfm.errors import Conflict, StorageFailed
from kfm.fsio import REAL, Fs, digest_at, storage_failed
from kfm.model.keys import digest
from kfm.model.names import check_path
from kfm.model.outbox_messages import Letter

APART = ".building"  # holds files until they are complete
OWN, PARTS, SUFFIX = (
    ("collection.json", "index.html"),
    ("items", "groups", "runs", "versions"),
    ".json",
)  # what lies in the folder of a dataset
MANY = 32  # from this many files on, one sync covers all of them
_HEAD = 1 << 20  # bytes of a file by which KFM recognises it
Recognises = Callable[[str, bytes], bool]  # says of a path and the start of its content whether KFM wrote it


class CatalogFolder:
    """The catalog sink. It has no lock: the caller makes sure that no other process writes.

    `written` and `removed` count the changes since it was opened. Without `recognises` every file at a path of the
    catalog is one of KFM.
    """

    name = "catalog"
    leaves_foreign = False  # whether a file that KFM did not write is passed over; else Conflict

    def __init__(self, root: str, fs: Fs = REAL) -> None:
        self._root = root
        self._fs = fs
        self.recognises: Recognises | None = None
        self.written = 0
        self.removed = 0
        self.left: dict[str, bool] = {}  # the paths of all messages so far, and whether a foreign file was left there

    def send(self, letters: Sequence[Letter]) -> None:
        try:
            passed = {letter.key for letter in letters if self.is_foreign(letter.key)}
            if passed and not self.leaves_foreign:
                raise Conflict(
                    f"KFM did not write {min(passed)} there; move it away, or set `{self.name}:` to another folder",
                    hint="nothing there was changed",
                )
            self.left |= {letter.key: letter.key in passed for letter in letters}
            letters = [letter for letter in letters if letter.key not in passed]
            self._write([letter for letter in letters if isinstance(letter.body, bytes)])
            for letter in letters:
                if letter.body is None:
                    self._remove(letter.key)
                elif isinstance(letter.body, frozenset):
                    self._sweep(letter.key.rstrip("/"), letter.body)
        except OSError as problem:
            raise self._why(problem) from problem

    def differences(self, expected: dict[str, str], below: str) -> Iterator[tuple[str, str]]:
        """Yield the path and kind of each difference from `expected` (path to digest): `missing`, `altered`, or
        `foreign` below the folder.
        """
        for path in sorted(expected):
            if not self._fs.exists(self._place(path)):
                yield path, "missing"
            elif digest_at(self._fs, self._place(path)) != expected[path]:
                yield path, "altered"
        for path in self._files(below) if below else ():
            if path not in expected:
                yield path, "foreign"

    def is_foreign(self, path: str) -> bool:
        """Return whether there is a file at a path that KFM did not write."""
        if self.recognises is None or path.endswith("/"):
            return False
        place = self._place(path)
        if not self._fs.exists(place):
            return False
        try:
            fd = self._fs.open_read(place)
            try:
                return not self.recognises(path, self._fs.read_at(fd, _HEAD, 0))
            finally:
                self._fs.close(fd)
        except OSError:  # a folder, or a file that cannot be read
            return True

    def target(self, path: str) -> str:
        """Return the name of a file in traces: below the name of the sink."""
        return f"{self.name}/{path}"

    def foreign(self, folder: str, keep: frozenset[str]) -> list[str]:
        """Return the files of the catalog in a dataset's folder that are not among those to keep."""
        found = (path for path in self._files(folder.rstrip("/")) if path not in keep)
        return [path for path in found if not self.is_foreign(path)]

    def _place(self, path: str) -> str:
        return os.path.join(self._root, *check_path(path).split("/"))

    def _write(self, letters: Sequence[Letter]) -> None:
        """Write and sync all files under temporary names, then rename each, then sync the folders."""
        fs, apart, many = self._fs, os.path.join(self._root, APART), len(letters) >= MANY
        fs.remove_tree(apart)  # left by a killed process
        ready: list[tuple[str, str]] = []
        there: dict[str, bool] = {}  # folder → whether it existed before
        for letter in letters:
            target = self._place(letter.key)
            folder = os.path.dirname(target)
            if folder not in there:
                there[folder] = fs.is_dir(folder)
            if there[folder] and digest_at(fs, target) == digest(letter.body):
                continue
            if not ready:
                fs.make_dirs(apart, 0o755)
            temporary = os.path.join(apart, str(len(ready)))
            fd = fs.create(temporary, 0o644)
            try:
                fs.write(fd, letter.body)
                if not many:
                    fs.sync(fd)
            finally:
                fs.close(fd)
            ready.append((temporary, target))
        if not ready:
            return
        if many:
            fs.sync_all(apart)
        for temporary, target in ready:
            folder = os.path.dirname(target)
            if not there[folder]:
                fs.make_dirs(folder, 0o755)
                there[folder] = True
            fs.replace(temporary, target)
            self.written += 1
        for folder in sorted({os.path.dirname(target) for _, target in ready}):
            fs.sync_dir(folder)
        fs.remove_tree(apart)

    def _remove(self, path: str) -> None:
        target = self._place(path)
        if self._fs.exists(target):
            self._fs.unlink(target)
            self._fs.sync_dir(os.path.dirname(target))
            self.removed += 1

    def _sweep(self, folder: str, keep: frozenset[str]) -> None:
        for path in self.foreign(folder, keep):
            self._fs.unlink(self._place(path))
            self.removed += 1
        self._prune(self._place(folder))

    def _prune(self, folder: str) -> bool:
        """Remove empty folders; return True if this one was removed."""
        if not self._fs.is_dir(folder) or self._fs.is_link(folder):
            return False
        left = [name for name in self._fs.list(folder) if not self._prune(os.path.join(folder, name))]
        if left:
            self._fs.sync_dir(folder)
            return False
        self._fs.rmdir(folder)
        self._fs.sync_dir(os.path.dirname(folder))
        return True

    def _files(self, folder: str) -> Iterator[str]:
        """Yield the files that the catalog may have written below a dataset's folder, by folder and name. Every other
        file belongs to the user, who may have chosen this folder by mistake.
        """
        yield from self._documents(folder, OWN)
        for part in PARTS:
            if not self._fs.is_link(self._place(f"{folder}/{part}")):
                yield from self._documents(f"{folder}/{part}")

    def _documents(self, folder: str, only: Sequence[str] = ()) -> Iterator[str]:
        place = self._place(folder)
        if not self._fs.is_dir(place) or self._fs.is_link(place):
            return
        for name in self._fs.list(place):
            if (name in only if only else name.endswith(SUFFIX)) and not self._fs.is_dir(os.path.join(place, name)):
                yield f"{folder}/{name}"

    def _why(self, problem: OSError) -> StorageFailed:
        failed = storage_failed(problem, "write the catalog")
        return StorageFailed(failed.message, hint="make room or fix the folder; `kfm sinks retry catalog` tries again")
