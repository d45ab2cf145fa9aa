"""Promise 4, F05 for SQLite: bits flipped in the database and in its log, ends cut off, pages moved about.

Each must end as what it was or as a refusal (exit 65). SQLite itself takes the first damaged frame of a
log for its torn end and drops what follows without a word; the note next to the database is what tells.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random

import pytest

from kfm.errors import Corrupt
from kfm.fsio import REAL, write_note
from kfm.store.snapshot import SnapshotTables
from kfm.store.sqlite import SqliteTables
from tests.damage.databases import Database, database, digest_of, in_memory, judge
from tests.power.tally import tally
from tests.sampling import sampled

PAGE = 1024
SCHEMA = 8 * PAGE  # the header, and what the tables look like
SHARDS = 60


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    with in_memory():
        yield


def flipped(body: bytes, bit: int) -> bytes:
    changed = bytearray(body)
    changed[bit >> 3] ^= 1 << (bit & 7)
    return bytes(changed)


@lru_cache
def region() -> list[int]:
    """More than ten kilobytes of the file: its header and schema whole, the head of every page, and as
    many bytes of rows as it takes."""
    base = database("closed").base
    chosen = dict.fromkeys(range(SCHEMA))
    for page in range(PAGE, len(base), PAGE):
        chosen.update(dict.fromkeys(range(page, page + 48)))
    used = [at for at in range(PAGE, len(base)) if base[at]]
    Random(1).shuffle(used)
    for at in used:
        if len(chosen) > 10_240:
            break
        chosen[at] = None
    return list(chosen)


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_every_flipped_bit_of_ten_kilobytes_is_refused_or_changes_nothing(shard: int) -> None:
    it = database("closed")
    bits = [at * 8 + n for at in region()[shard::SHARDS] for n in range(8)]
    sweep(it, f"bits of the file {shard}", bits, "base")


@pytest.mark.parametrize("shard", sampled(range(8)))
def test_flipped_bits_anywhere_else_in_the_file_are_refused_or_change_nothing(shard: int) -> None:
    it = database("closed")
    random = Random(2 + 100 * shard)
    sweep(it, f"sample of the rest {shard}", [random.randrange(len(it.base) * 8) for _ in range(500)], "base")


def sweep(it: Database, part: str, bits: list[int], where: str) -> Counter[str]:
    found: Counter[str] = Counter()
    wrong = []
    for bit in bits:
        base = flipped(it.base, bit) if where == "base" else it.base
        log = flipped(it.log, bit) if where == "log" else it.log
        verdict = judge(base, log, it.acked, it.content)
        found[verdict.outcome] += 1
        if verdict.outcome == "other":
            wrong.append(bit)
    tally("damage-sqlite", part, None, len(wrong), flipped_bits=len(bits), refused=found["refused"], same=found["same"])
    assert not wrong, f"other content was accepted after flipping bits {wrong[:5]}"
    assert found["refused"]
    return found


@pytest.mark.parametrize("shard", sampled(range(5)))
@pytest.mark.parametrize("kind", ["killed", "half"])
def test_a_flipped_bit_in_a_log_left_behind_is_refused_or_changes_nothing(kind: str, shard: int) -> None:
    it = database(kind)
    frame = PAGE + 24
    bits = list(range(32 * 8))  # the log's own header
    for start in range(32, len(it.log), frame):
        bits += range(start * 8, (start + 24) * 8, 3)
        random = Random(start)
        bits += [(start + 24 + random.randrange(PAGE)) * 8 + random.randrange(8) for _ in range(30)]
    found = sweep(it, f"bits of the log ({kind}) {shard}", bits[shard::5], "log")
    if kind == "killed":
        assert not found["same"], "everything in this log was acknowledged, so every bit of it counts"


@pytest.mark.parametrize("shard", sampled(range(5)))
def test_in_a_large_state_what_decides_is_looked_at_whenever_it_is_opened(
    monkeypatch: pytest.MonkeyPatch, shard: int
) -> None:
    """Of a large database not every page is read on opening. A row that vanishes elsewhere is missed when it
    is asked for, or by the deep look; but no ref, freeze, lease or unfinished run may be gone without a word."""
    import kfm.store.snapshot as snapshot_module
    import tests.damage.databases as databases_module

    it = database("closed")
    monkeypatch.setattr(databases_module, "CONTENT", ("meta", "refs", "open_runs", "leases", "inbox"))
    monkeypatch.setattr(snapshot_module, "_SMALL", -1)
    databases_module._held[0] = (it.base, it.log, it.acked)
    tables = SnapshotTables("state")
    content = digest_of(tables)
    roots = dict(tables._execute("SELECT name, rootpage FROM sqlite_schema").fetchall())
    tables.close()
    pages = [(roots[name] - 1) * PAGE for name in ("guard", "meta", "refs", "open_runs", "leases", "inbox")]
    spots = [page + at for page in pages for at in range(PAGE) if at < 16 or it.base[page + at]]
    random = Random(3)
    bits = [at * 8 + n for at in spots if at % PAGE < 40 for n in range(8)]
    bits += [random.choice(spots) * 8 + random.randrange(8) for _ in range(3_000)]
    part = f"bits of what decides, in a large state {shard}"
    found = sweep(it._replace(content=content), part, bits[shard::5], "base")
    assert found["refused"] > 200


def test_without_the_note_sqlite_loses_acknowledged_commits_without_a_word() -> None:
    """Why the note is there. If this ever fails, SQLite notices by itself and the note may go."""
    it = database("killed")
    lost = sum(
        judge(it.base, flipped(it.log, bit), 0, it.content).outcome == "other"
        for bit in range(0, len(it.log) * 8, len(it.log) * 8 // 200)
    )
    tally(
        "damage-sqlite",
        "bits of the log without the note",
        flipped_bits_where_the_note_was_taken_away=200,
        lost_without_a_word_by_sqlite_alone=lost,
    )
    assert lost > 190


@pytest.mark.parametrize("shard", sampled(range(3)))
@pytest.mark.parametrize("kind", ["closed", "half"])
def test_a_file_cut_off_anywhere_is_refused_or_whole(kind: str, shard: int) -> None:
    it = database(kind)
    sizes = [*range(0, len(it.base), 509), *range(0, len(it.base), PAGE)][shard::3]
    outcomes = Counter(judge(it.base[:size], it.log, it.acked, it.content).outcome for size in sizes)
    tally("damage-sqlite", f"truncated file ({kind}) {shard}", None, outcomes["other"], truncations=len(sizes))
    assert set(outcomes) <= {"refused", "same"}
    assert outcomes["refused"] > len(sizes) * 0.9


def test_a_log_cut_off_anywhere_is_refused_if_anything_acknowledged_is_gone() -> None:
    for kind in ("killed", "half"):
        it = database(kind)
        sizes = {size + by for size in range(32, len(it.log), PAGE + 24) for by in (-1, 0, 1, 24, 25) if size + by >= 0}
        sizes |= set(range(0, len(it.log), 1009))
        outcomes = Counter(judge(it.base, it.log[:size], it.acked, it.content).outcome for size in sizes)
        tally("damage-sqlite", f"truncated log ({kind})", None, outcomes["other"], truncations=len(sizes))
        assert set(outcomes) <= {"refused", "same"}, outcomes
        assert outcomes["refused"] > 50


@pytest.mark.parametrize("shard", sampled(range(4)))
def test_pages_moved_about_are_never_taken_for_what_they_are_not(shard: int) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(shard, 1_200, 4):
        random = Random(seed)
        it = database(random.choice(("closed", "half")))
        size = random.choice((PAGE, PAGE, 512))
        where = random.choice(("base", "log")) if it.log else "base"
        body = it.base if where == "base" else it.log
        a, b = (random.randrange(len(body) // size) * size for _ in range(2))
        way = random.randrange(4)
        one, two = body[a : a + size], body[b : b + size]
        changed = bytearray(body)
        if way == 0:
            changed[a : a + size] = bytes(size)
        elif way == 1:
            # An empty page in its place, or only the head of one, is an empty table: not noticed.
            if where == "base" and (size == PAGE or (a % PAGE == b % PAGE == 0 and two[3:5] == bytes(2))):
                continue
            changed[a : a + size] = two
        elif way == 2:
            changed[a : a + size], changed[b : b + size] = two, one
        else:
            changed[a : a + size] = random.randbytes(size)
        base, log = (bytes(changed), it.log) if where == "base" else (it.base, bytes(changed))
        outcome = judge(base, log, it.acked, it.content).outcome
        assert outcome != "other", f"seed {seed}: other content was accepted"
        outcomes[outcome] += 1
    tally(
        "damage-sqlite", f"pages moved about {shard}", (0, 1_200), 0, rearrangements=sum(outcomes.values()), **outcomes
    )
    assert outcomes["refused"] > 150


def lay(folder: Path, it: Database, *, base: bytes | None = None, log: bytes | None = None) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = folder / "state"
    path.write_bytes(it.base if base is None else base)
    if it.log:
        (folder / "state-wal").write_bytes(it.log if log is None else log)
    fd = REAL.open_write(str(folder / "state.ack"))
    write_note(REAL, fd, it.acked)
    REAL.close(fd)
    return str(path)


def test_a_connection_judges_like_a_snapshot_and_leaves_what_it_refuses_as_it_is(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for seed in range(200):
        random = Random(seed)
        it = database(random.choice(("closed", "killed", "half")))
        base, log = it.base, it.log
        if log and random.random() < 0.6:
            log = flipped(log, random.randrange(len(log) * 8))
        else:
            base = flipped(base, random.choice(region()) * 8 + random.randrange(8) if len(base) > PAGE else seed)
        expected = judge(base, log, it.acked, it.content)
        path = lay(tmp_path / "home", it, base=base, log=log)
        try:
            tables = SqliteTables(path)
            outcome = "same" if digest_of(tables) == it.content else "other"
            tables.close()
        except Corrupt:
            outcome = "refused"
            assert Path(path).read_bytes() == base, f"seed {seed}: a refusal changed the database"
            if log:
                assert Path(path + "-wal").read_bytes() == log, f"seed {seed}: a refusal changed the log"
        assert outcome == expected.outcome, f"seed {seed}: {expected}"
        counts[outcome] += 1
    tally("damage-sqlite", "by a connection", (0, 200), 0, flipped_bits=200, **counts)
    assert counts["refused"] > 60


def test_a_log_that_was_removed_or_a_database_that_was_emptied_is_noticed(tmp_path: Path) -> None:
    it = database("half")
    for damage in ("no log", "empty", "no file", "older copy"):
        path = lay(tmp_path / "home", it)
        if damage == "no log":
            os.unlink(path + "-wal")
        elif damage == "empty":
            Path(path).write_bytes(b"")
        elif damage == "no file":
            os.unlink(path)
        else:
            older = database("closed")
            Path(path).write_bytes(older.base)
            os.unlink(path + "-wal")
        before = {file.name: file.read_bytes() for file in Path(path).parent.iterdir()}
        with pytest.raises(Corrupt, match="acknowledged commits are missing") as refusal:
            SqliteTables(path)
        assert "state.ack" in refusal.value.hint
        after = {file.name: file.read_bytes() for file in Path(path).parent.iterdir() if not file.name.endswith("-shm")}
        assert {name: body for name, body in after.items() if body or name in before} == before, damage
        with pytest.raises(Corrupt, match="acknowledged commits are missing"):
            _snapshot(path)
        if damage == "older copy":  # put back on purpose: the hint says how
            os.unlink(path + ".ack")
            tables = SqliteTables(path)
            assert digest_of(tables) == older.content
            tables.close()


def _snapshot(path: str) -> SnapshotTables:
    """From the real files, as `in_memory` is in force."""
    import kfm.store.snapshot as module

    held = module.read_files, module.note_at
    module.read_files, module.note_at = _real
    try:
        return SnapshotTables(path)
    finally:
        module.read_files, module.note_at = held


def _real_functions() -> tuple[object, object]:
    import kfm.store.snapshot as module

    return module.read_files, module.note_at


_real = _real_functions()  # before any fixture replaces them


def test_every_durable_commit_is_counted_and_noted_and_no_other(tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    one, two = SqliteTables(path), SqliteTables(path)
    for n, (tables, durable) in enumerate([(one, True), (two, True), (one, False), (two, True), (one, True)]):
        tables.begin(durable)
        tables.put("runs", str(n), b"x")
        tables.commit()
    one.begin()
    one.put("runs", "never", b"x")
    one.rollback()
    from kfm.fsio import note_at

    assert note_at(REAL, path + ".ack") == 4
    assert two._guarded("commits") == b"4"
    one.close()
    two.close()
    assert note_at(REAL, path + ".ack") == 4
    SqliteTables(path).close()
