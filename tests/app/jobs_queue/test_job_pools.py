"""A job of protected data is taken only by workers of its custodian's pool, whatever its envelope says."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.jobs.job_pools import job_pools
from kfm.app.jobs.job_worker import JobWorker
from kfm.errors import BadInput
from tests.app.jobs_queue.queue_site import Team, asked, lay_out, opened

CUSTODIANS = (
    "labels: labels.yml\ncustodians: {office: {key: 'env:KFM_SECRET_OFFICE'}, tribe: {key: 'env:KFM_SECRET_TRIBE'}}\n"
)
LABELS = "version: 1\nlabels: []\n"
OFFICE = "version: 1\nlabels: [{of: {dataset: one}, sensitivity: restricted, care: open, custodian: office}]\n"
DERIVED = """\
  made:
    version: "1.0.0"
    sensitivity: public
    sources: {rows: {dataset: one, key: [rows], format: csv}}
    outputs: {rows: {from: rows}}
"""


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("OFFICE", "TRIBE"):
        monkeypatch.setenv(f"KFM_SECRET_{name}", name.lower() * 8)
    lay_out(tmp_path, "one", "two", head=CUSTODIANS)
    (tmp_path / "labels.yml").write_text(LABELS)
    return tmp_path


def test_a_labelled_dataset_goes_to_its_custodians_pool_alone(house: Path) -> None:
    (house / "labels.yml").write_text(OFFICE)
    with opened(house) as session:
        for name in ("one", "two"):
            asked(session, name)
        jobs = {job.trigger.dataset: job.pools for job in session.state.jobs.open()}
        assert jobs == {"one": ("office",), "two": ()}
        public, tribe = JobWorker(session), JobWorker(session, pools=["tribe"])
        receipt = public.turn()
        assert receipt is not None and receipt.dataset == "two"
        assert public.turn() is None and tribe.turn() is None and tribe.last is None
        assert (public.depth().ready, JobWorker(session, pools=["office"]).depth().ready) == (0, 1)
        assert JobWorker(session, pools=["office", "tribe"]).turn() is not None


def test_a_label_that_is_tightened_after_the_request_holds_at_the_claim(house: Path) -> None:
    with opened(house) as session:
        job = asked(session, "one").job
        assert job.pools == ()
        worker = JobWorker(session)
        assert worker.depth().ready == 1
        (house / "labels.yml").write_text(OFFICE)
        assert worker.turn([job.trigger.trigger_id]) is None and worker.last is None
        assert worker.turn() is None and worker.last is None
        assert session.state.jobs.get(job.trigger.trigger_id) == job, "a worker without the pool has claimed it"


def test_a_dataset_without_a_known_custodian_goes_to_the_pool_of_the_protected(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    path = tmp_path / "kfm.yml"
    path.write_text(path.read_text().replace("sensitivity: public", "sensitivity: generalised"))
    with opened(tmp_path) as session:
        assert asked(session, "one").job.pools == ("protected",)
        assert JobWorker(session).turn() is None
        assert JobWorker(session, pools=["protected"]).turn() is not None


def test_labels_that_cannot_be_read_keep_the_job_and_are_told(house: Path) -> None:
    with opened(house) as session:
        job = asked(session, "one").job
        (house / "labels.yml").write_text("version: 1\nlabels: [oops\n")
        team = Team(session)
        assert team.worker.turn() is None and team.worker.last is None
        assert any(isinstance(problem, BadInput) for _, problem in team.problems)
        assert session.state.jobs.get(job.trigger.trigger_id) == job


def test_what_is_made_of_a_protected_dataset_needs_its_pool_too(house: Path) -> None:
    (house / "labels.yml").write_text(OFFICE)
    with (house / "kfm.yml").open("a") as file:
        file.write(DERIVED)
    with opened(house) as session:
        assert job_pools(session, "made") == ("office",)
