"""The command lines of both runners say and do the same: real processes, hostile arguments, broken outputs, signals."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.abilities import lacking
from tests.node.twin import ROOT, node
from tests.sampling import sampled

CONFIG = """\
kfm: 1
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    outputs: {all: {from: gauges}}
    sources:
      gauges:
        uri: gauges.csv
        format: csv
        contract: {max_held_share: 1, columns: [{name: mm, type: number, mode: discard-row}]}
  code: {updater: "u.py:U"}
webhooks:
  hook: {datasets: [rain], secrets: ["env:KFM_SECRET_HOOK"]}
"""
SECRET = "0123456789abcdef0123456789abcdef"
ENV = {"KFM_NOW": "2026-01-01T00:00:00Z", "KFM_ACTOR": "tester", "KFM_SECRET_HOOK": SECRET, "LC_ALL": "C.UTF-8"}
RUNNERS = ("python", "node")


class Answer(NamedTuple):
    code: int
    out: bytes
    err: bytes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kfm.yml").write_text(CONFIG)
    (tmp_path / "gauges.csv").write_text("station,mm\na,1\nb,x\n")
    os.utime(tmp_path / "gauges.csv", (1_767_000_000, 1_767_000_000))
    return tmp_path


def command(runner: str) -> list[str]:
    return [node(), str(ROOT / "updater.mjs")] if runner == "node" else [sys.executable, "-m", "updater"]


def environment(more: dict[str, str] | dict[bytes, bytes] | None = None) -> Any:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    if more and any(isinstance(name, bytes) for name in more):
        return {**{os.fsencode(k): os.fsencode(v) for k, v in {**kept, **ENV}.items()}, **more}
    return {**kept, **ENV, **(more or {})}


def typed(runner: str, folder: Path, words: Any, env: Any = None, **options: Any) -> Answer:
    shutil.rmtree(folder / ".kfm", ignore_errors=True)
    options = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options}
    done = subprocess.run(
        [*command(runner), *words], cwd=folder, env=environment(env), stderr=subprocess.PIPE, check=False, **options
    )
    return Answer(done.returncode, done.stdout or b"", done.stderr)


CASES: dict[str, tuple[Any, Any, int]] = {
    "nothing": ([], None, 2),
    "nothing, as JSON": (["--json"], None, 2),
    "the version": (["--version"], None, 0),
    "the version, as JSON": (["--json", "--version"], None, 0),
    "help": (["run", "--help"], None, 0),
    "no such command": (["rnu"], None, 2),
    "no such flag": (["run", "--windw", "x"], None, 2),
    "a flag without its value": (["run", "--window"], None, 2),
    "a command that is no text": ([b"\xff\xfe"], None, 2),
    "a dataset that is no text": (["run", b"r\xc3\xa9\xff"], None, 3),
    "a dataset with a character that means one was lost": (["run", "r\ufffd"], None, 3),
    "no such file": (["run", "--config", "none.yml"], None, 3),
    "a file whose name is no text": (["run", "--config", b"\xff.yml"], None, 3),
    "a folder as file": (["run", "--config", "."], None, 3),
    "force without a reason": (["run", "--force"], None, 3),
    "abandoning without a reason": (["run", "--abandon"], None, 3),
    "deletions without a reason": (["run", "--allow-deletions", "3"], None, 3),
    "deletions that are no number": (["run", "--allow-deletions", "3.", "--reason", "x"], None, 3),
    "deletions with nothing": (["run", "--allow-deletions"], None, 2),
    "a window of two lines": (["run", "--window", "a\nb"], None, 3),
    "artifacts into a file": (["run", "--artifacts", "kfm.yml"], None, 3),
    "no such dataset": (["run", "rian"], None, 3),
    "a wrong setting": (["run"], {"KFM_EXECUTE__THREADS": "many"}, 3),
    "a setting that is no text": (["run"], {b"KFM_STATE": b"sqlite:\xff"}, 3),
    "a clock that is none": (["run", "rain"], {"KFM_NOW": "noonish"}, 3),
    "an actor of two lines": (["run", "rain"], {"KFM_ACTOR": "a\nb"}, 3),
    "a run": (["run", "rain"], None, 0),
    "a run in colour": (["run", "rain"], {"KFM_COLOR": "always"}, 0),
    "a run in no colour": (["run", "rain", "--no-color"], {"KFM_COLOR": "always"}, 0),
    "a run as JSON": (["--json", "run", "rain", "--dry-run"], None, 0),
    "a run with every event": (["run", "rain", "--verbose"], None, 0),
    "a run with every event for programs": (["run", "rain", "--verbose"], {"KFM_LOG": "jsonl"}, 0),
    "a quiet run": (["run", "rain", "--quiet", "--verbose"], None, 0),
    "no such webhook": (["webhook", "verify", "hok", "--body", "kfm.yml"], None, 3),
    "a webhook without a signature": (["webhook", "verify", "hook", "--body", "kfm.yml"], None, 4),
    "a webhook with a wrong one": (
        ["webhook", "verify", "hook", "--header", "X-KFM-Signature: sha256=00", "--json", "--body", "gauges.csv"],
        None,
        4,
    ),
    "a webhook without a body": (["webhook", "verify", "hook", "--body", "none"], None, 3),
    "a header that is none": (["webhook", "verify", "hook", "--header", "x"], None, 3),
    "a secret that is short": (["webhook", "verify", "hook"], {"KFM_SECRET_HOOK": "short"}, 3),
}


@pytest.mark.parametrize("case", sampled(CASES, every=6))
def test_both_runners_answer_alike(folder: Path, case: str) -> None:
    words, env, code = CASES[case]
    python, other = (typed(runner, folder, words, env) for runner in RUNNERS)
    assert essence(other) == essence(python)
    assert python.code == code
    assert b"Traceback" not in python.err


def essence(answer: Answer) -> tuple[int, bytes, list[bytes]]:
    """All of it, but of an error only its code and place: the sentence is each language's own."""
    told = [re.match(rb"kfm: ((?:\S+:\d+:\d+: )?)", line) for line in answer.err.splitlines()]
    lines = [mark.group() if mark else line for mark, line in zip(told, answer.err.splitlines(), strict=True)]
    return answer.code, re.sub(rb'"(message|hint)": ".*"', b"", answer.out), lines


