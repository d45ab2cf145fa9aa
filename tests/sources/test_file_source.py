"""Files are read from below one directory, whole or not at all."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from kfm.errors import BadInput, Refused, Unavailable
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.sources import openat
from kfm.sources.local_files import FileSource, _validator
from tests.sources.memory_objects import MemoryObjects, digest_of

ROWS = b"station,name\n1,Topeka\n"
NOW = 1_767_225_600_000


@pytest.fixture(params=["openat2", "step by step"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of opening; the system call only where the kernel has it."""
    if request.param == "step by step":
        monkeypatch.setattr(openat, "_openat2", lambda: None)
    elif openat._openat2() is None:
        pytest.skip("this kernel has no openat2")
    return str(request.param)


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "sources"
    (root / "sub").mkdir(parents=True)
    (root / "data.csv").write_bytes(ROWS)
    (root / "sub" / "data.csv").write_bytes(ROWS)
    (root / "sub" / "a b%.csv").write_bytes(ROWS)
    (tmp_path / "secret.csv").write_bytes(b"canary")
    before = _open_files()
    yield root
    assert _open_files() <= before, "a file was left open"  # what other tests left may be closed meanwhile


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def fetch(base: Path, uri: str, objects: MemoryObjects, known: Checkpoint | None = None, **fields: Any) -> Fetched:
    given: dict[str, Any] = {"uri": uri, "base_dir": str(base), "now_ms": NOW}
    return FileSource().fetch(FetchRequest(**(given | fields)), known, objects)


def refused(base: Path, uri: str, kind: type[Exception] = Refused, **fields: Any) -> Exception:
    objects = MemoryObjects()
    with pytest.raises(kind) as caught:
        fetch(base, uri, objects, **fields)
    assert (objects.stored, objects.open_stagings) == ({}, 0)
    return caught.value


@pytest.mark.parametrize(
    "uri",
    [
        "data.csv", "./data.csv", "file:data.csv", "FILE:data.csv", ".//data.csv", "file://{base}/data.csv",
        "file://localhost{base}/data.csv", "{base}/data.csv", "file:{base}/data.csv", "sub/a b%.csv",
        "file:sub/a%20b%25.csv", "file://{base}/sub/a%20b%25.csv",
    ],
)  # fmt: skip
def test_a_file_below_the_directory_is_read_however_it_is_named(way: str, base: Path, uri: str) -> None:
    objects = MemoryObjects()
    named = uri.format(base=base)
    got = fetch(base, named, objects, name="stations", media_type="text/csv", partition=("KS",), complete=True)
    assert objects.stored == {digest_of(ROWS): ROWS}
    assert (got.ref.uri, got.ref.content_hash, got.ref.size) == (named, digest_of(ROWS), len(ROWS))
    assert (got.ref.name, got.ref.media_type, got.ref.partition) == ("stations", "text/csv", ("KS",))
    assert got.ref.complete and not got.not_modified
    assert got.ref.etag == ""  # the same bytes give the same ref on every machine
    assert got.bytes_on_wire == len(ROWS)


