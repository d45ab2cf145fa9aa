"""Whole runs over the simulated disk: the real engine, cut anywhere, resumed, and compared with one never cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from random import Random

import kfm.engine.execute as execute_module
import kfm.store.stored_objects as objects_module
from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.records import Receipt
from kfm.store.jsonl import JsonlTables
from tests.power.installation import ITEMS, Gauges, Installation
from tests.power.schedules import INLINE, JOURNAL, OBJECTS, Broken
from tests.power.simfs import PowerCut, SimFs, SimObjects


class Journal(JsonlTables):
    """The real journal, with an observer who hears of every commit."""

    def __init__(self, path: str, fs: SimFs, heard: Heard) -> None:
        self._heard = heard
        super().__init__(path, fs, lock=fs.lock)
        heard.check_journal(self)

    def commit(self) -> None:
        durable, pending, count = self._durable, bool(self._pending), self._count
        if pending:
            self._heard.heads.append("")
        super().commit()
        if pending:
            self._heard.heads[count + 1] = self._head
        if durable:
            self._heard.acked = self._count


class Heard:
    """The observer: the chain of commits, how far it was acknowledged, and every receipt that was told."""

    def __init__(self) -> None:
        self.heads = [""]  # of the journal after each line; the last may be of a line that was never written
        self.acked = 0
        self.receipts: dict[str, bytes] = {}
        self.objects: set[str] = set()

    def check_journal(self, tables: Journal) -> None:
        count = tables._count
        if count < self.acked:
            raise Broken(f"{self.acked} commits were acknowledged and {count} are left")
        if count >= len(self.heads) or (count and self.heads[count] not in (tables._head, "")):
            raise Broken("the journal holds what was never written")
        del self.heads[count + 1 :]
        self.heads[-1] = tables._head
        self.acked = count

    def receipt(self, receipt: Receipt) -> None:
        self.receipts[receipt.run_id] = canonical(receipt)

    def check(self, it: Installation) -> None:
        for run_id, body in self.receipts.items():
            found = it.state.ledger.receipt(run_id)
            if found is None or canonical(found) != body:
                raise Broken("a receipt that was told is gone or another")
        for name in self.objects:
            if not it.objects.has(name):
                raise Broken("an object that was stored is gone")
        try:
            it.check()
        except AssertionError as problem:
            raise Broken(str(problem)) from problem


class Stored(SimObjects):
    """The real object store, with the observer."""

    heard: Heard

    def put_stream(self, chunks: object) -> tuple[str, int]:
        name, size = super().put_stream(chunks)  # type: ignore[arg-type]
        if size > INLINE:
            self.heard.objects.add(name)
        return name, size


@contextmanager
def small_rows() -> Iterator[None]:
    """Outputs above INLINE bytes are files, so that a small run has some."""
    before = objects_module.INLINE_MAX
    objects_module.INLINE_MAX = execute_module.INLINE_MAX = INLINE
    try:
        yield
    finally:
        objects_module.INLINE_MAX = execute_module.INLINE_MAX = before


def start(fs: SimFs, heard: Heard, gauges: type[Gauges] = Gauges) -> Installation:
    def objects(state: object) -> Stored:
        stored = Stored(OBJECTS, state, fs)  # type: ignore[arg-type]
        stored.heard = heard
        return stored

    it = Installation(Journal(JOURNAL, fs, heard), objects, gauges=gauges)
    heard.check(it)
    return it


@lru_cache
def uninterrupted(gauges: type[Gauges]) -> tuple[dict[str, bytes], int]:
    """What the run ends in when nothing happens, and how many steps the disk took for it."""
    with small_rows():
        fs, heard = SimFs(Random(0)), Heard()
        fs.fuel = 1 << 40
        it = start(fs, heard, gauges)
        it.work(heard.receipt)
        heard.check(it)
        assert len(heard.receipts) == len(ITEMS)
        return it.result(), (1 << 40) - fs.fuel


def play(seed: int, kind: type[SimFs] = SimFs, *, traced: bool = False, gauges: type[Gauges] = Gauges) -> SimFs:
    """One run with up to three interruptions, some of them inside the recovery from the one before."""
    expected, steps = uninterrupted(gauges)
    random = Random(seed)
    fs, heard = kind(random, traced=traced), Heard()
    with small_rows():
        try:
            for _ in range(random.choice((1, 1, 2, 3))):
                fs.fuel = random.randint(1, steps)
                with suppress(PowerCut):
                    start(fs, heard, gauges).work(heard.receipt)
                fs.restart(power=random.random() < 0.8)
            it = start(fs, heard, gauges)
            it.work(heard.receipt)
            heard.check(it)
            result = it.result()
        except KfmError as problem:
            raise Broken(f"{type(problem).__name__} after a power cut: {problem}") from problem
    if result != expected:
        names = sorted(name for name in result.keys() | expected if result.get(name) != expected.get(name))
        raise Broken(f"the end is another one: {names[:5]}")
    return fs
