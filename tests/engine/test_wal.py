"""The write-ahead log says what happened, in every format, before and after compaction."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.run_exports import wal
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session
from kfm.model.canonical import canonical
from kfm.model.records import Step, WalRecord
from kfm.model.updater import Output, Reader
from kfm.parsing.strict_json import decode
from kfm.projections.wal_records import FORMATS, export
from tests.engine.site_under_test import folder_site, opened

UPDATER = """
    from kfm import Output, Plan, Step, Updater

    class U(Updater):
        version = "1.0.0"

        def inputs(self, trigger, sources):
            return [sources.pin("source")]

        def plan(self, inputs):
            steps = [Step(id=f"s{n}", key=(f"k{n}",), params={"n": n}) for n in range(4)]
            return Plan([*steps, Step(id="last", key=("last",), needs=("s0", "s3"))])

        def perform(self, step, read):
            return Output.text(step.id + read.text("source"))
"""


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return opened(folder_site(tmp_path, UPDATER, b"a,b\n1,2\n"))


def run_once(session: Session) -> str:
    receipt = run_trigger(session, new_trigger(session, "demo"))
    settle_session(session)
    assert receipt.status == "SUCCESS", receipt.errors
    return receipt.run_id


def test_every_step_has_its_intent_before_its_done(session: Session) -> None:
    records = list(wal(session, run_once(session)))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert records[0].phase == "PLAN"
    assert [record.phase for record in records[-2:]] == ["UPSERT", "LINEAGE"]
    for name in ("s0", "s1", "s2", "s3", "last"):
        said = [record.status for record in records if record.step_id == name]
        assert said == ["IN_PROGRESS", "DONE"]
    done = {record.step_id: record.seq for record in records if record.status == "DONE"}
    begun = {record.step_id: record.seq for record in records if record.status == "IN_PROGRESS"}
    assert begun["last"] > max(done["s0"], done["s3"])
    for phase in ("UPSERT", "LINEAGE"):
        said = [record for record in records if record.phase == phase]
        assert [record.status for record in said] == ["IN_PROGRESS", "DONE"]
        assert said[0].seq == begun["last"] + 1 + (phase == "LINEAGE")  # with the last step, before it is performed


def test_the_intent_to_commit_is_durable_before_the_commit(session: Session) -> None:
    """Of a run that is stopped at its last step: what comes after it was announced, and is not done."""
    updater = dataset_updater(session, "demo")
    perform = updater.perform

    def stop(step: Step, read: Reader) -> Output:
        if step.id == "last":
            raise KeyboardInterrupt
        return perform(step, read)

    updater.perform = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run_trigger(session, new_trigger(session, "demo"))
    (run,) = session.state.runs.unfinished()
    said = {
        (record.phase, record.status) for record in wal(session, run.run_id) if record.phase in ("UPSERT", "LINEAGE")
    }
    assert said == {("UPSERT", "IN_PROGRESS"), ("LINEAGE", "IN_PROGRESS")}


def test_a_plan_with_nothing_to_perform_announces_its_commit(session: Session) -> None:
    run_once(session)
    receipt = run_operation(session, "freeze", "demo", reason="storm")
    said = [(record.phase, record.status) for record in wal(session, receipt.run_id)]
    closing = [(phase, status) for status in ("IN_PROGRESS", "DONE") for phase in ("UPSERT", "LINEAGE")]
    assert said == [("PLAN", "DONE"), *closing]


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_holds_the_same_records(session: Session, form: str) -> None:
    records = list(wal(session, run_once(session)))
    out = io.BytesIO()
    if form != "json":
        pytest.importorskip("fastavro" if form == "avro" else "pyarrow")
    assert export(records, form, out) == len(records)
    out.seek(0)
    if form == "json":
        found = [WalRecord(**decode(line, "export")) for line in out.read().splitlines()]
    elif form == "avro":
        import fastavro

        found = [_record(row) for row in fastavro.reader(out)]
    else:
        import pyarrow.parquet

        found = [_record(row) for row in pyarrow.parquet.read_table(out).to_pylist()]
    assert found == records


def _record(row: dict[str, object]) -> WalRecord:
    assert isinstance(row["payload"], str)
    payload = decode(row["payload"].encode(), "payload")
    assert canonical(payload).decode() == row["payload"]
    return WalRecord(**{**row, "payload": payload})  # type: ignore[arg-type]


def test_compaction_answers_the_same_questions(session: Session, tmp_path: Path) -> None:
    first = run_once(session)
    (tmp_path / "source.csv").write_bytes(b"a,b\n3,4\n")
    session.state.tables.begin()
    for key, _ in list(session.state.tables.scan("checkpoints")):
        session.state.tables.delete("checkpoints", key)
    session.state.tables.commit()
    second = run_once(session)
    before = {run_id: list(wal(session, run_id)) for run_id in (first, second)}
    ledger, refs = list(session.state.ledger.entries()), list(session.state.refs.all())
    assert list(session.state.tables.scan("segments"))
    assert session.archive.compact() == 2
    assert not list(session.state.tables.scan("segments"))
    assert {run_id: list(wal(session, run_id)) for run_id in (first, second)} == before
    assert (list(session.state.ledger.entries()), list(session.state.refs.all())) == (ledger, refs)
    assert session.archive.compact() == 0
    session.close()
    reopened = opened(tmp_path / "kfm.yml", "read")
    assert {run_id: list(wal(reopened, run_id)) for run_id in (first, second)} == before


def test_a_damaged_archive_is_refused(session: Session, tmp_path: Path) -> None:
    from kfm.errors import Corrupt

    run_id = run_once(session)
    session.archive.compact()
    tables = session.state.tables
    place = decode(tables.get("archived", run_id) or b"", "place")
    body = tables.get("objects", place["object"])
    assert body is not None
    tables.begin()
    tables.put("objects", place["object"], body[:-5] + b"xxxx\n")
    tables.commit()
    with pytest.raises(Corrupt):
        list(wal(session, run_id))
