"""An operation that had to wait makes the requested move or none, in either runner and whatever came between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm import config
from kfm.app.runs.run_control import run_operation
from kfm.app.session.session import open_session
from kfm.model.records import Receipt
from kfm.operations.registry import operations
from kfm.scheduling.triggers import operation_trigger
from tests.node.sites import Site, declared

CONFIG = declared("rain")


class Rain(Site):
    def becomes(self, mm: str, *, published: bool = True) -> str:
        """A new version of the dataset, by its digest."""
        self.put("rain.csv", f"mm\n{mm}\n")
        self.kfm("run")
        if published:
            self.kfm("promote", "rain", "--reason", "looked at it")
        return self.ref("processed/rain")

    def waiting(self) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = self.kfm("triggers", "list", "--json").data
        return rows

    def resumed(self, code: int = 0) -> list[tuple[str, str, str]]:
        """By the runner whose turn it is: what became of what waited, with the error if there is one."""
        before = len(self.receipts())
        self.kfm("resume", code=code)
        found = [(r["updater_id"], r["outcome"], r["errors"]) for r in self.receipts()[before:]]
        return [(updater, outcome, errors[0]["code"] if errors else "") for updater, outcome, errors in found]

    def receipts(self) -> list[dict[str, Any]]:
        """In the order of the ledger."""
        with open_session(config.load(str(self.folder / "kfm.yml"), {}), mode="read") as session:
            found = [session.state.ledger.receipt(entry.run_id) for entry in session.state.ledger.entries()]
            return [msgspec.to_builtins(receipt) for receipt in found]


@pytest.fixture
def site(tmp_path: Path) -> Rain:
    return Rain(tmp_path / "site", {"kfm.yml": CONFIG}, lambda _n: "python")


def test_a_rollback_that_waited_is_done_if_nothing_moved(site: Rain) -> None:
    one, two = site.becomes("1"), site.becomes("20")
    site.kfm("freeze")
    site.kfm("rollback", "rain", "--reason", "take it back", code=5)
    (waiting,) = site.waiting()
    assert waiting["asks"] == f"rollback published/rain from {two} to {one}"
    site.kfm("thaw")
    assert site.resumed() == [("kfm-rollback", "done", "")]
    assert site.ref("published/rain") == one and not site.waiting()


def test_a_rollback_that_waited_does_not_undo_the_one_that_was_done_meanwhile(site: Rain) -> None:
    one, _two = site.becomes("1"), site.becomes("20")
    site.kfm("freeze")
    site.kfm("rollback", "rain", "--reason", "take it back", code=5)
    site.kfm("thaw")
    site.kfm("rollback", "rain", "--reason", "take it back now")
    assert site.resumed(6) == [("kfm-rollback", "failed", "ref.moved")]
    assert site.ref("published/rain") == one, "what was taken back is public again"
    assert not site.waiting()


def test_two_rollbacks_that_waited_do_not_undo_each_other(site: Rain) -> None:
    one, _two = site.becomes("1"), site.becomes("20")
    site.kfm("freeze", "rain")
    for _ in range(2):
        site.kfm("rollback", "rain", "--reason", "take it back", code=5)
    site.kfm("thaw", "rain")
    assert [outcome for _, outcome, _ in site.resumed(6)] == ["done", "failed"]
    assert site.ref("published/rain") == one


def test_a_promotion_that_waited_publishes_what_was_looked_at_or_nothing(site: Rain) -> None:
    site.becomes("1")
    two = site.becomes("20", published=False)
    site.kfm("freeze")
    site.kfm("promote", "rain", "--reason", "looked at 2", code=5)
    site.kfm("thaw")
    site.becomes("9999", published=False)
    assert site.resumed() == [("kfm-promote", "done", "")]
    assert site.ref("published/rain") == two
    site.kfm("freeze")
    site.kfm("promote", "rain", "--reason", "looked at 99", code=5)
    site.kfm("thaw")
    site.kfm("rollback", "rain", "--to", "nothing", "--reason", "the custodian asked for it")
    assert site.resumed(6) == [("kfm-promote", "failed", "ref.moved")]
    assert site.ref("published/rain") == ""


def test_a_withdrawal_does_not_wait(site: Rain) -> None:
    site.becomes("1")
    site.kfm("freeze")
    site.kfm("rollback", "rain", "--to", "nothing", "--reason", "the custodian asked for it")
    assert site.ref("published/rain") == "" and not site.waiting()
    site.kfm("thaw")
    assert site.resumed() == []


def test_an_operation_killed_before_its_plan_is_the_move_it_was_then(
    site: Rain, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _two, _three = site.becomes("1"), site.becomes("20"), site.becomes("300")
    planned = []

    class Killed(BaseException):
        pass

    def dies(*_: object) -> Receipt:
        planned.append(True)
        raise Killed

    with open_session(config.load(str(site.folder / "kfm.yml"), {})) as session, monkeypatch.context() as patch:
        patch.setattr("kfm.engine.plan.settle_plan", dies)
        with pytest.raises(Killed):
            run_operation(session, "rollback", "rain", reason="take 3 back")
    assert planned
    site.kfm("rollback", "rain", "--to", one, "--reason", "back to the first")
    assert site.resumed(6) == [("kfm-rollback", "failed", "ref.moved")]
    assert site.ref("published/rain") == one


def test_an_operation_kept_without_its_move_is_not_guessed_at(site: Rain) -> None:
    site.becomes("1")
    two = site.becomes("20")
    with open_session(config.load(str(site.folder / "kfm.yml"), {})) as session:
        trigger = operation_trigger(operations()["rollback"](), "rain", {}, session.clock, actor="a", reason="r")
        with session.state.transaction() as tx:
            tx.inbox.keep(trigger)
    assert site.resumed(3) == [("kfm-rollback", "failed", "refused")]
    assert site.ref("published/rain") == two
