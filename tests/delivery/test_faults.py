"""A catalog follower may be killed anywhere and the disk may fail anywhere: the next delivery completes the catalog."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kfm.app.maintenance.reconcile import drifts
from kfm.app.metadata.ledger_sinks import report_to_sinks, sink_progress
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import public_retention
from kfm.app.session.session import Session
from kfm.fsio import Fs
from kfm.sinks.folder_tree import FolderTree
from tests.crash.harness import Ended, Voice, in_child
from tests.crash.points import Points, boundary, die, install
from tests.delivery.sites import Site
from tests.engine.crowds import together
from tests.sampling import sampled

SLICES = 17


def rows(**other: str) -> dict[str, str]:
    return {"a": "1", "b": "2", "c": "3", **other}


def first(_site: Site, _session: Session) -> None:
    """Nothing was ever told."""


def newer(site: Site, session: Session) -> None:
    """Some items change, one comes and one goes."""
    settle_session(session)
    site.source({"a": "1", "b": "x", "d": "4"})
    run_trigger(session, new_trigger(session, "demo"))
    run_operation(session, "promote", "demo")


def older(site: Site, session: Session) -> None:
    newer(site, session)
    settle_session(session)
    run_operation(session, "rollback", "demo")


def withdrawn(site: Site, session: Session) -> None:
    newer(site, session)
    settle_session(session)
    run_operation(session, "rollback", "demo", {"to": "nothing", "ref": "published/demo"})


WHAT: dict[str, Callable[[Site, Session], None]] = {each.__name__: each for each in (first, newer, older, withdrawn)}


@pytest.fixture(scope="module", params=WHAT)
def prepared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """All is committed and published, and the catalog is not told of the last of it."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(tmp_path_factory.mktemp("base"))
    folder = Path(base) / f"kfm-catalog-{os.getpid()}-{request.param}"
    site = Site(folder / "site", ("demo", "other"))
    with site.open() as session:
        site.source({"z": "1"}, "other")
        site.source(rows())
        for name in ("other", "demo"):
            run_trigger(session, new_trigger(session, name))
            run_operation(session, "promote", name)
        WHAT[request.param](site, session)
        _public_only(session)
    yield site
    shutil.rmtree(folder)


def _public_only(session: Session) -> None:
    from kfm.delivery.public_files import deliver

    deliver(
        session.state,
        session.objects,
        session.publisher,
        session.log,
        sync=True,
        retention=partial(public_retention, session),
    )


def again(site: Site) -> Site:
    """The same once more, in a folder of its own."""
    other = Site.__new__(Site)
    other.folder = site.folder.parent / "again"
    shutil.rmtree(other.folder, ignore_errors=True)
    shutil.copytree(site.folder, other.folder, symlinks=True)
    return other


def told_under(site: Site, points: Points) -> Ended:
    def work(_voice: Voice) -> Any:
        with site.open() as session:
            install(points)
            problems = report_to_sinks(session)
            return points.labels, points.acted, [problem.code for problem in problems]

    return in_child(work)


def whole(site: Site) -> None:
    """After one more turn, nothing is due, nothing differs, and nothing lies about."""
    with site.open() as session:
        assert report_to_sinks(session, again=True) == []
        (how,) = sink_progress(session)
        assert (how.lag, how.dead, how.stopped) == (0, [], None)
        assert drifts(session) == ([], [])
    site.sound()
    assert not list((site.folder / "catalog").rglob(".building"))


def test_a_delivery_without_a_fault_is_complete(prepared: Site) -> None:
    site = again(prepared)
    with site.open() as session:
        assert sink_progress(session)[0].lag, "there is something to tell"
    ended = told_under(site, Points())
    assert ended.code == 0, ended.failure
    whole(site)


@pytest.mark.parametrize("part", sampled(range(SLICES)))
def test_a_delivery_killed_anywhere_takes_effect_once(prepared: Site, part: int) -> None:
    labels = told_under(again(prepared), Points()).answer[0]
    places = [at for at, label in enumerate(labels, 1) if label.startswith(("fs.", "tables.")) or boundary(label)]
    assert len(places) > 20
    for at in places[part::SLICES]:
        site = again(prepared)
        assert told_under(site, Points(at, die)).killed, labels[at - 1]
        broken = [path for path in (site.folder / "catalog").rglob("*.json*") if not _is_whole(path)]
        assert broken == [], f"half a file is seen after a kill at {labels[at - 1]}"
        whole(site)


def _is_whole(path: Path) -> bool:
    return not path.is_file() or path.read_bytes().rstrip().endswith(b"}") or path.read_bytes().endswith(b"]")


