"""Objects in a bucket: the same promises as objects in files."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kfm.bucket import Bucket
from kfm.errors import BadInput, Corrupt
from kfm.store.buckets.bucket_objects import BucketObjects
from kfm.store.memory import MemoryTables
from kfm.store.objects import FileObjects
from kfm.store.state import StoredState
from kfm.store.stored_objects import StoredObjects
from tests.sampling import sampled
from tests.servers.seaweed import Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import fresh

SMALL, LARGE, PARTS = b"small", b"large" * 20_000, b"0123456789abcdef" * (1 << 16) * 20  # 20 MiB


def name_of(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


class Place(NamedTuple):
    """A store, and a way to change its large objects behind its back."""

    objects: StoredObjects
    bucket: Bucket | None
    folder: Path

    def overwrite(self, name: str, body: bytes) -> None:
        if self.bucket is not None:
            self.bucket.write(f"sha256/{name[7:9]}/{name[9:]}", body)
        else:
            (self.folder / "sha256" / name[7:9] / name[9:]).write_bytes(body)


@pytest.fixture(params=["files", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    state = StoredState(MemoryTables(), lambda: 1)
    if request.param == "files":
        yield Place(FileObjects(str(tmp_path), state), None, tmp_path)
    else:
        bucket = fresh(request.getfixturevalue("seaweed").endpoint)
        yield Place(BucketObjects(bucket, state, str(tmp_path / "scratch")), bucket, tmp_path)
        assert list(tmp_path.rglob("*")) in ([], [tmp_path / "scratch"])


@pytest.mark.parametrize("body", sampled([b"", SMALL, LARGE, PARTS], 3), ids=["empty", "small", "large", "parts"])
def test_what_was_put_is_read_again_in_every_way(place: Place, body: bytes) -> None:
    objects, name = place.objects, name_of(body)
    assert not objects.has(name)
    assert objects.put(body) == name
    assert objects.put_stream([body[:7], body[7:]]) == (name, len(body))
    assert objects.has(name) and objects.size(name) == len(body)
    assert objects.read(name) == body and objects.open(name).read() == body
    with objects.open(name) as file:
        assert b"".join(iter(lambda: file.read(100_001), b"")) == body
    assert not objects.is_damaged(name, 0)
    assert objects.verify() == 1


@pytest.mark.parametrize("body", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_what_stays_outside_the_state_is_there_however_small_it_is(place: Place, body: bytes) -> None:
    name = name_of(body)
    assert place.objects.put_large([body[:3], body[3:]]) == name
    assert place.objects.open(name).read() == body and list(place.objects.large()) == [name]


def test_a_stream_that_is_aborted_or_fails_leaves_nothing(place: Place) -> None:
    staging = place.objects.stage()
    staging.write(LARGE)
    staging.abort()

    def failing() -> Iterator[bytes]:
        yield LARGE
        raise ValueError

    with pytest.raises(ValueError):
        place.objects.put_stream(failing())
    assert not place.objects.has(name_of(LARGE)) and place.objects.verify() == 0


@pytest.mark.parametrize("body", sampled([LARGE, PARTS]), ids=["large", "parts"])
def test_other_bytes_under_a_name_are_refused_wherever_they_are_read(place: Place, body: bytes) -> None:
    objects, name = place.objects, place.objects.put(body)
    for wrong in (b"x" + body[1:], body[:-1], body + b"x", b"x"):
        place.overwrite(name, wrong)
        assert objects.is_damaged(name, 0)
        for read in (objects.read, lambda n: objects.open(n).read(), lambda _: objects.verify()):
            with pytest.raises(Corrupt, match="another digest"):
                read(name)
    assert objects.put(body) == name
    assert objects.read(name) == body


def test_a_missing_object_is_said_to_be_missing(place: Place) -> None:
    objects, name = place.objects, place.objects.put(LARGE)
    objects.discard(name)
    objects.discard(name)
    for read in (objects.read, objects.open, objects.size):
        with pytest.raises(Corrupt, match=f"object {name} is missing"):
            read(name)
    assert not objects.has(name) and objects.is_damaged(name, 0)
    assert not objects.has("sha256:no")
    with pytest.raises(BadInput, match="is not a digest"):
        objects.read("../../etc")


def test_an_object_that_was_not_written_since_is_not_read_again(place: Place) -> None:
    name = place.objects.put(LARGE)
    place.overwrite(name, b"x")
    assert place.objects.is_damaged(name, 0)
    assert not place.objects.is_damaged(name, 1 << 50)


def test_small_objects_are_rows_of_the_state_and_the_bucket_is_not_asked(tmp_path: Path) -> None:
    def connect() -> object:
        raise AssertionError

    bucket = Bucket("b", "", connect)  # type: ignore[arg-type]
    objects = BucketObjects(bucket, StoredState(MemoryTables(), lambda: 1), str(tmp_path))
    name = objects.put(SMALL)
    assert objects.read(name) == SMALL and objects.has(name) and objects.size(name) == 5


def test_nothing_is_left_on_the_disk_while_an_object_is_on_its_way(seaweed: Seaweed, tmp_path: Path) -> None:
    objects = BucketObjects(fresh(seaweed.endpoint), StoredState(MemoryTables(), lambda: 1), str(tmp_path))
    staging = objects.stage()
    staging.write(LARGE)
    assert os.listdir(tmp_path) == [], "its file has no name"
    assert isinstance(objects.open(staging.commit()[0]), io.BufferedReader)