def test_the_directory_itself_may_be_reached_through_a_link(way: str, base: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(base)
    for named in ("data.csv", f"file://{link}/data.csv", f"file://{base}/data.csv"):
        assert fetch(link, named, MemoryObjects()).ref.content_hash == digest_of(ROWS)


@pytest.mark.parametrize(
    "uri",
    [
        "", "/", ".", "./", "file:", "file://", "file:///", "../secret.csv", "sub/../../secret.csv", "sub/../data.csv",
        "file:../secret.csv", "file:%2e%2e/secret.csv", "file:sub/%2E%2E/../secret.csv", "file:..%2fsecret.csv",
        "data.csv\0", "file:data.csv%00", "/etc/passwd", "file:///etc/passwd", "file://otherhost/etc/passwd",
        "file://{base}/../secret.csv", "{base}/../secret.csv", "{base}x/data.csv", "file:data.csv?x", "file:data.csv#x",
        "a" * 300, "missing.csv", "sub/missing.csv", "data.csv/x", "missing/../data.csv", "\ud800", "sub", "sub/",
        "file:%41\ud800", "file:%ff\udcfe",
    ],
)  # fmt: skip
def test_a_path_that_leads_out_or_to_nothing_is_refused(way: str, base: Path, uri: str) -> None:
    error = refused(base, uri.format(base=base))
    assert type(error) in (BadInput, Refused)
    assert "\0" not in str(error)


def test_a_missing_file_is_no_deletion(way: str, base: Path) -> None:
    assert "does not exist" in str(refused(base, "missing.csv"))
    assert "published versions stay" in str(refused(base, "missing.csv"))


def test_a_missing_directory_is_refused(way: str, base: Path) -> None:
    assert "does not exist" in str(refused(base / "nowhere", "data.csv"))


@pytest.mark.parametrize("uri", ["link.csv", "out/secret.csv", "loop", "loop/x", "in/a b%.csv", "dangling"])
def test_no_symbolic_link_is_followed(way: str, base: Path, tmp_path: Path, uri: str) -> None:
    (base / "link.csv").symlink_to(base / "data.csv")
    (base / "out").symlink_to(tmp_path)
    (base / "in").symlink_to(base / "sub")
    (base / "loop").symlink_to(base / "loop")
    (base / "dangling").symlink_to(base / "nothing")
    assert "symbolic link" in str(refused(base, uri))


def test_a_link_out_of_proc_is_not_followed(way: str) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    with open(__file__, "rb") as file:
        refused(Path("/proc"), f"self/fd/{file.fileno()}")


def test_only_a_regular_file_is_read_and_nothing_else_blocks(way: str, base: Path) -> None:
    os.mkfifo(base / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(base / "socket"))
        for name in ("fifo", "socket", "sub"):
            assert "regular file" in str(refused(base, name))


def test_a_device_is_not_read(way: str) -> None:
    for name in ("null", "zero", "full"):
        if os.path.exists(f"/dev/{name}"):
            assert "regular file" in str(refused(Path("/dev"), name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(way: str, base: Path) -> None:
    (base / "data.csv").chmod(0)
    assert "permissions" in str(refused(base, "data.csv"))


def test_an_error_of_the_operating_system_is_reported(way: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fired: list[int] = []

    def denied(root: int, parts: list[str], flags: int) -> int:
        fired.append(root)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kfm.sources.local_files.open_beneath", denied)
    assert "permissions" in str(refused(base, "data.csv"))
    assert fired


def test_a_read_error_is_unavailable_and_drops_what_was_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fired: list[int] = []

    def failing(fd: int, size: int) -> bytes:
        fired.append(fd)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("kfm.sources.local_files.os.read", failing)
    assert "EIO" in str(refused(base, "data.csv", Unavailable))
    assert fired


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"2,Wichita\n")


def _shrink(path: Path) -> None:
    os.truncate(path, 5)


def _rewrite(path: Path) -> None:
    info = path.stat()
    with path.open("r+b") as file:
        file.write(b"STATION")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))  # and hide it


def _replace(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(ROWS)
    other.replace(path)


def _remove(path: Path) -> None:
    path.unlink()


def _move_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.mkdir()
    path.write_bytes(b"other")


@pytest.mark.parametrize("change", [_grow, _shrink, _rewrite, _replace, _remove, _move_directory])
@pytest.mark.parametrize("when", ["before the first byte", "after the last byte"])
def test_a_file_that_changes_while_it_is_read_is_unavailable(
    way: str, base: Path, monkeypatch: pytest.MonkeyPatch, change: Any, when: str
) -> None:
    real = os.read
    fired: list[object] = []

    def read(fd: int, size: int) -> bytes:
        early = when == "before the first byte"
        if early and not fired:
            fired.append(change(base / "sub" / "data.csv"))
        chunk = real(fd, size)
        if not early and not chunk:
            fired.append(change(base / "sub" / "data.csv"))
        return chunk

    monkeypatch.setattr("kfm.sources.local_files.os.read", read)
    error = refused(base, "sub/data.csv", Unavailable)
    assert len(fired) == 1
    assert "changed" in str(error)


def test_a_file_that_grows_as_fast_as_it_is_read_ends(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def endless(fd: int, size: int) -> bytes:
        reads.append(size)
        assert len(reads) < 10
        return b"x" * size

    monkeypatch.setattr("kfm.sources.local_files.os.read", endless)
    assert "changed" in str(refused(base, "data.csv", Unavailable))
    assert len(reads) == 1


def test_limits_of_size_and_time_hold(base: Path) -> None:
    assert "larger" in str(refused(base, "data.csv", max_bytes=len(ROWS) - 1))
    assert fetch(base, "data.csv", MemoryObjects(), max_bytes=len(ROWS)).ref.size == len(ROWS)
    ticks = iter([0.0, 99.0])
    objects = MemoryObjects()
    with pytest.raises(Unavailable):
        FileSource(monotonic=lambda: next(ticks)).fetch(
            FetchRequest(uri="data.csv", base_dir=str(base), total_ms=1000), None, objects
        )
    assert (objects.stored, objects.open_stagings) == ({}, 0)


def test_expected_bytes_are_taken_others_are_refused_and_not_stored(base: Path) -> None:
    assert fetch(base, "data.csv", MemoryObjects(), expect_hash=digest_of(ROWS)).ref.size == len(ROWS)
    assert "expected hash" in str(refused(base, "data.csv", expect_hash=digest_of(b"")))
    refused(base, "data.csv", BadInput, expect_hash="abc")


def test_a_large_file_goes_to_the_store_in_pieces(base: Path) -> None:
    body = bytes(range(256)) * 4096 * 5 + b"tail"
    (base / "large").write_bytes(body)
    objects = MemoryObjects()
    fetch(base, "large", objects)
    assert objects.stored == {digest_of(body): body}
    assert objects.chunk_sizes == [1 << 20] * 5 + [4]


def test_an_empty_file_is_a_file(base: Path) -> None:
    (base / "empty").touch()
    assert fetch(base, "empty", MemoryObjects()).ref.content_hash == digest_of(b"")


DAY = 86_400_000


@pytest.fixture
def settled(base: Path) -> Path:
    """A file last changed long before NOW."""
    os.utime(base / "data.csv", ns=(0, (NOW - 10 * DAY) * 1_000_000))
    return base


def test_a_file_with_the_same_stamp_is_not_read_again_within_the_interval(
    settled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = MemoryObjects()
    first = fetch(settled, "data.csv", objects, complete=True)
    monkeypatch.setattr("kfm.sources.local_files.os.read", lambda fd, size: pytest.fail("it was read"))
    again = fetch(settled, "data.csv", objects, first.checkpoint, now_ms=NOW + DAY - 1, complete=True)
    assert again.not_modified
    assert again.ref == first.ref
    assert (again.checkpoint.fetched_ms, again.checkpoint.checked_ms) == (NOW, NOW + DAY - 1)
    assert again.bytes_on_wire == 0


def test_after_the_interval_the_content_decides_though_the_stamp_lies(settled: Path) -> None:
    objects = MemoryObjects()
    first = fetch(settled, "data.csv", objects)
    info = (settled / "data.csv").stat()
    with (settled / "data.csv").open("r+b") as file:
        file.write(b"STATION")
    os.utime(settled / "data.csv", ns=(info.st_atime_ns, info.st_mtime_ns))
    lying = replace(first.checkpoint, etag=_validator((settled / "data.csv").stat()))  # as on a disk that lost a change
    early = fetch(settled, "data.csv", objects, lying, now_ms=NOW + DAY - 1)
    assert early.not_modified
    late = fetch(settled, "data.csv", objects, early.checkpoint, now_ms=NOW + DAY)
    assert not late.not_modified
    assert late.ref.content_hash == digest_of(b"STATION" + ROWS[7:])


REASONS = ["time", "size", "inode", "copied over", "mode", "older", "racy", "clock", "object", "uri", "expected"]


@pytest.mark.parametrize("reason", REASONS)
def test_anything_out_of_the_ordinary_means_reading_again(settled: Path, reason: str) -> None:
    objects = MemoryObjects()
    path = settled / "data.csv"
    stamp = (NOW - 10 * DAY) * 1_000_000
    if reason == "racy":
        stamp = (NOW - 1000) * 1_000_000
        os.utime(path, ns=(0, stamp))
    known, before = fetch(settled, "data.csv", objects).checkpoint, path.stat()
    now, uri, expected = NOW + 1, "data.csv", ""
    if reason == "time":
        os.utime(path, ns=(0, stamp + 1))
    elif reason == "size":
        path.write_bytes(ROWS + b"2,Wichita\n")
        os.utime(path, ns=(0, stamp))
    elif reason == "inode":
        _replace(path)
        os.utime(path, ns=(0, stamp))
    elif reason == "copied over":
        path.write_bytes(b"STATION" + ROWS[7:])
        os.utime(path, ns=(0, stamp))
    elif reason == "mode":
        path.chmod(0o600)
    elif reason == "older":  # as it was written before the inode's time was in it
        info = path.stat()
        known = replace(known, etag=f'"{info.st_size:x}-{info.st_mtime_ns:x}-{info.st_ino:x}"')
    elif reason == "clock":
        now = NOW - 1
    elif reason == "object":
        objects.stored.clear()
    elif reason == "uri":
        uri = "./data.csv"
    elif reason == "expected":
        path.write_bytes(b"STATION" + ROWS[7:])
        os.utime(path, ns=(0, stamp))
        expected = digest_of(path.read_bytes())
    if reason in ("time", "size", "inode", "expected"):  # alone, without the inode's time, which changed as well
        stamps: Any = SimpleNamespace(
            st_size=before.st_size,
            st_mtime_ns=before.st_mtime_ns,
            st_ctime_ns=path.stat().st_ctime_ns,
            st_ino=before.st_ino,
        )
        known = replace(known, etag=_validator(stamps))
    got = fetch(settled, uri, objects, known, now_ms=now, expect_hash=expected)
    assert not got.not_modified
    assert got.ref.content_hash == digest_of(path.read_bytes())
    assert objects.has(got.ref.content_hash)


def test_both_ways_of_opening_agree(base: Path, tmp_path: Path) -> None:
    if openat._openat2() is None:
        pytest.skip("this kernel has no openat2")
    (base / "out").symlink_to(tmp_path)
    (base / "link").symlink_to("data.csv")
    root = os.open(base, os.O_RDONLY)
    try:
        for parts in (["data.csv"], ["sub", "a b%.csv"], ["out", "secret.csv"], ["link"], ["data.csv", "x"], ["no"]):
            outcomes = []
            for opener in (openat.open_beneath, openat._step_by_step):
                try:
                    fd = opener(root, parts, os.O_RDONLY | os.O_NOFOLLOW)
                except OSError as error:
                    outcomes.append(error.errno)
                else:
                    outcomes.append(os.fstat(fd).st_ino)
                    os.close(fd)
            assert outcomes[0] == outcomes[1], parts
    finally:
        os.close(root)


def test_a_directory_swapped_for_a_link_while_opening_never_leads_out(way: str, base: Path, tmp_path: Path) -> None:
    """The race of a symlink swap: the secret's content is never what is read."""
    import threading

    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "data.csv").write_bytes(b"canary")
    (base / "real").mkdir()
    (base / "real" / "data.csv").write_bytes(ROWS)
    (base / "fake").symlink_to(tmp_path / "outside")
    stop, swaps = threading.Event(), []

    def swap() -> None:
        while not stop.is_set():
            os.rename(base / "real", base / "here")
            os.rename(base / "here", base / "real")
            os.rename(base / "fake", base / "here")
            os.rename(base / "here", base / "fake")
            swaps.append(1)

    thread = threading.Thread(target=swap)
    thread.start()
    objects, outcomes = MemoryObjects(), {"read": 0, "refused": 0}
    try:
        for _ in range(1500):
            try:
                fetch(base, "here/data.csv", objects)
                outcomes["read"] += 1
            except (Refused, Unavailable):
                outcomes["refused"] += 1
    finally:
        stop.set()
        thread.join()
    assert swaps and outcomes["refused"]
    assert digest_of(b"canary") not in objects.stored
    assert set(objects.stored) <= {digest_of(ROWS)}
