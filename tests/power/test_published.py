"""F03, F04 for public files: after any power cut they are complete, or the next run delivers them again."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.power.published import Disk, Played, WithoutFileSync, WithoutFolderSync, uninterrupted
from tests.power.schedules import Broken
from tests.power.tally import tally
from tests.sampling import sampled

SEEDS = 1_000
SHARDS = 20


def sweep(part: str, seeds: range, *, together: bool = False) -> None:
    """Play every seed; the first failures name their seeds, to be had again by `Played(seed)`."""
    found: Counter[str] = Counter()
    failed = []
    for seed in seeds:
        try:
            played = Played(seed, together=together)
        except Broken as problem:
            failed.append(f"seed {seed}: {problem}")
            if len(failed) == 20:
                break
        else:
            found["walks_that_publish"] += 1
            found["kills_in_walks_that_publish"] += played.kills
            found["power_cuts_in_walks_that_publish"] += played.cuts
            found["files_published_before_the_cuts"] += played.published_before
    tally("power-published", part, (seeds.start, seeds.stop), len(failed), **found)
    assert not failed, f"{len(failed)}; " + "; ".join(failed[:3])
    assert found["power_cuts_in_walks_that_publish"] > len(seeds) // 2, "hardly any power was cut"
    assert found["kills_in_walks_that_publish"] > len(seeds) // 3, "hardly anything was killed"
    assert found["files_published_before_the_cuts"] > 5 * len(seeds), "hardly anything was published before"


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_what_was_published_is_there_and_whole_after_every_cut(shard: int) -> None:
    each = SEEDS // SHARDS
    sweep(f"walks {shard}", range(shard * each, (shard + 1) * each))


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_files_that_were_synced_together_are_there_and_whole_after_every_cut(shard: int) -> None:
    each = SEEDS // SHARDS
    sweep(f"together {shard}", range(shard * each, (shard + 1) * each), together=True)


@pytest.mark.long
@pytest.mark.parametrize("shard", range(10))
def test_what_was_published_is_there_after_a_great_many_cuts(shard: int) -> None:
    first = 1_000_000 + shard * 3_000
    sweep(f"walks long {shard}", range(first, first + 3_000))


def test_the_scenario_publishes_every_kind_of_file_and_some_of_them_twice() -> None:
    alone = uninterrupted()
    kinds = Counter(path.partition("/")[0] for path in alone.files)
    assert kinds["datasets"] > 5 and kinds["receipts"] > 5 and kinds["events"] > 2
    assert len(alone.named) > len(alone.files), "no pointer was ever replaced, no file removed"


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("disk", [WithoutFileSync, WithoutFolderSync])
def test_a_publisher_that_does_not_sync_is_found_out(disk: type[Disk], together: bool) -> None:
    found = 0
    for seed in range(30):
        try:
            Played(seed, disk, together=together)
        except Broken:
            found += 1
    tally("power-published", disk.__name__, (0, 30), seeded_bugs=1, seeds_that_found_the_bug=found)
    assert found > 3
