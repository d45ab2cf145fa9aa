"""Gzipped files and members of archives: read as what is in them, bounded, and refused where they are hostile."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import tarfile
import zipfile
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from kfm.engine.protected.source_classification import meant
from kfm.errors import KfmError, Unavailable
from kfm.model.labels import Label, LabelTarget
from kfm.model.records import FetchRequest
from kfm.sources.decompression import IN_MEMORY, UnpackSource, Wrapping
from kfm.sources.local_files import FileSource
from tests.cli.conftest import tree
from tests.engine.installations import Installation, environment
from tests.node.sites import command
from tests.sources.memory_objects import MemoryObjects
from tests.sources.packed import HOSTILE, NAME, ROWS, bomb, streamed_zip, tarred, zipped

CONFIG = """
kfm: 1
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources:
      rain: {uri: rain.bin, format: csv, contract: {columns: [{name: mm, type: number}], shrink_limit: 1}, %s}
    outputs: {all: {from: rain}}
"""
MEMBER = f"member: {NAME}"


def site(folder: Path, said: str, body: bytes) -> Installation:
    (folder / "kfm.yml").write_text(CONFIG % said)
    (folder / "rain.bin").write_bytes(body)
    return Installation(folder)


def read(there: Installation) -> bytes:
    return there.kfm("cat", "processed/rain", "all").out.encode()


GOOD = {
    "gzip": (gzip.compress(ROWS), "unpack: gzip"),
    "two gzips in one file": (gzip.compress(ROWS[:6]) + gzip.compress(ROWS[6:]), "unpack: gzip"),
    "zip": (zipped(("README", b"x"), (NAME, ROWS)), MEMBER),
    "zip, stored": (zipped((NAME, ROWS), method=zipfile.ZIP_STORED), MEMBER),
    "zip, streamed": (streamed_zip(NAME, ROWS), MEMBER),
    "zip of Windows": (zipped(("data\\rain.csv", ROWS)), MEMBER),
    "tar": (tarred(("README", b"x"), (f"./{NAME}", ROWS)), MEMBER),
    "tar, gnu": (tarred((NAME, ROWS), form=tarfile.GNU_FORMAT), MEMBER),
    "tar, gzipped": (tarred((NAME, ROWS), kind="w:gz"), MEMBER),
    "tar, long name": (tarred(("d/" * 90 + "rain.csv", ROWS)), "member: " + "d/" * 90 + "rain.csv"),
    "tar, long name of gnu": (
        tarred(("d/" * 90 + "é.csv", ROWS), form=tarfile.GNU_FORMAT),
        "member: " + "d/" * 90 + "é.csv",
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_what_is_inside_is_the_source(tmp_path: Path, name: str) -> None:
    body, said = GOOD[name]
    there = site(tmp_path, said, body)
    there.kfm("run")
    assert read(there) == ROWS
    assert " noop " in there.kfm("run").out


def test_two_members_of_one_archive_are_two_sources(tmp_path: Path) -> None:
    text = """
kfm: 1
accept_weak_storage: true
datasets:
  both:
    version: "1.0.0"
    sensitivity: public
    sources:
      a: {uri: rain.bin, format: csv, member: a.csv, contract: {shrink_limit: 1}}
      b: {uri: rain.bin, format: csv, member: b.csv, contract: {shrink_limit: 1}}
    outputs: {a: {from: a}, b: {from: b}}
