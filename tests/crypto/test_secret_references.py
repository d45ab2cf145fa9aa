"""Where a key is stored: in the environment, in a file of our own, or in an installed secret store."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from kfm.errors import BadInput, Unavailable
from kfm.secret_references import GROUP, MOST, read_reference

SECRET = b"5f7d2b1a9c3e4d6f8091a2b3c4d5e6f7"


def good(name: str) -> bytes:
    return SECRET if name == "custodian" else b""


def leaks(_name: str) -> bytes:
    raise RuntimeError(SECRET.decode())


def down(_name: str) -> bytes:
    raise Unavailable("the vault does not answer")


def text(_name: str) -> str:
    return SECRET.decode()


def long(_name: str) -> bytes:
    return b"x" * (MOST + 1)


@pytest.fixture(autouse=True)
def stores(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint(f.__name__, f"{__name__}:{f.__name__}", GROUP) for f in (good, leaks, down, text, long)]
    points += [EntryPoint("twice", f"{__name__}:good", GROUP)] * 2
    points.append(EntryPoint("gone", "no_such_module:store", GROUP))
    functions = {"good": good, "leaks": leaks, "down": down, "text": text, "long": long, "twice": good}

    def load(point: EntryPoint) -> object:
        if point.name not in functions:
            raise ModuleNotFoundError("no_such_module")
        return functions[point.name]

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        return [point for point in points if group == GROUP and point.name == name]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    monkeypatch.setattr(EntryPoint, "load", load)


def read(reference: str, where: Path = Path()) -> bytes:
    return read_reference(reference, {"KEY": SECRET.decode()}, lambda name: str(where / name))


def test_a_key_is_read_from_where_the_reference_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SECRET + b"\n")
    (tmp_path / "key").chmod(0o600)
    assert read("env:KEY") == read("file:key", tmp_path) == read("good:custodian") == SECRET
    assert read("env:NONE") == read("good:other") == b""


@pytest.mark.parametrize("reference", ["", "KEY", "vault:x", "twice:x", "gone:x", "leaks:x", "text:x", "long:x"])
def test_what_gives_no_key_is_refused_and_says_nothing_of_it(reference: str) -> None:
    with pytest.raises(BadInput) as problem:
        read(reference)
    assert SECRET.decode() not in str(problem.value) and problem.value.__cause__ is None


def test_a_store_that_does_not_answer_says_so_itself() -> None:
    with pytest.raises(Unavailable):
        read("down:x")


def test_a_file_that_others_may_read_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").write_bytes(SECRET)
    (tmp_path / "open").chmod(0o644)
    (tmp_path / "own").write_bytes(SECRET)
    (tmp_path / "own").chmod(0o600)
    (tmp_path / "link").symlink_to("own")
    for name in ("open", "link", "none", "."):
        with pytest.raises(BadInput):
            read(f"file:{name}", tmp_path)
