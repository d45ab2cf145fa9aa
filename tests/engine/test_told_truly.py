"""Telemetry, ledger rows and log lines say what happened: every field of each, held against what is known otherwise.

Each is compared whole, so that a field that is wrong, missing or new turns a test red.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm import __version__
from kfm.app.authority.run_setup import context_of
from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock, rfc3339
from kfm.config import load
from kfm.engine.receipt_stage import merge
from kfm.engine.run import run
from kfm.errors import Unavailable
from kfm.model.keys import GENESIS, digest
from kfm.model.records import Receipt, Step, Trigger
from kfm.model.updater import Output, Reader
from kfm.telemetry.log import MemoryLog
from tests.engine.site_under_test import folder_site

CONFIG = 'execute: {threads: 1}\nenergy: {meter: "off"}'
UPDATER = """
    from kfm import Output, Plan, Step, Updater

    class U(Updater):
        id = "counted"
        version = "1.2.3"
        retries = 2
        slo_target_latency_ms = 10_000

        def inputs(self, trigger, sources):
            return [sources.pin("source")]

        def plan(self, inputs):
            return Plan([Step(id=name, key=(name,)) for name in "abc"])

        def perform(self, step, read):
            return self.really(step, read)
"""
SOURCE = b"n\n1\n2\n"
START = 1_767_225_600_000
Fields = dict[str, Any]


class Place:
    """An installation whose clock moves a second for every step, and whose runs were asked for five seconds ago."""

    def __init__(self, folder: Path) -> None:
        self.clock = FixedClock(START)
        self.log = MemoryLog(self.clock)
        self.config = folder_site(folder, UPDATER, SOURCE, config=CONFIG)
        text = self.config.read_text().replace("[{name: id}]", "[{name: n}]")
        self.config.write_text(text)
        self.session: Session = open_session(load(str(self.config), {}), mode="write", clock=self.clock, log=self.log)
        self.updater: Any = dataset_updater(self.session, "demo")
        self.updater.really = self.perform
        self.problems: list[BaseException] = []

    def perform(self, step: Step, _read: Reader) -> Output:
        self.clock.advance(1000)
        if step.id == "b" and self.problems:
            raise self.problems.pop(0)
        return Output(step.id.encode() * 7, "text/plain")

    def trigger(self, **fields: Any) -> Trigger:
        found = new_trigger(self.session, "demo", actor="me", **fields)
        self.clock.advance(5000)
        return found

    def run(self, **fields: Any) -> Receipt:
        self.log.events.clear()
        return run_trigger(self.session, self.trigger(**fields))

    def telemetry(self, run_id: str) -> Fields:
        found = self.session.state.ledger.telemetry(run_id)
        assert found is not None
        return msgspec.to_builtins(found)  # type: ignore[no-any-return]

    def lines(self, *events: str) -> list[Fields]:
        return [line for line in self.log.events if line["event"] in events]


@pytest.fixture
def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    yield made
    made.session.close()


def telemetry(receipt: Receipt, **more: Any) -> Fields:
    """All of it, for a run of three steps asked for by hand; `more` is what was otherwise."""
    return {
        "run_id": receipt.run_id,
        "updater_id": "counted",
        "version": "1.2.3",
        "dataset": "demo",
        "source_id": "source",
        "trigger": "manual",
        "status": "SUCCESS",
        "failure_stage": None,
        "idempotency_state": "fresh",
        "duration_ms": 3000,
        "latency_ms": 8000,
        "retries": 0,
        "wal_replay_count": 0,
        "pool_wait_ms": 0,
        "inputs_count": 1,
        "outputs_count": 3,
        "artifact_count": 3,
        "bytes_in": len(SOURCE),
        "bytes_out": 21,
        "energy_kwh": None,
        "co2e_g": None,
        "energy_method": "unknown: energy.meter is off",
        "slo_target_latency_ms": 10_000,
        "slo_ok": True,
        "error_budget_burn": None,
        "dry_run": False,
        "errors": [],
        "correlation_id": receipt.correlation_id,
        "tool_versions": {"kfm": __version__, "python": platform.python_version()},
        **more,
    }


def nothing_made(**more: Any) -> Fields:
    return {"duration_ms": 0, "outputs_count": 0, "artifact_count": 0, "bytes_out": 0, "latency_ms": 5000, **more}


def line(receipt: Receipt, at: int, event: str, **more: Any) -> Fields:
    """A whole line of the log. A run is named once it is claimed."""
    return {
        "timestamp": rfc3339(at),
        "service": "kfm",
        "job_type": "ingest.pull_source",
        "job_id": receipt.job_id,
        "run_id": receipt.run_id,
        "correlation_id": receipt.correlation_id,
        "dataset_ids": ["demo"],
        "zone_in": None,
        "zone_out": None,
        "policy_label": "public",
        "status": None,
        "duration_ms": None,
        "error": None,
        "event": event,
        "updater_id": "counted",
        "dry_run": False,
        **more,
    }


def test_a_run_that_succeeds(place: Place) -> None:
    receipt = place.run(reason="because")
    assert receipt.outcome == "done" and receipt.correlation_id
    assert place.telemetry(receipt.run_id) == telemetry(receipt)
    begun, ended = START + 5000, START + 8000
    nobody = {"run_id": None, "job_id": None}
    done = {"status": "succeeded", "outcome": "done", "duration_ms": 3000}
    assert place.log.events == [
        line(receipt, begun, "source.pinned", **nobody, source="source", not_modified=False, size=len(SOURCE)),
        line(receipt, begun, "run.started", status="started", admission="fresh"),
        line(receipt, begun, "source.inspected", source="source", rows=2, held_rows=0, held=False, findings={}),
        line(receipt, ended, "run.committed", **done, zone_in=["raw"], zone_out=["raw", "processed"]),
    ]


def test_every_row_of_the_ledger(place: Place) -> None:
    first = place.run(reason="because")
    second = place.run(force=True, allow_deletions=4, reason="again")
    settle_session(place.session)
    rows = [msgspec.to_builtins(entry) for entry in place.session.state.ledger.entries()]
    links = [digest(body) for _, body in place.session.tables.scan("ledger")]
    files = {path.stem: path.read_bytes() for path in place.config.parent.rglob(".kfm/receipts/**/*.json")}

    def row(index: int, receipt: Receipt, **more: Any) -> Fields:
        return {
            "index": index,
            "prev": GENESIS if index == 1 else links[index - 2],
            "op_type": "ingest",
            "run_id": receipt.run_id,
            "wal_ids": [receipt.run_id],
            "dataset": "demo",
            "operator": "me",
            "receipt_digest": digest(files[receipt.run_id]),
            "governed": governed,
            **more,
        }

    governed = {
        "lineage": [digest(SOURCE)],
        "findings": [],
        "care": "open",
        "review": "none",
        "withheld": [],
        "committed": {},
        "sealed_with": "",
    }
    moves = [
        {"ref": "raw/demo/0", "before": "", "after": digest(SOURCE)},
        {"ref": "processed/demo", "before": "", "after": place.session.state.refs.at("processed/demo")},
    ]
    asked = [{"rule": "force", "limit": 0}, {"rule": "allow-deletions", "limit": 4}]
    assert rows == [
        row(1, first, outcome="done", reason="because", moves=moves, ts=rfc3339(START + 8000), overrides=[]),
        row(2, second, outcome="unchanged", reason="again", moves=[], ts=rfc3339(START + 16_000), overrides=asked),
    ]
    assert [second.started_at, second.finished_at] == [rfc3339(START + 13_000), rfc3339(START + 16_000)]
    assert place.session.state.ledger.head() == links[-1]


def test_a_run_with_nothing_to_do(place: Place) -> None:
    place.run()
    receipt = place.run()
    assert receipt.outcome == "noop"
    found = place.telemetry(receipt.run_id)
    assert found == telemetry(receipt, **nothing_made(status="SKIPPED", idempotency_state="duplicate"))
    said = {"status": "skipped", "outcome": "noop", "duration_ms": 0, "zone_in": ["raw"], "zone_out": []}
    assert place.lines("run.skipped") == [line(receipt, START + 13_000, "run.skipped", **said)]


def test_a_frozen_run_and_the_same_request_after_the_thaw(place: Place) -> None:
    run_operation(place.session, "freeze", "demo")
    receipt = place.run()
    more = nothing_made(status="SKIPPED", idempotency_state="frozen", slo_ok=None)
    assert place.telemetry(receipt.run_id) == telemetry(receipt, **more)
    run_operation(place.session, "thaw", "demo")
    (later,) = resume_runs(place.session)
    assert later.outcome == "done" and later.correlation_id == receipt.correlation_id
    assert place.telemetry(later.run_id) == telemetry(later)


def test_retries_are_counted_and_a_slow_run_misses_its_target(place: Place) -> None:
    place.problems = [Unavailable("down"), Unavailable("down")]
    receipt = place.run()
    # Five steps, a second and two seconds of waiting.
    took = {"duration_ms": 8000, "latency_ms": 13_000, "retries": 2, "slo_ok": False}
    assert receipt.outcome == "done" and place.telemetry(receipt.run_id) == telemetry(receipt, **took)
    error = {"code": "unavailable", "message": place.lines("step.retried")[0]["error"]["message"]}
    assert "step 'b'" in error["message"]
    assert place.lines("step.retried") == [
        line(receipt, START + 7000, "step.retried", attempt=1, of=3, wait_ms=1000, error=error),
        line(receipt, START + 9000, "step.retried", attempt=2, of=3, wait_ms=2000, error=error),
    ]


def test_a_run_that_fails_and_the_one_that_continues_it(place: Place) -> None:
    place.problems = [ValueError("x")]
    receipt = place.run()
    took = nothing_made(duration_ms=2000, latency_ms=7000)
    more = {"status": "FAILED", "failure_stage": "EXECUTE", "slo_ok": False, "errors": ["step.failed"]}
    assert place.telemetry(receipt.run_id) == telemetry(receipt, **took, **more)
    (told,) = place.lines("run.failed")
    assert told == line(
        receipt, START + 7000, "run.failed", status="failed", outcome="failed", stage="EXECUTE", duration_ms=2000,
        zone_in=["raw"], zone_out=[], error={"code": "step.failed", "message": receipt.errors[0].message},
    )  # fmt: skip
    second = place.run()
    assert place.telemetry(second.run_id) == telemetry(second, duration_ms=2000, latency_ms=7000)
    (told,) = place.lines("run.continued")
    assert told == line(second, START + 12_000, "run.continued", continues=receipt.run_id, steps=1)


def interrupted(place: Place, **fields: Any) -> Trigger:
    place.problems = [KeyboardInterrupt()]
    trigger = place.trigger(**fields)
    with pytest.raises(KeyboardInterrupt):
        run(context_of(place.session, trigger, place.updater))
    (unfinished,) = place.session.state.runs.unfinished()
    return unfinished.trigger


def test_a_resumed_run_is_the_same_request(place: Place) -> None:
    asked = interrupted(place)
    (receipt,) = resume_runs(place.session)
    assert receipt.correlation_id == asked.correlation_id
    took = {"duration_ms": 3000, "latency_ms": 10_000, "wal_replay_count": 1, "bytes_in": 0}
    assert place.telemetry(receipt.run_id) == telemetry(receipt, **took, idempotency_state="resume")
    assert {each["correlation_id"] for each in place.log.events} == {receipt.correlation_id}


def test_a_run_by_hand_that_takes_an_unfinished_one_up_is_that_request(place: Place) -> None:
    asked = interrupted(place, window="2026-01-01/2026-01-31")
    receipt = place.run(window="2026-01-01/2026-01-31")
    assert receipt.correlation_id == asked.correlation_id
    assert place.telemetry(receipt.run_id)["correlation_id"] == asked.correlation_id


def test_a_run_that_another_one_ended(place: Place) -> None:
    asked = interrupted(place)
    place.log.events.clear()
    receipt = place.run(abandon=True, reason="begin anew")
    old, new = [place.session.state.ledger.receipt(entry.run_id) for entry in place.session.state.ledger.entries()]
    assert old is not None and new == receipt and old.correlation_id == asked.correlation_id != receipt.correlation_id
    more = {"duration_ms": None, "bytes_in": None, "latency_ms": 12_000}  # 5 s, two steps, 5 s
    ended: Fields = {"status": "FAILED", "slo_ok": False, "errors": ["run.superseded"]}
    ended["energy_method"] = "unknown: another process ended the run"
    assert place.telemetry(old.run_id) == telemetry(old, **{**nothing_made(), **more}, **ended)
    said = {"status": "failed", "outcome": "superseded", "error": {"code": "run.superseded"}}
    assert place.lines("run.superseded") == [line(old, START + 12_000, "run.superseded", **said)]


def test_a_trigger_that_another_run_answered(place: Place) -> None:
    with place.session.state.transaction() as tx:
        kept = [tx.inbox.keep(new_trigger(place.session, "demo", kind="webhook", actor="hook")) for _ in "12"]
    place.clock.advance(5000)
    first = run_trigger(place.session, kept[0])
    place.clock.advance(500)
    merged = merge(context_of(place.session, kept[1], place.updater), first)
    assert merged is not None and merged.correlation_id == kept[1].trigger_id
    more = nothing_made(status="SKIPPED", idempotency_state="merged", latency_ms=8500, bytes_in=0, trigger="webhook")
    more["energy_method"] = "unknown: the run that answered this one has it"
    assert place.telemetry(merged.run_id) == telemetry(merged, **more)


def test_every_receipt_has_its_telemetry_and_a_correlation_id(place: Place) -> None:
    run_operation(place.session, "freeze", "demo")
    place.run()
    run_operation(place.session, "thaw", "demo")
    list(resume_runs(place.session))
    interrupted(place, window="2026-01-01/2026-01-31")
    place.run(window="2026-01-01/2026-01-31", abandon=True, reason="anew")
    run_operation(place.session, "promote", "demo")
    receipts = [place.session.state.ledger.receipt(entry.run_id) for entry in place.session.state.ledger.entries()]
    assert len(receipts) == 7
    for receipt in receipts:
        assert receipt is not None and receipt.correlation_id
        assert place.telemetry(receipt.run_id)["correlation_id"] == receipt.correlation_id


def test_a_promotion_and_a_rollback_name_the_version_they_moved_to(place: Place) -> None:
    place.run()
    first = place.session.state.refs.at("processed/demo")

    def named(receipt: Receipt) -> list[tuple[str, str, str, str]]:
        return [(item.kind, item.id, item.checksum, item.zone) for item in [*receipt.inputs, *receipt.outputs]]

    promoted = run_operation(place.session, "promote", "demo")
    assert named(promoted) == [
        ("ref", "kfm://ref/published/demo", "", "published"),
        ("dataset", "kfm://dataset/demo", first, "processed"),
        ("ref", "published/demo", first, "published"),
    ]
    withdrawn = run_operation(place.session, "rollback", "demo", {"to": "nothing"})
    assert named(withdrawn) == [
        ("ref", "kfm://ref/published/demo", first, "published"),
        ("ref", "published/demo", "", "published"),
    ]
    back = run_operation(place.session, "rollback", "demo", {"to": first}, reason="right")
    assert ("dataset", "kfm://dataset/demo", first, "published") in named(back)
    place.log.events.clear()
    frozen = run_operation(place.session, "freeze", "demo")
    assert named(frozen) == [
        ("ref", "kfm://ref/switch/dataset/demo", "", "switch"),
        ("ref", "switch/dataset/demo", "frozen", "switch"),
    ]
    (told,) = place.lines("run.committed")
    assert (told["zone_in"], told["zone_out"]) == (["switch"], ["switch"])
