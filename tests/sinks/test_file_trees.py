"""Every place for pages and catalogs keeps the same promises: a folder and a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.bucket import Bucket
from kfm.errors import Busy, Conflict, Unavailable
from kfm.model.keys import digest
from kfm.model.outbox_messages import Letter
from kfm.sinks.bucket_tree import BucketTree
from kfm.sinks.catalog_files import CatalogFiles
from kfm.sinks.file_tree import FileTree
from kfm.sinks.folder_tree import FolderTree
from tests.servers.seaweed import Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import fresh


class Place:
    """A tree, and a way past it, as another program would write there."""

    def __init__(self, tree: FileTree, put: Callable[[str, bytes], object], read: Callable[[], dict[str, bytes]]):
        self.tree = tree
        self.put = put
        self.read = read


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "bucket":
        bucket = fresh(request.getfixturevalue("seaweed").endpoint)
        return Place(
            BucketTree(lambda: bucket),
            bucket.write,
            lambda: {each.path: (bucket.read(each.path) or (b"",))[0] for each in bucket.below("")},
        )

    def put(path: str, body: bytes) -> None:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(body)

    def read() -> dict[str, bytes]:
        files = (file for file in tmp_path.rglob("*") if file.is_file())
        return {file.relative_to(tmp_path).as_posix(): file.read_bytes() for file in files}

    return Place(FolderTree(str(tmp_path)), put, read)


def letter(path: str, body: Any) -> Letter:
    return Letter(index=1, run_id="r", dataset="d", key=path, body=body)


FILES = {"catalog.json": b"{}", "d/collection.json": b"c", "d/items/a.json": b"a", "d/items/b.json": b"b"}


def test_what_is_written_is_there_and_the_same_again_writes_nothing(place: Place) -> None:
    sink = CatalogFiles(place.tree)
    letters = [letter(path, body) for path, body in FILES.items()]
    sink.send(letters)
    assert place.read() == FILES and (sink.written, sink.removed) == (4, 0)
    sink.send(letters)
    assert sink.written == 4
    sink.send([letter("d/items/a.json", b"other"), *letters[3:]])
    assert sink.written == 5 and place.read() == {**FILES, "d/items/a.json": b"other"}


def test_each_difference_has_its_kind(place: Place) -> None:
    sink = CatalogFiles(place.tree)
    sink.send([letter(path, body) for path, body in FILES.items()])
    place.tree.remove("d/items/b.json")
    place.put("d/collection.json", b"altered")
    place.put("d/items/mine.json", b"m")
    place.put("d/items/mine.txt", b"not of the catalog")
    expected = {path: digest(body) for path, body in FILES.items()}
    assert sorted(sink.differences(expected, "d")) == [
        ("d/collection.json", "altered"), ("d/items/b.json", "missing"), ("d/items/mine.json", "foreign"),
    ]  # fmt: skip


def test_a_folder_keeps_the_named_files_and_what_is_not_of_the_catalog(place: Place) -> None:
    sink = CatalogFiles(place.tree)
    sink.send([letter(path, body) for path, body in FILES.items()])
    place.put("d/notes.txt", b"mine")
    sink.send([letter("d/", frozenset({"d/items/a.json"}))])
    assert set(place.read()) == {"catalog.json", "d/items/a.json", "d/notes.txt"} and sink.removed == 2
    sink.send([letter("catalog.json", None), letter("catalog.json", None)])
    assert sink.removed == 3


@pytest.mark.parametrize("leaves", [True, False], ids=["passed over", "refused"])
def test_a_file_that_kfm_did_not_write_stays(place: Place, leaves: bool) -> None:
    sink = CatalogFiles(place.tree)
    sink.leaves_foreign, sink.recognises = leaves, lambda _path, head: head.startswith(b"KFM")
    place.put("index.html", b"mine")
    place.put("known.html", b"KFM before")
    letters = [letter("index.html", b"KFM"), letter("known.html", b"KFM"), letter("gone.html", None)]
    if leaves:
        sink.send(letters)
        assert place.read() == {"index.html": b"mine", "known.html": b"KFM"}
        assert sink.left == {"index.html": True, "known.html": False, "gone.html": False}
    else:
        with pytest.raises(Conflict, match="did not write"):
            sink.send(letters)
        assert place.read() == {"index.html": b"mine", "known.html": b"KFM before"}


def test_whether_a_file_is_there_is_said_by_its_digest(place: Place) -> None:
    place.tree.write([("a.html", b"a")])
    assert place.tree.holds("a.html", digest(b"a"))
    assert not place.tree.holds("a.html", digest(b"b")) and not place.tree.holds("b.html", digest(b"a"))


# ------------------------------------------------------------------------------------ of a bucket alone


def test_a_browser_asks_again_and_is_told_what_a_file_is(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    kinds = {"index.html": "text/html; charset=utf-8", "a/SHA256SUMS": "text/plain; charset=utf-8"}
    kinds |= {"catalog.json": "application/json", "catalog.jsonld": "application/ld+json"}
    BucketTree(lambda: bucket).write([(path, b"x") for path in kinds])
    for path, kind in kinds.items():
        found = bucket.find(path)
        assert found is not None and found.attributes["Content-Type"] == kind
        assert found.attributes["Cache-Control"] == "no-cache"


def test_what_others_wrote_since_it_was_looked_at_is_not_replaced(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    tree = BucketTree(lambda: bucket)
    tree.write([("old.html", b"KFM")])
    assert tree.unknown(["old.html", "new.html"], lambda _path, _head: False) == set()
    bucket.write("old.html", b"mine")
    bucket.write("new.html", b"mine")
    for path in ("old.html", "new.html"):
        with pytest.raises(Busy):
            tree.write([(path, b"KFM again")])
        assert (bucket.read(path) or (b"",))[0] == b"mine"


def test_a_write_whose_answer_was_lost_counts_as_one(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    real = bucket.create

    def create(path: str, body: bytes, attributes: Any = None) -> str:
        real(path, body, attributes)
        return real(path, body, attributes)

    bucket.create = create  # type: ignore[method-assign]
    assert BucketTree(lambda: bucket).write([("a.html", b"a")]) == 1


def test_after_a_failure_the_next_report_writes_the_rest(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    real: Callable[..., str] = bucket.create
    files = {f"d/items/{n:03}.json": b"%d" % n for n in range(60)}

    def create(path: str, body: bytes, attributes: Any = None) -> str:
        if path >= "d/items/030.json":
            raise Unavailable("the bucket is away")
        return real(path, body, attributes)

    bucket.create = create  # type: ignore[method-assign]
    letters = [letter(path, body) for path, body in files.items()]
    with pytest.raises(Unavailable):
        CatalogFiles(BucketTree(lambda: bucket)).send(letters)
    assert len(_bodies(bucket)) == 30
    bucket.create = real  # type: ignore[method-assign]
    sink = CatalogFiles(BucketTree(lambda: bucket))
    sink.send(letters)
    assert _bodies(bucket) == files and sink.written == 30


def _bodies(bucket: Bucket) -> dict[str, bytes]:
    return {each.path: (bucket.read(each.path) or (b"",))[0] for each in bucket.below("")}