class SaysNo(Fs):
    """The catalog's disk: from this call on, every one that changes something fails. Calls are counted."""

    def __init__(self, at: int, number: int) -> None:
        self.calls: list[str] = []
        self._at = at
        self._number = number

    def __getattribute__(self, name: str) -> Any:
        if name in ("create", "write", "sync", "replace", "unlink", "rmdir", "sync_dir", "mkdir"):
            calls = object.__getattribute__(self, "calls")
            calls.append(name)
            if 0 < object.__getattribute__(self, "_at") <= len(calls):
                raise OSError(self._number, os.strerror(self._number))
        return object.__getattribute__(self, name)


def told_on(site: Site, monkeypatch: pytest.MonkeyPatch, disk: SaysNo) -> list[str]:
    with monkeypatch.context() as patched:
        patched.setattr(FolderTree.__init__, "__defaults__", (disk,))
        with site.open() as session:
            return [problem.code for problem in report_to_sinks(session)]


@pytest.mark.parametrize("part", sampled(range(7)))
@pytest.mark.parametrize("number", sampled([errno.ENOSPC, errno.EROFS, errno.EIO]), ids=errno.errorcode.get)
def test_a_disk_error_is_reported_and_repaired_later(
    prepared: Site, monkeypatch: pytest.MonkeyPatch, number: int, part: int
) -> None:
    clean = SaysNo(0, number)
    assert told_on(again(prepared), monkeypatch, clean) == [] and len(clean.calls) > 5
    for at in range(1 + part, len(clean.calls) + 1, 7):
        site, disk = again(prepared), SaysNo(at, number)
        assert told_on(site, monkeypatch, disk) == ["storage.failed"], clean.calls[at - 1]
        with site.open() as session:
            stopped = session.state.outbox.stopped("catalog")
            assert stopped is not None and stopped.tries == 1 and sink_progress(session)[0].lag
        whole(site)


def test_a_file_in_the_way_of_the_folder_fails_no_run(place: Path) -> None:
    site = Site(place / "site")
    (site.folder / "catalog").write_text("in the way")
    with site.open() as session:
        site.publish(session, rows())
        assert [problem.code for problem in session.sink_problems] == ["storage.failed"]
        assert session.state.refs.at("published/demo")
    (site.folder / "catalog").unlink()
    whole(site)


def test_several_processes_deliver_as_one_would(prepared: Site) -> None:
    site = again(prepared)

    def work() -> int:
        with site.open() as session:
            return len(report_to_sinks(session))

    assert set(together([work] * 4)) == {0}
    whole(site)


def test_what_is_deleted_altered_and_added_is_found_and_put_right(place: Path) -> None:
    from kfm.app.maintenance.reconcile import repair

    site = Site(place / "site", ("demo", "other"))
    with site.open() as session:
        for text in "xyz":
            site.publish(session, rows(a=text))
        site.publish(session, {"q": "1"}, "other")
        before = site.catalog
        folder = site.folder / "catalog"
        files = sorted(before)
        for n, name in enumerate(files):
            if n % 3 == 0:
                (folder / name).unlink()
            elif n % 3 == 1:
                (folder / name).write_bytes(before[name][:-5] + b"other")
        (folder / "demo/items/foreign.json").write_text("{}")
        (folder / "demo/empty").mkdir()
        found, problems = drifts(session)
        assert not problems
        kinds = {each.about: each.what for each in found if each.place == "catalog"}
        expected = {name: "missing" if n % 3 == 0 else "altered" for n, name in enumerate(files) if n % 3 < 2}
        assert kinds == {**expected, "demo/items/foreign.json": "foreign"}
        was, left, problems = repair(session)
        assert (was, left, problems) == (found, [], [])
        assert site.catalog == before and drifts(session) == ([], [])
    site.sound()


def test_a_lost_object_is_drift_that_is_not_guessed_at(place: Path) -> None:
    from kfm.app.maintenance.reconcile import repair

    site = Site(place / "site")
    with site.open() as session:
        site.publish(session, rows(a="x" * 70_000))
        lost = next(path for path in (site.folder / ".kfm/objects").rglob("*") if path.is_file())
        lost.unlink()
        found, _ = drifts(session)
        assert ("storage", "missing") in {(each.place, each.what) for each in found}
        _, left, _ = repair(session)
        assert ("storage", "missing") in {(each.place, each.what) for each in left}


def test_an_edge_that_the_graph_lost_is_found_and_drawn_again(place: Path) -> None:
    from kfm.app.maintenance.reconcile import repair

    site = Site(place / "site")
    with site.open() as session:
        site.publish(session, rows())
        edges = dict(session.tables.scan("lineage"))
        assert edges
        with session.state.transaction():
            session.tables.delete("lineage", next(iter(edges)))
        assert [(each.place, each.what) for each in drifts(session)[0]] == [("graph", "missing")]
        assert repair(session)[1:] == ([], [])
        assert dict(session.tables.scan("lineage")) == edges
