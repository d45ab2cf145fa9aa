"""Public files are delivered by several processes at once, over kills, and into folders that vanish."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.errors import Corrupt
from kfm.model.records import ManifestEntry
from kfm.projections.file_paths import published_path
from tests.engine.crowds import STATES, Crowd, Installation, Looks, Told, attempt, together
from tests.sampling import sampled

CURRENT = "public/datasets/demo/current.json"


class Power(BaseException):
    """The process dies."""


def promoted(site: Installation, versions: int = 1, dataset: str = "demo") -> None:
    """That many versions made and promoted, and nothing delivered."""
    with site.open() as session:
        for n in range(versions):
            site.source(f"{dataset} {n}", dataset)
            assert run_trigger(session, new_trigger(session, dataset)).outcome == "done"
            assert run_operation(session, "promote", dataset).outcome == "done"


def deliver(site: Installation) -> Callable[[], int]:
    def work() -> int:
        with site.open() as session:
            return len(settle_session(session))

    return work


def told(site: Installation) -> dict[str, bytes]:
    """Every file that tells the outside something."""
    return {
        str(path.relative_to(site.folder)): path.read_bytes()
        for folder in ("public", ".kfm/receipts", ".kfm/events")
        for path in (site.folder / folder).rglob("*")
        if path.is_file()
    }


def all_is_told(site: Installation) -> None:
    with site.open() as session:
        assert not list(session.state.outbox.due("publish"))
        ledger = list(session.state.ledger.entries())
        assert session.state.outbox.cursor("receipts") == len(ledger)
        version = session.state.refs.at("published/demo")
        assert json.loads((site.folder / CURRENT).read_bytes())["version"] == version
        for line in session.objects.read(version).splitlines():
            entry = msgspec.json.decode(line, type=ManifestEntry)
            file = site.folder / "public" / published_path("demo", version, entry, None)
            assert file.read_bytes() == session.objects.read(entry.digest)
    assert len(list((site.folder / ".kfm/receipts").rglob("*.json"))) == len(ledger)
    assert not list(site.folder.rglob(".publishing"))
    site.sound()


@pytest.mark.parametrize("state", STATES)
def test_several_deliverers_at_once_deliver_as_one_would(state: str, place: Path) -> None:
    site, alone = Installation(place / "crowd", state), place / "alone"
    promoted(site, versions=3)
    shutil.copytree(site.folder, alone)
    together([deliver(site)] * 6)
    all_is_told(site)
    other = Installation.__new__(Installation)
    other.folder = alone
    deliver(other)()
    assert told(site) == told(other)


class Dying:
    """A publisher that lets so many effects happen, and then dies: before the next, or right after it."""

    def __init__(self, real: Any, effects: int) -> None:
        self._real = real
        self._left = effects

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name == "write_files":
            return lambda _folder, files, _check: [self.write_file(*each) for each in files]
        if name not in ("write_file", "remove_file", "remove_rest", "update_metadata", "emit_event"):
            return method

        def call(*words: Any) -> None:
            if not self._left:
                raise Power
            self._left -= 1
            method(*words)

        return call


@pytest.mark.parametrize("part", sampled(range(3)))
@pytest.mark.parametrize("state", STATES)
def test_a_delivery_that_dies_anywhere_is_made_by_the_next(state: str, part: int, place: Path) -> None:
    expected: dict[str, bytes] = {}
    died = 0
    for effects in (0, *range(1 + part, 100, 3)):
        site = Installation(place / str(effects), state)
        with site.open() as session:
            session.clock = type("Still", (), {"now_ms": lambda _: 1_767_225_600_000, "monotonic": lambda _: 0.0})()
            assert run_trigger(session, new_trigger(session, "demo", actor="a")).outcome == "done"
            assert run_operation(session, "promote", "demo", actor="a").outcome == "done"
            if expected:
                session.publisher = Dying(session.publisher, effects - 1)
            lived = True
            try:
                settle_session(session)
            except Power:
                lived = False
                died += 1
        if not expected:
            expected = told(site)
            continue
        with site.open() as session:
            settle_session(session)
        all_is_told(site)
        assert told(site) == expected
        if lived:
            break
    assert died > 3, "eleven files, a pointer, an event and two receipts, of which this is a third"


def test_a_kill_between_the_delivery_and_its_acknowledgement_delivers_nothing_twice(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, "sqlite")
    promoted(site)
    with site.open() as session:

        def dead(*_: object) -> None:
            raise Power

        monkeypatch.setattr(session.state.outbox, "acknowledge", dead)
        with pytest.raises(Power):
            settle_session(session)
    before = told(site)
    stamps = {path: path.stat().st_mtime_ns for path in (site.folder / "public").rglob("*") if path.is_file()}
    deliver(site)()
    assert {place: name for place, name in told(site).items() if place in before} == before
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps, "a file was written again"
    assert len(list((site.folder / ".kfm/events").iterdir())) == 1
    all_is_told(site)


def test_a_removed_folder_is_made_again_by_a_session_that_stayed_open(place: Path) -> None:
    site = Installation(place, "sqlite")
    with site.open() as session:
        for n in range(3):
            site.source(f"demo {n}")
            run_trigger(session, new_trigger(session, "demo"))
            run_operation(session, "promote", "demo")
            settle_session(session)
            if n == 1:
                shutil.rmtree(site.folder / "public")
                shutil.rmtree(site.folder / ".kfm/events")
    shutil.rmtree(site.folder / ".kfm/events")
    all_is_told(site)


def test_a_folder_that_was_removed_before_the_acknowledgement_is_filled_again(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, "sqlite")
    promoted(site)
    with site.open() as session:
        real = session.publisher.emit_event

        def removed(*words: Any) -> None:
            shutil.rmtree(site.folder / "public")
            monkeypatch.undo()
            real(*words)
            raise Power

        monkeypatch.setattr(session.publisher, "emit_event", removed)
        with pytest.raises(Power):
            settle_session(session)
        settle_session(session)
    all_is_told(site)


@pytest.mark.parametrize("state", STATES)
def test_one_who_was_slower_than_others_takes_no_pointer_back(
    state: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Installation(place, state)
    promoted(site)
    with site.open() as slow, site.open() as quick:
        real = slow.publisher.update_metadata

        def late(*words: Any) -> None:
            monkeypatch.undo()
            site.source("demo later")
            run_trigger(quick, new_trigger(quick, "demo"))
            run_operation(quick, "promote", "demo")
            settle_session(quick)
            assert quick.state.outbox.cursor("receipts") == 4
            real(*words)

        monkeypatch.setattr(slow.publisher, "update_metadata", late)
        settle_session(slow)
        assert slow.state.outbox.cursor("receipts") == 4
        assert json.loads((site.folder / CURRENT).read_bytes())["version"] == slow.state.refs.at("published/demo")
    all_is_told(site)


@pytest.mark.parametrize("state", STATES)
def test_a_reader_never_sees_the_pointer_go_back(state: str, place: Path) -> None:
    site = Installation(place, state)
    promoted(site, versions=3)

    def turn(session: Session, n: int) -> Told:
        return attempt(lambda: run_operation(session, "rollback", "demo", {"to": targets[n % 3]}, reason="a test"))

    def work() -> int:
        """Publish something else, each on its own account, until it has come to be so often enough."""
        tries = done = 0
        with site.open() as session:
            while done < 8:
                tries += 1
                told = turn(session, tries)
                assert told.exit_code in (0, 6), told  # some find that others were quicker
                settle_session(session)
                if told.outcome == "done":
                    done += 1
                    if done % 2 == 0:  # and else at any time
                        looks.wait()
        return done

    with site.open() as session:
        targets = [entry.after for entry in session.state.refs.history("published/demo")]
        settle_session(session)
    seen: list[int] = []
    looks, over = Looks(1), threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.append(json.loads((site.folder / CURRENT).read_bytes())["seq"])
            looks.looked()

    crowd = Crowd([work] * 3)
    watcher = threading.Thread(target=watch)
    watcher.start()
    crowd.begin()
    done = sum(ended.answer for ended in crowd.end())
    over.set()
    watcher.join()
    assert done == 24 and len(set(seen)) >= 4, "between two waits of the same one the pointer moved"
    assert seen == sorted(seen), "the pointer went back"
    all_is_told(site)


def test_damaged_public_files_of_one_dataset_delay_no_other_dataset(place: Path) -> None:
    site = Installation(place, "sqlite", ("demo", "other"))
    promoted(site, dataset="other")
    promoted(site)
    with site.open() as session:
        version = session.state.refs.at("published/other")
        entry = msgspec.json.decode(session.objects.read(version).splitlines()[0], type=ManifestEntry)
        wrong = site.folder / "public" / published_path("other", version, entry, None)
        wrong.parent.mkdir(parents=True)
        wrong.write_text("something else")
        for _ in range(2):
            with pytest.raises(Corrupt, match="datasets/other/"):
                settle_session(session)
            assert list(session.state.outbox.due("publish")) == ["other"]
            assert session.state.outbox.cursor("receipts") == 4
            assert (site.folder / CURRENT).exists()
        wrong.unlink()
        settle_session(session)
    all_is_told(site)


def test_a_session_that_stays_open_reports_each_effect_once(place: Path) -> None:
    site = Installation(place, "sqlite")
    with site.open() as session:
        for n in range(3):
            site.source(f"demo {n}")
            run_trigger(session, new_trigger(session, "demo"))
            assert [effect.method for effect in settle_session(session)] == ["write_file"]  # its receipt
            assert settle_session(session) == []


@pytest.mark.parametrize("state", ["sqlite", "jsonl"])
def test_a_commit_of_another_process_after_our_sync_is_not_delivered_by_us(
    state: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not be durable: after a power cut its receipt would be outside, and another one inside."""
    site = Installation(place, state)
    site.source("demo 0")
    with site.open() as session, site.open() as other:
        assert run_trigger(session, new_trigger(session, "demo")).outcome == "done"
        real, said = session.state.transaction, []

        @contextmanager
        def then_the_other_speaks(*words: Any, **options: Any) -> Iterator[Any]:
            with real(*words, **options) as tx:
                yield tx
            if not said:
                assert options == {"durable": True}, "this is not the one that makes all durable"
                said.append(run_trigger(other, new_trigger(other, "demo")))

        with monkeypatch.context() as patch:
            patch.setattr(session.state, "transaction", then_the_other_speaks)
            assert [effect.method for effect in settle_session(session)] == ["write_file"]  # our own receipt
        assert [receipt.outcome for receipt in said] == ["noop"]
        assert session.state.outbox.cursor("receipts") == 1
        assert [effect.method for effect in settle_session(other)] == ["write_file"]
        assert session.state.outbox.cursor("receipts") == 2
