"""A run is pending until every sink has followed it; then a second record names its receipt."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from kfm.app.metadata.completion_records import KIND
from kfm.app.metadata.ledger_sinks import followers
from kfm.app.session.session import open_session, trust_of
from kfm.config import load
from kfm.config.config_file import SINKS, sink_names
from kfm.crypto.envelopes import unwrap
from tests.cli.conftest import Kfm, done

SINK, EVENTS = "openlineage.file", "sinks.d/events.ndjson"


def configure(text: str) -> None:
    file = Path("kfm.yml")
    file.write_text(file.read_text() + f"\n{text}\n")


def break_sink() -> None:
    """Put a file where the folder of the sink must be."""
    Path("sinks.d").write_text("in the way\n")


def mend_sink() -> None:
    Path("sinks.d").unlink()
    Path("sinks.d").mkdir()


@pytest.fixture
def down(started: Kfm) -> Kfm:
    """`kfm init`, with a file of events that cannot be written."""
    configure(f"openlineage: {{file: {EVENTS}}}")
    break_sink()
    return started


def wal(kfm: Kfm, run: str = "last") -> list[tuple[str, str, str]]:
    lines = map(json.loads, kfm("runs", "wal", run).out.splitlines())
    return [(line["phase"], line["step_id"], line["status"]) for line in lines]


def lineage(kfm: Kfm, run: str = "last") -> list[tuple[str, str]]:
    return [(step, status) for phase, step, status in wal(kfm, run) if phase == "LINEAGE"]


def completion(kfm: Kfm, run: str = "last") -> Any:
    return kfm("runs", "show", run, "--json").data["completion"]


def last_run(kfm: Kfm) -> str:
    return str(kfm("runs", "list", "--json").data[0]["run"])


def test_a_run_is_pending_while_a_sink_is_down_and_complete_when_it_has_followed(down: Kfm) -> None:
    done(down("run"))
    begun = [("", "IN_PROGRESS"), ("catalog", "PENDING"), (SINK, "PENDING"), ("catalog", "DONE")]
    assert lineage(down) == begun
    assert completion(down) is None
    (pending,) = down("status", "--json").data["pending"]
    assert (pending["sink"], pending["runs"], pending["run_id"]) == (SINK, 1, last_run(down))
    said = down("status").out
    assert f"pending: {SINK}: 1 run since " in said and f"kfm sinks retry {SINK}" in said
    assert f"{SINK}: pending since" in down("runs", "show", "last").out
    run = last_run(down)
    before = down("runs", "wal", run).out
    mend_sink()
    done(down("sinks", "retry", SINK))
    assert down("runs", "wal", run).out.startswith(before), "the log only grows"
    assert lineage(down, run) == [*begun, (SINK, "DONE"), ("", "DONE")]
    assert down("status", "--json").data["pending"] == []
    found = completion(down, run)
    (receipt,) = Path(".kfm/receipts").rglob(f"{run}*.json")
    assert found["receipt"] == "sha256:" + hashlib.sha256(receipt.read_bytes()).hexdigest()
    assert [each["sink"] for each in found["followed"]] == ["catalog", SINK] and found["removed"] == []


def test_waiting_ends_with_69_while_a_sink_is_down_and_with_0_when_it_has_followed(down: Kfm) -> None:
    answer = down("run", "--wait", "--wait-limit", "1")
    assert answer.code == 69
    assert f"{SINK} has not followed 1 run" in answer.err and "do not repeat the run" in answer.err
    mend_sink()
    done(down("run", "--wait"))  # nothing to do, and the run before it is complete
    assert lineage(down, down("runs", "list", "--json").data[1]["run"])[-1] == ("", "DONE")
    done(down("publish", "rain-gauges", "--reason", "first", "--wait"))
    assert [each["sink"] for each in completion(down)["followed"]] == ["publish", "catalog", SINK]


def test_a_sink_that_waits_for_a_person_is_not_waited_for(down: Kfm) -> None:
    mend_sink()
    done(down("run"), down("freeze", "rain-gauges", "--reason", "storm"))
    answer = down("publish", "rain-gauges", "--reason", "first", "--wait", "--wait-limit", "100000")
    assert answer.code != 0, "what is frozen is not published"
    assert all(each["waits_for"] == "thaw" for each in down("status", "--json").data["pending"])


def test_public_files_that_cannot_be_written_leave_the_promotion_pending(started: Kfm) -> None:
    done(started("run"))
    Path("public").write_text("in the way\n")
    assert started("publish", "rain-gauges", "--reason", "first").code != 0
    assert [each["sink"] for each in started("status", "--json").data["pending"]] == ["publish"]
    assert lineage(started)[-1] == ("catalog", "DONE")
    Path("public").unlink()
    done(started("resume"))
    assert lineage(started)[-2:] == [("publish", "DONE"), ("", "DONE")]
    assert started("status", "--json").data["pending"] == []


def test_a_run_that_no_sink_follows_is_complete_with_its_commit(started: Kfm) -> None:
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text("".join(line for line in text.splitlines(True) if not line.startswith("catalog:")))
    assert sink_names(load("kfm.yml", {}).config) == ()
    done(started("run"))
    assert lineage(started) == [("", "IN_PROGRESS"), ("", "DONE")]
    found = started("runs", "show", "last", "--json").data
    assert found["pending"] is None and found["completion"] is None


def test_a_completion_is_signed_with_the_key_of_the_installation(down: Kfm) -> None:
    Path("attest.key").write_text("11" * 32)
    Path("attest.key").chmod(0o600)
    configure("attest: {sign_with: 'file:attest.key'}")
    mend_sink()
    done(down("run"))
    run_id = last_run(down)
    with open_session(load("kfm.yml", {}), mode="read") as session:
        envelope = session.state.outbox.completion(run_id)
        assert envelope is not None
        trusted = trust_of(session).believed("attest")
        said = json.loads(unwrap(envelope, KIND, trusted.public).body)
        entry = session.state.ledger.entry(1)
        assert entry is not None and said["receipt"] == entry.receipt_digest and said["run_id"] == run_id
    shown = down("runs", "show", "last").out
    assert "signed" in shown and "no trusted key" not in shown


def test_a_sink_that_is_removed_while_pending_is_named_and_not_waited_for(down: Kfm) -> None:
    done(down("run"))
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("openlineage:", "# openlineage:"))
    assert down("status", "--json").data["pending"] == []
    done(down("resume"))
    found = completion(down)
    assert found["removed"] == [SINK] and [each["sink"] for each in found["followed"]] == ["catalog"]
    assert lineage(down)[-2:] == [(SINK, "FAILED"), ("", "DONE")]
    assert "removed from kfm.yml" in down("runs", "show", "last").out


def test_a_quarantined_run_leaves_records_in_the_write_ahead_log(started: Kfm) -> None:
    done(started("run"))
    (source,) = Path("data").glob("*.csv")
    source.write_text("another,header\n1,2\n")
    assert started("run").code != 0
    (line,) = map(json.loads, started("runs", "wal", "last").out.splitlines())
    assert (line["phase"], line["status"], line["seq"]) == ("PLAN", "FAILED", 1)
    assert line["payload"] == {"code": "source.held", "outcome": "held", "stage": "QUARANTINE"}


def test_the_names_of_sinks_are_those_of_the_followers(kfm: Kfm) -> None:
    Path("kfm.yml").write_text(
        "accept_weak_storage: true\nattest: {sign_with: env:A}\ncatalog: file:catalog\npages: true\n"
        "worker_receipts: .kfm/workers\ngraph: bolt://127.0.0.1:1\n"
        "neo4j: {user: env:U, password: env:P}\nnetwork: {allow: ['127.0.0.1:1']}\n"
        "openlineage: {file: events.ndjson, url: 'http://127.0.0.1:1'}\notel: {endpoint: 'http://127.0.0.1:1'}\n"
        "datasets: {}\n"
    )
    with open_session(load("kfm.yml", {}), mode="write") as session:
        names = [follower.sink.name for follower in followers(session)]
        assert len(names) == len(SINKS) == 8 and tuple(names) == sink_names(session.config)
