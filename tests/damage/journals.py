"""The journal of a real run as bytes, and the judgement of any bytes that pretend to be one."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import lru_cache
from random import Random
from typing import NamedTuple

from kfm.errors import Corrupt
from kfm.store.jsonl import JsonlTables
from kfm.store.objects import FileObjects
from tests.power.installation import Installation
from tests.power.simfs import File, SimFs, SimObjects

Rows = dict[str, dict[str, bytes]]


class Journal(NamedTuple):
    body: bytes
    note: bytes
    starts: list[int]  # where each record begins, and where the last one ends
    states: list[str]  # what the tables hold after none, one, two … records


class Verdict(NamedTuple):
    """What opening it came to."""

    outcome: str  # whole, repaired, refused
    records: int  # how many records the tables then hold; of a refusal, the number of the first bad one
    content: str  # digest of the tables
    left: bytes  # the journal afterwards


def files(body: bytes, note: bytes | None) -> SimFs:
    fs = SimFs(Random(0))
    journal = File()
    journal.data = bytearray(body)
    journal.disk = body
    fs.root.entries["state"] = journal
    if note is not None:
        beside = File()
        beside.data = bytearray(note)
        fs.root.entries["state.ack"] = beside
    return fs


def digest_of(tables: JsonlTables) -> str:
    rows = tables._rows._rows
    return hashlib.sha256(repr(sorted((t, sorted(r.items())) for t, r in rows.items() if r)).encode()).hexdigest()


def judge(body: bytes, note: bytes | None, *, writable: bool = True) -> Verdict:
    """Open it. Anything but a plain answer is an error of the product, and raised."""
    fs = files(body, note)
    try:
        tables = JsonlTables("/state", fs, create=writable, lock=fs.lock)
    except Corrupt as refusal:
        assert isinstance(refusal.fields.get("record"), int), "a refusal names the first bad record"
        assert str(refusal.fields["record"]) in refusal.message
        return Verdict("refused", int(refusal.fields["record"] or 0), "", fs.tree()["/state"])
    left = fs.tree()["/state"]
    outcome = "repaired" if tables.repaired_bytes else "whole"
    return Verdict(outcome, tables._count, digest_of(tables), left)


@lru_cache
def journal() -> Journal:
    """Ten kilobytes, in which everything is acknowledged."""
    fs = SimFs(Random(0))

    def objects(state: object) -> FileObjects:
        return SimObjects("/objects", state, fs)  # type: ignore[arg-type]

    tables = JsonlTables("/state", fs, lock=fs.lock)
    it = Installation(tables, objects)
    with suppress(_LongEnough):
        it.work(lambda _receipt: _stop_at(fs, 10_000))
    tables.begin()
    tables.put("objects", "sha256:" + "0" * 64, bytes(range(256)))  # bytes that are not text
    tables.put("meta", "an example @ here", "ein Gruß: \U0001f5fa @ \u0080".encode())
    tables.commit()
    body, note = fs.tree()["/state"], fs.tree()["/state.ack"]
    starts, states = [0], [judge(b"", None).content]
    for line in body.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
        states.append(judge(body[: starts[-1]], None).content)
    assert len(set(states)) == len(states), "two records in a row changed nothing"
    return Journal(body, note, starts, states)


class _LongEnough(Exception):
    pass


def _stop_at(fs: SimFs, size: int) -> None:
    if len(fs.tree()["/state"]) >= size:
        raise _LongEnough
