"""Writes down every byte SQLite gives to the disk while a real run goes on, and makes of it the disks
that a power cut at any point could have left.

The shared memory next to a database is not durable and not written down. What is: the database, its log,
its rollback journal while it is being made, and the note of what was acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

import apsw

import kfm.store.sqlite as sqlite_module
from kfm.fsio import REAL, Fs
from tests.power.simfs import File, Folder


class Event(NamedTuple):
    """One call. `what`: open, write, truncate, sync, delete, sync names, or a mark of the observer's."""

    what: str
    file: str = ""
    offset: int = 0
    body: bytes = b""


class Tape:
    """Everything that happened below one folder, in order."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.events: list[Event] = []

    def add(self, what: str, path: str = "", offset: int = 0, body: bytes = b"") -> None:
        self.events.append(Event(what, os.path.basename(path), offset, body))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Until the end of the block SQLite writes through us."""
        vfs = _Vfs(self)
        write_note, sync_dir = sqlite_module.write_note, REAL.sync_dir

        def noting(fs: Fs, fd: int, acked: int) -> None:
            write_note(fs, fd, acked)
            self.add("open", "state.ack")
            self.add("write", "state.ack", 0, fs.read_at(fd, 64, 0))

        def syncing(path: str) -> None:
            sync_dir(path)
            if os.path.abspath(path) == self.folder:
                self.add("sync names")

        sqlite_module.write_note = noting
        REAL.sync_dir = syncing  # type: ignore[method-assign]
        try:
            yield
        finally:
            sqlite_module.write_note = write_note
            del REAL.sync_dir  # type: ignore[method-assign]
            vfs.unregister()


class _Vfs(apsw.VFS):
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        super().__init__("tape", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self.tape, name, flags)

    def xDelete(self, name: str, sync_names: bool) -> None:
        super().xDelete(name, sync_names)
        self.tape.add("delete", name)
        if sync_names:
            self.tape.add("sync names")


class _File(apsw.VFSFile):
    def __init__(self, tape: Tape, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("unix", name, flags)  # type: ignore[arg-type]
        self.tape = tape
        self.path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        # The log and the journal make their names durable with their first sync, as SQLite has it.
        self.names = self.path.endswith(("-wal", "-journal"))
        if self.path:
            tape.add("open", self.path)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self.path:
            self.tape.add("write", self.path, offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self.tape.add("truncate", self.path, size)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self.tape.add("sync", self.path)
        if self.names:
            self.tape.add("sync names")
            self.names = False


class Disk:
    """The disk as the tape is played."""

    def __init__(self) -> None:
        self.names = Folder()

    def play(self, event: Event) -> None:
        if event.what == "sync names":
            self.names.disk = dict(self.names.entries)
            self.names.log = []
        elif event.what == "open":
            if event.file not in self.names.entries:
                self.names.change(event.file, File())
        elif event.what == "delete":
            if event.file in self.names.entries:
                self.names.change(event.file, None)
        elif event.what in ("write", "truncate", "sync"):
            self._change(self.names.entries[event.file], event)  # type: ignore[arg-type]

    def _change(self, file: File, event: Event) -> None:
        if event.what == "write":
            end = event.offset + len(event.body)
            if len(file.data) < end:
                file.data.extend(bytes(end - len(file.data)))
            file.data[event.offset : end] = event.body
            file.log.append((event.offset, event.body))
        elif event.what == "truncate":
            del file.data[event.offset :]
            file.log.append((event.offset, None))
        else:
            file.disk = bytes(file.data)
            file.log = []

    def after_a_cut(self, random: Random) -> dict[str, bytes]:
        """The files a power cut now could leave."""
        copies: dict[int, File] = {}

        def copy(file: File) -> File:
            if id(file) not in copies:
                twin = copies[id(file)] = File()
                twin.data, twin.disk, twin.log = bytearray(file.data), file.disk, list(file.log)
            return copies[id(file)]

        left = Folder()
        left.entries = {name: copy(file) for name, file in self.names.entries.items()}  # type: ignore[arg-type]
        left.disk = {name: copy(file) for name, file in self.names.disk.items()}  # type: ignore[arg-type]
        left.log = [(name, file and copy(file)) for name, file in self.names.log]  # type: ignore[arg-type]
        left.lose(random)
        return {name: bytes(file.data) for name, file in left.entries.items()}  # type: ignore[union-attr]


def disks(tape: Tape, random: Random, count: int) -> Iterator[tuple[int, dict[str, bytes]]]:
    """`count` disks, each cut after a random event (given with it); half of the cuts next to a sync or a mark."""
    edges = [n for n, event in enumerate(tape.events) if event.what in ("sync", "mark", "delete", "truncate", "open")]
    points = sorted(
        random.randrange(len(tape.events))
        if random.random() < 0.5
        else max(0, random.choice(edges) - random.randint(0, 1))
        for _ in range(count)
    )
    disk, at = Disk(), 0
    for point in points:
        while at <= point:
            disk.play(tape.events[at])
            at += 1
        yield point, disk.after_a_cut(random)


def lay_out(files: dict[str, bytes], folder: str) -> None:
    """Make the folder hold exactly these files."""
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    for name, body in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(body)
