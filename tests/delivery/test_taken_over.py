"""A process that was stopped for longer than the lease of a sink writes late. What it wrote is put right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kfm.app.metadata import catalogs, pages_sink
from kfm.app.metadata.ledger_sinks import report_to_sinks
from kfm.app.session.session import Session
from kfm.app.stewards.public_repair import compare_all
from kfm.model.records import Lease
from kfm.sinks.folder_tree import FolderTree
from kfm.store.state_lock import StateLock
from tests.delivery.sites import Site, tree


class Stopped(StateLock):
    """A lock whose holder is stopped as soon as it has it."""

    def _renew(self, lease: Lease, ended: Any) -> None:
        pass


@pytest.fixture
def site(place: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """An installation with two public datasets, whose sinks are locked by leases."""
    for module in (catalogs, pages_sink):
        monkeypatch.setattr(
            module, "sink_lock", lambda _, state, sink: partial(Stopped, state, f"sink-{sink}", ttl_ms=1)
        )
    site = Site(place / "site", ("demo", "other"), more="pages: true\n")
    with site.open() as session:
        for name in ("demo", "other"):
            site.publish(session, {"a": "1"}, name)
    return site


def withdraw(site: Site, session: Session) -> None:
    site.operate(session, "rollback", {"to": "nothing"})


def late(
    site: Site, monkeypatch: pytest.MonkeyPatch, folder: str, do: Callable[[Site, Session], object] = withdraw
) -> list[str]:
    """Before the next write of some files into a folder, another process does something and reports it."""
    real, done = FolderTree.write, list[str]()

    def write(tree: FolderTree, files: Sequence[tuple[str, bytes]]) -> int:
        if files and tree._root.endswith(folder) and not done:
            done.append(folder)
            with site.open() as other:
                do(site, other)
        return real(tree, files)

    monkeypatch.setattr(FolderTree, "write", write)
    return done


def sound(site: Site) -> None:
    """No file names the withdrawn dataset, and all are as they should be."""
    for folder in ("catalog", "public"):
        files = tree(site.folder / folder)
        assert [name for name, body in files.items() if b"The demo" in body and not name.endswith("feed.xml")] == []
        assert any(b"The other" in body for body in files.values())
    as_the_state_says(site)


def as_the_state_says(site: Site) -> None:
    with site.open("read") as session:
        assert catalogs.differences(session) == [] and compare_all(session, ["demo", "other"]) == ([], [])
        assert not list(session.state.outbox.waiting("catalog")) and not list(session.state.outbox.waiting("pages"))


@pytest.mark.parametrize("folder", ["catalog", "public"])
def test_what_a_late_report_shows_of_a_withdrawn_dataset_is_removed(
    site: Site, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    with site.open() as session:
        site.ingest(session, {"a": "2"})
        done = late(site, monkeypatch, folder)
        site.operate(session, "promote")
        assert done and not session.state.refs.at("published/demo")
    sound(site)


@pytest.mark.parametrize("folder", ["catalog", "public"])
@pytest.mark.parametrize("then", ["rollback", "publish"])
def test_what_a_late_report_shows_of_another_version_goes(
    site: Site, monkeypatch: pytest.MonkeyPatch, folder: str, then: str
) -> None:
    def move(site: Site, other: Session) -> None:
        _ = site.operate(other, then) if then == "rollback" else site.publish(other, {"a": "4", "c": "5"})

    with site.open() as session:
        site.ingest(session, {"a": "2", "b": "3"})
        done = late(site, monkeypatch, folder, move)
        site.operate(session, "promote")
        assert done
    as_the_state_says(site)


@pytest.mark.parametrize("folder", ["catalog", "public"])
def test_a_late_build_is_done_again(site: Site, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    done = late(site, monkeypatch, folder)
    with site.open() as session:
        (catalogs if folder == "catalog" else pages_sink).build(session)
    assert done
    sound(site)


def test_a_late_report_that_fails_is_put_right_by_the_next(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It wrote the first of its files and could not write the rest, nor take its turn again."""
    with site.open() as session:
        site.ingest(session, {"a": "2"})
        done = late(site, monkeypatch, "public")
        monkeypatch.setattr("kfm.delivery.followers.TURNS", 1)
        site.operate(session, "promote")
        assert done and [problem.message.partition(":")[0] for problem in session.sink_problems] == ["pages"]
        assert b"The demo" in (site.folder / "public/datasets/demo/index.html").read_bytes()
        assert report_to_sinks(session) == []
    sound(site)
