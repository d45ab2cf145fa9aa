"""Every interface runs, settles and delivers in the same way, and no outcome is forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from kfm.app.maintenance.maintenance_records import record
from kfm.app.runs import execution
from kfm.app.runs.execution import Request, Tell, Undelivered, operation_request, resume_request, run_request, work
from kfm.app.session.session import Session
from kfm.errors import Corrupt, KfmError, Refused, Unavailable
from kfm.model.records import Receipt
from tests.engine.crowds import Installation


class Heard:
    """Everything that is said, in order."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def begins(self, about: str) -> None:
        self.said.append(f"begins {about}")

    def ended(self, receipt: Receipt) -> None:
        self.said.append(f"ended {receipt.outcome}")

    def failed(self, about: str, problem: KfmError) -> None:
        self.said.append(f"failed {about} {problem.code}")

    def settles(self) -> None:
        self.said.append("settles")

    def undelivered(self, what: Undelivered) -> None:
        self.said.append(f"undelivered {what.dataset} {'ours' if what.ours else 'theirs'}")


def test_the_failure_of_one_request_keeps_no_other_from_running(tmp_path: Path) -> None:
    heard = Heard()
    with Installation(tmp_path, "sqlite", ("a", "b")).open() as session:
        outcome = work(session, [run_request("a"), run_request("none"), run_request("b"), run_request("b")], heard)
    assert [(receipt.dataset, receipt.outcome) for receipt in outcome.receipts] == [
        ("a", "done"),
        ("b", "done"),
        ("b", "noop"),
    ]
    assert [(about, problem.code) for about, problem in outcome.problems] == [("none", "input.bad")]
    assert len(outcome.effects) == 3 and not outcome.undelivered  # their receipts as files
    assert heard.said == [
        "begins a", "ended done", "begins none", "failed none input.bad", "begins b", "ended done", "begins b",
        "ended noop", "settles",
    ]  # fmt: skip


def test_if_the_ground_gives_way_nothing_more_is_begun(tmp_path: Path) -> None:
    def broken(_session: Session, _tell: Tell) -> Iterable[Receipt]:
        raise Corrupt("a row was altered", hint="restore it")

    heard = Heard()
    with Installation(tmp_path, "sqlite", ("a",)).open() as session, pytest.raises(Corrupt):
        work(session, [Request("ground", broken), run_request("a")], heard)
    assert heard.said == ["begins ground"]


def test_work_that_another_command_left_undelivered_is_reported_and_fails_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told_of_none(session: Session, **_how: object) -> None:
        session.undelivered = [(name, Corrupt(f"{name} is altered", hint="restore it")) for name in ("a", "b")]
        raise session.undelivered[0][1]

    with Installation(tmp_path, "sqlite", ("a", "b")).open() as session:
        work(session, [run_request("a")], Heard())
        monkeypatch.setattr(execution, "settle_session", told_of_none)
        heard = Heard()
        outcome = work(session, [run_request("b")], heard)
        assert [(each.dataset, each.ours) for each in outcome.undelivered] == [("a", False), ("b", True)]
        assert [receipt.outcome for receipt in outcome.receipts] == ["done"] and not outcome.effects
        assert heard.said[-3:] == ["settles", "undelivered a theirs", "undelivered b ours"]
        outcome = work(session, [resume_request()], Heard(), all_are_ours=True)
        assert [each.ours for each in outcome.undelivered] == [True, True]


def test_if_the_place_itself_fails_it_is_ours_and_the_next_one_delivers(tmp_path: Path) -> None:
    with Installation(tmp_path, "sqlite", ("a",)).open() as session:
        work(session, [run_request("a")], Heard())
        (tmp_path / "public").write_text("in the way")
        outcome = work(session, [operation_request("promote", "a", {})], Heard())
        assert [(each.dataset, each.ours) for each in outcome.undelivered] == [("", True)]
        (tmp_path / "public").unlink()
        outcome = work(session, [resume_request()], Heard(), all_are_ours=True)
        assert outcome.effects and not (outcome.receipts or outcome.problems or outcome.undelivered)


def test_committed_is_said_only_where_something_was_committed(tmp_path: Path) -> None:
    def said(*requests: Request) -> list[str]:
        return [each.message.partition(":")[0] for each in work(session, requests, Heard()).undelivered]

    committed, records = (
        "committed, but not delivered yet, do not repeat it",
        "every change is delivered, only records of runs are not yet",
    )
    back = operation_request("rollback", "a", {})
    with Installation(tmp_path, "sqlite", ("a", "b")).open() as session:
        receipts = tmp_path / ".kfm" / "receipts"
        receipts.parent.mkdir(exist_ok=True)
        receipts.write_text("in the way")
        assert said(back) == [records], "it failed: there is nothing to go back to"
        assert said(run_request("b")) == [committed]
        assert said(back) == [committed], "the run before is pending, too"
        receipts.unlink()
        assert said(resume_request()) == []
        receipts.rename(tmp_path / "aside")
        receipts.write_text("in the way")
        assert said(run_request("b")) == [records], "nothing has changed since"
        record(session, "backup", {"to": "file:backups"}, actor="ann", reason="every night")
        assert said() == [records], "a backup that was begun may be repeated"
        assert said(operation_request("freeze", "a", {})) == [committed]


def test_one_problem_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Unavailable("the bucket is away", hint="start it")

    def told_twice(session: Session, **_how: object) -> None:
        session.undelivered = [("", away), ("", away)]
        raise away

    with Installation(tmp_path, "sqlite", ("a",)).open() as session:
        monkeypatch.setattr(execution, "settle_session", told_twice)
        assert len(work(session, [run_request("a")], Heard()).undelivered) == 1


def test_what_failed_every_request_and_the_settlement_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_session: Session, *_more: object, **_how: object) -> Iterable[Receipt]:
        raise Unavailable("the server is away", hint="start it")

    monkeypatch.setattr(execution, "settle_session", away)
    with Installation(tmp_path, "sqlite", ("a",)).open() as session:
        heard = Heard()
        outcome = work(session, [Request("a", away)], heard)
        assert [str(problem) for _, problem in outcome.problems] == ["the server is away; start it"]
        assert heard.said == ["begins a", "failed a unavailable", "settles"]
        with pytest.raises(Unavailable):
            work(session, [Request("a", away), run_request("a")], Heard())  # its receipt may be lost
        with pytest.raises(Unavailable):
            work(session, [run_request("none")], Heard())


def test_what_fails_before_anything_is_durable_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_session: Session, **_how: object) -> None:
        raise Refused("no room", hint="make some")

    monkeypatch.setattr(execution, "settle_session", fails)
    with Installation(tmp_path, "sqlite", ("a",)).open() as session, pytest.raises(Refused, match="no room"):
        work(session, [run_request("a")], Heard())
