"""Defects that the product once had, each with the smallest scenario that shows it."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kfm.app.runs.run_control import resume_runs, run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_session
from kfm.clock import FixedClock
from kfm.engine.execute import Crew
from kfm.engine.step_results import Results
from kfm.errors import Busy, StorageFailed
from kfm.model.updater import Output
from kfm.sinks.folder_publisher import FilesPublisher
from kfm.store.locks import FileLock
from kfm.store.objects import FileObjects
from kfm.store.process_identity import this_process
from kfm.store.state import StoredState
from tests.crash.harness import Voice, answer_of, in_child, load, perform, session_in
from tests.crash.points import Points, die, fail, install
from tests.crash.updaters import FAN, SMALLEST, STATIONS, T0, Command, Script, lay_out, settle_in


def installed(scratch: str, script: Script, commands: int) -> str:
    """An installation in which the first commands of a script were typed."""
    folder = os.path.join(scratch, "house")
    settle_in(folder, script, "sqlite")
    for n, command in enumerate(script.commands[:commands]):
        lay_out(folder, command, n)
        with session_in(folder) as session:
            perform(session, command)
            settle_session(session)
    return folder


def test_an_operation_whose_ref_went_elsewhere_ends_instead_of_staying_open_for_ever(scratch: str) -> None:
    """Its plan names where the ref was, so no resume could ever succeed."""
    folder = installed(scratch, STATIONS, 4)

    def killed_when_planned(_voice: Voice) -> None:
        with session_in(folder) as session:
            install(Points(2, die, only=lambda label: label == "tables.commit after"))  # the claim, then the plan
            run_operation(session, "rollback", "stations")

    with session_in(folder) as session:
        moves = [entry.after for entry in session.state.refs.history("published/stations")]
    assert in_child(killed_when_planned).killed
    with session_in(folder) as session:
        (planned,) = session.state.runs.unfinished()
        assert planned.plan_hash
        assert run_operation(session, "rollback", "stations", {"to": moves[0]}).outcome == "done"
        (receipt,) = resume_runs(session)
        assert (receipt.run_id, receipt.status) == (planned.run_id, "FAILED")
        assert [note.code for note in receipt.errors] == ["ref.moved"]
        assert not list(session.state.runs.unfinished()) and not list(resume_runs(session))
        assert [entry.after for entry in session.state.refs.history("published/stations")] == [*moves, moves[0]]


def test_nothing_is_called_done_after_a_large_output_could_not_be_synced(scratch: str) -> None:
    folder = os.path.join(scratch, "house")
    settle_in(folder, FAN, "sqlite")
    lay_out(folder, FAN.commands[0], 0)

    def work(_voice: Voice) -> tuple[int, int, int]:
        with session_in(folder) as session:
            # The first sync is that of the source; the next one is in a step, after others of its batch are finished.
            points = Points(3, fail(5), only=lambda label: label.startswith("fs.sync before"))
            install(points)
            with pytest.raises(StorageFailed):
                perform(session, FAN.commands[0])
            assert points.acted == 1
        with session_in(folder) as session:
            (run,) = session.state.runs.unfinished()
            segments = [segment for segment, _ in session.state.journal.segments(run.run_id)]
            return len(segments), sum(len(s.done) for s in segments), sum(len(s.failed) for s in segments)

    segments, done, failed = answer_of(work)
    assert segments == done + 1, "a step a segment, as they form a chain, and the last one only an intent"
    assert not failed


def test_a_commit_that_failed_is_not_logged_as_committed(scratch: str) -> None:
    class Heard:
        def __init__(self) -> None:
            self.names: list[str] = []

        def event(self, name: str, **_fields: object) -> None:
            self.names.append(name)

        def bind(self, **_fields: object) -> Heard:
            return self

    def run_once(at: int) -> tuple[list[str], bool]:
        folder = os.path.join(scratch, f"house-{at}")
        settle_in(folder, SMALLEST, "jsonl")
        lay_out(folder, SMALLEST.commands[0], 0)
        heard = Heard()
        points = Points(at, fail(5), only=lambda label: label == "fs.sync before")
        install(points)
        session = open_session(load(os.path.join(folder, "kfm.yml"), {}), log=heard, clock=FixedClock(T0))
        try:
            perform(session, SMALLEST.commands[0])
        except StorageFailed:
            return heard.names, True
        return heard.names, False

    seen = set()
    for at in range(1, 10):
        names, failed = answer_of(lambda _voice, at=at: run_once(at))  # type: ignore[misc]
        seen.add(failed)
        assert ("run.committed" in names) is not failed
        if not failed:
            break
    assert seen == {True, False}


def test_a_step_that_no_thread_is_left_for_gets_a_new_one() -> None:
    """The last thread may go just before its next step comes; nobody then did that step, and all waited for ever."""
    performed = threading.Event()

    def perform_it(_step: Any, _read: Any) -> Output:
        performed.set()
        return Output(b"x")

    context: Any = SimpleNamespace(
        updater=SimpleNamespace(execute=perform_it, id="u", retries=0, backoff_s=1.0, retry_on=()),
        switches=(),
        grids={},
        standing=None,
        world=SimpleNamespace(
            state=None,
            objects=None,
            settings=SimpleNamespace(threads=2, dry_run=False),
            clock=FixedClock(T0),
            encryption=None,
            datasets={},
        ),
    )
    crew = Crew(context, [], SimpleNamespace(index=None), Results(1))  # type: ignore[arg-type]
    crew.in_flight = 1
    crew._todo.append((0, SimpleNamespace(id="left")))  # type: ignore[arg-type]
    done = crew.perform([])
    assert performed.is_set() and [entry[0] for entry in done] == [0]


def test_scratch_files_of_the_dead_are_removed_and_of_the_living_kept(scratch: str) -> None:
    folder = Path(scratch) / "objects" / "tmp"
    folder.mkdir(parents=True)
    dead = answer_of(lambda _voice: this_process())
    host, _, rest = dead.partition(":")
    keep = [f"{this_process()}-1-0", f"elsewhere:{rest}-1-0"]
    for name in [*keep, f"{dead}-1-0"]:
        (folder / name).write_bytes(b"half")
    state: Any = StoredState(Memory(), FixedClock(T0).now_ms)
    FileObjects(str(folder.parent), state).put(b"x" * 100_000)
    assert sorted(path.name for path in folder.iterdir()) == sorted(keep)
    assert host


class Memory:
    """No rows: everything is a file."""

    def get(self, _table: str, _key: str) -> None:
        return None


def test_a_pointer_does_not_go_back_when_two_publish_at_once(tmp_path: Path) -> None:
    """One looks, the other moves it further, the first writes what it thought was news."""
    roots = {"": str(tmp_path / "public"), "events": str(tmp_path)}
    slow, fast = (FilesPublisher(roots, lock=partial(FileLock, str(tmp_path / "lock"))) for _ in range(2))
    pointer = "datasets/d/current.json"
    started, go_on = threading.Event(), threading.Event()
    write = slow._write

    def slowly(*words: Any) -> None:
        started.set()
        go_on.wait(10)
        write(*words)

    slow._write = slowly  # type: ignore[method-assign]
    first = threading.Thread(target=lambda: slow.update_metadata(pointer, {"seq": 1}, "a"))
    second = threading.Thread(target=lambda: fast.update_metadata(pointer, {"seq": 2}, "b"))
    first.start()
    started.wait(10)
    second.start()
    second.join(0.2)
    assert second.is_alive(), "the second did not wait for its turn"
    go_on.set()
    first.join()
    second.join()
    assert (tmp_path / "public" / pointer).read_bytes() == b'{"seq":2}'


def test_a_publisher_that_is_never_let_in_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    publisher = FilesPublisher({"": str(tmp_path)}, lock=partial(FileLock, str(tmp_path / "lock")))
    held = FileLock(str(tmp_path / "lock"))
    assert held.take()
    with pytest.raises(Busy, match="kfm resume"):
        publisher.update_metadata("a/b.json", {"seq": 1}, "k")
    held.release()
    publisher.update_metadata("a/b.json", {"seq": 1}, "k")


def test_the_rows_a_killed_run_held_back_are_filed_when_it_is_resumed(scratch: str) -> None:
    folder = os.path.join(scratch, "house")
    settle_in(folder, STATIONS, "sqlite")
    lay_out(folder, STATIONS.commands[0], 0)

    def killed(at: int) -> bool:
        def work(_voice: Voice) -> None:
            install(Points(at, die, only=lambda label: label == "tables.commit after"))
            with session_in(folder) as session:
                perform(session, Command("run", "stations"))

        return in_child(work).killed

    for at in sorted([*range(1, 20)] * 2):  # twice each: what was stored before is not written again
        assert killed(at)
        with session_in(folder) as session:
            if any(run.plan_hash for run in session.state.runs.unfinished()):
                break
    with session_in(folder) as session:
        (receipt,) = resume_runs(session)
        assert receipt.held_rows == 1
        report = session.objects.read(session.state.refs.at("quarantine/stations"))
        assert b'"held_rows":1' in report
        assert session.state.inbox.checkpoint("in.csv") is not None, "and the source is remembered"
