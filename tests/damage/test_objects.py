"""F29: bit rot in stored objects. Reading refuses it, and `kfm verify` finds every damaged object."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kfm.engine.verify import verify
from kfm.errors import Corrupt
from kfm.store.jsonl import JsonlTables
from kfm.store.objects import FileObjects
from kfm.store.sqlite import SqliteTables
from tests.power.installation import Installation
from tests.power.tally import tally
from tests.power.walks import small_rows
from tests.sampling import sampled

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
SHARDS = 7


class Home:
    def __init__(self, kind: str) -> None:
        self.folder = tempfile.mkdtemp(dir=MEMORY)
        path = os.path.join(self.folder, "state")
        tables = SqliteTables(path) if kind == "sqlite" else JsonlTables(path)
        self.it = Installation(tables, lambda state: FileObjects(os.path.join(self.folder, "objects"), state))
        self.objects: FileObjects = self.it.objects  # type: ignore[assignment]
        with small_rows():
            self.it.work(lambda _receipt: None)

    def files(self) -> list[Path]:
        return sorted(path for path in Path(self.folder, "objects", "sha256").rglob("*") if path.is_file())

    def close(self) -> None:
        self.it.state.close()
        shutil.rmtree(self.folder)


@pytest.fixture(params=["sqlite", "jsonl"])
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    made = Home(request.param)
    yield made
    made.close()


def name_of(path: Path) -> str:
    return f"sha256:{path.parent.name}{path.name}"


def refused(home: Home, name: str) -> int:
    """How many of the ways to read an object refuse it."""
    count = 0
    for read in (home.objects.read, lambda n: home.objects.open(n).read(), lambda n: list(home.objects.open(n))):
        try:
            read(name)
        except Corrupt as refusal:
            assert name in refusal.message
            count += 1
    return count


def scrubbed(home: Home) -> str:
    """What the scrub says: empty if all is well."""
    try:
        home.objects.verify()
    except Corrupt as refusal:
        return refusal.message
    return ""


@pytest.mark.parametrize("shard", sampled(range(SHARDS)))
def test_every_flipped_byte_of_every_object_is_refused_and_found(home: Home, shard: int) -> None:
    files = home.files()
    assert len(files) >= 6 and home.objects.verify() > len(files)
    random = Random(1 + shard)
    done = 0
    for path in files:
        body, name = path.read_bytes(), name_of(path)
        for at in range(shard, len(body), SHARDS):
            changed = bytearray(body)
            changed[at] ^= 1 << random.randrange(8)
            path.write_bytes(changed)
            assert refused(home, name) == 3, f"{name} was read with byte {at} flipped"
            assert name in scrubbed(home), f"the scrub missed byte {at} of {name}"
            done += 1
        path.write_bytes(body)
    assert scrubbed(home) == ""
    part = f"{type(home.it.state.tables).__name__} {shard}"
    tally("damage-objects", part, None, 0, flipped_bytes=done, found_by_the_scrub=done)
    assert done >= 2_000 // SHARDS


def test_objects_cut_short_made_longer_exchanged_or_missing_are_refused_and_found(home: Home) -> None:
    one, two = home.files()[:2]
    first, second = one.read_bytes(), two.read_bytes()
    for damage in (first[:-1], first + b"\0", b"", second, first[::-1]):
        one.write_bytes(damage)
        assert refused(home, name_of(one)) == 3
        assert name_of(one) in scrubbed(home)
    one.unlink()
    assert refused(home, name_of(one)) == 3
    with pytest.raises(Corrupt, match="missing"):
        home.objects.size(name_of(one))
    assert not home.objects.has(name_of(one))
    one.write_bytes(first)
    assert scrubbed(home) == ""


def test_whatever_a_ref_ever_led_to_is_missed_when_it_is_gone(home: Home) -> None:
    """Not only the newest version: also the one before it, its inputs, and what a removed ref pointed to."""
    report = verify(home.it.state, home.objects)
    needed = 0
    for path in home.files():
        body = path.read_bytes()
        path.unlink()
        try:
            verify(home.it.state, home.objects)
        except Corrupt as refusal:
            assert name_of(path) in refusal.message
            needed += 1
        path.write_bytes(body)
    assert needed >= 6
    assert verify(home.it.state, home.objects) == report


def test_a_damaged_object_that_is_stored_again_is_whole_again(home: Home) -> None:
    """Storing the same bytes again finds the name taken by other bytes, and puts these in their place."""
    path = max(home.files(), key=lambda p: p.stat().st_size)
    body = path.read_bytes()
    path.write_bytes(b"x" + body[1:])
    assert refused(home, name_of(path)) == 3
    with small_rows():
        assert home.objects.put_stream([body])[0] == name_of(path)
    assert refused(home, name_of(path)) == 0 and path.read_bytes() == body


def test_a_row_that_is_not_what_its_name_says_is_refused_and_found(home: Home) -> None:
    """The sum of a row guards it against the disk; its digest also against us."""
    name, body = next(iter(home.it.state.inline_objects()))
    tables = home.it.state.tables
    tables.begin()
    tables.put("objects", name, body + b" ")
    tables.commit()
    assert refused(home, name) == 3
    assert name in scrubbed(home)
