"""Large versions share their files in the public folder: a promotion writes what changed, and a removal takes what no
live version has."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.app.stewards.public_repair import differences, repair
from kfm.config import load
from kfm.delivery import public_layout
from kfm.model.records import Effect
from tests.sampling import sampled

CONFIG = """\
accept_weak_storage: true
RETENTION
datasets:
  gauges:
    version: "1.0.0"
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    sources:
      rows:
        uri: rows.csv
        format: csv
        complete: true
        contract: {shrink_limit: 1, partition_by: county, columns: [{name: county, required: true}]}
    outputs:
      rain: {from: rows, partition_by: county}
"""
OWN = "public/datasets/gauges"
EFFECTS = ("write_file", "remove_file", "remove_rest", "sync_removed", "update_metadata", "emit_event")


class Power(BaseException):
    """The process dies."""


class Dying:
    """A publisher that lets so many effects happen, and then dies before the next."""

    def __init__(self, real: Any, effects: int) -> None:
        self._real = real
        self._left = effects

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name == "write_files":  # one by one; tests/delivery/test_many_files.py has those of many at once
            return lambda _folder, files, _check: [self.write_file(*each) for each in files]
        if name not in EFFECTS:
            return method

        def call(*words: Any) -> None:
            if not self._left:
                raise Power
            self._left -= 1
            method(*words)

        return call


class Site:
    def __init__(self, folder: Path, keys: int, retention: str = "") -> None:
        self.folder = folder
        self.keys = keys
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kfm.yml").write_text(CONFIG.replace("RETENTION", retention))

    def open(self) -> Session:
        return open_session(load(str(self.folder / "kfm.yml"), {}), mode="write")

    def source(self, **changed: str) -> None:
        """Write the source; `changed` gives some keys another value."""
        lines = [f"k{n:04d},{changed.get(f'k{n:04d}', n)}\n" for n in range(self.keys)]
        (self.folder / "rows.csv").write_text("county,rain\n" + "".join(lines))

    def run(self, session: Session, **changed: str) -> str:
        self.source(**changed)
        assert run_trigger(session, new_trigger(session, "gauges")).outcome == "done"
        return session.state.refs.at("processed/gauges")

    def move(self, session: Session, op: str, **words: str) -> None:
        assert run_operation(session, op, "gauges", words, reason="a test").outcome == "done"

    def made(self, session: Session, **changed: str) -> str:
        version = self.run(session, **changed)
        self.move(session, "promote")
        settle_session(session)
        return version

    def files(self) -> dict[str, int]:
        """Every public file with the time of its last change."""
        found = [path for path in (self.folder / "public").rglob("*") if path.is_file()]
        return {str(path.relative_to(self.folder)): path.stat().st_mtime_ns for path in found}

    def is_as_the_refs_say(self, session: Session) -> None:
        assert differences(session, "gauges") == []
        left = list((self.folder / "public").rglob(".publishing"))
        assert not left
        for folder in ("files", "parts"):
            empty = [top for top, folders, names in os.walk(self.folder / OWN / folder) if not folders and not names]
            assert not empty


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few files are many."""
    monkeypatch.setattr(public_layout, "FILES", 3)


class Large(NamedTuple):
    """A dataset of 150 keys of which one changed, and what its second promotion did."""

    folder: Path
    version: str
    before: dict[str, int]
    after: dict[str, int]
    effects: list[Effect]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Large:
    site = Site(tmp_path_factory.mktemp("large"), 150)
    with site.open() as session:
        site.made(session)
        before = site.files()
        version = site.run(session, k0123="wet")
        site.move(session, "promote")
        effects = settle_session(session)
        site.is_as_the_refs_say(session)
    return Large(site.folder, version, before, site.files(), effects)


def test_promoting_one_changed_key_writes_what_changed_and_shares_the_rest(large: Large) -> None:
    assert sum(path.startswith(f"{OWN}/files/") for path in large.before) == 150
    written = {path for path, changed in large.after.items() if large.before.get(path) != changed}
    data = {path for path in written if path.startswith(f"{OWN}/files/")}
    assert [path.split("/")[-1].split(".")[0] for path in data] == ["k0123"]
    parts = {path for path in written if path.startswith(f"{OWN}/parts/")}
    assert 1 <= len(parts) <= 3
    assert {f"{OWN}/current.json", f"{OWN}/versions/{large.version[7:23]}.ndjson"} <= written
    assert set(large.before) <= set(large.after), "nothing of the version before was removed"


