"""The command line as a process: signals, pipes that close, disks that are full."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.abilities import lacking
from tests.sampling import sampled

from .conftest import Kfm, shell

SLOW = """
import pathlib, time
from kfm import Output, Plan, Step, Updater
class RainGauges(Updater):
    id = "rain-gauges"
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("gauges")]
    def plan(self, inputs):
        return Plan(steps=[Step(id="slow", key=("slow",))])
    def perform(self, step, read):
        if pathlib.Path("slow").exists():
            pathlib.Path("began").touch()
            time.sleep(60)
        return Output.text("done")
"""


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_stopped_run_is_left_resumable(started: Kfm, number: int, code: int, word: str) -> None:
    Path("updaters/rain_gauges.py").write_text(SLOW)
    Path("slow").touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "kfm.cli.main", "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        while not Path("began").exists():
            assert process.poll() is None, process.communicate()
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    assert out == ""
    assert err == f"kfm: {word}; a run that was begun is left resumable: `kfm resume`\n"
    assert [row["status"] for row in started("runs", "list", "--json").data] == ["RUNNING"]
    assert "kfm resume" in started("runs", "show", "last").out
    Path("slow").unlink()
    assert started("resume").code == 0
    assert started("cat", "processed/rain-gauges").out == "done"


def test_a_reader_that_had_enough_is_no_error_message(ran: Kfm) -> None:
    done = shell("kfm config show --resolved --json | true")
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("buffered", "where"),
    sampled([(False, "> /dev/full"), (True, ">&-"), (True, "> /dev/full"), (False, ">&-")], keep=2),
)
def test_output_that_cannot_be_written_is_reported(
    ran: Kfm, buffered: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        lacking("this system has no /dev/full")
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    why = "no space left on device" if "full" in where else "bad file descriptor"
    for words in (
        "refs list", "refs list --json", "cat published/rain-gauges", "runs wal last", "config schema config", "run",
        "freeze", "config completion bash", "--version", "--version --json", "--help", "run --help",
    ):  # fmt: skip
        done = shell(f"kfm {words} {where}")
        assert done.returncode == 74, (words, done)
        told = [line for line in done.stderr.splitlines() if line.startswith("kfm: ")]
        assert len(told) == 1 and told[0].startswith(f"kfm: cannot write to stdout: {why}; "), (words, done)
        assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, (words, done)
    assert ran("refs", "list", "--json").data[-1] == {"ref": "switch/global", "version": "frozen"}, (
        "what it did, it did"
    )


@pytest.mark.parametrize("buffered", sampled([False, True]))
def test_where_an_error_cannot_be_written_its_exit_code_is_the_same(
    ran: Kfm, buffered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        lacking("this system has no /dev/full")
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    for words, code in (("frobnicate", 2), ("cat processed/nothing", 3), ("refs list", 0), ("run", 0)):
        for where in ("2> /dev/full", "2>&-", ">&- 2>&-" if code else "2>&-"):
            done = shell(f"kfm {words} {where}")
            assert (done.returncode, done.stderr) == (code, ""), (words, where, done)
        done = shell(f"kfm {words} --json > /dev/full")
        assert done.returncode == (code or 74) and done.stderr.count("kfm: ") == 1, (words, done)


def test_an_internal_error_is_one_line_with_what_to_do(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.cli.look import refs

    def broken(*_: object) -> int:
        raise ZeroDivisionError("CANARY")

    monkeypatch.setattr(refs, "refs_list", broken)
    answer = started("refs", "list")
    assert answer.code == 1
    assert "internal error (ZeroDivisionError at test_as_a_process.py:" in answer.complaint
    assert "KFM_LOG=debug" in answer.complaint
    assert "CANARY" not in answer.err
    monkeypatch.setenv("KFM_LOG", "debug")
    with pytest.raises(ZeroDivisionError):
        started("refs", "list")
