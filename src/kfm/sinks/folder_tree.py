"""A folder of files by path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from kfm.fsio import REAL, Fs, digest_at
from kfm.model.keys import digest as digest_of
from kfm.model.names import check_path
from kfm.sinks.file_tree import Recognises

APART = ".building"  # holds files until they are complete
MANY = 32  # from this many files on, one sync covers all of them
_HEAD = 1 << 20  # bytes of a file by which KFM recognises it


class FolderTree:
    """Implements FileTree over a folder. An unchanged file is not written again."""

    def __init__(self, root: str, fs: Fs = REAL) -> None:
        self._root = root
        self._fs = fs

    def digests_of(self, paths: Sequence[str]) -> Iterator[str | None]:
        for path in paths:
            place = self._place(path)
            yield (digest_at(self._fs, place) or "") if self._fs.exists(place) else None

    def holds(self, path: str, digest: str) -> bool:
        return digest_at(self._fs, self._place(path)) == digest

    def unknown(self, paths: Sequence[str], recognises: Recognises) -> set[str]:
        return {path for path in paths if self._is_unknown(path, recognises)}

    def _is_unknown(self, path: str, recognises: Recognises) -> bool:
        place = self._place(path)
        if not self._fs.exists(place):
            return False
        try:
            fd = self._fs.open_read(place)
            try:
                return not recognises(path, self._fs.read_at(fd, _HEAD, 0))
            finally:
                self._fs.close(fd)
        except OSError:  # a folder, or a file that cannot be read
            return True

    def write(self, files: Sequence[tuple[str, bytes]]) -> int:
        """Write and sync all files under temporary names, then rename each, then sync the folders."""
        fs, apart, many = self._fs, os.path.join(self._root, APART), len(files) >= MANY
        fs.remove_tree(apart)  # left by a killed process
        ready: list[tuple[str, str]] = []
        there: dict[str, bool] = {}  # folder → whether it existed before
        for path, body in files:
            target = self._place(path)
            folder = os.path.dirname(target)
            if folder not in there:
                there[folder] = fs.is_dir(folder)
            if there[folder] and digest_at(fs, target) == digest_of(body):
                continue
            if not ready:
                fs.make_dirs(apart, 0o755)
            temporary = os.path.join(apart, str(len(ready)))
            fd = fs.create(temporary, 0o644)
            try:
                fs.write(fd, body)
                if not many:
                    fs.sync(fd)
            finally:
                fs.close(fd)
            ready.append((temporary, target))
        if not ready:
            return 0
        if many:
            fs.sync_all(apart)
        for temporary, target in ready:
            folder = os.path.dirname(target)
            if not there[folder]:
                fs.make_dirs(folder, 0o755)
                there[folder] = True
            fs.replace(temporary, target)
        for folder in sorted({os.path.dirname(target) for _, target in ready}):
            fs.sync_dir(folder)
        fs.remove_tree(apart)
        return len(ready)

    def remove(self, path: str) -> bool:
        target = self._place(path)
        if not self._fs.exists(target):
            return False
        self._fs.unlink(target)
        self._fs.sync_dir(os.path.dirname(target))
        return True

    def remove_below(self, folder: str, paths: Sequence[str]) -> int:
        for path in paths:
            self._fs.unlink(self._place(path))
        self._prune(self._place(folder))
        return len(paths)

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

    def names(self, folder: str) -> list[str]:
        place = self._place(folder)
        if not self._fs.is_dir(place) or self._fs.is_link(place):
            return []
        return [name for name in self._fs.list(place) if not self._fs.is_dir(os.path.join(place, name))]

    def folders(self) -> list[str]:
        if not self._fs.is_dir(self._root):
            return []
        found = [(name, os.path.join(self._root, name)) for name in self._fs.list(self._root)]
        return sorted(name for name, place in found if self._fs.is_dir(place) and not self._fs.is_link(place))

    def _place(self, path: str) -> str:
        return os.path.join(self._root, *check_path(path).split("/"))