def test_a_promotion_requests_the_writing_of_what_changed_alone(large: Large) -> None:
    effects = [effect for effect in large.effects if effect.target.startswith("datasets/")]
    assert sum("/files/" in effect.target for effect in effects) == 1 and len(effects) <= 7
    assert sum(effect.size for effect in effects) < 20_000


def test_the_listing_of_a_large_version_leads_to_every_file_by_its_digest(large: Large) -> None:
    def lines(body: bytes) -> list[Any]:
        return [json.loads(line) for line in body.splitlines()]

    body = (large.folder / OWN / f"versions/{large.version[7:23]}.ndjson").read_bytes()
    assert "sha256:" + hashlib.sha256(body).hexdigest() == large.version
    found, todo = [], lines(body)
    while todo:
        line = todo.pop()
        if "depth" not in line:
            found.append(line)
            continue
        part = (large.folder / OWN / f"parts/{line['digest'][7:23]}.ndjson").read_bytes()
        assert "sha256:" + hashlib.sha256(part).hexdigest() == line["digest"]
        todo += lines(part)
    assert len(found) == 150
    for line in found:
        body = (large.folder / OWN / f"files/rain/{line['key'][1]}.{line['digest'][7:23]}.csv").read_bytes()
        assert "sha256:" + hashlib.sha256(body).hexdigest() == line["digest"]


def test_a_small_version_keeps_a_folder_with_all_its_files(tmp_path: Path) -> None:
    site = Site(tmp_path, 5)
    with site.open() as session:
        version = site.made(session)
        assert len(list((tmp_path / OWN / f"versions/{version[7:23]}/rain").iterdir())) == 5
        assert not (tmp_path / OWN / "files").exists()
        site.is_as_the_refs_say(session)


def test_a_version_of_few_and_very_large_files_shares_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public_layout, "BYTES", 10)
    site = Site(tmp_path, 5)
    with site.open() as session:
        site.made(session)
        site.made(session, k0001="wet")
        assert len(list((tmp_path / OWN / "files/rain").iterdir())) == 6
        site.is_as_the_refs_say(session)


@pytest.mark.usefixtures("shared")
def test_a_rollback_removes_only_files_that_no_live_version_has(tmp_path: Path) -> None:
    site = Site(tmp_path, 8)
    with site.open() as session:
        first = site.made(session)
        site.made(session, k0001="wet")
        site.made(session, k0001="wet", k0002="dry")
        assert len(list((tmp_path / OWN / "files/rain").iterdir())) == 10
        site.move(session, "rollback", to=first)
        settle_session(session)
        assert len(list((tmp_path / OWN / "files/rain").iterdir())) == 8
        site.is_as_the_refs_say(session)


@pytest.mark.usefixtures("shared")
def test_a_withdrawal_leaves_no_shared_file(tmp_path: Path) -> None:
    site = Site(tmp_path, 8)
    with site.open() as session:
        site.made(session)
        second = site.made(session, k0001="wet")
        site.move(session, "rollback", to="nothing")
        settle_session(session)
        assert not (tmp_path / OWN / "files").exists() and not (tmp_path / OWN / "parts").exists()
        site.is_as_the_refs_say(session)
        site.move(session, "promote", to=second)
        settle_session(session)
        site.is_as_the_refs_say(session)


@pytest.mark.usefixtures("shared")
def test_a_version_that_expires_leaves_what_the_next_ones_share(tmp_path: Path) -> None:
    site = Site(tmp_path, 8, "publish_retention: 1")
    with site.open() as session:
        site.made(session)
        for n in range(4):
            site.made(session, **{f"k{n:04d}": "wet"})
            site.is_as_the_refs_say(session)
        assert len(list((tmp_path / OWN / "files/rain").iterdir())) == 10, "two versions that differ in two keys"


