"""Files of objectives: what they may say, and one line with place and cure for everything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.config.objective_files import declared_objectives, json_schema
from kfm.errors import BadInput
from kfm.model.reports.objective import Objective
from tests.app.objectives.site import SAID, Site, promise, slo

OPENSLO = """\
apiVersion: openslo/v1
kind: SLO
metadata:
  name: rain-fresh
  displayName: Rain of yesterday is there
  labels: {team: [hydrology]}
spec:
  description: People read it at seven.
  service: rain
  indicator:
    metadata: {name: rain-age}
    spec:
      thresholdMetric:
        metricSource:
          type: kfm
          spec: {indicator: freshness, dataset: rain}
  timeWindow:
    - duration: 4w
      isRolling: true
  budgetingMethod: Timeslices
  objectives:
    - displayName: 26 hours
      op: lte
      value: 93600
      targetPercent: 95
"""


def declared(folder: Path) -> list[Objective]:
    return declared_objectives(config.load(str(folder / "kfm.yml"), {}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kfm.yml").write_text(SAID)
    (tmp_path / "rain.csv").write_text("n\n1\n")
    (tmp_path / "slos").mkdir()
    return tmp_path


def test_an_openslo_document_is_read_as_it_says(folder: Path) -> None:
    (folder / "slos" / "rain.yml").write_text(OPENSLO)
    promise(folder, "a-success", dataset="")
    (folder / "slos" / "README.md").write_text("what we promise")
    success, fresh = declared(folder)
    assert fresh == Objective(
        name="rain-fresh",
        indicator="freshness", target=0.95, window_ms=28 * 86_400_000, datasets=("rain",),
        limit_ms=93_600_000, title="Rain of yesterday is there", place="slos/rain.yml:4:3",
    )  # fmt: skip
    assert (success.datasets, success.limit_ms, success.covers("anything")) == ((), 0, True)


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Change one part of a document; None removes it."""

    def change(said: dict[str, Any]) -> None:
        *above, last = path.split(".")
        at: Any = said
        for part in above:
            at = at[int(part) if part.isdigit() else part]
        if value is None:
            del at[last]
        else:
            at[int(last) if last.isdigit() else last] = value

    return change


