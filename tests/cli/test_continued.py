"""A failed run keeps its finished steps, and a step that fails for a while is tried again."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.clock import FixedClock
from kfm.errors import Unavailable
from kfm.model.records import SourceRef, Step
from kfm.model.updater import Output, Plan, Reader
from kfm.projections.wal_records import wal_records
from kfm.telemetry.log import MemoryLog
from tests.cli.conftest import Kfm
from tests.engine.site_under_test import Lines, MemorySite

UPDATER = """
    import os
    from kfm import Output, Plan, Step, Updater

    class U(Updater):
        id = "parts"
        version = "1.0.0"
        other = False

        def inputs(self, trigger, sources):
            self.other = os.path.exists("other-plan")
            return [sources.pin("source")]

        def plan(self, inputs):
            steps = [Step(id=name, key=(name,)) for name in inputs[0].partitions]
            return Plan([Step(id="first"), *steps] if self.other else steps, complete=True)

        def perform(self, step, read):
            with open("performed", "a") as log:
                log.write(step.id)
            if os.path.exists("bad-" + step.id):
                raise ValueError("secret words")
            if os.path.exists("die-" + step.id):
                raise KeyboardInterrupt
            return Output(step.id.encode() * (100_000 if step.id == "b" else 1))
"""
CONFIG = """\
execute: {threads: 1, window: 4}
datasets:
  parts:
    updater: updaters.py:U
    sources:
      source: {uri: source.csv, format: csv, complete: true, contract: {partition_by: name, shrink_limit: 1}}