def test_versions_of_the_older_layout_keep_their_folders_and_can_be_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, 8)
    with site.open() as session:
        first = site.made(session)  # with a folder of its own, as every version had
        folder = tmp_path / OWN / f"versions/{first[7:23]}"
        assert len(list((folder / "rain").iterdir())) == 8
        monkeypatch.setattr(public_layout, "FILES", 3)
        assert session.state.outbox.note(public_layout.NOTE, "gauges") is None
        site.is_as_the_refs_say(session)
        second = site.made(session, k0001="wet")
        assert len(list((folder / "rain").iterdir())) == 8
        assert len(list((tmp_path / OWN / "files/rain").iterdir())) == 8
        site.is_as_the_refs_say(session)
        site.move(session, "rollback", to=first)
        settle_session(session)
        assert not (tmp_path / OWN / "files").exists()
        site.is_as_the_refs_say(session)
        site.move(session, "promote", to=second)
        settle_session(session)
        site.is_as_the_refs_say(session)
        site.move(session, "rollback", to="nothing")
        settle_session(session)
        assert not list((tmp_path / OWN / "versions").iterdir()) and not (tmp_path / OWN / "files").exists()


@pytest.mark.usefixtures("shared")
def test_a_folder_that_was_emptied_is_filled_by_the_next_promotion(tmp_path: Path) -> None:
    site = Site(tmp_path, 8, "publish_retention: 0")
    with site.open() as session:
        site.made(session)
        shutil.rmtree(tmp_path / "public")
        site.made(session, k0001="wet")
        site.is_as_the_refs_say(session)


@pytest.mark.usefixtures("shared")
def test_a_damaged_shared_file_is_found_and_written_again(tmp_path: Path) -> None:
    site = Site(tmp_path, 8)
    with site.open() as session:
        site.made(session)
        some = sorted((tmp_path / OWN / "files/rain").iterdir())
        some[0].unlink()
        some[1].write_text("something else")
        (tmp_path / OWN / "files/rain/foreign.csv").write_text("not ours")
        assert sorted(each.kind for each in differences(session, "gauges")) == ["altered", "foreign", "missing"]
        repair(session, "gauges")
        site.is_as_the_refs_say(session)


@pytest.mark.usefixtures("shared")
def test_a_version_whose_removal_was_interrupted_is_complete_when_it_comes_back(tmp_path: Path) -> None:
    site = Site(tmp_path, 6)
    with site.open() as session:
        first, second = site.made(session), site.made(session, k0001="wet", k0002="dry")
        site.move(session, "rollback", to=first)
        real, removed = session.publisher.remove_file, []

        def one(path: str, *words: Any) -> None:
            if removed:
                raise Power
            real(path, *words)
            removed.extend([path] if "/files/" in path else [])

        session.publisher.remove_file = one  # type: ignore[method-assign]
        with pytest.raises(Power):
            settle_session(session)
        assert removed
    with site.open() as session:
        site.move(session, "promote", to=second)
        settle_session(session)
        site.is_as_the_refs_say(session)


def _rolled_back(site: Site, session: Session, versions: list[str]) -> None:
    site.move(session, "rollback", to=versions[0])


def _withdrawn(site: Site, session: Session, versions: list[str]) -> None:
    site.move(session, "rollback", to="nothing")


def _promoted(site: Site, session: Session, versions: list[str]) -> None:
    site.run(session, k0001="wet", k0003="new", k0005="new")
    site.move(session, "promote")


MOVES: dict[str, Callable[[Site, Session, list[str]], None]] = {
    "a promotion": _promoted,
    "a rollback": _rolled_back,
    "a withdrawal": _withdrawn,
}


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("part", sampled(range(5)))
@pytest.mark.parametrize("then", ["the next command", "the version comes back"])
@pytest.mark.parametrize("move", MOVES)
def test_after_a_kill_at_any_effect_the_next_command_leaves_what_is_live_and_nothing_else(
    move: str, then: str, part: int, tmp_path: Path
) -> None:
    made, died = tmp_path / "made", 0
    site = Site(made, 6, "publish_retention: 1")
    with site.open() as session:
        versions = [site.made(session), site.made(session, k0001="wet"), site.made(session, k0001="wet", k0002="dry")]
    for effects in range(part, 200, 5):
        shutil.copytree(made, tmp_path / str(effects))
        site = Site(tmp_path / str(effects), 6, "publish_retention: 1")
        lived = True
        with site.open() as session:
            MOVES[move](site, session, versions)
            session.publisher = Dying(session.publisher, effects)  # type: ignore[assignment]
            try:
                settle_session(session)
            except Power:
                lived, died = False, died + 1
        with site.open() as session:
            if then == "the version comes back" and session.state.refs.at("published/gauges") != versions[-1]:
                site.move(session, "promote", to=versions[-1])
            settle_session(session)
            site.is_as_the_refs_say(session)
        if lived:
            break
    assert died > 1 and lived
