"""F03, F04 for SQLite: every write is recorded, and every disk that a power cut could leave is opened again."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.ports import Tables
from kfm.model.records import Receipt
from kfm.store.objects import FileObjects
from kfm.store.sqlite import SqliteTables, migrations
from tests.power.installation import Installation
from tests.power.recording import Disk, Event, Tape, disks, lay_out
from tests.power.tally import tally

NAMES = tuple(
    line.split()[2] for _, text in migrations() for line in text.splitlines() if line.startswith("CREATE TABLE")
)
CONTENT = tuple(name for name in NAMES if name != "guard")
STATES = 2_000
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # the cut is simulated: no need to wait for a disk


@pytest.fixture
def scratch() -> Iterator[str]:
    folder = tempfile.mkdtemp(dir=MEMORY)
    yield folder
    shutil.rmtree(folder)


def content(tables: Tables) -> str:
    total = hashlib.sha256()
    for name in CONTENT:
        for key, value in tables.scan(name):
            total.update(repr((name, key, value)).encode())
    return total.hexdigest()


class Observed(SqliteTables):
    """The real tables, with an observer who marks each commit on the tape, before it and after it."""

    tape: Tape
    states: list[str]

    def commit(self) -> None:
        durable = self._durable
        self.states.append(content(self))
        self.tape.events.append(Event("mark", "began", len(self.states) - 1))
        super().commit()
        self.tape.events.append(Event("mark", "acked" if durable else "ended", len(self.states) - 1))


class Recorded:
    """One run through the list of an installation, on tape."""

    def __init__(self, folder: str, checkpoint: int, reopen: bool) -> None:
        self.tape = Tape(folder)
        self.states = [""]
        self.receipts: list[tuple[int, str, bytes]] = []  # from which event on, and which
        with self.tape.recording():
            for _ in range(3 if reopen else 1):
                it = self._open(folder, checkpoint)
                self.states[0] = self.states[0] or content(it.state.tables)
                stop = [len(it.done()) + 2]
                with suppress(_Enough):
                    it.work(lambda receipt, it=it, stop=stop: self._told(receipt, it, reopen and stop[0]))  # type: ignore[misc]
                it.state.close()
        with self.tape.recording():
            it = self._open(folder, checkpoint)
            it.work(lambda receipt: self._told(receipt, it, 0))
            self.result = it.result()
            it.state.close()

    def _open(self, folder: str, checkpoint: int) -> Installation:
        Observed.tape, Observed.states = self.tape, self.states
        tables = Observed(os.path.join(folder, "state"))
        tables._execute(f"PRAGMA wal_autocheckpoint={checkpoint}")
        return Installation(tables, lambda state: FileObjects(os.path.join(folder, "objects"), state))

    def _told(self, receipt: Receipt, it: Installation, stop: int) -> None:
        self.receipts.append((len(self.tape.events), receipt.run_id, canonical(receipt)))
        if stop and len(it.done()) >= stop:
            raise _Enough

    def bounds(self, point: int) -> tuple[int, int]:
        """After a cut there: the last commit that was acknowledged, and the last that had begun."""
        acked = began = 0
        for event in self.tape.events[: point + 1]:
            if event.what == "mark":
                began = max(began, event.offset)
                if event.file == "acked":
                    acked = event.offset
        return acked, began


class _Enough(Exception):
    """Close, and open again."""


@pytest.fixture(scope="module")
def tapes() -> Iterator[list[Recorded]]:
    folder = tempfile.mkdtemp(dir=MEMORY)
    made = []
    for n, (checkpoint, reopen) in enumerate([(1000, False), (9, False), (30, True), (1000, True)]):
        place = os.path.join(folder, str(n))
        os.mkdir(place)
        made.append(Recorded(place, checkpoint, reopen))
    yield made
    shutil.rmtree(folder)


def sweep(tapes: list[Recorded], scratch: str, part: str, seed: int, count: int) -> None:
    found: Counter[str] = Counter()
    failed: list[str] = []
    for n, recorded in enumerate(tapes):
        bounds = [recorded.bounds(point) for point in range(len(recorded.tape.events))]
        for number, (point, files) in enumerate(disks(recorded.tape, Random(seed + n), count // len(tapes))):
            lay_out(files, scratch)
            try:
                outcome = examine(recorded, scratch, point, bounds[point], resume=number % 5 == 0)
            except (KfmError, AssertionError) as problem:
                outcome = "failed"
                failed.append(f"tape {n}, seed {seed + n}, cut {number} after event {point}: {problem}")
            found[outcome] += 1
            found["states"] += 1
            found["with a log"] += bool(files.get("state-wal"))
            found["before the first commit"] += bounds[point][0] == 0
    tally(
        "power-sqlite",
        part,
        (seed, seed + len(tapes)),
        len(failed),
        **{k.replace(" ", "_"): v for k, v in found.items()},
    )
    assert not failed, f"{len(failed)}: " + "; ".join(failed[:4])
    assert found["lost what was not acknowledged"] and found["kept all that had begun"], found


def examine(recorded: Recorded, folder: str, point: int, bounds: tuple[int, int], *, resume: bool) -> str:
    acked, began = bounds
    tables = SqliteTables(os.path.join(folder, "state"))
    try:
        tables.verify()
        now = content(tables)
        assert now in recorded.states[acked : began + 1], (
            "acknowledged commits are gone" if now in recorded.states[:acked] else "a state there never was"
        )
        it = Installation(tables, lambda state: FileObjects(os.path.join(folder, "objects"), state))
        for known_from, run_id, body in recorded.receipts:
            if known_from <= point:
                receipt = it.state.ledger.receipt(run_id)
                assert receipt is not None and canonical(receipt) == body, "a receipt that was told is gone"
        if resume:
            it.check()
            it.work(lambda _receipt: None)
            it.check()
            assert it.result() == recorded.result, "the end is another one"
        return "kept all that had begun" if now == recorded.states[began] else "lost what was not acknowledged"
    finally:
        tables.close()


def test_the_tapes_hold_what_a_disk_sees(tapes: list[Recorded]) -> None:
    """Played to the end without a cut, a tape gives the very files that are there."""
    for recorded in tapes:
        disk = Disk()
        for event in recorded.tape.events:
            disk.play(event)
        real = {
            path.name: path.read_bytes()
            for path in Path(recorded.tape.folder).iterdir()
            if path.is_file() and not path.name.endswith("-shm")
        }
        assert {name: bytes(file.data) for name, file in disk.names.entries.items()} == real  # type: ignore[union-attr]
        what = Counter((event.what, event.file) for event in recorded.tape.events)
        assert what["sync", "state-wal"] > 20 and what["write", "state"] > 5 and what["delete", "state-wal"] >= 1


def test_no_cut_loses_what_sqlite_acknowledged(tapes: list[Recorded], scratch: str) -> None:
    sweep(tapes, scratch, "default", 1, STATES // 10)


@pytest.mark.long
@pytest.mark.parametrize("shard", range(11))
def test_a_great_many_cuts_lose_nothing(tapes: list[Recorded], scratch: str, shard: int) -> None:
    sweep(tapes, scratch, f"long {shard}", 1000 * (shard + 1), STATES)


@pytest.mark.parametrize("lie", ["the log is never synced", "synchronous=NORMAL"])
def test_a_commit_that_is_not_synced_is_found_missing(
    tapes: list[Recorded], scratch: str, lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lie == "the log is never synced":
        recorded = tapes[0]
        monkeypatch.setattr(
            recorded.tape, "events", [e for e in recorded.tape.events if (e.what, e.file) != ("sync", "state-wal")]
        )
    else:
        monkeypatch.setattr(SqliteTables, "begin", _always_normal)
        folder = tempfile.mkdtemp(dir=scratch)
        recorded = Recorded(folder, 1000, False)
    found = 0
    again = tempfile.mkdtemp(dir=MEMORY)
    for point, files in disks(recorded.tape, Random(5), 150):
        lay_out(files, again)
        try:
            examine(recorded, again, point, recorded.bounds(point), resume=False)
        except (KfmError, AssertionError):
            found += 1
    shutil.rmtree(again)
    tally("power-sqlite", lie, (5, 6), seeded_bugs=1, states_that_found_the_bug=found)
    assert found > 15


def _always_normal(self: SqliteTables, durable: bool = True) -> None:
    self._lock.acquire()
    self._execute("PRAGMA synchronous=NORMAL")
    self._execute("BEGIN IMMEDIATE")
    self._durable, self._open = durable, True
