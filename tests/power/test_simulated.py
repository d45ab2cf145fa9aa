"""F04: reordered, dropped and torn writes, by the ten thousand, over a simulated disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest

from kfm.fsio import Fs, note_at, write_apart, write_note
from kfm.model.manifests import named_parts
from kfm.store.jsonl import JsonlTables
from tests.power import schedules, walks
from tests.power.installation import DATASET, Counties
from tests.power.schedules import Broken
from tests.power.simfs import OnlyKills, PowerCut, SimFs, WithoutFileSync, WithoutFolderSync
from tests.power.tally import tally
from tests.sampling import sampled, tries

SCHEDULES = 52_000
WALKS = 3_000
SHARDS = 52


def sweep(part: str, what: str, play: Callable[[int], SimFs], seeds: range) -> None:
    """Play every seed; the first failures name their seeds, to be had again by `play(seed)`."""
    cuts, failed, played = 0, [], 0
    for played, seed in enumerate(seeds, 1):  # noqa: B007
        try:
            cuts += play(seed).cuts
        except Broken as problem:
            failed.append(f"seed {seed}: {problem}")
            if len(failed) == 20:
                break
    tally(
        "power-simulated",
        part,
        (seeds.start, seeds.stop),
        len(failed),
        **{what: played, f"power_cuts_in_{what}": cuts},
    )
    assert not failed, f"{len(failed)} of {played}; " + "; ".join(failed[:3])
    assert cuts > len(seeds) // 2, "hardly any power was cut"


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_no_schedule_loses_what_the_journal_or_the_objects_acknowledged(shard: int) -> None:
    each = SCHEDULES // SHARDS
    sweep(f"journal {shard}", "schedules", schedules.play, range(shard * each, (shard + 1) * each))


@pytest.mark.parametrize("shard", sampled(range(40)))
def test_every_run_ends_as_it_would_without_the_power_cuts(shard: int) -> None:
    each = WALKS // 40
    sweep(f"walks {shard}", "walks", walks.play, range(shard * each, (shard + 1) * each))


def test_walks_over_a_tree_of_several_levels_end_where_they_would_have() -> None:
    over_a_tree("trees", range(tries(40)))


@pytest.mark.long
@pytest.mark.parametrize("shard", range(4))
def test_a_great_many_runs_over_a_tree_end_as_they_should(shard: int) -> None:
    over_a_tree(f"many trees {shard}", range(1000 + 200 * shard, 1200 + 200 * shard))


def over_a_tree(part: str, seeds: range) -> None:
    fs = SimFs(Random(0))
    with walks.small_rows():
        it = walks.start(fs, walks.Heard(), Counties)
        it.work(lambda _receipt: None)
        named = named_parts(it.objects, it.state.refs.at(f"processed/{DATASET}"))
    assert named is not None and named[0].depth, "a root above parts above parts of entries"
    sweep(part, "walks", partial(walks.play, gauges=Counties), seeds)


@pytest.mark.long
@pytest.mark.parametrize("shard", range(20))
def test_a_million_schedules_lose_nothing(shard: int) -> None:
    first = 1_000_000 + shard * 50_000
    sweep(f"journal long {shard}", "schedules", schedules.play, range(first, first + 50_000))


@pytest.mark.long
@pytest.mark.parametrize("shard", range(10))
def test_a_great_many_runs_end_as_they_should(shard: int) -> None:
    first = 1_000_000 + shard * 5_000
    sweep(f"walks long {shard}", "walks", walks.play, range(first, first + 5_000))


class KilledAfterCutting(SimFs):
    """The first who cuts off a torn tail is killed before it has made that durable."""

    killed = False

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        if not self.killed:
            self.killed = self.dead = True
            raise PowerCut

    def go_on(self) -> None:
        """That process is gone; the power stayed, and so did the others."""
        self.dead, self.fuel = False, 1 << 60
        self._locks.clear()


@pytest.mark.parametrize("who", ["one that was open all the time", "a new one"])
def test_a_cut_is_durable_before_anything_is_written_behind_it(who: str) -> None:
    """Else a power cut may bring back the torn bytes, with whole lines behind them."""
    killed = 0
    for seed in range(3_000):
        random = Random(seed)
        fs = KilledAfterCutting(random)
        open_all_the_time, torn = JsonlTables("/state", fs, lock=fs.lock), JsonlTables("/state", fs, lock=fs.lock)
        with suppress(PowerCut):
            fs.fuel = 0
            _put(torn, b"t" * random.randrange(900))
        fs.go_on()
        with suppress(PowerCut):
            JsonlTables("/state", fs, lock=fs.lock)
        if not fs.killed:  # nothing of the line had been written
            continue
        killed += 1
        fs.go_on()
        tables = open_all_the_time if who.startswith("one") else JsonlTables("/state", fs, lock=fs.lock)
        for _ in range(2):
            _put(tables, b"n" * random.randrange(500))
        fs.restart(power=True)
        JsonlTables("/state", fs, lock=fs.lock)  # refuses nothing: nothing was acknowledged
    tally("power-simulated", f"unsynced cut, {who}", (0, 3_000), killed_while_cutting=killed)
    assert killed > 2_000


def _put(tables: JsonlTables, value: bytes) -> None:
    tables.begin(durable=False)
    tables.put("runs", "a", value)
    tables.commit()


# -- is the simulator any good?


@pytest.mark.parametrize("play", [schedules.play, walks.play], ids=["journal", "walks"])
@pytest.mark.parametrize("kind", [WithoutFileSync, WithoutFolderSync])
def test_a_forgotten_sync_is_found_within_two_thousand_seeds(play: Callable[..., SimFs], kind: type[SimFs]) -> None:
    tried = 2_000 if play is schedules.play else 60
    found = 0
    for seed in range(tried):
        try:
            play(seed, kind)
        except Broken:
            found += 1
    name = f"{kind.__name__} {'journal' if play is schedules.play else 'walks'}"
    tally("power-simulated", name, (0, tried), seeded_bugs=1, seeds_that_found_the_bug=found)
    assert found > tried // 20


class UnsureOfFolders(SimFs):
    """A product that believes a folder is durable because it is there."""

    def make_dirs(self, path: str, mode: int = 0o700) -> None:
        missing = []
        while not self.is_dir(path):
            missing.append(path)
            path = os.path.dirname(path) or "."
        for folder in reversed(missing):
            self.mkdir(folder, mode)
            self.sync_dir(os.path.dirname(folder) or ".")


class TrustsWhatItFinds(JsonlTables):
    """A product that takes lines it finds on opening for durable without making them so."""

    def _open_to_write(self, folder: str) -> None:
        sync, self._fs.sync = self._fs.sync, lambda fd: None  # type: ignore[method-assign]
        try:
            super()._open_to_write(folder)
        finally:
            self._fs.sync = sync  # type: ignore[method-assign]


class Trusting(schedules.Program):
    def open(self) -> JsonlTables:
        return TrustsWhatItFinds(schedules.JOURNAL, self.fs, lock=self.fs.lock)


@pytest.mark.long
def test_subtler_omissions_are_found_too() -> None:
    for name, kind, program in (
        ("folders of the dead", UnsureOfFolders, schedules.Program),
        ("unsynced repair", SimFs, Trusting),
    ):
        found = 0
        for seed in range(2_000):
            try:
                schedules.play(seed, kind, program)
            except Broken:
                found += 1
        tally("power-simulated", name, (0, 2_000), seeded_bugs=1, seeds_that_found_the_bug=found)
        assert found, name


def test_without_power_cuts_nothing_is_ever_missing_even_with_no_sync_at_all() -> None:
    class NoSyncAtAll(OnlyKills):
        def sync(self, fd: int) -> None:
            self.step("sync")

        def sync_dir(self, path: str) -> None:
            self.step("sync_dir", path)

    for seed in range(500):
        schedules.play(seed, NoSyncAtAll)


@pytest.mark.parametrize("play", [schedules.play, walks.play], ids=["journal", "walks"])
def test_two_runs_of_one_seed_are_the_same_run(play: Callable[..., SimFs]) -> None:
    traces = [[play(seed, traced=True).trace() for seed in range(40)] for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(set(traces[0])) == 40


def test_a_cut_keeps_and_loses_every_kind_of_thing() -> None:
    """The disk is neither too kind nor too cruel: whatever may survive a power cut, sometimes does."""
    seen = set()
    for seed in range(400):
        fs = SimFs(Random(seed))
        fs.mkdir("/d")
        fs.sync_dir("/")
        fd = fs.create("/d/old")
        fs.write(fd, b"a" * 1500)
        fs.sync(fd)
        fs.sync_dir("/d")
        fs.write(fd, b"b" * 1500)
        fs.write_at(fd, b"c" * 10, 0)
        fs.create("/d/new")
        fs.unlink("/d/old")
        fs.restart(power=True)
        names = set(fs.list("/d"))
        seen.add("new" if "new" in names else "no new")
        seen.add("old" if "old" in names else "no old")
        if "old" in names:
            body = fs.tree()["/d/old"]
            assert body[10:1500] == b"a" * 1490, "synced bytes were lost"
            assert set(body) <= set(b"abc\0")
            seen.add("overwritten" if body[:10] == b"c" * 10 else "torn" if b"c" in body[:10] else "as before")
            seen.add("all" if body[1500:] == b"b" * 1500 else "none" if len(body) == 1500 else "some")
            seen.add("hole" if b"\0" in body else "no hole")
            seen.add("later without earlier" if body.rstrip(b"\0").endswith(b"b") and b"\0" in body else "")
    assert seen >= {
        "new", "no new", "old", "no old", "overwritten", "torn", "as before", "all", "none", "some", "hole",
        "later without earlier",
    }  # fmt: skip


def test_the_simulated_files_behave_like_real_ones(tmp_path: Path) -> None:
    """One random program on both; what every call answers, and the files in the end, are the same."""
    for seed in range(150):
        folder = tmp_path / str(seed)
        folder.mkdir()
        real, simulated = Fs(), SimFs(Random(0))
        simulated.mkdir("/r")
        answers = [program(Random(seed), real, str(folder)), program(Random(seed), simulated, "/r")]
        assert answers[0] == answers[1], f"seed {seed}"
        tree = {"/r/" + str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert simulated.tree() == tree, f"seed {seed}"


def program(random: Random, fs: Fs, root: str) -> list[object]:
    answers: list[object] = []
    handles: list[int] = []
    appending: set[int] = set()
    names = [f"{root}/{name}" for name in ("a", "b", "d/c", "d/e/f", "missing/x")]

    def ask(call: Callable[..., object], *arguments: object) -> object:
        try:
            answer = call(*arguments)
        except OSError as problem:
            answers.append((type(problem).__name__, problem.errno))
            return None
        answers.append(None if call in opening else answer)
        return answer

    opening = (fs.create, fs.open_append, fs.open_write, fs.open_read)
    for _ in range(60):
        path, fd = random.choice(names), random.choice(handles) if handles else None
        body = random.randbytes(random.randrange(40))
        n = random.randrange(60)
        choice = random.randrange(16)
        if choice < 4:
            opened = ask(opening[choice], path)
            if choice == 3 and isinstance(opened, int):
                fs.close(opened)
            elif isinstance(opened, int):
                handles.append(opened)
                if choice == 1:
                    appending.add(opened)
        elif choice == 4:
            ask(fs.make_dirs, f"{root}/{random.choice(('d', 'd/e'))}")
        elif choice == 5:
            ask(fs.link, path, random.choice(names))
        elif choice == 6:
            ask(fs.unlink, path)
        elif choice == 7:
            ask(fs.exists, path)
        elif choice == 8:
            ask(fs.list, f"{root}/d")
        elif choice == 9:
            ask(fs.is_dir, random.choice((root, root + "/d", path)))
        elif choice == 10 and path != (target := random.choice(names)):
            ask(fs.replace, path, target)
        elif fd is not None:
            if choice == 11:
                ask(fs.read_at, fd, n, random.randrange(60))
            elif choice == 12:
                if fd in appending:  # the system appends whatever the offset says, and we never ask it to
                    ask(fs.write, fd, body)
                else:
                    ask(fs.write_at, fd, body, n)
            elif choice == 13:
                ask(fs.truncate, fd, min(n, fs.size(fd)))
            elif choice == 14:
                answers.append(fs.size(fd))
            else:
                ask(fs.sync, fd)
    for fd in handles:
        fs.close(fd)
    return answers


def test_a_new_file_is_whole_or_not_there() -> None:
    for seed in range(2_000):
        random = Random(seed)
        fs = SimFs(random)
        fs.mkdir("/d")
        fs.sync_dir("/")
        fs.fuel = random.randint(1, 16)
        written = False
        with suppress(PowerCut):
            write_apart(fs, "/d/.x", [b"whole" * 100] * 3)
            fs.replace("/d/.x", "/d/x")
            fs.sync_dir("/d")
            written = True
        fs.restart(power=True)
        found = fs.tree().get("/d/x")
        assert found in (None, b"whole" * 300)
        assert found is not None or not written


def test_a_note_that_was_not_synced_says_too_little_and_never_too_much() -> None:
    said = set()
    for seed in range(3_000):
        random = Random(seed)
        fs = SimFs(random)
        fd = fs.open_write("/n")
        fs.sync_dir("/")
        noted = [0]
        for n in range(random.randint(1, 6)):
            noted.append(noted[-1] + 10 ** random.randrange(18) + n)
            write_note(fs, fd, noted[-1])
            if random.random() < 0.3:
                fs.sync(fd)
        fs.restart(power=True)
        assert note_at(fs, "/n") in noted
        said.add(noted.index(note_at(fs, "/n")) - len(noted))
    assert len(said) > 4
