"""What is published, over the simulated disk: the real publisher, killed or cut anywhere, and delivered again.

Between two power cuts there are kills: a process that dies leaves names behind that nobody has synced, and
the next one finds them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

import msgspec

from kfm.delivery import public_layout
from kfm.errors import KfmError
from kfm.fsio import REAL, Fs
from kfm.model.canonical import canonical
from kfm.model.keys import digest as digest_of
from kfm.model.ports import Lock, PublicFile
from kfm.model.records import Receipt
from kfm.projections.file_paths import version_path
from kfm.sinks import folder_publisher
from kfm.sinks.folder_publisher import FilesPublisher
from tests.power.installation import ITEMS, Installation
from tests.power.schedules import JOURNAL, OBJECTS, Broken
from tests.power.simfs import PowerCut, SimFs
from tests.power.walks import Heard, Journal, Stored, small_rows

PUBLIC, PRIVATE = "/public", "/kfm"
UNFINISHED = ".publishing"  # the one name under which a file may be half written,
MANY = "/.publishing-many/"  # and the folder in which several may


def unfinished(path: str) -> bool:
    return path.endswith("/" + UNFINISHED) or MANY in path


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
            if not unfinished(path) and (path, digest_of(body)) not in self.given:
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

    disk = REAL

    def __init__(
        self, public: str, private: str, lock: Callable[[], Lock], reader: Reader, fs: Fs | None = None
    ) -> None:
        super().__init__({"": public, "receipts": private, "events": private}, lock=lock, fs=fs or self.disk)
        self._reader = reader

    def write_file(self, path: str, digest: str, size: int, key: str, body: Iterable[bytes]) -> None:
        self._reader.give(path, digest)
        super().write_file(path, digest, size, key, body)
        self._reader.publish(path, digest)

    def write_files(self, folder: str, files: Iterable[PublicFile], check: Callable[[], None]) -> None:
        files = list(files)
        for each in files:
            self._reader.give(each.path, each.digest)
        super().write_files(folder, files, check)
        for each in files:
            self._reader.publish(each.path, each.digest)

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


class Disk:
    """The simulated disk; whoever wants to forget something overrides it here, and the store forgets nothing."""

    make_dirs, remove_tree = Fs.make_dirs, Fs.remove_tree

    def __init__(self, fs: SimFs) -> None:
        self._fs = fs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)


class WithoutFileSync(Disk):
    """A publisher that forgets to sync its files."""

    def sync(self, fd: int) -> None:
        pass

    def sync_all(self, path: str) -> None:
        pass


class WithoutFolderSync(Disk):
    """A publisher that forgets to sync its folders."""

    def sync_dir(self, path: str) -> None:
        pass


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
    return {path: body for path, body in published(fs).items() if not unfinished(path)}


def start(fs: SimFs, heard: Heard, reader: Reader, disk: type[Disk]) -> Installation:
    def objects(state: Any) -> Stored:
        stored = Stored(OBJECTS, state, fs)
        stored.heard = heard
        return stored

    reader.check(published(fs))
    seen: Any = disk(fs)
    publisher = Watched(PUBLIC, PRIVATE, lambda: fs.lock("/kfm/publish.lock"), reader, seen)
    it = Installation(Journal(JOURNAL, fs, heard), objects, publisher=publisher)
    heard.check(it)
    return it


def work(fs: SimFs, heard: Heard, reader: Reader, disk: type[Disk] = Disk) -> Installation:
    def told(receipt: Receipt) -> None:
        heard.receipt(receipt)
        if list(it.state.outbox.due("publish")):
            raise Broken("a run was acknowledged before what it publishes was delivered")

    it = start(fs, heard, reader, disk)
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
    """What the run ends in when nothing happens, the files it publishes, and the steps the disk took for it."""

    result: dict[str, bytes]
    files: dict[str, bytes]
    steps: int
    named: list[int]


@contextmanager
def layout(*, together: bool) -> Iterator[None]:
    """With `together`, all files of a version are synced together and shared with others."""
    before = public_layout.FILES, folder_publisher.MANY
    if together:
        public_layout.FILES, folder_publisher.MANY = 0, 1
    try:
        yield
    finally:
        public_layout.FILES, folder_publisher.MANY = before


@lru_cache
def uninterrupted(*, together: bool = False) -> Uninterrupted:
    fs, heard, reader = Counting(Random(0)), Heard(), Reader()
    with small_rows(), layout(together=together):
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
    """The files that an undisturbed run leaves, but for events that nobody had to be told of."""
    return found == {name: body for name, body in files.items() if name in found or not untold(body, files)}


class Played:
    """One installation with a few interruptions: kills first, and then the power is cut."""

    def __init__(self, seed: int, disk: type[Disk] = Disk, *, together: bool = False) -> None:
        expected = uninterrupted(together=together)
        random = Random(seed)
        fs, heard, reader = SimFs(random), Heard(), Reader()
        self.kills = self.cuts = self.published_before = 0
        with small_rows(), layout(together=together):
            try:
                for power in random.choice(((True,), (True, True), (False, True), (False, True), (False, False, True))):
                    fs.fuel = random.choice((random.randint(1, expected.steps), self._soon(random, power, expected)))
                    with suppress(PowerCut):
                        work(fs, heard, reader, disk)
                    self.kills += fs.dead and not power
                    self.cuts += fs.dead and power
                    self.published_before += power and len(reader.done)
                    fs.restart(power=power)
                result = work(fs, heard, reader, disk).result()
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
