"""Authors override the methods of an updater that have defaults: in the example, and beyond what is allowed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.app.provenance.looking import last
from tests.cli.conftest import Kfm
from tests.node.twin import ROOT

MODEL = "https://models.example.org/undercatch/1"


@pytest.fixture
def example(kfm: Kfm) -> Kfm:
    shutil.copytree(ROOT / "examples/overriding", ".", dirs_exist_ok=True)
    return kfm


def instead(old: str, new: str) -> None:
    code = Path("rain.py")
    assert old in code.read_text()
    code.write_text(code.read_text().replace(old, new))


def test_the_example_does_what_it_says(example: Kfm) -> None:
    assert example("run").code == 0
    one = last()
    assert example("cat", "processed/rain", "ford").out.endswith("ford,14.2\n# corrected by 1.05\n")
    assert one.metadata["counties"] == 3
    assert [each.id for each in one.inputs] == ["data/gauges.csv", MODEL]
    upstream = example("lineage", "upstream", "rain", "--json").data["steps"]
    assert [step["to"]["id"] for step in upstream] == ["data/gauges.csv", MODEL]
    assert [step["to"]["id"] for step in example("lineage", "downstream", MODEL, "--json").data["steps"]] == ["rain"]
    (cost,) = json.loads(Path(example("runs", "telemetry").out.strip()).read_text())["runs"]
    assert (cost["energy_kwh"], cost["energy_method"]) == (0.002, "reported: meter of the rack")
    assert example("doctor", "--deep").code == 0
    said = [json.loads(line) for line in example("runs", "wal", one.run_id).out.splitlines()]
    for phase in ("UPSERT", "LINEAGE"):
        assert [each["status"] for each in said if each["phase"] == phase] == ["IN_PROGRESS", "DONE"]
    assert example("run").code == 0 and last().outcome == "noop"


def test_a_version_its_author_refuses_is_not_committed(example: Kfm) -> None:
    Path("data/gauges.csv").write_text("gauge,county,rain_mm\nhays,ellis,12.7\n")
    answer = example("run")
    assert answer.code == 3 and "fewer than three counties" in answer.err
    assert (last().status, last().version) == ("FAILED", "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"counties": version.entries}', '"sensitivity": "closed"}', "another sensitivity"),
        ("metadata={**version.metadata", "entries=7, metadata={**version.metadata", "another version"),
        ("return [*inputs, Item(", "return [Item(", "less than was read"),
        ('kind="uri", id=MODEL', 'kind="dataset", id=MODEL', "no address with a digest"),
        ("checksum=digest)", 'checksum="1")', "no address with a digest"),
        (
            "return [*inputs, Item(",
            "raise ValueError('x')\n        return [Item(",
            "lineage() of rain raised ValueError",
        ),
    ],
)
def test_who_goes_too_far_is_refused_and_nothing_is_committed(example: Kfm, old: str, new: str, said: str) -> None:
    instead(old, new)
    answer = example("run")
    assert answer.code != 0 and said in answer.err, answer.err
    assert (last().status, last().version) == ("FAILED", "")


@pytest.mark.parametrize(
    "new", ["raise ValueError('x')", "return None", "return msgspec.structs.replace(measured, run_id='x')"]
)
def test_a_failing_override_of_telemetry_fails_no_run(example: Kfm, new: str) -> None:
    instead(
        "return msgspec.structs.replace(measured, energy_kwh",
        new + "\n        return msgspec.structs.replace(measured, energy_kwh",
    )
    assert example("run").code == 0
    assert last().outcome == "done"


def reported(example: Kfm) -> dict[str, object]:
    assert example("run").code == 0
    (found,) = json.loads(Path(example("runs", "telemetry").out.strip()).read_text())["runs"]
    return {name: found[name] for name in ("energy_kwh", "co2e_g", "energy_method")}


WRITTEN = 'energy_kwh=0.002, co2e_g=0.8, energy_method="meter of the rack")'


@pytest.mark.parametrize(
    "new",
    [
        "energy_kwh=-0.002)",
        "energy_kwh=1e12)",
        "co2e_g=-1.0)",
        "energy_method='x' * 201)",
        "energy_method='a\\nb')",
        "energy_method='\\x1b[31m')",
        "energy_kwh=float('nan'))",
        "energy_kwh=float('inf'))",
    ],
)
def test_a_report_that_can_be_no_amount_is_left_out(example: Kfm, new: str) -> None:
    instead(WRITTEN, new)
    found = reported(example)
    assert str(found["energy_method"]).startswith("estimated: ") and 0 < float(str(found["energy_kwh"])) < 1e-3


def test_a_report_is_marked_and_the_carbon_of_another_number_is_not_kept(
    example: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_ENERGY__REGION", "US")
    instead(WRITTEN, "energy_kwh=0.002)")
    found = reported(example)
    assert found == {"energy_kwh": 0.002, "co2e_g": None, "energy_method": "reported: by the updater"}
    assert example("energy", "rain", "--json").data["total"]["methods"][0]["method"] == "reported"


def test_an_author_who_returns_what_was_measured_reports_nothing(example: Kfm) -> None:
    instead(WRITTEN, "energy_kwh=measured.energy_kwh)")
    assert str(reported(example)["energy_method"]).startswith("estimated: ")


def test_of_data_that_is_not_public_an_author_adds_nothing(example: Kfm) -> None:
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("sensitivity: public", "sensitivity: restricted"))
    answer = example("run")
    assert answer.code != 0 and "data that is not public" in answer.err