SPEC = "spec.indicator.spec"
GOOD = f"{SPEC}.ratioMetric.good.metricSource.spec"
SOURCE = f"{SPEC}.thresholdMetric.metricSource"
# What is wrong, where the line must point, and a word of the cure.
WRONG: dict[str, tuple[str, Callable[[dict[str, Any]], None], str, str]] = {
    "no version": ("latency", put("apiVersion", None), "apiVersion", "add it"),
    "another version": ("latency", put("apiVersion", "openslo/v2alpha"), "apiVersion", "openslo/v1"),
    "another kind": ("latency", put("kind", "AlertPolicy"), "kind", "SLO"),
    "no name": ("latency", put("metadata.name", None), "name", "add it"),
    "a bad name": ("latency", put("metadata.name", 'x"} or up{a="'), "metadata.name", ""),
    "an unknown key": ("latency", put("spec.alertConditions", []), "alertConditions", ""),
    "alerts of its own": ("latency", put("spec.alertPolicies", [{"kind": "AlertPolicy"}]), "alertPolicies", ""),
    "a misspelt dataset": ("latency", put(f"{SOURCE}.spec.dataset", "rains"), "dataset", "did you mean rain?"),
    "no dataset's name": ("latency", put(f"{SOURCE}.spec.dataset", "../rain"), "dataset", "kfm.yml"),
    "an unknown indicator": ("latency", put(f"{SOURCE}.spec.indicator", "uptime"), "indicator", "freshness"),
    "another source": ("latency", put(f"{SOURCE}.type", "Prometheus"), "type", "kfm"),
    "a query": ("latency", put(f"{SOURCE}.spec", {"query": "up"}), "query", ""),
    "both metrics": ("latency", put(f"{SPEC}.ratioMetric", {}), "ratioMetric", ""),
    "no metric": ("latency", put(f"{SPEC}.thresholdMetric", None), "spec", "ratioMetric"),
    "a ratio of time": ("success", put(f"{GOOD}.indicator", "latency"), "good", "Metric"),
    "a gauge": ("success", put(f"{SPEC}.ratioMetric.counter", False), "counter", "leave it out"),
    "a threshold of success": ("latency", put(f"{SOURCE}.spec.indicator", "success"), "indicator", "ratioMetric"),
    "different halves": ("success", put(f"{SPEC}.ratioMetric.total.metricSource.spec.dataset", ""), "total", "both"),
    "no target": ("latency", put("spec.objectives.0.target", None), "objectives", "target: 0.99"),
    "two targets": ("latency", put("spec.objectives.0.targetPercent", 99), "objectives", "target"),
    "no objective": ("latency", put("spec.objectives", []), "objectives", "one target"),
    "several objectives": ("latency", put("spec.objectives", [{"target": 0.9}, {"target": 0.8}]), "", "several files"),
    "everything": ("latency", put("spec.objectives.0.target", 1), "target", "no budget"),
    "nothing": ("latency", put("spec.objectives.0.target", 0), "target", "no budget"),
    "a negative target": ("latency", put("spec.objectives.0.target", -0.5), "target", "no budget"),
    "a percentage as a share": ("latency", put("spec.objectives.0.target", 99), "target", "no budget"),
    "a target in words": ("latency", put("spec.objectives.0.target", "most"), "target", ""),
    "no limit": ("latency", put("spec.objectives.0.value", None), "objectives", "in seconds"),
    "no operator": ("latency", put("spec.objectives.0.op", None), "objectives", "lte"),
    "the wrong operator": ("latency", put("spec.objectives.0.op", "gte"), "op", "lte"),
    "a limit of nothing": ("latency", put("spec.objectives.0.value", 0), "value", "hours"),
    "an endless limit": ("latency", put("spec.objectives.0.value", 1e300), "value", "hours"),
    "a limit of success": ("success", put("spec.objectives.0.value", 5), "value", "remove"),
    "no window": ("latency", put("spec.timeWindow", []), "timeWindow", "30d"),
    "two windows": ("latency", put("spec.timeWindow", [{"duration": "1d"}, {"duration": "2d"}]), "", "one"),
    "a calendar": ("latency", put("spec.timeWindow.0.isRolling", False), "isRolling", ""),
    "a window in words": ("latency", put("spec.timeWindow.0.duration", "a month"), "duration", "30d"),
    "a window of nothing": ("latency", put("spec.timeWindow.0.duration", "0d"), "duration", "30d"),
    "a window of a year": ("latency", put("spec.timeWindow.0.duration", "52w"), "duration", "92d"),
    "slices of runs": ("latency", put("spec.budgetingMethod", "Timeslices"), "budgetingMethod", "Occurrences"),
    "occurrences of age": ("freshness", put("spec.budgetingMethod", "Occurrences"), "budgetingMethod", "Timeslices"),
    "ratio slices": ("latency", put("spec.budgetingMethod", "RatioTimeslices"), "budgetingMethod", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_nonsense_is_one_line_with_file_line_and_cure(folder: Path, case: str) -> None:
    indicator, change, where, cure = WRONG[case]
    promise(folder, "rain", indicator, value=None if indicator == "success" else 60)
    assert len(declared(folder)) == 1, "it was right before"
    said = json.loads((folder / "slos" / "rain.yml").read_text())
    change(said)
    (folder / "slos" / "rain.yml").write_text(json.dumps(said, indent=2))
    with pytest.raises(BadInput) as raised:
        declared(folder)
    first = raised.value
    assert first.message.startswith("slos/rain.yml:") and "\n" not in str(first)
    line = int(first.message.split(":")[1])
    text = (folder / "slos" / "rain.yml").read_text().splitlines()
    assert 1 <= line <= len(text)
    assert where.rpartition(".")[2] in first.message or where.rpartition(".")[2] in text[line - 1], (case, str(first))
    assert cure in str(first) and first.hint, (case, str(first))


@pytest.mark.parametrize(
    "body", [b"", b"- a\n", b"\xff\xfe", b"a: &a [*a]\n", b"apiVersion: openslo/v1\n---\nkind: SLO\n"]
)
def test_a_file_that_is_no_document_is_refused_with_its_name(folder: Path, body: bytes) -> None:
    (folder / "slos" / "rain.yml").write_bytes(body)
    with pytest.raises(BadInput, match=r"slos/rain\.yml"):
        declared(folder)


def test_two_objectives_of_one_name_are_refused(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / "slos" / f"{name}.yml").write_text(slo("rain"))
    with pytest.raises(BadInput, match=r"slos/two\.yml:\d+:\d+: .*slos/one\.yml.* already"):
        declared(folder)


def test_a_folder_that_kfm_yml_names_must_be_there(folder: Path) -> None:
    (folder / "kfm.yml").write_text("slos: promises\n" + SAID)
    with pytest.raises(BadInput, match=r"kfm\.yml:1:\d+: slos names a folder that is not there"):
        declared(folder)
    (folder / "slos").rename(folder / "promises")
    assert declared(folder) == []


def test_commands_refuse_a_mistake_and_config_check_lists_them_all(tmp_path: Path) -> None:
    site = Site(tmp_path)
    promise(tmp_path, "good")
    promise(tmp_path, "bad", dataset="rains")
    promise(tmp_path, "worse", target=2)
    for words in (("slo",), ("slo", "list"), ("slo", "show", "good"), ("alerts", "write", "--to", "rules.yml")):
        said = site.kfm(*words, code=3)
        assert said.startswith("kfm: slos/bad.yml:") and len(said.splitlines()) == 1, words
    assert not (tmp_path / "rules.yml").exists()
    said = site.kfm("config", "check", code=3)
    assert "slos/bad.yml:" in said and "slos/worse.yml:" in said and len(said.splitlines()) == 2
    assert "kfm_slo_readable 0" in site.kfm("runs", "signals", "--metrics").splitlines()
    site.kfm("run")
    (tmp_path / "slos" / "bad.yml").unlink()
    (tmp_path / "slos" / "worse.yml").unlink()
    assert "slos/good.yml" in site.kfm("config", "check")


def test_a_slip_in_a_command_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    site = Site(tmp_path)
    promise(tmp_path, "rain-success")
    site.kfm("run")
    entries = site.kfm("runs", "list", "--json")
    assert "did you mean rain-success?" in site.kfm("slo", "show", "rain-succes", code=3)
    for words in (
        ("rain-succes", "--until", "1h", "--reason", "x"),
        ("rain-success", "--until", "yesterday", "--reason", "x"),
        ("rain-success", "--until", "2020-01-01T00:00:00Z", "--reason", "x"),
        ("rain-success", "--until", "90d", "--reason", "x"),
        ("rain-success", "--until", "1h", "--reason", "a\nb"),
    ):
        said = site.kfm("slo", "override", *words, code=3)
        assert said.startswith("kfm: ") and len(said.splitlines()) == 1, (words, said)
    assert "--until" in site.kfm("slo", "override", "rain-success", code=2)
    assert site.kfm("runs", "list", "--json") == entries
    assert "kfm slo" in site.kfm("slo", "lst", code=2)


def test_the_schema_for_editors_takes_the_example(folder: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(slo("rain")), json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**json.loads(slo("rain")), "kind": "Service"}, json_schema())
