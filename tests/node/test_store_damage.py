"""Both languages judge damaged files alike, and change none of them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.store_words import Here, There, dump, plain
from tests.power.tally import tally
from tests.store import records as make

KINDS = ("sqlite", "jsonl")


def written_by(store: Any, kind: str, path: Path, n: int) -> None:
    """A small state with some of everything, in several transactions, the last of them without a sync."""
    assert "ok" in store.ask("open", "s", kind, str(path))
    store.ask("now", 1000)
    for k in range(n):
        lease = store.ask("ask", "s", "acquire", f"u/{k}", "h:1:2", 100)["ok"]
        steps = [
            ["claim", [make.run(run_id=f"run-{k}", claim_key=f"claim-{k}")]],
            ["objects", [[[make.DIGEST, bytes([255, k])], ["sha256:b", "grüße".encode()]]]],
            ["receipt", [make.receipt(run_id=f"run-{k}"), {"op": "run"}]],
        ]
        assert "ok" in store.ask("write", "s", lease, {"durable": k < n - 1}, plain(steps), False)


def copy_of(folder: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(folder, to)
    return to / "state"


def judged(store: Any, kind: str, path: Path) -> Any:
    """What a store says of a state, and what it leaves of it."""
    answer = store.ask("open", "s", kind, str(path))
    if "ok" in answer:
        answer["rows"] = dump(store, "s")
        answer["close"] = store.ask("close", "s")
    answer["looked"] = store.ask("open", "look", f"overlay-{kind}", str(path))
    if "ok" in answer["looked"]:
        answer["looked"]["rows"] = dump(store, "look")
        store.ask("close", "look")
    return answer


def files(folder: Path) -> dict[str, bytes]:
    """Those that say something."""
    found = {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith((".lock", "-shm"))}
    return {name: body for name, body in found.items() if body or name == "state"}


class Court:
    """Both languages before the same damage, each with a copy of its own."""

    def __init__(self, tmp_path: Path, kind: str, intact: Path) -> None:
        self.kind, self.intact, self.tmp = kind, intact, tmp_path
        self.here, self.there, self.turns = Here(), There(), 0
        self.accepted = self.refused = 0

    def __enter__(self) -> Court:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.there.__exit__()

    def hear(self, name: str, body: bytes, story: object, *, without: str = "") -> None:
        self.turns += 1
        if self.turns % 200 == 0:  # what was refused stays open there until the process ends
            self.there.__exit__()
            self.there = There()
        verdicts, left = [], []
        for who, store in (("here", self.here), ("there", self.there)):
            path = copy_of(self.intact, self.tmp / who)
            (path.parent / name).write_bytes(body)
            if without:
                (path.parent / without).unlink()
            before = files(path.parent)
            verdicts.append(judged(store, self.kind, path))
            after = files(path.parent)
            if "error" in verdicts[-1]:
                assert after == before, f"{who} changed what it refused: {story}"
            left.append({n: b for n, b in after.items() if self.kind == "jsonl"})
        assert verdicts[0] == verdicts[1], story
        assert left[0] == left[1], story
        self.refused += "error" in verdicts[0]
        self.accepted += "ok" in verdicts[0]


def flips(body: bytes, every: int, seed: int) -> Iterator[tuple[int, bytes]]:
    draw = random.Random(seed)
    for at in range(0, len(body), every):
        place = min(len(body) - 1, at + draw.randrange(every))
        yield place, body[:place] + bytes([body[place] ^ 1 << draw.randrange(8)]) + body[place + 1 :]


def holes(body: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Sectors, or anything else, of zeros; with and without what follows."""
    draw = random.Random(seed)
    for _ in range(count):
        start = draw.randrange(len(body))
        end = draw.choice((start // 512 * 512 + 512, start + draw.randrange(1, 400), len(body)))
        zeroed = body[:start] + bytes(min(end, len(body)) - start) + body[end:]
        yield f"zeros from {start} to {end}", zeroed[: draw.choice((len(body), end + draw.randrange(300)))]


def make_intact(tmp_path: Path, kind: str, n: int) -> Path:
    """Written by Node, which is then gone without closing anything."""
    folder = tmp_path / "intact"
    folder.mkdir()
    there = There()
    written_by(there, kind, folder / "state", n)
    there.process.kill()
    there.__exit__()
    return folder


def journal_trials(tmp_path: Path, every: int, zeroed: int) -> None:
    intact = make_intact(tmp_path, "jsonl", 3)
    body = (intact / "state").read_bytes()
    lines = body.split(b"\n")
    assert len(lines) == 7
    last = len(body) - len(lines[-2]) - len(lines[-3]) - 2
    with Court(tmp_path, "jsonl", intact) as court:
        for without in ("", "state.ack"):
            for end in range(last, len(body) + 1, 1 if every <= 16 else 23):
                court.hear("state", body[:end], f"cut at {end}", without=without)
            for place, bad in flips(body, every, 1):
                court.hear("state", bad, f"a bit of byte {place}", without=without)
            for story, bad in holes(body, zeroed, 2):
                court.hear("state", bad, story, without=without)
        note = (intact / "state.ack").read_bytes()
        for place, bad in flips(note, 1, 3):
            court.hear("state.ack", bad, f"a bit of byte {place} of the note")
    assert court.accepted
    assert court.refused
    tally("node-store", f"journal-{every}", None, 0, damaged_journals=court.turns, refused_alike=court.refused)


def database_trials(tmp_path: Path, every: int) -> None:
    intact = make_intact(tmp_path, "sqlite", 3)
    log = (intact / "state-wal").read_bytes()
    with Court(tmp_path, "sqlite", intact) as court:
        for place, bad in flips(log, every, 4):
            court.hear("state-wal", bad, f"a bit of byte {place} of the log")
        for end in range(0, len(log), every * 7 + 1):
            court.hear("state-wal", log[:end], f"the log cut at {end}")
    closed = Here()
    closed.ask("open", "s", "sqlite", str(intact / "state"))
    closed.ask("close", "s")
    body = (intact / "state").read_bytes()
    assert len(body) > 4096
    with Court(tmp_path, "sqlite", intact) as other:
        for place, bad in flips(body, every, 5):
            other.hear("state", bad, f"a bit of byte {place}")
        for end in range(0, len(body), every * 7 + 1):
            other.hear("state", body[:end], f"cut at {end}")
    assert court.refused
    assert other.refused
    refused = court.refused + other.refused
    tally("node-store", f"base-{every}", None, 0, damaged_databases=court.turns + other.turns, refused_alike=refused)


def test_every_damage_of_a_journal_is_judged_alike(tmp_path: Path) -> None:
    journal_trials(tmp_path, 631, 14)


def test_every_damage_of_a_database_and_its_log_is_judged_alike(tmp_path: Path) -> None:
    database_trials(tmp_path, 2903)


@pytest.mark.long
def test_a_great_many_damages_of_a_journal_are_judged_alike(tmp_path: Path) -> None:
    journal_trials(tmp_path, 1, 1000)


@pytest.mark.long
def test_a_great_many_damages_of_a_database_are_judged_alike(tmp_path: Path) -> None:
    database_trials(tmp_path, 17)
