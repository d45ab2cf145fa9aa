"""Error budgets: what the ledger says under the clock of the session, and what they close and open again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kfm import config
from kfm.app.authority.run_setup import guards_of
from kfm.app.objectives import ledger_counts
from kfm.app.objectives.error_budgets import BUDGETS, Budget, budgets, check_budget, closed_by_objectives
from kfm.app.objectives.kept_counts import keep_counts
from kfm.app.provenance.why_not import why_not
from kfm.app.runs.auto_promotion import promote
from kfm.app.runs.objective_overrides import override_params
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, parse_instant, rfc3339
from kfm.errors import Denied, KfmError, Refused
from kfm.model.records import Receipt, Trigger
from kfm.model.reports.objective import WINDOWS
from kfm.operations.backfill_operations import Backfilling
from kfm.operations.hotfix import Hotfix
from tests.app.objectives.site import SAID, promise

START = 1_780_000_000_000
HOUR, DAY = 3_600_000, 86_400_000


class Site:
    def __init__(self, folder: Path, session: Session, clock: FixedClock) -> None:
        self.folder, self.session, self.clock = folder, session, clock
        self.turn = 0

    def run(self, *, good: bool = True, late_ms: int = 0) -> Receipt:
        self.turn += 1
        (self.folder / "rain.csv").write_text(f"n\n{self.turn if good else 'x'}\n")
        trigger = new_trigger(self.session, "rain", actor="tester")
        trigger = type(trigger)(**{f: getattr(trigger, f) for f in trigger.__struct_fields__ if f != "received_at"},
                                received_at=rfc3339(self.clock.now_ms() - late_ms))  # fmt: skip
        return run_trigger(self.session, trigger)

    def do(self, operation: str, **params: str) -> Receipt:
        return run_operation(self.session, operation, "rain", params, reason="a test", actor="tester")

    def budget(self, name: str) -> Budget:
        return next(each for each in budgets(self.session) if each.objective.name == name)

    def override(self, name: str, until: str) -> Receipt:
        dataset, params = override_params(self.session, self.budget(name).objective, until)
        return run_operation(self.session, "override", dataset, params, reason="looked at it", actor="sue")


def laid_out(folder: Path, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kfm.yml").write_text(SAID.replace("    title: Rain\n", f"    title: Rain\n{more}"))
    (folder / "rain.csv").write_text("n\n1\n")


@contextmanager
def opened(folder: Path, clock: FixedClock | None = None) -> Iterator[Site]:
    clock = clock or FixedClock(START)
    with open_session(config.load(str(folder / "kfm.yml"), {}), clock=clock) as session:
        yield Site(folder, session, clock)


# -- the numbers


def plainly(session: Session, length_ms: int, kind: str, limit_ms: int = 0) -> tuple[int, int]:
    """Good and bad events of a window, counted in the plainest way. Windows are of whole minutes."""
    now = session.clock.now_ms()
    good = bad = 0
    for entry in session.state.ledger.entries():
        minute = parse_instant(entry.ts, "an entry") // 60_000
        if not (now - length_ms) // 60_000 < minute <= now // 60_000:
            continue
        if entry.op_type != ("rollback" if kind == "rollback_time" else "ingest"):
            continue
        went_well = entry.outcome in ("done", "noop", "unchanged")
        if kind == "success":
            good, bad = good + went_well, bad + (entry.outcome in ("failed", "held", "denied"))
        elif went_well:
            measured = session.state.ledger.telemetry(entry.run_id)
            assert measured is not None
            good, bad = good + (measured.latency_ms <= limit_ms), bad + (measured.latency_ms > limit_ms)
    return good, bad


def stale_minutes(session: Session, length_ms: int, limit_ms: int) -> tuple[int, int]:
    """Minutes of a window in which the processed version was young enough, and too old, each looked at alone."""
    moves = list(session.state.refs.history("processed/rain"))
    now, good, late = session.clock.now_ms(), 0, 0
    for at in range(now - length_ms, now, 60_000):
        last = [move for move in moves if parse_instant(move.ts, "a move") <= at]
        if last:
            version = session.state.ledger.version("rain", last[-1].after)
            assert version is not None
            is_late = at - parse_instant(version.created_at, "a version") >= limit_ms
            good, late = good + (not is_late), late + is_late
    return good, late


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["good", "good", "bad", "late", "rollback", "keep", "reopen"]),
        st.sampled_from([0, 30, 59, 61, 400, 2000, 6000]),
    ),
    min_size=1,
    max_size=10,
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_number_is_what_the_ledger_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 2)
    shutil.rmtree(tmp_path / "site", ignore_errors=True)
    laid_out(tmp_path / "site")
    promise(tmp_path / "site", "success", dataset="", window="7d")
    promise(tmp_path / "site", "latency", "latency", value=60, window="1d")
    promise(tmp_path / "site", "rollback", "rollback_time", value=60)
    promise(tmp_path / "site", "fresh", "freshness", value=3600, window="3d")
    clock, turn = FixedClock(START), 0
    at = 0
    while at < len(steps):
        with opened(tmp_path / "site", clock) as site:
            site.turn = turn
            while at < len(steps):
                what, minutes = steps[at]
                at += 1
                clock.advance(minutes * 60_000)
                if what == "reopen":
                    break
                if what == "keep":
                    keep_counts(site.session)
                elif what == "rollback":
                    if site.session.state.refs.at("processed/rain"):
                        site.do("rollback", ref="processed/rain", to="nothing")
                else:
                    site.run(good=what != "bad", late_ms=90_000 if what == "late" else 0)
            turn = site.turn
            for name, kind, days, limit in (
                ("success", "success", 7, 0),
                ("latency", "latency", 1, 60_000),
                ("rollback", "rollback_time", 30, 60_000),
            ):
                budget = site.budget(name)
                assert (budget.good, budget.bad) == plainly(site.session, days * DAY, kind, limit), name
                for window, rate in budget.burn.items():
                    good, bad = plainly(site.session, WINDOWS[window], kind, limit)
                    expected = bad / (good + bad) / 0.25 if good + bad else None
                    assert rate == (pytest.approx(expected) if expected is not None else None), (name, window)


def test_the_age_of_data_is_measured_minute_by_minute(tmp_path: Path) -> None:
    laid_out(tmp_path)
    promise(tmp_path, "fresh", "freshness", value=3600, window="3d", target=0.9)
    with opened(tmp_path) as site:
        assert site.budget("fresh").actual is None and site.budget("fresh").left == 1, "there is nothing yet"
        for minutes in (10, 45, 200, 61, 1500, 3000):
            site.run()
            site.clock.advance(minutes * 60_000)
            found = site.budget("fresh")
            good, late = stale_minutes(site.session, 3 * DAY, 3_600_000)
            assert (found.good / 60_000, found.bad / 60_000) == (good, late), minutes
        good, late = stale_minutes(site.session, 6 * HOUR, 3_600_000)
        assert late and found.burn["6h"] == pytest.approx(late / (good + late) / 0.1)


def test_a_cancelled_and_a_frozen_run_say_nothing(tmp_path: Path) -> None:
    laid_out(tmp_path)
    promise(tmp_path, "success")
    with opened(tmp_path) as site:
        site.do("freeze", scope="rain")
        assert site.run().outcome == "frozen"
        site.do("thaw", scope="rain")
        assert site.budget("success").actual is None
        site.run(good=False)
        assert site.budget("success").actual == 0


def test_telemetry_says_how_much_of_the_budget_was_spent(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with opened(tmp_path) as site:
        before = site.session.state.ledger.telemetry(site.run().run_id)
        assert before is not None and before.error_budget_burn is None
    promise(tmp_path, "success", target=0.5)
    with opened(tmp_path) as site:
        site.turn = 1
        site.run(good=False)
        measured = site.session.state.ledger.telemetry(site.run().run_id)
        assert measured is not None and measured.error_budget_burn == 1.0, "of one good and one bad run"


# -- what is closed


def burn(site: Site) -> None:
    site.run()
    for _ in range(3):
        site.run(good=False)
    site.clock.advance(60_000)


def backfill(site: Site) -> Receipt:
    params = {"backfill": "parts", "to": site.session.objects.put(b"a plan")}
    return run_operation(site.session, "backfill", "rain", params, reason="a test", actor="tester")


def promoted(site: Site) -> tuple[list[Receipt], list[KfmError]]:
    problems: list[KfmError] = []
    return list(promote(site.session, "rain", lambda _name, problem: problems.append(problem))), problems


def test_a_burnt_budget_closes_risky_operations_until_it_recovers(tmp_path: Path) -> None:
    laid_out(tmp_path, "    promote: auto\n")
    promise(tmp_path, "success", window="2d")
    with opened(tmp_path) as site:
        assert backfill(site).outcome == "done"
        burn(site)
        assert site.budget("success").closes
        denied = backfill(site)
        assert (denied.outcome, denied.moves) == ("denied", []) and "success" in denied.errors[0].message
        entry = next(iter(site.session.state.ledger.entries(reverse=True, limit=1)))
        assert (entry.op_type, entry.outcome) == ("backfill", "denied"), "what was tried is in the ledger"
        entries = entry.index
        receipts, (problem,) = promoted(site)
        assert receipts == [] and "kfm publish rain" in problem.hint
        assert any("promote: auto of rain is closed" in each.why for each in why_not(site.session, "rain").reasons)
        assert next(iter(site.session.state.ledger.entries(reverse=True, limit=1))).index == entries
        assert site.run().status == "SUCCESS" and site.do("freeze", scope="rain").status == "SUCCESS"
        site.do("thaw", scope="rain")
        assert site.do("promote").outcome == "done", "a person may publish"
        assert site.do("rollback", to="nothing").outcome == "done"
        cancelled = run_operation(site.session, "backfill", "rain", {"backfill": "parts", "to": "nothing"}, reason="x")
        assert cancelled.status == "SUCCESS", "to cancel is always allowed"
        site.clock.advance(2 * DAY)
        assert not site.budget("success").closes
        site.run()
        assert backfill(site).outcome == "done"
        (receipt,), problems = promoted(site)
        assert (receipt.outcome, problems) == ("done", [])
        assert not any("closed" in each.why for each in why_not(site.session, "rain").reasons)


def test_an_override_opens_until_its_end_and_no_longer(tmp_path: Path) -> None:
    laid_out(tmp_path)
    promise(tmp_path, "success")
    promise(tmp_path, "other", target=0.3)
    with opened(tmp_path) as site:
        burn(site)
        assert backfill(site).outcome == "denied"
        receipt = site.override("success", "12h")
        assert (receipt.outcome, receipt.reason) == ("done", "looked at it")
        entry = next(iter(site.session.state.ledger.entries(reverse=True, limit=1)))
        assert (entry.op_type, entry.operator, entry.reason) == ("override", "sue", "looked at it")
        assert backfill(site).outcome == "denied", "the other one is burnt, too"
        site.override("other", rfc3339(site.clock.now_ms() + HOUR))
        assert backfill(site).outcome == "done"
        site.clock.advance(HOUR)
        assert "other" in str(closed_by_objectives(site.session, "hotfix", "rain"))
        site.override("other", "12h")
        assert closed_by_objectives(site.session, "hotfix", "rain") is None
        site.clock.advance(11 * HOUR)
        assert "success" in str(closed_by_objectives(site.session, "hotfix", "rain"))


def test_an_override_that_is_past_or_endless_is_refused(tmp_path: Path) -> None:
    laid_out(tmp_path)
    promise(tmp_path, "success")
    with opened(tmp_path) as site:
        for until in ("2020-01-01T00:00:00Z", "31d", "soon", "", "12", "-1h", "0h"):
            with pytest.raises(Refused) as raised:
                site.override("success", until)
            assert raised.value.hint
        assert not site.session.state.refs.at("override/success")


@pytest.mark.parametrize("body", [b"nonsense", b'{"objective":"another","until":"2099-01-01T00:00:00.000Z"}'])
def test_an_override_that_cannot_be_read_or_is_of_another_objective_is_none(tmp_path: Path, body: bytes) -> None:
    laid_out(tmp_path)
    promise(tmp_path, "success")
    with opened(tmp_path) as site:
        burn(site)
        params = {"ref": "override/success", "to": site.session.objects.put(body)}
        assert run_operation(site.session, "override", "rain", params, reason="x").outcome == "done"
        assert site.budget("success").closes and backfill(site).outcome == "denied"


def test_objectives_that_cannot_be_read_close_what_is_risky_and_nothing_else(tmp_path: Path) -> None:
    laid_out(tmp_path, "    promote: auto\n")
    promise(tmp_path, "success")
    (tmp_path / "slos" / "bad.yml").write_text("kind: SLO\n")
    with opened(tmp_path) as site:
        assert site.run().status == "SUCCESS"
        assert "cannot be read" in backfill(site).errors[0].message
        with pytest.raises(Denied) as denied:
            check_budget(site.session, Hotfix(), Trigger(kind="operation", dataset="rain", updater_id="kfm-hotfix"))
        assert "slos/bad.yml" in str(denied.value) and denied.value.hint == "correct that first"
        receipts, (problem,) = promoted(site)
        assert receipts == [] and "cannot be read" in problem.message
        assert site.do("promote").outcome == "done" and site.do("rollback", to="nothing").outcome == "done"


def test_a_ledger_that_cannot_be_read_closes_what_is_risky(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out(tmp_path)
    promise(tmp_path, "success")
    failed = []

    def failing(_session: Session) -> None:
        failed.append(1)
        raise KfmError("the ledger is damaged")

    with opened(tmp_path) as site:
        site.run()
        monkeypatch.setattr(BUDGETS, "now", failing)
        assert "cannot be read" in str(closed_by_objectives(site.session, "hotfix", "rain")) and failed


def test_an_objective_of_one_dataset_closes_no_other(tmp_path: Path) -> None:
    laid_out(tmp_path)
    text = (tmp_path / "kfm.yml").read_text()
    (tmp_path / "kfm.yml").write_text(text + text[text.index("  rain:") :].replace("  rain:", "  snow:", 1))
    promise(tmp_path, "success")
    with opened(tmp_path) as site:
        burn(site)
        assert closed_by_objectives(site.session, "hotfix", "rain")
        assert closed_by_objectives(site.session, "hotfix", "snow") is None
    promise(tmp_path, "all", dataset="")
    with opened(tmp_path) as site:
        assert closed_by_objectives(site.session, "hotfix", "snow")


def test_without_a_folder_of_objectives_nothing_is_closed_and_nothing_is_counted(tmp_path: Path) -> None:
    laid_out(tmp_path)
    with opened(tmp_path) as site:
        guards = guards_of(site.session, "rain")
        assert (guards.check_budget, guards.spent_share) == (None, None)
        burn(site)
        assert closed_by_objectives(site.session, "backfill", "rain") is None and backfill(site).outcome == "done"
    assert Backfilling().is_risky(new_of("plan")) and not Backfilling().is_risky(new_of("nothing"))


def new_of(to: str) -> Trigger:

    return Trigger(kind="operation", updater_id="kfm-backfill", dataset="rain", params={"to": to})


def test_changed_objectives_are_counted_from_the_start_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_counts, "BEHIND", 1)
    laid_out(tmp_path)
    promise(tmp_path, "latency", "latency", value=60)
    with opened(tmp_path) as site:
        site.run(late_ms=90_000)
        assert site.budget("latency").bad == 1 and BUDGETS.keep(site.session)
    promise(tmp_path, "latency", "latency", value=600)
    with opened(tmp_path) as site:
        assert (site.budget("latency").good, site.budget("latency").bad) == (1, 0)
        note = site.session.state.outbox.note("counts", "budgets")
        assert note is not None and json.loads(note)["objectives"][0]["limit_ms"] == 60_000, "the old note was there"
