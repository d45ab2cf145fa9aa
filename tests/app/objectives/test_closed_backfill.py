"""A backfill under way takes no further partition while a burnt error budget closes it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.app.objectives.site import Site, promise

PARTS = """\
from kfm import Output, Plan, Step, Updater


class Parts(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("./rain.csv", partition=(trigger.partition,))]

    def plan(self, inputs):
        return Plan([Step(id="one", key=(inputs[0].partition[0], "one"))])

    def perform(self, step, read):
        with open("bad") as file:
            if step.key[0] in file.read().split():
                raise ValueError("a bad part")
        return Output(step.key[0].encode(), "text/plain")
"""


def test_a_backfill_stops_when_the_budget_is_spent_and_goes_on_under_an_override(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with (tmp_path / "kfm.yml").open("a") as file:
        file.write("  parts:\n    updater: parts.py:Parts\n    sensitivity: public\n")
    (tmp_path / "parts.py").write_text(PARTS.replace('open("bad")', f"open({str(tmp_path / 'bad')!r})"))
    (tmp_path / "bad").write_text("c d")
    (tmp_path / "pipelines" / "backfills").mkdir(parents=True)
    said = {"parts": {"dataset": "parts", "partitions": {"kind": "name", "keys": ["a", "b", "c", "d", "e", "f"]}}}
    (tmp_path / "pipelines" / "backfills" / "parts.yml").write_text(json.dumps({"backfills": said}))
    promise(tmp_path, "parts", dataset="parts", target=0.7)
    told = site.kfm("backfill", "start", "parts", code=4)
    assert "backfill of parts is closed" in told and "kfm slo" in told and "stopped: closed by an objective" in told
    assert "1 failed, 2 made" in site.kfm("backfill", "status", "parts"), "none was taken after the one that failed"
    assert "is closed" in site.kfm("backfill", "resume", "parts", code=4)
    (tmp_path / "bad").write_text("")
    site.kfm("slo", "override", "parts", "--until", "1h", "--reason", "the updater is mended")
    site.kfm("backfill", "resume", "parts")
    assert "1 failed, 5 made" in site.kfm("backfill", "status", "parts"), "the one that failed waits for --only-failed"
