"""Completions under faults: every run gets its second record once, whatever was down, killed or at work meanwhile."""

from __future__ import annotations

import json
import threading
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from kfm.app.maintenance.doctor import evidence_verdicts
from kfm.app.metadata import completion_records
from kfm.app.metadata.ledger_sinks import report_to_sinks
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.crypto.envelopes import wrap
from kfm.crypto.signatures import Signer
from kfm.errors import Corrupt
from kfm.model.outbox_messages import Completion
from kfm.model.secret import Secret
from tests.engine.crowds import STATES, Installation

SINK = "openlineage.file"


class Died(BaseException):
    """The process dies."""


class Site(Installation):
    """An installation whose events go to a file, in a folder that may be in the way."""

    def __init__(self, folder: Path, state: str = "sqlite") -> None:
        super().__init__(folder, state)
        config = folder / "kfm.yml"
        config.write_text("openlineage: {file: sink/events.ndjson}\n" + config.read_text())

    def stop_sink(self) -> None:
        (self.folder / "sink").write_text("in the way\n")

    def start_sink(self) -> None:
        (self.folder / "sink").unlink()

    def run(self, session: Session, n: int) -> str:
        self.source(f"demo of {n}")
        receipt = run_trigger(session, new_trigger(session, "demo"))
        assert receipt.status == "SUCCESS", receipt.errors
        return receipt.run_id


def completions(session: Session) -> dict[str, Completion]:
    rows = session.tables.scan("outbox", "complete/")
    found = [completion_records.completion_of(session, key.removeprefix("complete/")) for key, _ in rows]
    return {each[0].run_id: each[0] for each in found if each is not None}


@pytest.mark.parametrize("state", STATES)
def test_ten_runs_are_completed_when_a_sink_that_was_down_comes_back(state: str, place: Path) -> None:
    site = Site(place / "site", state)
    site.stop_sink()
    with site.open() as session:
        runs = []
        for n in range(10):
            runs.append(site.run(session, n))
            settle_session(session)
        assert [each.run_id for each in session.state.outbox.pending()] == runs and completions(session) == {}
        (behind,) = completion_records.pending_at(session)
        assert (behind.sink, behind.runs, behind.run_id, behind.waits_for) == (SINK, 10, runs[0], "sink")
        site.start_sink()
        settle_session(session, again=True)
        found = completions(session)
        assert list(session.state.outbox.pending()) == [] and set(found) == set(runs)
        for entry in session.state.ledger.entries():
            assert found[entry.run_id].receipt == entry.receipt_digest and found[entry.run_id].index == entry.index
    site.sound()


@pytest.mark.parametrize("state", STATES)
def test_a_process_that_dies_between_following_and_the_record_leaves_it_to_the_next(
    state: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(place / "site", state)

    def dies(*_arguments: Any) -> None:
        raise Died

    with site.open() as session, monkeypatch.context() as patch:
        run_id = site.run(session, 0)
        patch.setattr(completion_records, "complete_runs", dies)
        with pytest.raises(Died):
            settle_session(session)
        assert session.state.outbox.cursor(SINK) == 1 and completions(session) == {}
    with site.open() as session:
        settle_session(session)
        assert set(completions(session)) == {run_id} and list(session.state.outbox.pending()) == []
        body = session.state.outbox.completion(run_id)
        settle_session(session)
        assert session.state.outbox.completion(run_id) == body, "written once"


def test_several_processes_write_each_record_once(place: Path) -> None:
    site = Site(place / "site")
    site.stop_sink()
    with site.open() as session:
        runs = [site.run(session, n) for n in range(6)]
        settle_session(session)
    site.start_sink()
    seen: list[dict[str, bytes | None]] = []

    def work() -> None:
        with site.open() as session:
            report_to_sinks(session, again=True)
            seen.append({run_id: session.state.outbox.completion(run_id) for run_id in runs})

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with site.open() as session:
        last = {run_id: session.state.outbox.completion(run_id) for run_id in runs}
        assert None not in last.values() and len(seen) == 4
        for each in seen:
            assert all(body in (None, last[run_id]) for run_id, body in each.items()), "never written again"


def test_a_record_that_another_process_changed_is_left_to_it(place: Path) -> None:
    site = Site(place / "site")
    with site.open() as session:
        run_id = site.run(session, 0)
        (known,) = session.state.outbox.pending()
        settle_session(session)
        body = session.state.outbox.completion(run_id)
        with session.state.transaction() as tx:
            assert not tx.outbox.complete(known, b"{}") and not tx.outbox.note_followed(known, known)
        assert session.state.outbox.completion(run_id) == body and list(session.state.outbox.pending()) == []


def test_a_run_that_is_frozen_for_a_sink_is_pending_until_the_thaw(place: Path) -> None:
    site = Site(place / "site")
    with site.open() as session:
        run_id = site.run(session, 0)
        run_operation(session, "freeze", "demo", reason="storm")
        settle_session(session)
        waits = {each.waits_for for each in completion_records.pending_at(session)}
        assert waits == {"thaw"} and run_id not in completions(session)
        run_operation(session, "thaw", "demo", reason="calm")
        settle_session(session)
        assert completion_records.pending_at(session) == [] and len(completions(session)) == 3


def test_a_run_is_pending_at_the_sinks_of_its_commit_even_if_the_process_died_before_it_settled(place: Path) -> None:
    site = Site(place / "site")
    with site.open() as session:
        run_id = site.run(session, 0)
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("openlineage:", "# openlineage:"))
    with site.open() as session:
        settle_session(session)
        assert completions(session)[run_id].removed == [SINK]


def test_a_completion_that_names_another_receipt_is_damage(place: Path) -> None:
    site = Site(place / "site")
    with site.open() as session:
        runs = [site.run(session, n) for n in range(2)]
        settle_session(session)
        assert list(completion_records.completion_faults(session)) == []
        alter(session, runs[1], session.state.outbox.completion(runs[0]))
        with pytest.raises(Corrupt):
            completion_records.completion_of(session, runs[1])
        ((dataset, fault),) = completion_records.completion_faults(session)
        assert dataset == "demo" and runs[1] in fault
        (check,) = (check for check in evidence_verdicts(session) if not check.ok)
        assert check.check == "evidence.demo" and check.found == fault


def test_a_completion_signed_by_a_stranger_is_noticed(place: Path) -> None:
    site = Site(place / "site")
    key = site.folder / "attest.key"
    key.write_text("11" * 32)
    key.chmod(0o600)
    config = site.folder / "kfm.yml"
    config.write_text("attest: {sign_with: 'file:attest.key'}\n" + config.read_text())
    with site.open() as session:
        run_id = site.run(session, 0)
        settle_session(session)
        assert list(completion_records.completion_faults(session)) == []
        body = session.state.outbox.completion(run_id)
        assert body is not None
        payload = b64decode(json.loads(body)["payload"])
        alter(session, run_id, wrap(completion_records.KIND, payload, [Signer(Secret(b"\x22" * 32))]))
        ((_, fault),) = completion_records.completion_faults(session)
        assert "no trusted key" in fault
        assert completion_records.signature_of(session, run_id).startswith("by no trusted key")


def alter(session: Session, run_id: str, body: bytes | None) -> None:
    assert body is not None
    with session.state.transaction():
        session.tables.put("outbox", f"complete/{run_id}", body)
