"""An operation that a person orders has a reason, and the ledger says it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Kfm

WANTED = (
    ("publish", "rain-gauges"),
    ("promote", "rain-gauges"),
    ("rollback", "rain-gauges", "--to", "nothing"),
    ("thaw",),
    ("review", "reject", "abcd"),
    ("review", "deploy"),
    ("policy", "deploy"),
    ("keys", "revoke", "abcdefgh"),
)


@pytest.fixture
def without(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """An installation whose operator has set no reason."""
    monkeypatch.delenv("KFM_REASON")
    return ran


@pytest.mark.parametrize("words", WANTED, ids=" ".join)
def test_an_operation_without_a_reason_is_refused_in_one_line_that_shows_the_command(
    without: Kfm, words: tuple[str, ...]
) -> None:
    before = without("runs", "receipts", "--json").out
    answer = without(*words)
    assert answer.code == 3
    assert f'kfm {" ".join(words).replace("promote", "publish")} --reason "why"' in answer.complaint
    assert without("runs", "receipts", "--json").out == before


def test_a_reason_of_blanks_is_none(without: Kfm) -> None:
    assert "needs a reason" in without("thaw", "--reason", "  ").complaint


def test_a_dry_run_needs_no_reason(without: Kfm) -> None:
    assert without("rollback", "rain-gauges", "--to", "nothing", "--dry-run").code == 0


def test_a_script_sets_the_reason_once_and_a_flag_overrides_it(without: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_REASON", "release of May")
    assert without("rollback", "rain-gauges", "--to", "nothing").code == 0
    assert without("runs", "receipt", "last", "--json").data["reason"] == "release of May"
    assert without("freeze", "--reason", "a leak").code == 0
    assert without("runs", "receipt", "last", "--json").data["reason"] == "a leak"
    monkeypatch.setenv("KFM_REASON", "two\nlines")
    assert "KFM_REASON" in without("thaw").complaint


def test_a_freeze_needs_no_reason_and_records_that_an_operator_stopped_it(without: Kfm) -> None:
    assert without("freeze").code == 0
    assert without("runs", "receipt", "last", "--json").data["reason"] == "stopped by an operator"
    assert without("refs", "history", "switch/global", "--json").data[-1]["reason"] == "stopped by an operator"


def test_a_run_needs_no_reason(without: Kfm) -> None:
    assert without("run").code == 0
    assert without("runs", "receipt", "last", "--json").data["reason"] == ""
