"""`python -m workers run-job` enqueues one job and does it, with the exit codes of `kfm run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.runs.run_control import run_operation
from kfm.workers.main import main
from tests.app.jobs_queue.queue_site import asked, change, lay_out, opened

TYPE = "ingest.pull_source"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
    monkeypatch.setenv("KFM_NOW", "2026-06-01T00:00:00Z")
    return lay_out(tmp_path, "one", "two")


def run_job(site: Path, *words: str) -> int:
    return main(["run-job", *words, "--config", str(site / "kfm.yml")])


def test_it_does_exactly_that_job_and_prints_its_receipt(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(site) as session:
        asked(session, "two")
    assert run_job(site, TYPE, "--dataset", "kfm://dataset/one") == 0
    assert "one  SUCCESS  done" in capsys.readouterr().out
    with opened(site) as session:
        assert [trigger.dataset for trigger in session.state.inbox.waiting()] == ["two"]
        assert [job.trigger.dataset for job in session.state.jobs.done()] == ["one"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("ingest.pull", "--dataset", "one"), 3, "no job type is called"),
        ((TYPE, "--dataset", "none"), 3, "no dataset is called none"),
        ((TYPE, "--dataset", "one", "--param", "windw=1"), 3, "did you mean window?"),
        ((TYPE, "--dataset", "one", "--param", "target_zone=Published"), 3, "a person decides that"),
        (("transform.build_tiles", "--dataset", "one"), 3, "add to kfm.yml"),
        ((TYPE,), 2, "--dataset"),
    ],
)
def test_a_wrong_request_is_one_line(
    site: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, said: str
) -> None:
    assert run_job(site, *words) == code
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    with opened(site) as session:
        assert not list(session.state.inbox.waiting())


def test_a_source_that_is_refused_is_a_dead_letter_with_the_code_of_a_run(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(site, "one", "n\nx\n")
    assert run_job(site, TYPE, "--dataset", "one") == 3
    assert "one  FAILED  held" in capsys.readouterr().out
    with opened(site) as session:
        assert len(list(session.state.jobs.dead())) == 1


def test_a_frozen_dataset_keeps_the_job(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(site) as session:
        run_operation(session, "freeze", "one", reason="wait", actor="ann")
    assert run_job(site, TYPE, "--dataset", "one") == 5
    assert "one is frozen; the job is kept" in capsys.readouterr().err
    with opened(site) as session:
        assert len(list(session.state.inbox.waiting())) == 1
