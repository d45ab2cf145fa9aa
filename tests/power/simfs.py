"""A file system in memory that forgets what was not synced, in the worst way a real one may.

It keeps two truths: what a running program sees, and what a power cut leaves. Between two syncs of a
file any subset of its writes may reach the disk, in any order, each torn at any byte, and the file's
size may run ahead of its data or lag behind it. Between two syncs of a folder any subset of the names
given, taken and removed may. A synced file without a synced name is gone; a name may outlive its bytes.

Everything is drawn from one random generator: the same seed cuts at the same place and loses the same bytes.
"""

from __future__ import annotations

import hashlib
import io
from random import Random
from typing import Union

from kfm.fsio import Fs
from kfm.store.objects import FileObjects

SECTOR = 512
Entry = Union["File", "Folder"]


class PowerCut(BaseException):
    """The process is gone, and nothing it would still like to do happens."""


class File:
    __slots__ = ("data", "disk", "log")

    def __init__(self) -> None:
        self.data = bytearray()
        self.disk = b""
        self.log: list[tuple[int, bytes | None]] = []  # offset and bytes written; a size and None: cut to it

    def lose(self, random: Random) -> None:
        """What a power cut leaves of it."""
        if self.log:
            self.data = bytearray(_torn(random, self.disk, self.log, len(self.data)))
            self.disk = bytes(self.data)
            self.log = []
        elif len(self.data) != len(self.disk) or self.data != self.disk:
            self.data = bytearray(self.disk)


class Folder:
    __slots__ = ("disk", "entries", "log")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.disk: dict[str, Entry] = {}
        self.log: list[tuple[str, Entry | None]] = []

    def change(self, name: str, entry: Entry | None) -> None:
        if entry is None:
            del self.entries[name]
        else:
            self.entries[name] = entry
        self.log.append((name, entry))

    def lose(self, random: Random) -> None:
        if self.log:
            left = dict(self.disk)
            kept = random.choice((0.1, 0.5, 0.9))
            for name, entry in self.log:
                if random.random() < kept:
                    if entry is None:
                        left.pop(name, None)
                    else:
                        left[name] = entry
            self.entries = left
            self.log = []
        else:
            self.entries = dict(self.disk)
        self.disk = dict(self.entries)
        for entry in self.entries.values():
            entry.lose(random)


def _torn(random: Random, disk: bytes, log: list[tuple[int, bytes | None]], size: int) -> bytearray:
    left = bytearray(disk)
    smallest = len(disk)
    kept = random.choice((0.1, 0.5, 0.5, 0.9))
    for offset, body in log:
        if body is None:
            smallest = min(smallest, offset)
            if random.random() < kept:
                del left[offset:]
            continue
        for start, stop in _pieces(random, offset, len(body), kept):
            if len(left) < offset + stop:
                left.extend(bytes(offset + stop - len(left)))
            left[offset + start : offset + stop] = body[start:stop]
    end = random.choice((len(left), len(left), size, len(disk), random.randint(0, max(size, len(left)))))
    end = max(end, smallest)
    if end > len(left):
        left.extend(bytes(end - len(left)))
    del left[end:]
    return left


def _pieces(random: Random, offset: int, length: int, kept: float) -> list[tuple[int, int]]:
    """Which parts of a write reached the disk: all, none, the bytes up to some point, or some sectors."""
    way = random.random()
    if way < 0.4:
        return [(0, length)] if random.random() < kept else []
    if way < 0.7:
        return [(0, random.randint(0, length))]
    bounds = [0, *range(SECTOR - offset % SECTOR, length, SECTOR), length]
    return [
        (bounds[i], bounds[i + 1] if random.random() < 0.8 else random.randint(bounds[i], bounds[i + 1]))
        for i in range(len(bounds) - 1)
        if random.random() < kept
    ]


