"""Runs say what they used, `kfm energy` shows it, and no number is made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from kfm.app.runs.run_control import resume_runs, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.energy_meter import UNREADABLE
from kfm.app.session.session import Session, open_session
from kfm.config import load
from kfm.engine.telemetry_stage import _energy
from kfm.model.json_schemas import exported, schema_of
from kfm.model.records import JOULES_PER_KWH
from kfm.telemetry import run_meter
from tests.app.objectives.site import SAID
from tests.cli.conftest import Kfm, kfm, place, plain_environment
from tests.node.sites import command, rows_of
from tests.telemetry.rapl_tree import RaplTree

__all__ = ["kfm", "place", "plain_environment"]
PARTS = """\
import os

from kfm import Output, Plan, Step, Updater


class Parts(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rain")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=(name,)) for name in "ab"])

    def perform(self, step, read):
        if counter := os.environ.get("SPENT"):
            with open(counter, "r+b") as file:
                used = int(file.read()) + 1_500_000
                file.seek(0)
                file.write(b"%d\\n" % used)
        if step.id == "b" and os.environ.get("KILLED"):
            os.kill(os.getpid(), 9)
        return Output(read.bytes(0), "text/plain")
"""
CODED = SAID.partition("    outputs:")[0].replace('    version: "1.0.0"\n', "    updater: parts.py:Parts\n")
CLOCK = [10.0]  # processor time of this process, as a test says it
GRID = "region,hour,g_per_kwh,source\nKS,*,500,Somebody 2026\n"


def write(said: str = SAID, energy: str = "") -> None:
    Path("kfm.yml").write_text(said + (f"energy: {energy}\n" if energy else ""))
    Path("rain.csv").write_text("n\n1\n")
    Path("parts.py").write_text(PARTS)


def telemetry() -> list[dict[str, Any]]:
    with open_session(load("kfm.yml", dict(os.environ)), mode="read") as session:
        found = [session.state.ledger.telemetry(entry.run_id) for entry in session.state.ledger.entries()]
        return json.loads(json.dumps([None if one is None else _plain(one) for one in found]))  # type: ignore[no-any-return]


def _plain(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("energy_kwh", "co2e_g", "energy_method", "status", "dataset")}


@pytest.fixture
def here(kfm: Kfm) -> Path:
    run_meter._forget()
    return Path.cwd()


@pytest.fixture
def tree(here: Path, monkeypatch: pytest.MonkeyPatch) -> RaplTree:
    """A fake tree of counters on a machine where nothing else is busy."""
    monkeypatch.setattr("kfm.telemetry.rapl.machine_idle_s", lambda: 0.0)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(run_meter, "processor_seconds", iter(range(0, 10**9, 1000)).__next__)
    return RaplTree(here / "powercap")


def test_without_counters_a_run_is_an_estimate_and_says_its_coefficient(here: Path, kfm: Kfm) -> None:
    write(energy="{watts_per_core: 7.5, region: US-SPNO, rapl: nowhere}")
    assert kfm("run").code == 0 and kfm("run").code == 0
    assert kfm("freeze", "rain").code == 0
    done, nothing, froze = telemetry()
    for each in (done, nothing, froze):
        assert 0 < each["energy_kwh"] < 100 / JOULES_PER_KWH
        assert each["co2e_g"] == pytest.approx(each["energy_kwh"] * 435.2)
        assert each["energy_method"] == (
            "estimated: CPU s x 7.5 W per core (energy.watts_per_core), shared equally by runs at once; "
            "435.2 gCO2e/kWh US-SPNO hour * (EPA eGRID2022)"
        )
    shown = kfm("energy")
    assert "RAPL cannot be read: there is no such folder" in shown.err and "435.2 gCO2e/kWh, US-SPNO" in shown.err
    assert [line.split()[:3] for line in shown.out.splitlines()[1:]] == [["rain", "estimated", "3"]]


def test_a_run_that_fails_and_one_that_writes_nothing_say_it_too(here: Path, kfm: Kfm) -> None:
    write()
    before = sorted(Path().rglob("*"))
    dry = kfm("run", "--dry-run", "--json")
    assert dry.code == 0 and sorted(Path().rglob("*")) == before
    Path("rain.csv").write_text("n\nx\n")
    assert kfm("run").code != 0
    (failed,) = telemetry()
    assert failed["status"] == "FAILED" and failed["energy_kwh"] > 0


def test_without_a_region_the_carbon_is_unknown_and_never_guessed(here: Path, kfm: Kfm) -> None:
    write()
    assert kfm("run").code == 0
    (done,) = telemetry()
    assert done["energy_kwh"] > 0 and done["co2e_g"] is None
    found = kfm("energy", "last", "--json").data
    assert found["runs"][0]["carbon"] == {
        "run_id": found["runs"][0]["energy"]["run_id"], "dataset": "rain", "grams": None, "grid": None,
        "why": "energy.region is not set",
    }  # fmt: skip
    assert found["total"]["methods"][0]["grams"] is None and found["meter"]["grid"] is None
    assert "unknown: energy.region is not set" in kfm("energy", "last").out


def test_counters_that_can_be_read_are_measured_and_sums_are_by_method(
    here: Path, kfm: Kfm, tree: RaplTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPENT", str(tree.counter("intel-rapl:1")))
    write(CODED, "{rapl: powercap, region: KS, grid: grid.csv}")
    Path("grid.csv").write_text(GRID)
    assert kfm("run").code == 0
    monkeypatch.setenv("KFM_ENERGY__METER", "cpu")
    assert kfm("run").code == 0
    monkeypatch.setenv("KFM_ENERGY__METER", "off")
    assert kfm("run").code == 0
    measured, estimated, off = telemetry()
    assert measured["energy_kwh"] == pytest.approx(3 / JOULES_PER_KWH), "two steps of 1.5 J"
    assert measured["co2e_g"] == pytest.approx(3 / JOULES_PER_KWH * 500)
    assert measured["energy_method"].startswith("measured: RAPL") and measured["energy_method"].endswith(
        "; 500 gCO2e/kWh KS hour * (Somebody 2026)"
    )
    assert estimated["energy_method"].startswith("estimated: ")
    assert (off["energy_kwh"], off["co2e_g"], off["energy_method"]) == (None, None, "unknown: energy.meter is off")
    found = kfm("energy", "--json").data
    methods = {each["method"]: each for each in found["total"]["methods"]}
    assert list(methods) == ["measured", "estimated", "unknown"] and found["total"]["unknown"] == 1
    assert methods["measured"]["joules"] == pytest.approx(3)
    assert methods["unknown"] == {
        "method": "unknown", "runs": 1, "joules": None, "grams": None, "without_carbon": 1
    }  # fmt: skip
    assert "joules" not in found["total"], "sums of two methods are not added"
    shown = kfm("energy", "rain")
    assert "the energy of 1 run is unknown, and in no sum" in shown.err
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["rain", "measured", "1", "3", "0.0004167", "0"] in rows and ["rain", "unknown", "1", "-", "-", "1"] in rows


def test_what_kfm_energy_says_of_each_run_is_what_its_schemas_say(
    here: Path, kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(energy="{region: world}")
    assert kfm("run").code == 0
    for name, value in (("METER", "off"), ("REGION", "")):
        with monkeypatch.context() as patch:
            patch.setenv(f"KFM_ENERGY__{name}", value)
            assert kfm("run").code == 0
    found = kfm("energy", "rain", "--json").data
    schemas = exported()
    for each in found["runs"]:
        for kind in ("energy", "carbon"):
            jsonschema.validate(each[kind], schema_of(schemas[f"telemetry/{kind}-v2"], kind))
    assert {each["energy"]["method"] for each in found["runs"]} == {"estimated", "unknown"}
    assert sum(each["carbon"]["grid"] is not None for each in found["runs"]) == 1
    assert len(kfm("energy", "rain", "--json", "--limit", "2").data["runs"]) == 2


@pytest.mark.parametrize(
    ("grid", "region", "said"),
    [
        (GRID + "KS,1,x,Somebody\n", "KS", "grid.csv:3: g_per_kwh is no number from 0 to 5000"),
        (GRID + "KS,1,x,Somebody\n", "", "grid.csv:3: g_per_kwh is no number from 0 to 5000"),
        (GRID, "NE", "energy.region is not in the table of the grid; write one of KS"),
        ("", "KS", "grid.csv:1: the first line must name the columns; write region,hour,g_per_kwh,source"),
        (None, "KS", "energy.grid names grid.csv, which cannot be read: no such file or directory"),
    ],
)
def test_a_table_with_a_mistake_is_refused_with_place_and_cure_and_nothing_changes(
    here: Path, kfm: Kfm, grid: str | None, region: str, said: str
) -> None:
    write()
    assert kfm("run").code == 0
    write(energy=f'{{grid: grid.csv, region: "{region}"}}')
    Path("rain.csv").write_text("n\n2\n")
    if grid is not None:
        Path("grid.csv").write_text(grid)
    before = rows_of(here)
    for words in (("run",), ("run", "--dry-run"), ("energy",)):
        refused = kfm(*words)
        assert refused.code == 3 and said in refused.complaint and "; " in refused.complaint
    assert rows_of(here) == before
    checked = kfm("config", "check")
    assert checked.code == 3 and said.rpartition(": ")[2].partition("; write")[0] in checked.err
    assert kfm("freeze").code == 0, "what closes goes on"
    assert telemetry()[-1]["energy_method"].endswith(f"carbon unknown: {UNREADABLE}")


@pytest.mark.parametrize("region", ["a b", "x" * 41, "-x", "\u00e9"])
def test_what_is_no_region_is_refused(here: Path, kfm: Kfm, region: str) -> None:
    write(energy=f'{{region: "{region}"}}')
    refused = kfm("run")
    assert refused.code == 3 and "energy.region" in refused.complaint and not Path(".kfm").exists()


def test_a_killed_and_resumed_run_says_that_it_knows_the_last_attempt_alone(here: Path, kfm: Kfm) -> None:
    write(CODED)
    env = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
    words = [sys.executable, "-m", "kfm", "run"]
    killed = subprocess.run(
        words, env={**env, "KILLED": "1", "KFM_ACCEPT_WEAK_STORAGE": "true"}, capture_output=True, check=False
    )
    assert killed.returncode == -9
    assert kfm("resume").code == 0
    (done,) = telemetry()
    assert done["status"] == "SUCCESS" and done["energy_kwh"] > 0
    assert ", shared equally by runs at once; the last attempt alone; carbon unknown" in done["energy_method"]


def test_two_runs_at_once_share_what_the_process_used(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run inside another one, which is the plainest way to have two at once."""
    write(CODED)
    Path("kfm.yml").write_text(
        CODED + CODED.partition("datasets:\n")[2].replace("  rain:\n    updater", "  hail:\n    updater")
    )
    with open_session(load("kfm.yml", {})) as session:
        _with_inner_run(session, monkeypatch)
        monkeypatch.setattr(run_meter, "processor_seconds", lambda: CLOCK[-1])
        run_meter._settle()
        receipt = run_trigger(session, new_trigger(session, "rain", actor="me"))
        outer = session.state.ledger.telemetry(receipt.run_id)
        inner = next(
            session.state.ledger.telemetry(entry.run_id)
            for entry in session.state.ledger.entries()
            if entry.dataset == "hail"
        )
        assert outer is not None and inner is not None
        assert inner.energy_kwh == pytest.approx(12 * 2 / 2 / JOULES_PER_KWH), "half of two seconds"
        assert outer.energy_kwh == pytest.approx(12 * (1 + 2 / 2 + 4) / JOULES_PER_KWH)
        list(resume_runs(session))


def spend(seconds: float) -> None:
    CLOCK.append(CLOCK[-1] + seconds)


def _with_inner_run(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.app.session.datasets import dataset_updater

    outer, inner = dataset_updater(session, "rain"), dataset_updater(session, "hail")
    performed = type(outer).perform
    begun: list[str] = []

    def perform(step: Any, read: Any) -> Any:
        if step.id == "a":
            spend(1)
            run_trigger(session, new_trigger(session, "hail", actor="me"))
            spend(4)
        return performed(outer, step, read)

    def inside(step: Any, read: Any) -> Any:
        if step.id == "a":
            begun.append(step.id)
            spend(2)
        return performed(inner, step, read)

    monkeypatch.setattr(outer, "perform", perform)
    monkeypatch.setattr(inner, "perform", inside)


def test_what_a_cluster_used_is_unknown() -> None:
    planned = SimpleNamespace(claimed=None, planned=object())
    metering = SimpleNamespace(used=lambda *_a, **_k: (1.0, 1.0, "estimated: x"))
    world: Any = SimpleNamespace(crew=object(), clock=SimpleNamespace(now_ms=lambda: 0))
    context: Any = SimpleNamespace(reached=planned, metering=metering, world=world)
    assert _energy(context) == {"energy_method": "unknown: a cluster performed the steps"}
    planned.planned = None  # it had nothing to do, so no cluster was asked
    assert _energy(context)["energy_kwh"] == 1.0


def test_the_node_runner_takes_the_same_settings_and_says_unknown(here: Path, kfm: Kfm) -> None:
    write(energy="{region: US-SPNO, watts_per_core: 9, meter: cpu}")
    env = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
    done = subprocess.run(command("node", "run"), env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (told,) = telemetry()
    assert (told["energy_kwh"], told["co2e_g"]) == (None, None)
    assert told["energy_method"] == "unknown: this runner reads no meter"
    assert kfm("energy", "--json").data["total"]["unknown"] == 1


def test_under_a_stopped_clock_nothing_is_metered_and_two_runs_leave_the_same_bytes(
    here: Path, kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_NOW", "2026-06-01T00:00:00Z")
    found = []
    for region in ("", "US-SPNO"):
        write(energy=f'{{region: "{region}"}}')
        assert kfm("run").code == 0
        found.append(Path(".kfm/artifacts/run.jsonl").read_bytes())
        (told,) = telemetry()
        assert told["energy_kwh"] is None and told["energy_method"].startswith("unknown: KFM_NOW")
        subprocess.run(["rm", "-r", ".kfm"], check=True)
    assert found[0] == found[1]


def test_what_is_no_dataset_and_no_run_is_refused(here: Path, kfm: Kfm) -> None:
    write()
    assert kfm("run").code == 0 and kfm("publish", "rain").code == 0
    for name in ("nothing", "published/rain", "rain.csv", "0000", "a\nb"):
        refused = kfm("energy", name)
        assert refused.code == 3 and refused.complaint


def test_the_metrics_say_the_same_in_joules_and_in_watt_hours(here: Path, kfm: Kfm) -> None:
    write(energy="{region: US}")
    assert kfm("run").code == 0
    text = kfm("runs", "signals", "--metrics").out
    joules = float(text.partition('kfm_energy_joules_total{method="estimated"} ')[2].split()[0])
    grams = float(text.partition('kfm_co2e_grams_total{method="estimated"} ')[2].split()[0])
    watt_hours = float(text.partition('kfm_ops_energy_wh{op="ingest"} ')[2].split()[0])
    carbon = float(text.partition('kfm_ops_carbon_gco2e{op="ingest"} ')[2].split()[0])
    assert joules > 0 and joules == pytest.approx(watt_hours * 3600)
    assert grams == pytest.approx(carbon) and grams == pytest.approx(joules / JOULES_PER_KWH * 375.4)
