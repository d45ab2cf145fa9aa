"""A run of the Node runner, which sends nothing itself, is a trace like any other; and a dry run sends none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.node.sites import Site, declared
from tests.sinks.otel.receiver import attributes, configured, receiving


@pytest.mark.long
def test_a_run_of_node_arrives_when_python_has_settled_it(tmp_path: Path) -> None:
    with receiving() as receiver:
        files = {"kfm.yml": configured(receiver.url) + declared("rain"), "rain.csv": "mm\n1.25\n"}
        site = Site(tmp_path / "site", files, lambda _n: "node")
        site.run("run", "rain")
        assert receiver.raw == []
        run = site.kfm("runs", "list", "--json").data[0]["run"]
        assert [each["sink"] for each in site.kfm("status", "--json").data["pending"]] == ["otel"]
        site.kfm("sinks", "retry", "otel")
        assert site.kfm("runs", "show", run, "--json").data["pending"] is None
    assert {"PLAN", "EXECUTE", "UPSERT", "step"} < {span.name for span in receiver.spans()}
    found = attributes(receiver.roots()[run])
    assert (found["cicd.pipeline.result"], found["kfm.dataset"]) == ("success", "rain")
    assert len([record for record in receiver.logs() if attributes(record)["cicd.pipeline.run.id"] == run]) == 1


def test_a_dry_run_predicts_its_trace_and_sends_nothing(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    with receiving() as receiver:
        assert kfm("init", "gauges").code == 0
        monkeypatch.chdir("gauges")
        with Path("kfm.yml").open("a") as file:
            file.write(configured(receiver.url))
        answer = kfm("run", "--dry-run")
        assert answer.code == 0 and receiver.raw == []
        assert [line.split()[1] for line in answer.out.splitlines() if line.startswith("otel ")] == ["emit_event"]
        assert kfm("run").code == 0 and len(receiver.roots()) == 1
