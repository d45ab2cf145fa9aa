"""A manifest is a tree of parts: equal content is an equal tree, and a run costs what it changed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from kfm.engine.verify import verify
from kfm.errors import Corrupt
from kfm.model import manifests
from kfm.model.keys import digest
from kfm.model.records import SourceRef, Step
from kfm.model.updater import Output, Plan, Reader
from tests.engine.site_under_test import Lines, MemorySite
from tests.engine.trees import Orchard, line
from tests.sampling import sampled
from tools.version_of import version_of


@pytest.mark.parametrize("size", sampled([1, 128, 129, 700, 40, 150, 2500], keep=4))
def test_the_same_content_is_the_same_version_whatever_its_history(size: int) -> None:
    orchard, depths = Orchard(), set()
    for seed in range(50 if size == 700 else 12):
        chance = random.Random(f"{size}/{seed}")
        wanted = {chance.randrange(4 * size): chance.randrange(1000) for _ in range(size)}
        at_once = orchard.write("", wanted)
        version, content = "", dict[int, int]()
        for _ in range(chance.randrange(1, 6)):
            some = {i: chance.randrange(1000) for i in chance.sample(range(4 * size), chance.randrange(size + 1))}
            sealed = chance.random() < 0.3
            before, content = content, some if sealed else content | some
            root = orchard.write(version, some, sealed=sealed)
            assert orchard.tally.deleted == (len(before.keys() - some.keys()) if sealed else 0)
            assert orchard.tally.superseded == sum(before.get(i, value) != value for i, value in some.items())
            assert (root.entries, root.size) == (len(content), sum(content.values()))
            assert orchard.content(root.digest) == content
            version = root.digest
            depths.add(orchard.depth(version))
        for _ in range(3):  # the last steps of the way, in parts
            some = dict(chance.sample(sorted(wanted.items()), len(wanted) // 2))
            version = orchard.write(version, some).digest
        assert orchard.write(version, wanted, sealed=True) == at_once
    assert max(depths) == {1: 0, 40: 0, 128: 1, 129: 1, 150: 1}.get(size, 2)


def test_a_run_writes_the_path_to_what_it_changed_and_reads_no_more() -> None:
    orchard = Orchard()
    root = orchard.write("", {2 * i: 1 for i in range(40_000)})
    depth = orchard.depth(root.digest)
    assert depth == 3
    for i in (0, 40_000, 79_998):  # another value moves no cut
        changed = orchard.write(root.digest, {i: 2})
        assert len(orchard.rows) == depth + 1 and sum(map(len, orchard.rows.values())) < 40_000
        assert len(orchard.objects.read_names) <= depth + 2
        assert orchard.write(changed.digest, {i: 1}) == root
    for i in (1, 40_001, 79_999):  # another key moves a few at most
        changed = orchard.write(root.digest, {i: 2})
        assert len(orchard.rows) <= 3 * (depth + 1)
        assert len(orchard.objects.read_names) <= 4 * (depth + 1)
    assert orchard.write(root.digest, {4: 1}) == root and not orchard.rows, "nothing changed"


def test_one_key_is_found_by_the_path_to_it() -> None:
    orchard = Orchard()
    version = orchard.write("", {2 * i: i for i in range(5000)}).digest
    orchard.objects.read_names.clear()
    found = manifests.find(orchard.objects, version, ("row", f"{2468:07d}"))
    assert found is not None and found.size == 1234
    assert len(orchard.objects.read_names) == orchard.depth(version) + 1
    for absent in (("row", f"{2469:07d}"), ("row",), ("rox",), ("a", "b")):
        assert manifests.find(orchard.objects, version, absent) is None


def test_a_long_manifest_in_one_piece_is_read_as_ever_and_continued_in_parts() -> None:
    orchard = Orchard()
    content = {i: i for i in range(1000)}
    old = orchard.objects.put(b"".join(line(i, i)[1].encode() for i in content))
    assert orchard.content(old) == content
    assert manifests.find(orchard.objects, old, ("row", f"{77:07d}")) is not None
    assert list(manifests.parts(orchard.objects, old)) == [old]
    content[5] = 55
    assert orchard.write(old, {5: 55}) == orchard.write("", content)
    assert orchard.depth(orchard.write(old, {5: 55}).digest) > 0


class Keyed(Lines):
    """A step for each of these keys; its output is the key and a value."""

    def __init__(self, keys: Sequence[int], value: str = "", complete: bool = False) -> None:
        super().__init__()
        self.keys, self.value, self.complete = keys, value, complete

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        steps = (Step(id=f"{i}", key=("row", f"{i:05d}"), params={"value": self.value}) for i in self.keys)
        return Plan(steps, complete=self.complete)

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(f"{step.id} {self.value}".encode(), "text/plain")


_bodies = count()


def ran(site: MemorySite, updater: Keyed, *, sealed: bool = False) -> str:
    site.shelf.body, site.shelf.complete = b"%d" % next(_bodies), sealed
    receipt = site.run(updater)
    assert receipt.status == "SUCCESS", receipt
    version = site.state.refs.at("processed/demo")
    made = site.state.ledger.version("demo", version)
    told = list(manifests.entries(site.world.objects, version))
    assert made is not None and (made.entries, made.size) == (len(told), sum(entry.size for entry in told))
    return version


def test_runs_of_any_kind_end_in_the_tree_of_their_content() -> None:
    once = ran(MemorySite(), Keyed(range(1200)))
    site = MemorySite(deletion_budget=1.0)
    ran(site, Keyed(range(0, 1200, 2)))
    ran(site, Keyed(range(600, 1500), "other"))
    ran(site, Keyed(range(1, 1200, 2)))
    assert ran(site, Keyed(range(600, 1200))) != once
    assert ran(site, Keyed(range(1200), complete=True), sealed=True) == once
    made = site.state.ledger.version("demo", once)
    assert made is not None and made.deleted == 300
    assert len(list(manifests.parts(site.world.objects, once))) > 30
    assert verify(site.state, site.world.objects).objects > 1200


def test_what_a_run_writes_grows_with_its_changes_and_not_with_the_dataset() -> None:
    wrote = {}
    for size in (1000, 12_000):
        site = MemorySite()
        ran(site, Keyed(range(size)))
        put: list[tuple[str, int]] = []
        tables: Any = site.state.tables
        plain = tables.put

        def counted(table: str, key: str, value: bytes, plain: Any = plain, put: Any = put) -> None:
            put.append((table, len(value)))
            plain(table, key, value)

        tables.put = counted
        ran(site, Keyed([500], "changed"))
        wrote[size] = sum(bytes_ for _, bytes_ in put)
        parts = [bytes_ for table, bytes_ in put if table == "objects"]
        assert 4 <= len(parts) <= 7, "the source, the output and the path to its entry"
    assert wrote[12_000] < wrote[1000] + 20_000
    assert wrote[12_000] < 100_000


def test_a_part_that_is_gone_or_altered_is_noticed_and_named() -> None:
    site = MemorySite()
    version = ran(site, Keyed(range(1200)))
    parts = list(manifests.parts(site.world.objects, version))
    tables: Any = site.state.tables
    for name in (parts[1], parts[-1], parts[len(parts) // 2]):
        body = tables.get("objects", name)
        tables.begin()
        tables.delete("objects", name)
        tables.commit()
        with pytest.raises(Corrupt, match=name):
            verify(site.state, site.world.objects)
        tables.begin()
        tables.put("objects", name, body)
        tables.commit()
    verify(site.state, site.world.objects)


@pytest.mark.parametrize("size", [0, 1, 128, 129, 3000])
def test_the_version_can_be_computed_from_the_listing(size: int) -> None:
    orchard = Orchard()
    version = orchard.write("", {3 * i: i for i in range(size)}).digest
    listing = b"".join(manifests.listing(orchard.objects, version))
    assert listing.count(b"\n") == size
    assert version_of(listing) == version
    assert (digest(listing) == version) == (size <= manifests.WHOLE)
    if size:
        assert version_of(listing.replace(b'"size":0', b'"size":9', 1)) != version


@pytest.mark.long
def test_one_key_of_a_million_costs_a_path_of_less_than_a_hundred_kibibytes() -> None:
    orchard = Orchard()
    root = orchard.write("", dict.fromkeys(range(1000000), 1))
    for i in (0, 77_777, 999_999, 1_000_000):
        orchard.write(root.digest, {i: 2})
        assert len(orchard.rows) <= 8 and len(orchard.objects.read_names) <= 12
        assert sum(map(len, orchard.rows.values())) < 100 * 1024


def told(orchard: Orchard, before: str, after: str) -> list[tuple[int, str, int | None, int | None]]:
    return [
        (int(each.key[1]), each.what, each.old.size if each.old else None, each.new.size if each.new else None)
        for each in manifests.changes(orchard.objects, before, after)
    ]


@pytest.mark.parametrize("size", [1, 40, 128, 150, 700, 2500])
def test_the_changes_between_two_versions_are_those_of_their_contents(size: int) -> None:
    orchard = Orchard()
    for seed in range(12):
        chance = random.Random(f"changes/{size}/{seed}")
        old = {chance.randrange(4 * size): chance.randrange(9) for _ in range(chance.randrange(size + 1))}
        some = {chance.randrange(4 * size): chance.randrange(9) for _ in range(chance.choice((0, 1, 5, size)))}
        gone = set(chance.sample(sorted(old), min(len(old), chance.choice((0, 1, 5, size)))))
        new = {i: value for i, value in (old | some).items() if i not in gone}
        before, after = orchard.write("", old).digest, orchard.write("", new).digest
        wanted = [
            (i, "added" if i not in old else "removed" if i not in new else "changed", old.get(i), new.get(i))
            for i in sorted(old.keys() | new.keys())
            if old.get(i) != new.get(i)
        ]
        assert told(orchard, before, after) == wanted
        assert told(orchard, "", after) == [(i, "added", None, new[i]) for i in sorted(new)]
        assert told(orchard, after, "") == [(i, "removed", new[i], None) for i in sorted(new)]


def test_changes_are_computed_from_the_parts_that_two_versions_do_not_share() -> None:
    orchard = Orchard()
    content = {2 * i: 1 for i in range(40_000)}
    before = orchard.write("", content).digest
    depth = orchard.depth(before)
    for i in (0, 40_000, 79_998):
        after = orchard.write(before, {i: 2}).digest
        orchard.objects.read_names.clear()
        assert told(orchard, before, after) == [(i, "changed", 1, 2)]
        assert len(orchard.objects.read_names) <= 2 * (depth + 1)
    for i in (1, 40_001, 79_999):
        after = orchard.write(before, {i: 2}).digest
        gone = orchard.write(after, {j: content[j] for j in content if j != i - 1} | {i: 2}, sealed=True).digest
        orchard.objects.read_names.clear()
        assert told(orchard, before, gone) == [(i - 1, "removed", 1, None), (i, "added", None, 2)]
        assert len(orchard.objects.read_names) <= 6 * (depth + 1)
    orchard.objects.read_names.clear()
    assert told(orchard, before, before) == [] and not orchard.objects.read_names


def test_changes_against_a_manifest_of_one_long_object_are_computed_too() -> None:
    orchard = Orchard()
    old = dict.fromkeys(range(500), 1)
    flat = orchard.objects.put("".join(line(i, value)[1] for i, value in old.items()).encode())
    tree = orchard.write("", {i: 2 if i == 77 else 1 for i in range(1, 501)}).digest
    assert told(orchard, flat, tree) == [(0, "removed", 1, None), (77, "changed", 1, 2), (500, "added", None, 1)]
