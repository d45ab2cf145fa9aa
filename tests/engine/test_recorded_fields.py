"""What a run writes down about itself is true, field by field: its ledger row, its telemetry, its log lines.

Each expected value is worked out here from what was done, never read from another record of the same run: a field
that is filled with its neighbour, or left at its default, is seen.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.run_exports import artifacts_of, wal
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.model.records import Receipt
from kfm.parsing.strict_json import decode
from kfm.policy.policy_bundle import shipped
from kfm.telemetry.log import MemoryLog
from tests.engine.site_under_test import Lines, MemorySite, folder_site, opened
from tests.engine.test_wal import UPDATER as NAMELESS

UPDATER = NAMELESS.replace("class U(Updater):", 'class U(Updater):\n        id = "maker"')  # not as its dataset
SOURCE = b"a,b\n1,2\n"
DIGEST = "sha256:" + hashlib.sha256(SOURCE).hexdigest()
FAILING = UPDATER.replace('return Output.text(step.id + read.text("source"))', 'raise RuntimeError("no")')
STEPS = ("s0", "s1", "s2", "s3", "last")
START, END = "2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.500Z"


class Slow(MemoryLog):
    """A second and a half go by once a run has started."""

    def bind(self, **fields: object) -> Any:
        return _Bound(self, super().bind(**fields))


class _Bound:
    def __init__(self, slow: Slow, log: Any) -> None:
        self._slow, self._log = slow, log

    def bind(self, **fields: object) -> _Bound:
        return _Bound(self._slow, self._log.bind(**fields))

    def event(self, name: str, **fields: object) -> None:
        self._log.event(name, **fields)
        if name == "run.started":
            self._slow._clock.advance(1500)  # type: ignore[attr-defined]


class Done:
    def __init__(self, folder: Path, updater: str = UPDATER, runs: int = 1, mode: str = "write") -> None:
        self.session: Session = opened(folder_site(folder, updater, SOURCE), mode)
        self.session.log = log = Slow(self.session.clock)
        self.receipts: list[Receipt] = [
            run_trigger(self.session, new_trigger(self.session, "demo", actor="who")) for _ in range(runs)
        ]
        self.artifacts = artifacts_of(self.session, self.receipts, settle_session(self.session), log.events)
        self.events: list[dict[str, Any]] = log.events

    def telemetry(self) -> list[dict[str, Any]]:
        return [decode(line, "run")["telemetry"] for line in self.artifacts["run.jsonl"].splitlines()]


def test_the_ledger_row_of_a_run_says_what_was_read_by_which_pipeline_under_which_key(tmp_path: Path) -> None:
    done = Done(tmp_path, runs=2)
    first, second = decode(done.artifacts["idempotency.json"], "rows")["runs"]
    (read,) = first["source_metadata"]
    assert read["uri"].endswith("source.csv") and read["content_hash"] == DIGEST
    assert set(read) == {"uri", "etag", "last_modified", "content_hash"}
    formula = "|".join([read["uri"], read["etag"] or DIGEST, "", "1.0.0"])
    assert "\\" not in formula
    expected = {
        "run_id": done.receipts[0].run_id,
        "dataset_id": "demo",
        "idempotency_key": hashlib.sha256(formula.encode()).hexdigest(),
        "input_hash": done.receipts[0].input_hash,
        "timestamp": END,
        "source_metadata": [read],
        "pipeline_version": "1.0.0",
        "state": "done",
    }
    assert first == expected
    assert {key for key in first if second[key] != first[key]} == {"run_id", "state"}
    assert (second["run_id"], second["state"]) == (done.receipts[1].run_id, "noop")


@pytest.mark.parametrize("mode", ["write", "dry"])
def test_the_telemetry_of_a_run_says_what_it_did_and_how_long_it_took(tmp_path: Path, mode: str) -> None:
    done = Done(tmp_path, mode=mode)
    (told,) = done.telemetry()
    made = sum(len(step) + len(SOURCE) for step in STEPS)
    expected = {
        "run_id": done.receipts[0].run_id,
        "duration_ms": 1500,
        "dataset": "demo",
        "source_id": "source",
        "trigger": "manual",
        "idempotency_state": "fresh",
        "artifact_count": len(STEPS),
        "dry_run": mode == "dry",
        "errors": [],
        "updater_id": "maker",
        "version": "1.0.0",
        "status": "SUCCESS",
        "failure_stage": None,
        "latency_ms": 1500,
        "wal_replay_count": 0,
        "inputs_count": 1,
        "outputs_count": len(STEPS),
        "bytes_in": len(SOURCE),
        "bytes_out": made,
        "co2e_g": None,
    }
    assert {name: told[name] for name in expected} == expected
    assert told["energy_kwh"] > 0
    assert told["energy_method"].startswith("estimated: ") and told["energy_method"].endswith(
        "; carbon unknown: energy.region is not set"
    )


def test_the_telemetry_of_a_run_that_failed_or_had_nothing_to_do_says_so(tmp_path: Path) -> None:
    _, skipped = Done(tmp_path / "a", runs=2).telemetry()
    expected = {"status": "SKIPPED", "idempotency_state": "duplicate", "artifact_count": 0, "errors": []}
    assert {name: skipped[name] for name in expected} == expected
    (failed,) = Done(tmp_path / "b", FAILING).telemetry()
    expected = {"status": "FAILED", "failure_stage": "EXECUTE", "artifact_count": 0, "errors": ["step.failed"]}
    assert {name: failed[name] for name in expected} == expected
    assert failed["duration_ms"] == 1500


def test_the_log_lines_of_a_run_say_whose_they_are(tmp_path: Path) -> None:
    done = Done(tmp_path)
    (receipt,) = done.receipts
    started = next(line for line in done.events if line["event"] == "run.started")
    committed = next(line for line in done.events if line["event"] == "run.committed")
    for line in (started, committed):
        assert line["run_id"] == receipt.run_id and line["job_id"] == receipt.job_id
        assert line["job_type"] == "ingest.pull_source" and line["dataset_ids"] == ["demo"]
        assert line["error"] is None
    assert (started["timestamp"], started["status"]) == (START, "started")
    assert (committed["timestamp"], committed["status"], committed["duration_ms"]) == (END, "succeeded", 1500)
    assert sorted(set(committed["zone_out"])) == ["processed", "raw"]
    (failed,) = [line for line in Done(tmp_path / "b", FAILING).events if line["event"] == "run.failed"]
    assert (failed["status"], failed["duration_ms"], failed["error"]["code"]) == ("failed", 1500, "step.failed")


def test_the_journal_records_of_a_run_say_whose_they_are(tmp_path: Path) -> None:
    done = Done(tmp_path)
    (receipt,) = done.receipts
    records = list(wal(done.session, receipt.run_id))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    for record in records:
        told = (record.wal_id, record.updater_id, record.updater_version, record.input_hash)
        assert told == (receipt.run_id, "maker", "1.0.0", receipt.input_hash)
    assert (records[0].ts, records[-1].ts) == (END, END)  # the plan, too, comes after the start of the run
    made = [(r.phase, r.status, r.payload["digest"]) for r in records if r.step_id == "last" and r.status == "DONE"]
    assert made == [("EXECUTE", "DONE", "sha256:" + hashlib.sha256(b"last" + SOURCE).hexdigest())]


def test_the_receipt_of_a_promotion_says_who_allowed_which_digest() -> None:
    site = MemorySite()
    site.run(Lines())
    promoted = site.operate("promote")
    version = site.state.refs.at("processed/demo")
    assert promoted.outcome == "done" and site.state.refs.at("published/demo") == version
    (decision,) = promoted.policy_decisions
    assert (decision.allow, decision.subject, decision.policy_digest) == (True, version, shipped().digest)
    assert [move.after for move in promoted.moves] == [version]
