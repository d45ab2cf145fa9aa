"""Where nothing can happen before the commit, the intent shares its sync; everywhere else it has its own."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.run_exports import wal
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.session import Session
from kfm.model.records import Step
from kfm.model.updater import Output, Reader
from tests.engine.site_under_test import folder_site, opened

UPDATER = """
    from kfm import Output, Plan, Step, Updater

    class U(Updater):
        version = "1.0.0"
        declared = %s

        def inputs(self, trigger, sources):
            return [sources.pin("source")]

        def plan(self, inputs):
            return Plan([Step(id="one", key=("one",))])

        def perform(self, step, read):
            return Output.text(read.text("source"))
"""
DECLARED = """\
kfm: 1
accept_weak_storage: true
datasets:
  demo:
    version: "1.0.0"
    sensitivity: public
    sources:
      source: {uri: in.csv, format: csv, contract: {columns: [{name: id}]}}
    outputs:
      all: {from: source}
"""


def declared(folder: Path) -> Session:
    (folder / "in.csv").write_text("a,b\n1,2\n")
    (folder / "kfm.yml").write_text(DECLARED)
    return opened(folder / "kfm.yml")


def syncs(session: Session) -> int:
    """Full commits so far, as the file itself counts them."""
    path = session.resolved.location(session.config.state)[1]
    other = apsw.Connection(path)
    ((count,),) = other.execute("SELECT value FROM guard WHERE key='commits'")
    other.close()
    return int(count)


def test_of_a_declared_run_one_sync_is_enough(tmp_path: Path) -> None:
    session = declared(tmp_path)
    before = syncs(session)
    receipt = run_trigger(session, new_trigger(session, "demo"))
    assert receipt.outcome == "done" and syncs(session) == before + 1
    records = [(record.phase, record.status) for record in wal(session, receipt.run_id)]
    assert records.index(("EXECUTE", "IN_PROGRESS")) < records.index(("EXECUTE", "DONE"))  # told as ever


def test_of_a_move_one_sync_is_enough(tmp_path: Path) -> None:
    session = declared(tmp_path)
    for verb in ("freeze", "thaw"):
        before = syncs(session)
        assert run_operation(session, verb, "demo", reason="storm").outcome == "done"
        assert syncs(session) == before + 1


@pytest.mark.parametrize("says", [True, False])
def test_the_intent_of_an_authors_step_is_durable_before_it(tmp_path: Path, says: bool) -> None:
    """Whatever its updater says of itself: nobody knows what is in its code."""
    session = opened(folder_site(tmp_path, UPDATER % says, b"a,b\n1,2\n"))
    updater, seen = dataset_updater(session, "demo"), []
    perform = updater.perform

    def looked_at(step: Step, read: Reader) -> Output:
        seen.append(syncs(session))
        return perform(step, read)

    updater.perform = looked_at  # type: ignore[method-assign]
    before = syncs(session)
    assert run_trigger(session, new_trigger(session, "demo")).outcome == "done"
    assert seen == [before + 1] and syncs(session) == before + 2
