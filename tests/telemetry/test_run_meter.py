"""What runs used is shared among those that were active, and each number says how it is known."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.model.records import JOULES_PER_KWH
from kfm.model.reports.energy_method import LONGEST, GridFactor, grid_of, method_of, why_no_carbon
from kfm.telemetry import run_meter
from kfm.telemetry.rapl import Rapl, open_rapl
from kfm.telemetry.run_meter import NO_REGION, Metering, RunMeter, Unmetered
from tests.telemetry.rapl_tree import RaplTree

KANSAS = GridFactor(g_per_kwh=435.2, region="US-SPNO", hour="*", source="EPA eGRID2022")


class Spent:
    """The processor time of this process, as a test says it."""

    seconds = 10.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spent]:
    made = Spent()
    monkeypatch.setattr(run_meter, "processor_seconds", made)
    run_meter._forget()
    yield made
    run_meter._forget()


def meter(kind: str = "auto", folder: str = "/nowhere", factor: GridFactor | str = NO_REGION) -> RunMeter:
    return RunMeter(kind, 12.0, folder, lambda _hour: factor)


def began(of: RunMeter) -> Metering:
    found = of.begin()
    assert isinstance(found, Metering)
    return found


def joules(of: Metering | Unmetered) -> float | None:
    kwh = of.used(0, is_resumed=False)[0]
    return None if kwh is None else round(kwh * JOULES_PER_KWH, 6)


def test_an_estimate_is_processor_time_times_a_coefficient(spent: Spent) -> None:
    run = began(meter(factor=KANSAS))
    spent.seconds += 1.5
    kwh, grams, method = run.used(0, is_resumed=False)
    assert kwh == pytest.approx(18 / JOULES_PER_KWH) and grams == pytest.approx(18 / JOULES_PER_KWH * 435.2)
    assert method == (
        "estimated: CPU s x 12 W per core (energy.watts_per_core), shared equally by runs at once; "
        "435.2 gCO2e/kWh US-SPNO hour * (EPA eGRID2022)"
    )
    assert method_of(method, kwh) == "estimated" and grid_of(method) == KANSAS


def test_two_runs_at_once_share_and_the_sum_is_what_was_used(spent: Spent) -> None:
    one = began(meter())
    spent.seconds += 1  # one alone
    two = began(meter())
    spent.seconds += 2  # both
    assert (joules(one), joules(two)) == (24, 12)
    one.end()
    spent.seconds += 3  # two alone
    two.end()
    spent.seconds += 50  # no run
    assert (joules(one), joules(two)) == (24, 48) and 24 + 48 == 12 * (1 + 2 + 3)


def test_runs_in_many_threads_never_have_more_than_the_process_used() -> None:
    before = run_meter.processor_seconds()
    run_meter._forget()
    found: list[float] = []

    def work() -> None:
        for _ in range(20):
            run = began(meter())
            sum(range(20_000))
            found.append(joules(run) or 0.0)
            run.end()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    used = run_meter.processor_seconds() - before
    assert len(found) == 80 and 0 < sum(found) <= used * 12 + 0.001


def test_a_child_that_a_run_started_counts() -> None:
    run = began(meter())
    own = run_meter.processor_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(6_000_000))"], check=True)
    child = run_meter.processor_seconds() - own
    assert child > 0.02 and (joules(run) or 0) > child * 12 * 0.9
    run.end()


def test_a_run_that_used_nothing_that_can_be_seen_is_unknown_and_not_zero(spent: Spent) -> None:
    run = began(meter(factor=KANSAS))
    kwh, grams, method = run.used(0, is_resumed=False)
    assert (kwh, grams) == (None, None) and method.startswith("unknown: the run was too short")
    spent.seconds -= 5  # a clock that went back
    assert joules(run) is None


def test_what_the_settings_switch_off_is_unknown(spent: Spent) -> None:
    for kind, stopped, said in (("off", False, "energy.meter is off"), ("auto", True, "KFM_NOW")):
        run = RunMeter(kind, 12.0, "/nowhere", lambda _hour: KANSAS, is_stopped=stopped).begin()
        spent.seconds += 1
        kwh, grams, method = run.used(0, is_resumed=False)
        run.end()
        assert (kwh, grams) == (None, None) and method.startswith("unknown: ") and said in method
    run = began(meter("rapl", factor=KANSAS))
    spent.seconds += 1
    assert run.used(0, is_resumed=False)[2] == "unknown: RAPL cannot be read here, and energy.meter is rapl"


def test_an_attempt_after_a_kill_says_that_it_is_the_last_alone(spent: Spent) -> None:
    run = began(meter(factor=KANSAS))
    spent.seconds += 1
    method = run.used(0, is_resumed=True)[2]
    assert "; the last attempt alone; 435.2" in method and grid_of(method) == KANSAS


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RaplTree:
    """Counters of two packages on a machine that does nothing but runs."""
    made = RaplTree(tmp_path / "powercap")
    monkeypatch.setattr("kfm.telemetry.rapl.machine_idle_s", lambda: 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    return made


def test_counters_that_can_be_read_are_measured(spent: Spent, tree: RaplTree) -> None:
    run = began(meter(folder=str(tree.folder), factor=KANSAS))
    spent.seconds += 1000  # more than there was: all that was used is its own
    tree.spend(7)
    kwh, grams, method = run.used(0, is_resumed=False)
    assert kwh == pytest.approx(7 / JOULES_PER_KWH) and grams == pytest.approx(kwh * 435.2)
    assert method.startswith("measured: RAPL of the processor packages x share of busy processor time")
    assert meter(folder=str(tree.folder)).describe() == ("measured", "RAPL counters of 2 processor packages are read")
    assert meter("cpu", str(tree.folder)).describe() == ("estimated", "energy.meter is cpu")


def test_two_measured_runs_at_once_share_and_an_idle_time_belongs_to_none(spent: Spent, tree: RaplTree) -> None:
    measured = meter(folder=str(tree.folder))
    one = began(measured)
    spent.seconds += 1000
    tree.spend(4)
    two = began(measured)
    spent.seconds += 1000
    tree.spend(6)
    one.end()
    two.end()
    assert (joules(one), joules(two)) == (7, 3)
    tree.spend(9)  # no run
    three = began(measured)
    spent.seconds += 1000
    tree.spend(1)
    assert joules(three) == 1


def test_a_counter_that_fails_during_a_run_makes_it_an_estimate(spent: Spent, tree: RaplTree) -> None:
    run = began(meter(folder=str(tree.folder)))
    spent.seconds += 1
    tree.spend(4)
    assert joules(run) == 4
    tree.counter("intel-rapl:0").write_text("gone")
    spent.seconds += 1
    kwh, _, method = run.used(0, is_resumed=False)
    assert kwh == pytest.approx(24 / JOULES_PER_KWH) and method.startswith("estimated")
    run.end()
    assert meter(folder=str(tree.folder)).describe() == ("estimated", "RAPL cannot be read: it is not a number")


def test_counters_are_opened_once(spent: Spent, tree: RaplTree, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def counted(folder: str) -> Rapl | str:
        opened.append(folder)
        return open_rapl(folder)

    monkeypatch.setattr("kfm.telemetry.rapl.open_rapl", counted)
    for _ in range(3):
        began(meter(folder=str(tree.folder))).end()
        began(meter(folder=str(tree.folder / "nothing"))).end()
    assert opened == [str(tree.folder)]


def test_a_long_run_is_sampled_before_a_counter_can_wrap_twice(
    spent: Spent, tree: RaplTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = meter(folder=str(tree.folder))
    run = began(measured)
    ages = iter([10.0, 61.0])
    monkeypatch.setattr(Rapl, "age_s", lambda _self: next(ages))
    read: list[float] = []
    step = Rapl.step
    monkeypatch.setattr(Rapl, "step", lambda self, cpu: read.append(cpu) or step(self, cpu))
    measured.sample()
    assert not read
    measured.sample()
    assert len(read) == 1
    run.end()


def test_a_forked_child_begins_with_no_run_of_its_parent(spent: Spent) -> None:
    run = began(meter())
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_active_in_child) == 0
    assert len(run_meter._active) == 1
    run.end()


def _active_in_child() -> int:
    return len(run_meter._active)


@pytest.mark.parametrize("grams", [0.0, 0.5, 1e-9, 480.0, 435.25, 5000.0])
@pytest.mark.parametrize("hour", ["*", "0", "23"])
@pytest.mark.parametrize("begins", [run_meter.MEASURED, run_meter.estimated(999.9999999), run_meter.estimated(1e-9)])
def test_the_factor_in_a_method_is_read_as_it_was_written(grams: float, hour: str, begins: str) -> None:
    factor = GridFactor(g_per_kwh=grams, region="a" * 40, hour=hour, source="s" * 80)
    for text in (run_meter.with_grid(begins, factor), run_meter.with_grid(begins + run_meter.LAST_ATTEMPT, factor)):
        assert grid_of(text) == factor and len(text) <= LONGEST and text.isprintable()


def test_what_an_author_wrote_names_no_factor_and_no_other_method() -> None:
    text = "reported: x; 435.2 gCO2e/kWh US-SPNO hour * (EPA eGRID2022)"
    assert grid_of(text) is None and method_of(text, 1.0) == "reported"
    assert method_of("meter of the rack", 1.0) == "reported" and method_of("measured: x", None) == "unknown"
    assert why_no_carbon(text, 1.0) == "the updater reported none"
    assert why_no_carbon("unknown: x", None) == "the energy is unknown"
    method = run_meter.with_grid(run_meter.MEASURED, NO_REGION)
    assert why_no_carbon(method, 1.0) == NO_REGION and grid_of(method) is None