"""


@pytest.fixture
def parts(kfm: Kfm) -> Kfm:
    Path("updaters.py").write_text(textwrap.dedent(UPDATER))
    Path("kfm.yml").write_text(CONFIG)
    Path("source.csv").write_text("name\n" + "".join(f"{name}\n" for name in "abcdef"))
    return kfm


def performed() -> str:
    """The steps performed since the last question."""
    path = Path("performed")
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return text


def failing(parts: Kfm, step: str) -> None:
    Path(f"bad-{step}").touch()
    assert parts("run").code == 1
    Path(f"bad-{step}").unlink()


def statuses(parts: Kfm) -> str:
    rows = parts("runs", "steps", "last", "--json").data
    return " ".join(f"{row['step']['id']}:{row['status']}" for row in rows)


def test_the_run_after_one_that_raised_does_only_what_is_left(parts: Kfm) -> None:
    failing(parts, "d")
    assert performed() == "abcd"
    assert statuses(parts) == "a:DONE b:DONE c:DONE d:FAILED e:PENDING f:PENDING"
    answer = parts("run", "--json")
    assert answer.code == 0 and performed() == "def"
    (receipt,) = answer.data["receipts"]
    assert receipt["outcome"] == "done" and statuses(parts).count("DONE") == 6
    facts = [json.loads(line) for line in parts("runs", "wal", receipt["run_id"]).out.splitlines()]
    assert facts[0]["phase"] == "PLAN" and facts[0]["payload"]["continues"] != receipt["run_id"]
    assert sorted(fact["step_id"] for fact in facts if fact["phase"] == "EXECUTE" and fact["status"] == "DONE") == [
        *"abcdef"
    ]
    assert parts("doctor", "--deep").code == 0
    version = parts("refs", "list", "--json").data
    assert parts("run", "--force", "--reason", "all of it", "--json").data["receipts"][0]["outcome"] == "unchanged"
    assert performed() == "abcdef" and parts("refs", "list", "--json").data == version


def test_it_may_fail_again_and_be_interrupted_and_keeps_what_it_has(parts: Kfm) -> None:
    failing(parts, "b")
    failing(parts, "d")
    Path("die-e").touch()
    assert parts("run").code == 130
    Path("die-e").unlink()
    assert performed() == "ab" + "bcd" + "de"
    assert parts("resume").code == 0
    assert performed() == "def", "of an interrupted window nothing is known to be done"


def test_a_plan_that_made_nothing_is_free_and_one_that_made_something_is_not(parts: Kfm) -> None:
    failing(parts, "a")
    Path("other-plan").touch()
    assert parts("run").code == 0
    Path("source.csv").write_text("name\na\nb\nc\nd\ne\nf\ng\n")
    failing(parts, "c")
    Path("other-plan").unlink()
    answer = parts("run")
    assert answer.code == 3 and "bump the updater's version" in answer.complaint


def test_a_committed_plan_stays_locked_whatever_fails_after_it(parts: Kfm) -> None:
    assert parts("run").code == 0
    Path("bad-a").touch()
    assert parts("run", "--force", "--reason", "x").code == 1
    Path("bad-a").unlink()
    Path("other-plan").touch()
    assert parts("run", "--force", "--reason", "x").code == 3


def test_what_is_gone_is_made_again(parts: Kfm) -> None:
    failing(parts, "d")
    performed()
    (large,) = [path for path in Path(".kfm/objects").rglob("*") if path.is_file()]
    large.unlink()
    assert parts("run").code == 0
    assert performed() == "bdef"


def test_a_run_denied_at_the_end_keeps_all_its_steps(parts: Kfm) -> None:
    assert parts("run").code == 0
    Path("source.csv").write_text("name\na\nb\n")
    assert parts("run").code == 4
    performed()
    assert parts("run", "--allow-deletions", "4", "--reason", "they are gone").code == 0
    assert performed() == ""


# -- retries


class Flaky(Lines):
    """Fails so often before it answers."""

    def __init__(self, *problems: Exception) -> None:
        super().__init__()
        self._problems: Iterator[Exception] = iter(problems)

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=name, key=(name,)) for name in "xyz"])

    def perform(self, step: Step, read: Reader) -> Output:
        self.performed.append(step.id)
        if step.id == "y":
            for problem in self._problems:
                raise problem
        return Output(step.id.encode())


def told(site: MemorySite) -> list[dict[str, Any]]:
    log = site.world.log
    assert isinstance(log, MemoryLog)
    return [line for line in log.events if line["event"] == "step.retried"]


def flaky_site() -> MemorySite:
    site = MemorySite(threads=1)
    site.world.log = MemoryLog(site.clock)
    return site


def down() -> Unavailable:
    return Unavailable("the elevation service does not answer")


def wal_of(site: MemorySite, run_id: str) -> list[tuple[str, str]]:
    run = site.state.runs.get(run_id)
    assert run is not None
    steps = [Step(id=name) for name in "xyz"]
    records = wal_records(run, steps, (segment for segment, _ in site.state.journal.segments(run_id)))
    return [(fact.step_id, fact.status) for fact in records if fact.phase == "EXECUTE"]


def test_what_is_unavailable_is_tried_again_as_often_as_declared() -> None:
    site, updater = flaky_site(), Flaky(down(), down())
    updater.retries, updater.backoff_s = 3, 1.5
    begun = site.clock.now_ms()
    receipt = site.run(updater)
    assert receipt.outcome == "done" and updater.performed == ["x", "y", "y", "y", "z"]
    assert site.clock.now_ms() - begun == 4500, "1.5 s, then 3 s, by the clock it was handed"
    assert [(line["attempt"], line["of"], line["wait_ms"]) for line in told(site)] == [(1, 4, 1500), (2, 4, 3000)]
    assert all(line["error"]["code"] == "unavailable" and line["run_id"] == receipt.run_id for line in told(site))
    telemetry = site.state.ledger.telemetry(receipt.run_id)
    assert telemetry is not None and telemetry.retries == 2
    of_y = [status for step, status in wal_of(site, receipt.run_id) if step == "y"]
    assert of_y == ["IN_PROGRESS", "FAILED", "FAILED", "DONE"]


def test_when_all_attempts_fail_the_step_has_failed_and_the_journal_says_each() -> None:
    site, updater = flaky_site(), Flaky(down(), down(), down())
    updater.retries, updater.backoff_s = 2, 0
    receipt = site.run(updater)
    assert receipt.status == "FAILED" and receipt.errors[0].code == "unavailable"
    telemetry = site.state.ledger.telemetry(receipt.run_id)
    assert telemetry is not None and telemetry.retries == 2
    assert [status for step, status in wal_of(site, receipt.run_id) if step == "y"].count("FAILED") == 3
    again = site.run(updater)
    assert again.outcome == "done" and updater.performed == ["x", "y", "y", "y", "y", "z"]


class Hiccup(Exception):
    """Passes by itself, says the author."""


@pytest.mark.parametrize("named", [True, False])
def test_what_an_author_raises_is_tried_again_only_if_it_is_named(named: bool) -> None:
    site, updater = flaky_site(), Flaky(Hiccup())
    updater.retries = 1
    updater.retry_on = (Hiccup,) if named else ()
    assert site.run(updater).status == ("SUCCESS" if named else "FAILED")


def test_nothing_is_tried_again_unless_it_is_declared() -> None:
    site = flaky_site()
    assert site.run(Flaky(down())).status == "FAILED" and not told(site)


@pytest.mark.parametrize(
    "line",
    ["retries = -1", "retries = '3'", "retries = True", "backoff_s = -1", "backoff_s = float('nan')",
     "retry_on = ValueError", "retry_on = (KeyboardInterrupt,)", "retry_on = ('x',)"],
)  # fmt: skip
def test_a_declaration_of_retries_is_checked(parts: Kfm, line: str) -> None:
    text = Path("updaters.py").read_text()
    Path("updaters.py").write_text(text.replace('version = "1.0.0"', f'version = "1.0.0"\n    {line}'))
    answer = parts("run")
    assert answer.code == 3 and f"its {line.split()[0]} is not" in answer.complaint


def test_of_data_that_is_not_public_a_retry_names_no_step() -> None:
    site, updater = flaky_site(), Flaky(down())
    site.metadata = {"sensitivity": "restricted"}
    updater.retries, updater.backoff_s = 1, 0
    assert site.run(updater).status == "SUCCESS"
    (line,) = told(site)
    assert "step 2 of 3" in line["error"]["message"] and "step y" not in json.dumps(line)


def test_the_system_clock_sleeps_and_a_fixed_one_goes_on() -> None:
    clock = FixedClock(0)
    clock.sleep(1.25)
    assert clock.now_ms() == 1250
    assert msgspec.json.encode(clock.monotonic()) == b"1.25"
