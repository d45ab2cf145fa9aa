"""Real power cuts: a file system of its own is shut down under a running process, without a flush.

    unshare --mount python -m tests.power.cutter ext4 FOLDER CUTS SEED [forgetful | forgetful-publisher]

A child runs an installation on a freshly mounted loop device and says over a pipe what it was told to be
durable. At a random one of these acknowledgements, or a moment after it, the file system is told to go
down (FS_IOC_SHUTDOWN): nothing that is still in memory reaches the disk. The child is killed, the file
system mounted again, and what is left is held against what was said. Prints one JSON object.

`forgetful` makes the child skip its syncs, `forgetful-publisher` only those of what it publishes: then things
must be missing, or the cuts cut nothing.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from kfm.errors import KfmError
from kfm.fsio import REAL, Fs
from kfm.model.canonical import canonical
from kfm.model.ports import Tables
from kfm.model.records import Receipt
from kfm.store.jsonl import JsonlTables
from kfm.store.locks import FileLock
from kfm.store.objects import FileObjects
from kfm.store.process_identity import this_process
from kfm.store.sqlite import SqliteTables
from tests.power.installation import Installation
from tests.power.published import Reader, Watched, same_in_the_end
from tests.power.schedules import INLINE
from tests.power.test_sqlite_cuts import content
from tests.power.walks import small_rows

SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN and F2FS_IOC_SHUTDOWN: _IOR('X', 125, __u32)
FLAGS = {1: "log flushed", 2: "nothing flushed"}
SIZES = {"ext4": 48 << 20, "xfs": 320 << 20}
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


class Volume:
    """A file system in a file, on a loop device."""

    def __init__(self, kind: str, folder: str) -> None:
        self.kind = kind
        self.point = os.path.join(folder, "mnt")
        image = os.path.join(folder, "disk.img")
        os.makedirs(self.point)
        with open(image, "wb") as file:
            file.truncate(SIZES[kind])
        subprocess.run([*MAKE[kind], image], check=True, capture_output=True)
        found = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
        self.device = found.stdout.strip()
        self.mounted = False

    def mount(self) -> None:
        _check(_libc.mount(self.device.encode(), self.point.encode(), self.kind.encode(), 0, b""), "mount")
        self.mounted = True

    def cut(self, flags: int) -> None:
        fd = os.open(self.point, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, SHUTDOWN, struct.pack("I", flags))
        finally:
            os.close(fd)

    def unmount(self) -> None:
        for _ in range(200):
            if _libc.umount2(self.point.encode(), 0) == 0:
                self.mounted = False
                return
            time.sleep(0.01)
        _check(-1, "umount")

    def close(self) -> None:
        if self.mounted:
            self.unmount()
        subprocess.run(["losetup", "-d", self.device], check=False, capture_output=True)


class Witness:
    """The observer outside: reads what the child says, and nothing else."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.acked = 0
        self.receipts: dict[str, str] = {}
        self.objects: set[str] = set()
        self.reader = Reader()
        self.acknowledgements = 0
        self.deaf = False  # to acknowledgements: after a real cut nobody says anything

    def hear(self, line: str) -> None:
        """A child lives on for a moment after the cut, and XFS answers it that a folder is synced which is not."""
        what, _, rest = line.partition(" ")
        if what == "state":
            self.states.append(rest)
        elif what == "give":
            self.reader.give(*rest.split())
        elif what == "take_back":
            self.reader.take_back(rest)
        elif self.deaf:
            pass
        elif what == "acked":
            self.acked = len(self.states) - 1
            self.acknowledgements += 1
        elif what == "object":
            self.objects.add(rest)
            self.acknowledgements += 1
        elif what == "receipt":
            run_id, _, digest = rest.partition(" ")
            self.receipts[run_id] = digest
            self.acknowledgements += 1
        elif what == "publish":
            self.reader.publish(*rest.split())
            self.acknowledgements += 1
        elif what == "point":
            path, _, seq = rest.partition(" ")
            self.reader.point(path, int(seq))
            self.acknowledgements += 1

    def check(self, it: Installation, published: dict[str, bytes]) -> str:
        """After the cut: everything said is there. Returns whether something unsaid was lost."""
        now = content(it.state.tables)
        if self.states:
            assert now in self.states[self.acked :], "acknowledged commits are gone"
        for run_id, digest in self.receipts.items():
            found = it.state.ledger.receipt(run_id)
            assert found is not None and _digest(canonical(found)) == digest, "a receipt that was told is gone"
        for name in self.objects:
            it.objects.read(name)
        it.check()
        self.reader.check(published)
        lost = bool(self.states) and now != self.states[-1]
        self.states, self.acked = [now], 0
        return "lost only what nobody was told of" if lost else "lost nothing"


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def reopened(kind: str, folder: str) -> Tables:
    path = os.path.join(folder, "state")
    return SqliteTables(path) if kind == "sqlite" else JsonlTables(path)