def test_neither_runner_ignores_a_link_that_leads_nowhere(folder: Path) -> None:
    below = folder / "below"
    below.mkdir()
    (below / "kfm.yaml").symlink_to("nothing")
    python, other = (typed(runner, below, ["run"]) for runner in RUNNERS)
    assert essence(other) == essence(python)
    assert python.code == 3 and python.err.startswith(b"kfm: kfm.yaml is a broken link; ")


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_reader_that_has_enough_is_no_failure(folder: Path, runner: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    answer = typed(runner, folder, ["run", "rain"], stdout=writing)
    os.close(writing)
    assert (answer.code, answer.err) == (141, b"rain: 1 row quarantined, see `kfm quarantine rain`\n")


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_full_disk_under_stdout_is_reported(folder: Path, runner: str) -> None:
    if not Path("/dev/full").exists():
        lacking("there is no disk that is always full here")
    with open("/dev/full", "wb") as full:
        answer = typed(runner, folder, ["run", "rain"], stdout=full)
    assert answer.code == 74
    assert answer.err.decode().splitlines()[-1] == (
        "kfm: cannot write to stdout: no space left on device; "
        "make room or send it elsewhere; what the command changed stays changed"
    )


@pytest.mark.parametrize(
    ("number", "word", "code"), [(signal.SIGTERM, "terminated", 143), (signal.SIGINT, "interrupted", 130)]
)
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_signal_ends_a_run_with_one_line_and_leaves_it_resumable(
    folder: Path, runner: str, number: int, word: str, code: int, silent_server: Callable[[], int]
) -> None:
    port = silent_server()
    config = CONFIG.replace("gauges.csv", f"http://127.0.0.1:{port}/x.csv")
    (folder / "kfm.yml").write_text(config.replace("kfm: 1\n", f'kfm: 1\nnetwork: {{allow: ["127.0.0.1:{port}"]}}\n'))
    process = subprocess.Popen(
        [*command(runner), "run", "rain"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    asked(port)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"")
    assert err.decode() == f"kfm: {word}; a run that was begun is left resumable: `kfm resume`\n"


_ASKED: dict[int, list[Any]] = {}


@pytest.fixture
def silent_server() -> Any:
    """Takes a connection and never answers; `asked` waits until somebody has asked."""
    import socket
    import threading

    listeners = []

    def serve() -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        taken: list[Any] = []
        port: int = listener.getsockname()[1]
        _ASKED[port] = taken

        def take() -> None:
            try:
                connection, _ = listener.accept()
                connection.recv(1)
                taken.append(connection)
            except OSError:
                pass

        threading.Thread(target=take, daemon=True).start()
        return port

    yield serve
    for listener in listeners:
        listener.close()


def asked(port: int) -> None:
    deadline = time.monotonic() + 60
    while not _ASKED[port]:
        assert time.monotonic() < deadline, "nobody asked"
        time.sleep(0.01)
