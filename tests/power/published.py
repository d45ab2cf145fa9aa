"""What is published, over the simulated disk: the real publisher, killed or cut anywhere, and delivered again.

Between two power cuts there are kills: a process that dies leaves names behind that nobody has synced, and
the next one finds them there.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

import msgspec

import kfm.publish.files as files_module
from kfm.contract.canonical import canonical
from kfm.contract.keys import digest as digest_of
from kfm.contract.ports import Lock
from kfm.contract.records import Receipt
from kfm.errors import KfmError
from kfm.projections.artifacts import version_path
from kfm.publish.files import FilesPublisher
from tests.power.installation import ITEMS, Installation
from tests.power.schedules import JOURNAL, OBJECTS, Broken
from tests.power.simfs import PowerCut, SimFs
from tests.power.walks import Heard, Journal, Stored, small_rows

PUBLIC, PRIVATE = "/public", "/kfm"
UNFINISHED = ".publishing"  # the one name under which a file may be half written


class Reader:
    """Stands outside with what the publisher was given, and what of it was said to be done."""

    def __init__(self) -> None:
        self.given: set[tuple[str, str]] = set()
        self.done: dict[str, str] = {}
        self.pointers: dict[str, int] = {}

    def give(self, path: str, digest: str) -> None:
        self.given.add((path, digest))

    def publish(self, path: str, digest: str) -> None:
        self.done[path] = digest

    def take_back(self, path: str) -> None:
        """From now on it may be gone."""
        self.done.pop(path, None)

    def point(self, path: str, seq: int) -> None:
        self.pointers[path] = max(seq, self.pointers.get(path, 0))

    def check(self, found: dict[str, bytes]) -> None:
        """`found`: every published file there is, by its path."""
        for path, body in found.items():
            if not path.endswith("/" + UNFINISHED) and (path, digest_of(body)) not in self.given:
                raise Broken(f"{path} is not whole")
        for path, digest in self.done.items():
            if path not in found:
                raise Broken(f"{path} was published and is gone")
            if digest_of(found[path]) != digest:
                raise Broken(f"{path} was published and has other bytes")
        for path, seq in self.pointers.items():
            if path not in found:
                raise Broken(f"the pointer {path} is gone")
            if msgspec.json.decode(found[path])["seq"] < seq:
                raise Broken(f"the pointer {path} went back")


class Watched(FilesPublisher):
    """The real publisher, with a reader who hears what it is given and when it says that it is done."""

    def __init__(self, public: str, private: str, lock: Callable[[], Lock], reader: Reader) -> None:
        super().__init__({"": public, "receipts": private, "events": private}, lock=lock)
        self._reader = reader

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        self._reader.give(path, digest)
        super().write_file(path, digest, size, key, body)
        self._reader.publish(path, digest)

    def remove_file(self, path: str, key: str, check: Callable[[], None]) -> None:
        self._reader.take_back(path)
        super().remove_file(path, key, check)

    def emit_event(self, event: dict[str, Any], key: str) -> None:
        path, digest = f"events/{digest_of(key.encode())[7:39]}.json", digest_of(canonical(event))
        self._reader.give(path, digest)
        super().emit_event(event, key)
        self._reader.publish(path, digest)

    def update_metadata(self, target: str, value: dict[str, Any], key: str) -> None:
        self._reader.give(target, digest_of(canonical(value)))
        super().update_metadata(target, value, key)
        self._reader.point(target, value["seq"])


# -- the simulated disk, as the publisher sees it


class SimOs:
    """Of the system what the publisher asks of it, and nothing else."""

    O_RDONLY, O_WRONLY, O_CREAT, O_EXCL = os.O_RDONLY, os.O_WRONLY, os.O_CREAT, os.O_EXCL
    O_NOFOLLOW, O_CLOEXEC, O_DIRECTORY = os.O_NOFOLLOW, os.O_CLOEXEC, os.O_DIRECTORY

    def __init__(self, fs: SimFs) -> None:
        self._fs = fs
        self._folders: dict[int, str] = {}
        self.path = SimPath(fs)
        self.replace = fs.replace
        self.listdir = fs.list

    def rmdir(self, path: str) -> None:
        if self._fs.list(path):
            raise OSError(39, "Directory not empty", path)
        self._fs.unlink(path)

    def mkdir(self, path: str, mode: int = 0o777) -> None:
        if self._fs.exists(path):
            raise FileExistsError(17, "File exists", path)
        self._fs.mkdir(path)

    def unlink(self, path: str) -> None:
        if not self._fs.exists(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        self._fs.unlink(path)

    def open(self, path: str, flags: int, _mode: int = 0) -> int:
        if flags & os.O_DIRECTORY:
            self._fs._folder(path)
            fd = -1 - len(self._folders)
            self._folders[fd] = path
            return fd
        return self._fs.create(path) if flags & os.O_CREAT else self._fs.open_read(path)

    def fsync(self, fd: int) -> None:
        if fd in self._folders:
            self._fs.sync_dir(self._folders[fd])
        else:
            self._fs.sync(fd)

    def close(self, fd: int) -> None:
        if fd not in self._folders:
            self._fs.close(fd)

    def open_file(self, fd: int, mode: str) -> io.BytesIO | SimFile:
        if mode == "wb":
            return SimFile(self._fs, fd)
        body = self._fs.read_at(fd, self._fs.size(fd), 0)
        self._fs.close(fd)
        return io.BytesIO(body)


class WithoutFileSync(SimOs):
    """A publisher that forgets to sync its files."""

    def fsync(self, fd: int) -> None:
        if fd in self._folders:
            super().fsync(fd)


class WithoutFolderSync(SimOs):
    """A publisher that forgets to sync its folders."""

    def fsync(self, fd: int) -> None:
        if fd not in self._folders:
            super().fsync(fd)


class SimPath:
    join = staticmethod(os.path.join)
    dirname = staticmethod(os.path.dirname)

    def __init__(self, fs: SimFs) -> None:
        self.isdir = fs.is_dir
        self.lexists = fs.exists

    def islink(self, _path: str) -> bool:
        return False


class SimFile:
    """Open for writing, with a buffer: what was not flushed is not even the system's."""

    def __init__(self, fs: SimFs, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._buffer = b""

    def __enter__(self) -> SimFile:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.flush()
        self._fs.close(self._fd)

    def write(self, body: bytes) -> None:
        self._buffer += body

    def flush(self) -> None:
        body, self._buffer = self._buffer, b""
        if body:
            self._fs.write(self._fd, body)

    def fileno(self) -> int:
        return self._fd


@contextmanager
def publishing_to(fs: SimFs, system: type[SimOs] = SimOs) -> Iterator[None]:
    """Until the end of the block the publisher's disk is this one."""
    sim, there = system(fs), vars(files_module)
    there.update(os=sim, open=sim.open_file)
    try:
        yield
    finally:
        there["os"] = os
        del there["open"]


# -- one installation that publishes


def published(fs: SimFs) -> dict[str, bytes]:
    """By the path the publisher knows it under."""
    found = {}
    for path, body in fs.tree().items():
        for root, below in ((PUBLIC, "/"), (PRIVATE, "/receipts/"), (PRIVATE, "/events/")):
            if path.startswith(root + below):
                found[path[len(root) + 1 :]] = body
    return found


def finished(fs: SimFs) -> dict[str, bytes]:
    return {path: body for path, body in published(fs).items() if not path.endswith("/" + UNFINISHED)}


def start(fs: SimFs, heard: Heard, reader: Reader) -> Installation:
    def objects(state: Any) -> Stored:
        stored = Stored(OBJECTS, state, fs)
        stored.heard = heard
        return stored

    reader.check(published(fs))
    publisher = Watched(PUBLIC, PRIVATE, lambda: fs.lock("/kfm/publish.lock"), reader)
    it = Installation(Journal(JOURNAL, fs, heard), objects, publisher=publisher)
    heard.check(it)
    return it


def work(fs: SimFs, heard: Heard, reader: Reader) -> Installation:
    def told(receipt: Receipt) -> None:
        heard.receipt(receipt)
        if list(it.state.outbox.due("publish")):
            raise Broken("a run was acknowledged before what it publishes was delivered")

    it = start(fs, heard, reader)
    it.work(told)
    heard.check(it)
    reader.check(published(fs))
    return it


class Counting(SimFs):
    """Remembers after which of its steps a published file had just got its name."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.steps = 0
        self.named: list[int] = []

    def step(self, *what: object) -> None:
        super().step(*what)
        self.steps += 1
        if what[:1] == ("replace",):
            self.named.append(self.steps)


class Uninterrupted(NamedTuple):
    """What the walk ends in when nothing happens, the files it publishes, and the steps the disk took for it."""

    result: dict[str, bytes]
    files: dict[str, bytes]
    steps: int
    named: list[int]


@lru_cache
def uninterrupted() -> Uninterrupted:
    fs, heard, reader = Counting(Random(0)), Heard(), Reader()
    with small_rows(), publishing_to(fs):
        result = work(fs, heard, reader).result()
    assert len(heard.receipts) == len(ITEMS) and len(fs.named) > len(finished(fs))
    return Uninterrupted(result, finished(fs), fs.steps, fs.named)


def untold(body: bytes, files: dict[str, bytes]) -> bool:
    """Is this the event of a version that does not stand in the end, of which there is no listing then? It need not
    have been told before it was taken back: a sink tells where a dataset stands (decision 12), and if it could not
    tell of a version in time it never does. One that stands, superseded or not, is told of, and so is every withdrawal.
    """
    if not body.startswith(b'{"dataset":') or b'"org.kfm.dataset.published.v1"' not in body:
        return False
    event = msgspec.json.decode(body)
    listing = f"{version_path(event['dataset'], event['version'])}.ndjson"
    return not any(name.endswith(listing) for name in files)


def same_in_the_end(found: dict[str, bytes], files: dict[str, bytes]) -> bool:
    """The files that an undisturbed walk leaves, but for events that nobody had to be told of."""
    return found == {name: body for name, body in files.items() if name in found or not untold(body, files)}


class Played:
    """One installation with a few interruptions: kills first, and then the power is cut."""

    def __init__(self, seed: int, system: type[SimOs] = SimOs) -> None:
        expected = uninterrupted()
        random = Random(seed)
        fs, heard, reader = SimFs(random), Heard(), Reader()
        self.kills = self.cuts = self.published_before = 0
        with small_rows(), publishing_to(fs, system):
            try:
                for power in random.choice(((True,), (True, True), (False, True), (False, True), (False, False, True))):
                    fs.fuel = random.choice((random.randint(1, expected.steps), self._soon(random, power, expected)))
                    with suppress(PowerCut):
                        work(fs, heard, reader)
                    self.kills += fs.dead and not power
                    self.cuts += fs.dead and power
                    self.published_before += power and len(reader.done)
                    fs.restart(power=power)
                result = work(fs, heard, reader).result()
            except KfmError as problem:
                raise Broken(f"{type(problem).__name__} after a power cut: {problem}") from problem
        if result != expected.result:
            raise Broken("the end is another one")
        found, files = finished(fs), expected.files
        if not same_in_the_end(found, files):
            names = sorted(name for name in found.keys() | files if found.get(name) != files.get(name))
            raise Broken(f"other files are published in the end: {names[:5]}")

    def _soon(self, random: Random, power: bool, expected: Uninterrupted) -> int:
        """The worst moments: a kill when a name was just given, and a cut while the next process looks around."""
        return random.randint(1, 60) if power else random.choice(expected.named)
