"""The embedded graph is written with the run, is the same in both languages, and agrees with the receipts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import apsw
import pytest

from kfm import config
from kfm.app.session.session import Session, open_session
from kfm.model.lineage_edges import used_by
from kfm.store.index_check import differences
from kfm.store.sqlite import SqliteTables
from tests.app.provenance.looking import told
from tests.app.provenance.test_told import SOURCE, digest_of
from tests.cli.conftest import Kfm
from tests.golden.test_golden import STATES


def opened(mode: str = "read") -> Session:
    return open_session(config.load("", os.environ), mode=mode)  # type: ignore[arg-type]


def test_a_run_is_found_by_what_it_read_and_a_promotion_by_the_version(ran: Kfm) -> None:
    ingest, promote = told()
    with opened() as session:
        lineage = session.state.lineage
        (use,) = lineage.users(str(SOURCE), digest_of(SOURCE))
        assert (use.run_id, use.number, use.digest) == (ingest.run_id, 1, digest_of(SOURCE))
        assert list(lineage.users(str(SOURCE))) == [use]
        assert list(lineage.users("data/rain")) == list(lineage.users(str(SOURCE), "sha256:00")) == []
        (moved,) = lineage.users("kfm://dataset/rain-gauges", ingest.version)
        assert moved.run_id == promote.run_id
        assert list(lineage.users("kfm://ref/published/rain-gauges")) == []  # where the ref was is not used
        assert list(lineage.makers("rain-gauges", ingest.version)) == [ingest.run_id]


def test_every_run_that_made_a_version_is_its_maker(ran: Kfm) -> None:
    assert ran("run", "--force", "--reason", "again").code == 0
    first, _, again = told()
    with opened() as session:
        assert list(session.state.lineage.makers("rain-gauges", first.version)) == [first.run_id, again.run_id]


def test_what_did_not_commit_is_no_edge(ran: Kfm) -> None:
    assert ran("run").code == 0  # nothing to do
    SOURCE.write_text(SOURCE.read_text().replace("gauge,", "gouge,", 1))
    assert ran("run").code != 0
    assert ran("freeze", "rain-gauges", "--reason", "storm").code == 0
    with opened() as session:
        rows = list(session.state.tables.scan("lineage"))
    assert len(rows) == 2  # of the ingest and the promotion


def test_what_the_records_say_is_used_is_what_the_graph_says(ran: Kfm) -> None:
    assert ran("rollback", "rain-gauges", "--to", "nothing", "--reason", "wrong").code == 0
    runs = {run.run_id: run for run in told()}
    with opened() as session:
        for run_id, run in runs.items():
            receipt = session.state.ledger.receipt(run_id)
            assert receipt is not None
            assert [(each.id, each.checksum) for each in run.used()] == used_by(receipt)


@pytest.mark.parametrize("change", ["DELETE FROM lineage WHERE key LIKE 'used/data/%'", "foreign"])
def test_the_doctor_holds_the_graph_against_the_receipts(ran: Kfm, change: str) -> None:
    assert ran("doctor", "--deep").code == 0
    path = ".kfm/state.db"
    if change == "foreign":
        tables = SqliteTables(path)
        tables.begin()
        tables.put("lineage", "used/data/other.csv#sha256:00@000000000001", b"nobody")
        tables.commit()
        tables.close()
        wanted = "lineage/used/data/other.csv#sha256:00@000000000001 is no edge of a run"
    else:
        database = apsw.Connection(path)
        database.execute(change)
        assert database.changes() == 1
        database.close()
        wanted = f"lineage/used/{SOURCE}#{digest_of(SOURCE)}@000000000001 is missing"
    answer = ran("doctor", "--deep", "--json")
    assert answer.code == 3
    (found,) = (check["found"] for check in answer.data["checks"] if check["check"] == "state.maps")
    assert found == wanted


@pytest.mark.parametrize("golden", [path for path in STATES if path.parent.name == "format-5"], ids=lambda p: p.name)
def test_an_older_state_gets_the_graph_of_all_its_runs(golden: Path, tmp_path: Path) -> None:
    shutil.copytree(golden, tmp_path / "golden")
    with open_session(config.load(str(tmp_path / "golden/kfm.yml"), {}), mode="write") as session:
        committed = 0
        for entry in session.state.ledger.entries():
            receipt = session.state.ledger.receipt(entry.run_id)
            assert receipt is not None
            edges = used_by(receipt)
            committed += bool(edges)
            for address, digest in edges:
                assert entry.run_id in {use.run_id for use in session.state.lineage.users(address, digest)}
        assert committed >= 5
        assert differences(session.state) == []