class SimFs(Fs):
    def __init__(self, random: Random, *, traced: bool = False) -> None:
        self.random = random
        self.root = Folder()
        self.fuel = 1 << 60  # steps until the power is cut; every change has two, one before and one after
        self.dead = False
        self.cuts = 0
        self._open: dict[int, File] = {}
        self._locks: dict[str, SimLock] = {}  # path: who locked it
        self._next = 3
        self._trace = hashlib.sha256() if traced else None

    # -- the end of the world

    def step(self, *what: object) -> None:
        if self.dead:
            raise PowerCut
        if self._trace is not None:
            self._trace.update(repr(what).encode())
        self.fuel -= 1
        if self.fuel < 0:
            self.dead = True
            raise PowerCut

    def restart(self, *, power: bool) -> None:
        """Every process is gone; with the power, what was not synced is as well."""
        self._open.clear()
        self._locks.clear()
        self.dead = False
        self.fuel = 1 << 60
        if power:
            self.cuts += 1
            self.root.lose(self.random)
        if self._trace is not None:
            self._trace.update(repr((power, self.cuts, sorted(self.tree().items()))).encode())

    def trace(self) -> str:
        assert self._trace is not None
        return self._trace.hexdigest()

    def tree(self) -> dict[str, bytes]:
        """Every file by path, as a program would read it."""
        found: dict[str, bytes] = {}

        def walk(folder: Folder, path: str) -> None:
            for name, entry in folder.entries.items():
                if isinstance(entry, Folder):
                    walk(entry, f"{path}{name}/")
                else:
                    found[path + name] = bytes(entry.data)

        walk(self.root, "/")
        return found

    # -- names

    def _folder(self, path: str) -> Folder:
        at = self.root
        for name in path.split("/"):
            if name and name != ".":
                entry = at.entries.get(name)
                if entry is None:
                    raise FileNotFoundError(2, "No such file or directory", path)
                if not isinstance(entry, Folder):
                    raise NotADirectoryError(20, "Not a directory", path)
                at = entry
        return at

    def _split(self, path: str) -> tuple[Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _file(self, path: str) -> File:
        folder, name = self._split(path)
        entry = folder.entries.get(name)
        if entry is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if isinstance(entry, Folder):
            raise IsADirectoryError(21, "Is a directory", path)
        return entry

    def _handle(self, file: File) -> int:
        self._next += 1
        self._open[self._next] = file
        return self._next

    def is_dir(self, path: str) -> bool:
        try:
            self._folder(path)
        except OSError:
            return False
        return True

    def is_link(self, _path: str) -> bool:
        return False

    def rmdir(self, path: str) -> None:
        if self.list(path):
            raise OSError(39, "Directory not empty", path)
        self.unlink(path)

    def mkdir(self, path: str, _mode: int = 0) -> None:
        folder, name = self._split(path)
        if name in folder.entries:
            return
        self.step("mkdir", path)
        folder.change(name, Folder())
        self.step()

    def create(self, path: str, _mode: int = 0) -> int:
        folder, name = self._split(path)
        if name in folder.entries:
            raise FileExistsError(17, "File exists", path)
        self.step("create", path)
        file = File()
        folder.change(name, file)
        self.step()
        return self._handle(file)

    def open_append(self, path: str) -> int:
        return self.open_write(path)  # the product appends at the end it knows, under a lock

    def open_write(self, path: str) -> int:
        folder, name = self._split(path)
        if name not in folder.entries:
            return self.create(path)
        return self._handle(self._file(path))

    def open_read(self, path: str) -> int:
        return self._handle(self._file(path))

    def sync_dir(self, path: str) -> None:
        folder = self._folder(path)
        self.step("sync_dir", path)
        folder.disk = dict(folder.entries)
        folder.log = []
        self.step()

    def link(self, source: str, target: str) -> bool:
        file = self._file(source)
        folder, name = self._split(target)
        if name in folder.entries:
            return False
        self.step("link", source, target)
        folder.change(name, file)
        self.step()
        return True

    def replace(self, source: str, target: str) -> None:
        file = self._file(source)
        folder, name = self._split(target)
        self.step("replace", source, target)
        folder.change(name, file)
        origin, old = self._split(source)
        origin.change(old, None)
        self.step()

    def unlink(self, path: str) -> None:
        try:
            folder, name = self._split(path)
        except FileNotFoundError:
            return
        if name in folder.entries:
            self.step("unlink", path)
            folder.change(name, None)
            self.step()

    def exists(self, path: str) -> bool:
        try:
            folder, name = self._split(path)
        except OSError:
            return False
        return name in folder.entries

    def changed_ms(self, path: str) -> int | None:
        """Files here have no times: each counts as written just now, so that whoever asks reads it."""
        return 1 << 50 if self.exists(path) else None

    def list(self, path: str) -> list[str]:
        try:
            return sorted(self._folder(path).entries)
        except FileNotFoundError:
            return []

    # -- bytes

    def write(self, fd: int, body: bytes | memoryview) -> None:
        file = self._open[fd]
        self._put(file, bytes(body), len(file.data))

    def write_at(self, fd: int, body: bytes, offset: int) -> None:
        self._put(self._open[fd], bytes(body), offset)

    def _put(self, file: File, body: bytes, offset: int) -> None:
        alive = not self.dead
        try:
            self.step("write", offset, body)
        except PowerCut:
            if alive:  # killed in the middle of it
                self._apply(file, body[: self.random.randint(0, len(body))], offset)
            raise
        self._apply(file, body, offset)
        self.step()

    def _apply(self, file: File, body: bytes, offset: int) -> None:
        if body:  # an empty write extends nothing
            if len(file.data) < offset:
                file.data.extend(bytes(offset - len(file.data)))
            file.data[offset : offset + len(body)] = body
            file.log.append((offset, body))

    def read_at(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(self._open[fd].data[offset : offset + size])

    def size(self, fd: int) -> int:
        return len(self._open[fd].data)

    def truncate(self, fd: int, size: int) -> None:
        file = self._open[fd]
        self.step("truncate", size)
        del file.data[size:]
        file.log.append((size, None))
        self.step()

    def sync(self, fd: int) -> None:
        file = self._open[fd]
        self.step("sync")
        file.disk = bytes(file.data)
        file.log = []
        self.step()

    def sync_all(self, path: str) -> None:
        """The bytes of the files in this folder are kept, and no name."""
        self.step("sync_all", path)
        for file in self._folder(path).entries.values():
            if isinstance(file, File):
                file.disk = bytes(file.data)
                file.log = []
        self.step()

    def start_writing_back(self, fd: int, offset: int, size: int) -> None:
        """A hint; what it might bring to the disk early, a cut may keep anyway."""

    def close(self, fd: int) -> None:
        if self.dead:
            raise PowerCut
        del self._open[fd]

    def lock(self, path: str) -> SimLock:
        return SimLock(self, self._locks, path)


class SimLock:
    """As long as its process lives."""

    def __init__(self, fs: SimFs, held: dict[str, SimLock], path: str) -> None:
        self._fs = fs
        self._held = held
        self._path = path

    def take(self) -> bool:
        if self._fs.dead:
            raise PowerCut
        return self._held.setdefault(self._path, self) is self

    def is_held(self, tx: object) -> bool:
        return self._held.get(self._path) is self

    def release(self) -> None:
        if self._fs.dead:
            raise PowerCut
        if self._held.get(self._path) is self:
            del self._held[self._path]

    def close(self) -> None:
        self.release()


class SimObjects(FileObjects):
    """The real object store over the simulated files."""

    def _file(self, fd: int) -> io.FileIO:
        fs = self._fs
        body = fs.read_at(fd, fs.size(fd), 0)
        fs.close(fd)
        return io.BytesIO(body)  # type: ignore[return-value]


class WithoutFileSync(SimFs):
    """A product that forgets to sync its files."""

    def sync(self, fd: int) -> None:
        self.step("sync")


class WithoutFolderSync(SimFs):
    """A product that forgets to sync its folders."""

    def sync_dir(self, path: str) -> None:
        self._folder(path)
        self.step("sync_dir", path)


class OnlyKills(SimFs):
    """Power is never lost: nothing can be missing, whatever is synced or not."""

    def restart(self, *, power: bool) -> None:
        super().restart(power=False)
