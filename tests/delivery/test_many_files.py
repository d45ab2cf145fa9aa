"""Many public files are synced together: few syncs, and the same guarantees."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import Session
from kfm.delivery import public_layout
from kfm.errors import Corrupt
from kfm.fsio import Fs
from kfm.sinks import folder_publisher
from tests.delivery.test_shared_files import OWN, Power, Site
from tests.sampling import sampled

CHANGING = (
    "mkdir", "create", "write", "sync", "sync_all", "sync_dir", "link", "replace", "unlink", "rmdir",
)  # fmt: skip
APART = ".publishing-many"


class Seen(Fs):
    """The calls that change the disk; before call number `dies` the process dies, and nothing happens any more."""

    def __init__(self, dies: int = 1 << 30) -> None:
        self.calls: list[tuple[str, str]] = []
        self._dies = dies

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CHANGING:
            return found

        def call(*words: Any) -> Any:
            if len(self.calls) >= self._dies:
                raise Power
            self.calls.append((name, str(words[1] if name == "replace" else words[0])))
            return found(*words)

        return call

    def count(self, *names: str) -> int:
        return sum(name in names for name, _ in self.calls)


def watched(session: Session, disk: Seen) -> Seen:
    session.publisher._fs = disk  # type: ignore[attr-defined]
    return disk


@pytest.fixture(scope="module")
def processed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 150 keys that is not published yet."""
    site = Site(tmp_path_factory.mktemp("many"), 150)
    with site.open() as session:
        site.run(session)
        settle_session(session)
    return site.folder


@pytest.fixture
def site(processed: Path, tmp_path: Path) -> Site:
    shutil.copytree(processed, tmp_path / "many")
    return Site(tmp_path / "many", 150)


def test_the_first_promotion_of_many_keys_syncs_them_together(site: Site) -> None:
    with site.open() as session:
        site.move(session, "promote")
        disk = watched(session, Seen())
        settle_session(session)
        site.is_as_the_refs_say(session)
    assert disk.count("replace") > 150
    assert disk.count("sync_all") == 1
    assert disk.count("sync", "sync_dir") < 50, "two for each file would be 300"


def test_the_listing_is_written_after_all_files_are_durable(site: Site) -> None:
    with site.open() as session:
        site.move(session, "promote")
        disk = watched(session, Seen())
        settle_session(session)
    calls = [(name, path.rpartition(f"{OWN}/")[2]) for name, path in disk.calls]
    together = next(at for at, (name, _) in enumerate(calls) if name == "sync_all")
    named = [at for at, (name, path) in enumerate(calls) if name == "replace" and path.startswith("files/")]
    kept = next(at for at, call in enumerate(calls) if call == ("sync_dir", "files/rain") and at > named[-1])
    listing = next(at for at, (name, path) in enumerate(calls) if name == "replace" and path.startswith("versions/"))
    assert len(named) == 150
    assert together < named[0] < named[-1] < kept < listing < calls.index(("replace", "current.json"))


@pytest.mark.parametrize("part", sampled(range(10)))
@pytest.mark.parametrize("then", ["the next command", "a withdrawal"])
def test_after_a_kill_at_any_call_of_the_disk_the_next_command_leaves_what_is_live_and_nothing_else(
    then: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public_layout, "FILES", 3)
    monkeypatch.setattr(folder_publisher, "MANY", 2)
    monkeypatch.setattr(folder_publisher, "BATCH_FILES", 4)
    made, staged, lived = tmp_path / "made", 0, False
    site = Site(made, 6)
    with site.open() as session:
        site.run(session)
        settle_session(session)
        site.move(session, "promote")
    for calls in range(part, 300, 10):
        shutil.copytree(made, tmp_path / str(calls))
        site, lived = Site(tmp_path / str(calls), 6), True
        with site.open() as session:
            watched(session, Seen(calls))
            try:
                settle_session(session)
            except Power:
                lived = False
        staged += any(names for top, _, names in os.walk(site.folder) if os.path.basename(top) == APART)
        with site.open() as session:
            if then == "a withdrawal":
                site.move(session, "rollback", to="nothing")
            settle_session(session)
            site.is_as_the_refs_say(session)
            assert not list((site.folder / "public").rglob(APART))
            assert (site.folder / OWN / "files").exists() == (then == "the next command")
        shutil.rmtree(site.folder)
        if lived:
            break
    assert lived and staged > 1


def test_files_of_a_dataset_that_was_frozen_while_they_were_written_get_no_name(site: Site) -> None:
    with site.open() as session, site.open() as other:
        site.move(session, "promote")
        disk = watched(session, Seen())
        disk.sync_all = lambda _path: site.move(other, "freeze")  # type: ignore[method-assign]
        settle_session(session)
        assert disk.count("sync_all") == 1
        assert not (site.folder / OWN).exists()


def test_an_altered_file_among_many_is_reported_and_not_replaced(site: Site) -> None:
    with site.open() as session:
        site.move(session, "promote")
        settle_session(session)
        some = sorted((site.folder / OWN / "files/rain").iterdir())
        some[3].write_text("something else")
        next((site.folder / OWN / "versions").glob("*.ndjson")).unlink()
        run_operation(session, "promote", "gauges", {}, reason="a test")
        with pytest.raises(Corrupt, match="k0003"):
            settle_session(session)
        assert some[3].read_text() == "something else"
        assert not list((site.folder / "public").rglob(APART))
