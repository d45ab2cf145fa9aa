"""What every publisher of files promises, in a folder and in a bucket."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfm.bucket import Bucket
from kfm.delivery.public_files import deliver
from kfm.errors import BadInput, Corrupt, KfmError, Moved
from kfm.model.ports import PublicFile, Publisher, Tx
from kfm.projections.live_versions import ALL, live_versions
from kfm.sinks import bucket_files
from kfm.sinks.bucket_publisher import BucketPublisher
from kfm.sinks.folder_publisher import FilesPublisher
from kfm.sinks.noop import NoopPublisher
from kfm.sinks.split_publisher import SplitPublisher
from kfm.store.locks import FileLock
from kfm.telemetry.log import NullLog
from tests.engine.site_under_test import Lines, MemorySite
from tests.sampling import sampled
from tests.servers.seaweed import Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.store.buckets import fresh

V = "datasets/d/versions/v1"
POINTER = "datasets/d/current.json"


class Place(NamedTuple):
    """Where something is published: publishers for it, and its files as a reader sees them."""

    open: Callable[..., Publisher]
    read: Callable[[str], bytes | None]
    put: Callable[[str, bytes], object]
    names: Callable[[], list[str]]
    bucket: Bucket | None


def in_bucket(bucket: Bucket, lock: Path) -> Place:
    def read(path: str) -> bytes | None:
        return found[0] if (found := bucket.read(path)) else None

    return Place(
        partial(BucketPublisher, bucket, partial(FileLock, str(lock))),
        read,
        bucket.write,
        lambda: sorted(each.path for each in bucket.below("")),
        bucket,
    )


def in_folder(folder: Path, lock: Path) -> Place:
    def put(path: str, body: bytes) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body)

    return Place(
        partial(FilesPublisher, {"": str(folder)}, partial(FileLock, str(lock))),
        lambda path: (folder / path).read_bytes() if (folder / path).exists() else None,
        put,
        lambda: sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()),
        None,
    )


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "folder":
        yield in_folder(tmp_path / "public", tmp_path / "lock")
    else:
        yield in_bucket(fresh(request.getfixturevalue("seaweed").endpoint), tmp_path / "lock")


def digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def write(publisher: Publisher, path: str, body: bytes, *, of: bytes | None = None) -> None:
    publisher.write_file(path, digest(body if of is None else of), len(body), f"k/{path}", [body])


def fine() -> None:
    pass


def files(count: int, size: int = 100) -> dict[str, bytes]:
    return {f"{V}/k{n:04}.csv": b"%d," % n * (size // 4) for n in range(count)}


def publics(bodies: Mapping[str, bytes]) -> Iterator[PublicFile]:
    for path, body in bodies.items():
        yield PublicFile(path, digest(body), len(body), f"k/{path}", iter([body[:1000], body[1000:]]))


def pointer(seq: int, version: str = "v") -> dict[str, Any]:
    return {"dataset": "d", "version": version, "run_id": f"r{seq}", "seq": seq}


def test_the_same_bytes_again_change_nothing_and_other_bytes_are_refused(place: Place) -> None:
    publisher = place.open()
    write(publisher, f"{V}/a.csv", b"1")
    publisher.write_file(f"{V}/a.csv", digest(b"1"), 1, "k", iter(lambda: pytest.fail("it was read"), 0))
    for wrong in (b"2", b""):
        with pytest.raises(Corrupt, match=f"published file {V}/a.csv was altered"):
            write(publisher, f"{V}/a.csv", wrong)
        with pytest.raises(Corrupt, match="was altered"):
            publisher.write_files(V, publics({f"{V}/a.csv": wrong}), fine)
    assert place.read(f"{V}/a.csv") == b"1"
    assert publisher.has_file(f"{V}/a.csv", digest(b"1")) and not publisher.has_file(f"{V}/a.csv", digest(b"2"))
    assert not publisher.has_file(f"{V}/b.csv", digest(b"1"))
    for path in ("../a", "/a", f"{V}/.hidden"):
        with pytest.raises(BadInput):
            write(publisher, path, b"1")


def test_a_file_that_others_wrote_is_compared_by_its_bytes(place: Place) -> None:
    place.put(f"{V}/a.csv", b"1")
    place.put(f"{V}/b.csv", b"2")
    publisher = place.open()
    write(publisher, f"{V}/a.csv", b"1")
    with pytest.raises(Corrupt, match="was altered"):
        write(publisher, f"{V}/b.csv", b"1")


def test_an_empty_file_is_published_and_compared_like_any_other(place: Place) -> None:
    publisher = place.open()
    write(publisher, f"{V}/a.csv", b"")
    assert place.read(f"{V}/a.csv") == b"" and publisher.digest_of_file(f"{V}/a.csv") == digest(b"")
    assert publisher.differences("d", {f"{V}/a.csv": digest(b"")}, []) == []
    place.put(f"{V}/a.csv", b"no longer")
    assert [each.kind for each in publisher.differences("d", {f"{V}/a.csv": digest(b"")}, [])] == ["altered"]


@pytest.mark.parametrize("size", sampled([100, 9 << 20]))
def test_bytes_with_another_digest_are_never_seen(place: Place, size: int) -> None:
    publisher, body = place.open(), b"x" * size
    with pytest.raises(Corrupt, match="do not have the expected digest"):
        write(publisher, f"{V}/a.csv", body, of=b"other")
    wrong = PublicFile(f"{V}/b.csv", digest(b"other"), size, "k", [body])
    with pytest.raises(Corrupt, match="do not have the expected digest"):
        publisher.write_files(V, [wrong], fine)

    def failing() -> Iterator[bytes]:
        yield body
        raise Corrupt("the object is damaged")

    with pytest.raises(Corrupt, match="the object is damaged"):
        publisher.write_file(f"{V}/c.csv", digest(body), size, "k", failing())
    assert place.names() == []


@pytest.mark.parametrize(("count", "size"), sampled([(40, 100), (3, 9 << 20), (300, 100_000)]))
def test_many_files_are_there_when_they_were_written(place: Place, count: int, size: int) -> None:
    bodies = files(count, size)
    place.open().write_files(V, publics(dict(list(bodies.items())[:2])), fine)
    publisher = place.open()
    publisher.write_files(V, publics(bodies), fine)
    assert [effect.target for effect in publisher.trace] == list(bodies)
    assert {name: place.read(name) for name in place.names()} == bodies
    assert publisher.differences("d", {path: digest(body) for path, body in bodies.items()}, ()) == []


def test_nothing_is_written_once_a_check_fails(place: Place) -> None:
    def moved() -> None:
        raise Moved("it has moved on")

    publisher = place.open()
    for count in (1, 40):
        with pytest.raises(Moved):
            publisher.write_files(V, publics(files(count)), moved)
    assert place.names() == [] and publisher.trace == []
    write(publisher, f"{V}/a.csv", b"1")
    for remove in (lambda: publisher.remove_file(f"{V}/a.csv", "k", moved), lambda: publisher.remove_rest(V, moved)):
        with pytest.raises(Moved):
            remove()
    assert place.names() == [f"{V}/a.csv"]


def test_what_is_removed_is_gone_and_the_rest_is_not(place: Place) -> None:
    publisher = place.open()
    publisher.write_files(V, publics(files(20)), fine)
    write(publisher, f"{V}.ndjson", b"list")
    write(publisher, "datasets/d/versions/v10/a.csv", b"1")
    for n in range(3):
        publisher.remove_file(f"{V}/k{n:04}.csv", "k", fine)
        publisher.remove_file(f"{V}/k{n:04}.csv", "k", fine)
    assert len(place.names()) == 19
    publisher.remove_rest(V, fine)
    publisher.remove_rest(V, fine)
    publisher.sync_removed(fine)
    assert place.names() == ["datasets/d/versions/v1.ndjson", "datasets/d/versions/v10/a.csv"]
    assert publisher.datasets() == ["d"]


def test_differences_name_what_is_missing_altered_and_foreign(place: Place) -> None:
    publisher, bodies = place.open(), files(4)
    publisher.write_files(V, publics(bodies), fine)
    place.put(f"{V}/k0001.csv", b"altered")
    publisher.remove_file(f"{V}/k0002.csv", "k", fine)
    place.put("datasets/d/more.txt", b"foreign")
    place.put("datasets/d2/more.txt", b"of another dataset")
    found = publisher.differences("d", {path: digest(body) for path, body in bodies.items()}, ())
    assert [(each.path.rpartition("/")[2], each.kind) for each in found] == [
        ("more.txt", "foreign"), ("k0001.csv", "altered"), ("k0002.csv", "missing"),
    ]  # fmt: skip


def test_exported_files_are_named_and_compared(place: Place) -> None:
    publisher = place.open()
    assert publisher.names("ledger/checkpoints") == [] and publisher.digest_of_file("ledger/checkpoints/1") is None
    for n in (2, 1):
        write(publisher, f"ledger/checkpoints/{n}", b"%d" % n)
    place.put("ledger/checkpoints/2", b"altered")
    assert publisher.names("ledger/checkpoints") == ["1", "2"]
    assert publisher.digest_of_file("ledger/checkpoints/2") == digest(b"altered")


def test_a_pointer_never_moves_back_unless_it_is_the_latest(place: Place) -> None:
    publisher = place.open(is_latest=lambda value: value["run_id"] == "r2")
    for seq in (1, 5, 3, 5):
        publisher.update_metadata(POINTER, pointer(seq), "k")
    assert json.loads(place.read(POINTER) or b"")["seq"] == 5
    publisher.update_metadata(POINTER, pointer(2), "k")
    assert json.loads(place.read(POINTER) or b"")["seq"] == 2
    for wrong in (b"", b"[]", b"{", b'{"seq": "x"}', b'{"seq": null}'):
        place.put(POINTER, wrong)
        publisher.update_metadata(POINTER, pointer(1), "k")
        assert json.loads(place.read(POINTER) or b"")["seq"] == 1


def test_a_receipt_of_an_unknown_run_is_set_aside(place: Place) -> None:
    path = "receipts/ingest/2026/02/23/r.json"
    publisher = place.open()
    write(publisher, path, b"of another life")
    write(publisher, path, b"of this life")
    write(publisher, path, b"of this life")
    aside = f"{path}.set-aside-{digest(b'of another life')[7:19]}"
    assert place.names() == [path, aside]
    assert place.read(path) == b"of this life" and place.read(aside) == b"of another life"


def test_an_event_is_written_once_and_traced_as_a_dry_run_predicts(place: Place) -> None:
    real, dry = place.open(), NoopPublisher()
    for publisher in (real, dry):
        publisher.write_files(V, publics(files(20)), fine)
        publisher.write_files(V, publics(files(21)), fine)
        write(publisher, "receipts/ingest/2026/02/23/r.json", b"{}")
        publisher.emit_event({"type": "t", "n": 1}, "key")
        publisher.emit_event({"type": "t", "n": 2}, "key")
        publisher.update_metadata(POINTER, pointer(1), "k")
        publisher.publish_release("one", ["a"], "k")
        publisher.remove_file(f"{V}/k0001.csv", "k", fine)

    def told(publisher: Publisher) -> list[tuple[Any, ...]]:
        return [
            (each.seq, each.method, each.target, each.digest, each.size, each.key)
            for each in publisher.trace
            if each.method != "publish_release" and each.target != "releases/one.json"
        ]

    assert told(real) == told(dry) and len(real.trace) == len(dry.trace)
    events = [name for name in place.names() if name.startswith("events/")]
    assert len(events) == 1 and json.loads(place.read(events[0]) or b"")["n"] == 1


@pytest.mark.parametrize("workers", sampled([4, 16]))
def test_a_pointer_that_many_replace_at_once_only_moves_forward(place: Place, workers: int) -> None:
    seen: list[int] = []
    over, failed = threading.Event(), list[KfmError]()

    def work(n: int) -> None:
        publisher = place.open()
        try:
            for seq in range(n, 10 * workers, workers):
                publisher.update_metadata(POINTER, pointer(seq + 1), "k")
        except KfmError as problem:
            failed.append(problem)

    def watch() -> None:
        while not over.is_set():
            if body := place.read(POINTER):
                seen.append(json.loads(body)["seq"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    watcher = threading.Thread(target=watch)
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    watcher.join()
    assert failed == [] and seen == sorted(seen) and len(set(seen)) > 1
    assert json.loads(place.read(POINTER) or b"")["seq"] == 10 * workers


def test_the_same_files_written_by_many_at_once_are_written_whole(place: Place) -> None:
    failed: list[KfmError] = []

    def work() -> None:
        try:
            place.open().write_files(V, publics(files(20)), fine)
        except KfmError as problem:
            failed.append(problem)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and {name: place.read(name) for name in place.names()} == files(20)


# ------------------------------------------------------------------------------------ of a bucket alone


class NoLock:
    """A lock that has expired: everyone has it."""

    def take(self) -> bool:
        return True

    def is_held(self, tx: Tx) -> bool:
        return False

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


MEANWHILE: dict[str, tuple[Callable[[MemorySite], object], ...]] = {
    "rolled back": (lambda site: site.operate("rollback"),),
    "withdrawn": (lambda site: site.operate("rollback", to="nothing"),),
    "rolled back and frozen": (
        lambda site: site.operate("rollback"),
        lambda site: site.operate("freeze", dataset="demo", scope="demo"),
    ),
    "withdrawn and published again": (
        lambda site: site.operate("rollback", to="nothing"),
        lambda site: site.operate("promote", reason="it was right", to=site.state.refs.at("processed/demo")),
    ),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_writer_whose_lock_expired_takes_back_what_was_withdrawn_meanwhile(seaweed: Seaweed, what: str) -> None:
    site, bucket, real = MemorySite(), fresh(seaweed.endpoint), Bucket.create
    slow, quick = BucketPublisher(bucket, NoLock), BucketPublisher(copy.copy(bucket), NoLock)

    def published(publisher: Publisher) -> None:
        assert not deliver(site.state, site.world.objects, publisher, NullLog(), sync=True)

    for body in (b"first", b"second"):
        site.shelf.body = body
        site.run(Lines())
        site.operate("promote")
        if body == b"first":
            published(quick)
    stopped = False

    def create(path: str, body: bytes, attributes: Any = None) -> str:
        """Before the slow process creates its first file, another one does all this, and finds nothing to remove."""
        nonlocal stopped
        if not stopped:
            stopped = True
            published(quick)  # it delivers what the slow one was about to
            for change in MEANWHILE[what]:
                change(site)
                published(quick)
        return real(bucket, path, body, attributes)

    bucket.create = create  # type: ignore[method-assign]
    published(slow)
    live = live_versions(list(site.state.refs.history("published/demo")), ALL)
    versions = {each.path.split("/")[3].removesuffix(".ndjson") for each in bucket.below("datasets/demo/versions")}
    assert stopped and versions == {version[7:23] for version in live}
    assert ("second" in [(bucket.read(each.path) or (b"",))[0].decode() for each in bucket.below("datasets")]) == (
        what == "withdrawn and published again"
    )


def test_a_slow_pointer_loses_against_a_later_one_without_a_lock(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    slow = BucketPublisher(bucket, NoLock, is_latest=lambda _: False)
    slow.update_metadata(POINTER, pointer(1), "k")
    real, late = bucket.replace, []

    def replace(path: str, body: bytes, etag: str, attributes: Any = None) -> str:
        bucket.replace = real  # type: ignore[method-assign]
        BucketPublisher(bucket, NoLock).update_metadata(POINTER, pointer(3), "k")
        late.append(real(path, body, etag, attributes))
        return str(late[0])

    bucket.replace = replace  # type: ignore[method-assign]
    slow.update_metadata(POINTER, pointer(2), "k")
    assert late == [""], "the slow one replaced nothing"
    assert json.loads((bucket.read(POINTER) or (b"",))[0])["seq"] == 3


def test_a_browser_is_told_what_a_file_is(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    publisher = BucketPublisher(bucket, NoLock)
    for name, kind in (("index.html", "text/html; charset=utf-8"), ("a.geojson", "application/geo+json"), ("b", None)):
        write(publisher, name, b"x")
        found = bucket.find(name)
        assert found is not None
        assert found.attributes["Content-Type"] == (kind or "application/octet-stream")
        assert found.attributes[bucket_files.SUM] == digest(b"x")
    publisher.update_metadata(POINTER, pointer(1), "k")
    found = bucket.find(POINTER)
    assert found is not None and found.attributes["Cache-Control"] == "no-cache"


def test_names_of_any_language_keep_their_letters(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    publisher = BucketPublisher(bucket, NoLock)
    names = [f"datasets/d/{name}" for name in ("a b.csv", "é~1.csv", "naïve+%20.csv", "部分=1/#x.csv", "a&b.csv")]
    for name in names:
        write(publisher, name, name.encode())
    for name in names:
        assert (bucket.read(name) or (b"",))[0] == name.encode()
    assert sorted(each.path for each in bucket.below("datasets")) == sorted(names)


def test_receipts_and_events_go_to_the_private_place(seaweed: Seaweed, tmp_path: Path) -> None:
    public, private = in_bucket(fresh(seaweed.endpoint), tmp_path / "lock"), in_folder(tmp_path / "p", tmp_path / "l")
    publisher: Publisher = SplitPublisher(public.open(), private.open())
    write(publisher, "receipts/ingest/2026/02/23/r.json", b"{}")
    publisher.write_files(V, publics(files(2)), fine)
    publisher.emit_event({"type": "t"}, "k")
    publisher.update_metadata(POINTER, pointer(1), "k")
    publisher.remove_file(f"{V}/k0000.csv", "k", fine)
    assert public.names() == [POINTER, f"{V}/k0001.csv"]
    assert {name.partition("/")[0] for name in private.names()} == {"receipts", "events"}
    assert [(each.seq, each.method) for each in publisher.trace] == list(
        enumerate(["write_file", "write_file", "write_file", "emit_event", "update_metadata", "remove_file"], 1)
    )
    assert publisher.shares_files and not publisher.noop_guard() and publisher.datasets() == ["d"]
    assert publisher.has_file(f"{V}/k0001.csv", digest(files(2)[f"{V}/k0001.csv"]))
    publisher.remove_rest("datasets/d", fine)
    assert public.names() == []