def observed(kind: str, folder: str, say: Callable[[str], None]) -> Tables:
    """The real tables, saying what they are about to become, and when it is durable."""
    parent: Any = SqliteTables if kind == "sqlite" else JsonlTables

    class Observed(parent):  # type: ignore[misc]
        def commit(self) -> None:
            durable = self._durable
            say(f"state {content(self)}")
            super().commit()
            if durable:
                say("acked")

    tables: Tables = Observed(os.path.join(folder, "state"))
    say(f"state {content(tables)}")
    return tables


class Told(FileObjects):
    say: Callable[[str], None]

    def put_stream(self, chunks: Any) -> tuple[str, int]:
        name, size = super().put_stream(chunks)
        if size > INLINE:
            self.say(f"object {name}")
        return name, size


class Speaker(Reader):
    """Says it to the witness instead of keeping it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say

    def give(self, path: str, digest: str) -> None:
        self._say(f"give {path} {digest}")

    def publish(self, path: str, digest: str) -> None:
        self._say(f"publish {path} {digest}")

    def take_back(self, path: str) -> None:
        self._say(f"take_back {path}")

    def point(self, path: str, seq: int) -> None:
        self._say(f"point {path} {seq}")


def published(folder: str) -> dict[str, bytes]:
    """Every file in the public folder, and the receipts and events next to it, by the path it was published under."""
    found: dict[str, bytes] = {}
    for root, below in (("public", "."), ("", "receipts"), ("", "events")):
        top = Path(folder, root)
        found |= {str(path.relative_to(top)): path.read_bytes() for path in (top / below).rglob("*") if path.is_file()}
    return found


def on(tables: Tables, folder: str, say: Callable[[str], None] = lambda _line: None) -> Installation:
    def objects(state: Any) -> Told:
        made = Told(os.path.join(folder, "objects"), state)
        made.say = say
        return made

    lock = partial(FileLock, os.path.join(folder, "publish.lock"))
    publisher = Watched(os.path.join(folder, "public"), folder, lock, Speaker(say))
    return Installation(tables, objects, this_process(), publisher)


def work(tables: Tables, folder: str, say: Callable[[str], None]) -> Installation:
    def told(receipt: Receipt) -> None:
        say(f"receipt {receipt.run_id} {_digest(canonical(receipt))}")

    it = on(tables, folder, say)
    it.work(told)
    return it


class Cutter:
    def __init__(self, volume: Volume, seed: int, forget: Callable[[], None]) -> None:
        self.volume = volume
        self.forget = forget
        self.random = Random(seed)
        self.found: Counter[str] = Counter()
        self.expected: dict[str, dict[str, bytes]] = {}
        self.published: dict[str, dict[str, bytes]] = {}
        self.acknowledgements: dict[str, int] = {}

    def learn(self, kind: str) -> None:
        """What an uninterrupted run ends in, and how often it acknowledges something."""
        folder = os.path.join(self.volume.point, "learn-" + kind)
        os.mkdir(folder)
        witness = Witness()
        with closing(observed(kind, folder, witness.hear)) as tables:
            self.expected[kind] = work(tables, folder, witness.hear).result()
        self.acknowledgements[kind] = witness.acknowledgements
        self.published[kind] = published(folder)
        shutil.rmtree(folder)

    def one(self, number: int) -> None:
        kind = ("sqlite", "jsonl")[number % 2]
        folder = os.path.join(self.volume.point, f"cut-{number}")
        os.mkdir(folder)
        witness = Witness()
        for _ in range(1 if self.random.random() < 0.7 else 2):  # a second one falls into the recovery
            self.interrupt(kind, folder, witness)
            with closing(reopened(kind, folder)) as tables:
                self.found[witness.check(on(tables, folder), published(folder))] += 1
        with closing(reopened(kind, folder)) as tables:
            it = on(tables, folder)
            it.work(lambda _receipt: None)
            it.check()
            assert it.result() == self.expected[kind], "the end is another one"
            found, wanted = published(folder), self.published[kind]
            other = sorted(name for name in found.keys() | wanted if found.get(name) != wanted.get(name))
            assert same_in_the_end(found, wanted), f"other files are published in the end: {other[:5]}"
        shutil.rmtree(folder)

    def interrupt(self, kind: str, folder: str, witness: Witness) -> None:
        flags = self.random.choice((1, 2))
        after = witness.acknowledgements + self.random.randint(0, self.acknowledgements[kind])
        delay = self.random.choice((0.0, 0.0, self.random.random() / 1000, self.random.random() / 200))
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self.be_the_child(kind, folder, writer)
        os.close(writer)
        heard = b""
        while witness.acknowledgements < after:
            more = os.read(reader, 65536)
            if not more:
                break
            heard = self.listen(witness, heard + more)
        time.sleep(delay)
        heard = self.drain(witness, reader, heard)
        self.volume.cut(flags)
        self.found["cuts"] += 1
        self.found[FLAGS[flags]] += 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        witness.deaf = True
        self.drain(witness, reader, heard)
        witness.deaf = False
        os.close(reader)
        self.found["acknowledged before the cut"] += witness.acknowledgements
        self.found["published before the cut"] += len(witness.reader.done)
        self.volume.unmount()
        self.volume.mount()

    def drain(self, witness: Witness, reader: int, heard: bytes) -> bytes:
        """Hear what was said up to now."""
        while select.select([reader], [], [], 0)[0] and (more := os.read(reader, 65536)):
            heard = self.listen(witness, heard + more)
        return heard

    def listen(self, witness: Witness, heard: bytes) -> bytes:
        *lines, rest = heard.split(b"\n")
        for line in lines:
            witness.hear(line.decode())
        return rest

    def be_the_child(self, kind: str, folder: str, writer: int) -> None:
        try:
            self.forget()
            with suppress(KfmError, OSError):

                def say(line: str) -> None:
                    os.write(writer, line.encode() + b"\n")

                work(observed(kind, folder, say), folder, say)
        finally:
            os._exit(0)


def forget() -> None:
    """Skip every sync from now on, in this process."""
    begin = SqliteTables.begin

    def unsynced(self: SqliteTables, durable: bool = True) -> None:
        begin(self, False)
        self._durable = durable

    REAL.sync = lambda fd: None  # type: ignore[method-assign]
    REAL.sync_dir = lambda path: None  # type: ignore[method-assign]
    SqliteTables.begin = unsynced  # type: ignore[method-assign]
    forget_to_publish()


class Forgetful(Fs):
    """The disk of a publisher that skips every sync."""

    def sync(self, fd: int) -> None:
        pass

    def sync_dir(self, path: str) -> None:
        pass


def forget_to_publish() -> None:
    """From now on, in this process."""
    Watched.disk = Forgetful()


FORGET: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "forgetful": forget,
    "forgetful-publisher": forget_to_publish,
}


def main(kind: str, folder: str, cuts: int, seed: int, forgetful: str = "") -> dict[str, Any]:
    failures: list[str] = []
    volume = Volume(kind, folder)
    try:
        volume.mount()
        cutter = Cutter(volume, seed, FORGET[forgetful])
        with small_rows():
            for backend in ("sqlite", "jsonl"):
                cutter.learn(backend)
            number = 0
            while cutter.found["cuts"] < cuts:
                number += 1
                try:
                    cutter.one(number)
                except (AssertionError, KfmError) as problem:
                    failures.append(f"installation {number}: {type(problem).__name__}: {problem}")
                    print(failures[-1], file=sys.stderr, flush=True)
    finally:
        volume.close()
    return {"counts": dict(cutter.found), "failures": failures, "installations": number}


if __name__ == "__main__":
    json.dump(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:]), sys.stdout)