"""
    (tmp_path / "kfm.yml").write_text(text)
    (tmp_path / "rain.bin").write_bytes(zipped(("a.csv", b"n\n1\n"), ("b.csv", b"n\n2\n")))
    there = Installation(tmp_path)
    for a, b in ((b"1", b"2"), (b"1", b"3")):
        (tmp_path / "rain.bin").write_bytes(zipped(("a.csv", b"n\n%s\n" % a), ("b.csv", b"n\n%s\n" % b)))
        there.kfm("run")
        assert there.kfm("cat", "processed/both", "a").out.encode() == b"n\n%s\n" % a
        assert there.kfm("cat", "processed/both", "b").out.encode() == b"n\n%s\n" % b
    assert " noop " in there.kfm("run").out


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_nothing_is_stored(tmp_path: Path, name: str) -> None:
    make, said = HOSTILE[name]
    (tmp_path / "rain.bin").write_bytes(make())
    objects = MemoryObjects()
    with pytest.raises(KfmError) as caught:
        unpacked(tmp_path, "" if name == "a gzip bomb" else NAME, objects)
    assert said in caught.value.message
    assert caught.value.hint
    assert (objects.stored, objects.open_stagings) == ({}, 0)


def every_hostile_archive(folder: Path, names: list[str]) -> None:
    there = site(folder, MEMBER, zipped((NAME, ROWS)))
    there.kfm("run")
    before = there.kfm("refs", "list", "--json").data
    for name in names:
        make, said = HOSTILE[name]
        (folder / "rain.bin").write_bytes(make())
        answer = there.kfm("run", expect=None)
        assert answer.code in (3, 69), answer
        complaints = [line for line in answer.err.splitlines() if line.startswith("kfm: ")]
        assert len(complaints) == 1, answer.err
        assert said in complaints[0]
        assert "Traceback" not in answer.err
    assert there.kfm("refs", "list", "--json").data == before
    assert read(there) == ROWS


def test_a_hostile_archive_gets_one_line_and_what_was_made_stays(tmp_path: Path) -> None:
    every_hostile_archive(tmp_path, ["a zip bomb", "a tar that is cut", "a link in a tar", "an absolute name in a zip"])


@pytest.mark.long
def test_every_hostile_archive_gets_one_line_and_what_was_made_stays(tmp_path: Path) -> None:
    every_hostile_archive(tmp_path, [name for name in HOSTILE if name != "a gzip bomb"])


@pytest.mark.parametrize(
    ("said", "uri"),
    [
        ("data/x.zip", "data/x.zip#member=a.csv"),
        ("./data/x.zip", "data/x.zip#unpack=gzip"),
        ("https://h/x.zip", "https://h/x.zip#member=a.csv"),
        ("https://h/x.zip?y=1", "https://h/x.zip?y=1#member=a.csv"),
        ("https://h/x.zip", "https://h/x.zip?k={env:K}#auth={env:A}&member=a.csv"),
    ],
)
def test_a_label_on_an_archive_is_on_what_is_in_it(said: str, uri: str) -> None:
    label = Label(of=LabelTarget(source=said), sensitivity="restricted", care="open")
    assert meant(label, uri, "/installation").of.source == uri


def unpacked(folder: Path, member: str, objects: MemoryObjects, **fields: Any) -> Any:
    wrapped = UnpackSource(
        FileSource(), lambda _: Wrapping("rain.bin", member), lambda _: None, in_memory=False, monotonic=monotonic
    )
    request = FetchRequest(**({"uri": "rain.bin#x", "base_dir": str(folder), "now_ms": 1} | fields))
    return wrapped.fetch(request, None, objects)


@pytest.mark.parametrize("member", ["", "x"])
def test_a_bomb_is_let_in_only_as_far_as_its_ratio(tmp_path: Path, member: str) -> None:
    body = bomb(64 << 20) if not member else zipped(("x", bytes(16 << 20)))
    (tmp_path / "rain.bin").write_bytes(body)
    objects = MemoryObjects(keep=False)
    with pytest.raises(KfmError, match="unpacks to more than 200 times its size"):
        unpacked(tmp_path, member, objects)
    assert sum(objects.chunk_sizes) <= 200 * len(body) + (4 << 20)
    assert (objects.stored, objects.open_stagings) == ({}, 0)


def test_time_runs_out_while_it_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "rain.bin").write_bytes(tarred(("a", bytes(8 << 20)), ("x", ROWS)))
    ticks = iter(range(10_000))
    wrapped = UnpackSource(
        FileSource(),
        lambda _: Wrapping("rain.bin", "x"),
        lambda _: None,
        in_memory=False,
        monotonic=lambda: float(next(ticks)),
    )
    objects = MemoryObjects()
    request = FetchRequest(uri="rain.bin#x", base_dir=str(tmp_path), now_ms=1, total_ms=5000)
    with pytest.raises(Unavailable, match="took too long to unpack"):
        wrapped.fetch(request, None, objects)
    assert objects.open_stagings == 0


def test_a_large_archive_is_stored_where_no_other_user_can_read_it(tmp_path: Path, monkeypatch: Any) -> None:
    import tempfile

    seen: list[Any] = []
    real = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **kw: seen.append(real(**kw)) or seen[-1])
    canary = b"canary-" * 8
    body = zipped(("noise", canary * (IN_MEMORY // len(canary) + 1)), ("x", ROWS), method=zipfile.ZIP_STORED)
    (tmp_path / "rain.bin").write_bytes(body)
    objects = MemoryObjects()
    raw: list[bytes] = []

    def look(_: str) -> None:
        raw.extend(_all_of(one) for one in seen)

    wrapped = UnpackSource(
        FileSource(), lambda _: Wrapping("rain.bin", "x"), look, in_memory=False, monotonic=monotonic
    )
    fetched = wrapped.fetch(FetchRequest(uri="rain.bin#x", base_dir=str(tmp_path), now_ms=1), None, objects)
    assert objects.stored[fetched.ref.content_hash] == ROWS
    assert raw
    assert len(raw[0]) > IN_MEMORY // 2
    assert canary not in raw[0]


def _all_of(file: Any) -> bytes:
    at = file.tell()
    file.seek(0)
    body: bytes = file.read()
    file.seek(at)
    return body


def test_a_dry_run_lays_nothing_aside_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    def fail(**_: object) -> None:
        raise AssertionError("a file was made")

    monkeypatch.setattr(tempfile, "TemporaryFile", fail)
    (tmp_path / "rain.bin").write_bytes(zipped(("noise", bytes(IN_MEMORY)), ("x", ROWS), method=zipfile.ZIP_STORED))
    objects = MemoryObjects()
    wrapped = UnpackSource(
        FileSource(), lambda _: Wrapping("rain.bin", "x"), lambda _: None, in_memory=True, monotonic=monotonic
    )
    fetched = wrapped.fetch(FetchRequest(uri="rain.bin#x", base_dir=str(tmp_path), now_ms=1), None, objects)
    assert objects.stored[fetched.ref.content_hash] == ROWS


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_every_archive_that_was_cut_or_changed_is_refused_or_the_same(tmp_path: Path, pack: Any, cut: float) -> None:
    body = pack(("a", b"y" * 300), ("x", ROWS))
    at = int(len(body) * cut)
    for wrong in (body[:at], body[:at] + bytes([body[at] ^ 255]) + body[at + 1 :]):
        (tmp_path / "rain.bin").write_bytes(wrong)
        objects = MemoryObjects()
        try:
            found = unpacked(tmp_path, "x", objects)
        except KfmError:
            assert (objects.stored, objects.open_stagings) == ({}, 0)
        else:
            assert objects.stored[found.ref.content_hash] == ROWS


@pytest.mark.long
@pytest.mark.parametrize("pack", [zipped, tarred, lambda *m: tarred(*m, kind="w:gz")])
def test_every_byte_of_an_archive_may_be_wrong(tmp_path: Path, pack: Any, count: Any) -> None:
    """In a tar nothing vouches for the bytes of a file, in a zip and in gzip a sum does."""
    body = pack(("a", b"y" * 30), ("x", ROWS))
    for at in range(0, len(body), 7 if pack is tarred else 1):
        for wrong in (body[:at], body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]):
            (tmp_path / "rain.bin").write_bytes(wrong)
            objects = MemoryObjects()
            try:
                found = unpacked(tmp_path, "x", objects)
            except KfmError:
                assert (objects.stored, objects.open_stagings) == ({}, 0)
            else:
                assert len(objects.stored[found.ref.content_hash]) == len(ROWS)
                assert pack is tarred or objects.stored[found.ref.content_hash] == ROWS
            count("damaged archives", 1)


def test_what_is_expected_is_what_is_inside(tmp_path: Path) -> None:
    digest = "sha256:" + hashlib.sha256(ROWS).hexdigest()
    there = site(tmp_path, f"{MEMBER}, expect_hash: '{digest}'", zipped((NAME, ROWS)))
    there.kfm("run")
    (tmp_path / "rain.bin").write_bytes(zipped((NAME, ROWS + b"3,4\n")))
    assert "does not have the expected hash" in there.kfm("run", expect=3).err
    assert read(there) == ROWS


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("member: ../x", "is not a path within an archive"),
        ("member: /etc/passwd", "is not a path within an archive"),
        ("member: x, unpack: gzip", "has no meaning next to a member"),
        ("unpack: bzip2", "unpack"),
        ("member: ''", "member"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(tmp_path: Path, said: str, complaint: str) -> None:
    there = site(tmp_path, said, b"")
    answer = there.kfm("run", expect=3)
    assert complaint in answer.err


def test_a_dry_run_of_an_archive_changes_nothing(tmp_path: Path) -> None:
    there = site(tmp_path, MEMBER, zipped((NAME, ROWS)))
    before = tree(tmp_path)
    there.kfm("run", "--dry-run")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("said", [MEMBER, "unpack: gzip"])
def test_node_refuses_it_and_names_who_reads_it(tmp_path: Path, said: str) -> None:
    site(tmp_path, said, gzip.compress(ROWS))
    done = subprocess.run(
        command("node", "run", "rain"), cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr
    assert f"has a source with {said.partition(':')[0]}, and this runner reads none" in done.stderr
