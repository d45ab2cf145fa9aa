"""Worker processes as an operator sees them: they work, drain, are killed and replaced, and say how they are."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kfm.app.session import wake_up
from tests.sampling import sampled
from tests.servers.redis import redis_server
from tests.workers.exposition import read
from tests.workers.site import Worker, add, begun, ends, lay_out, opened, until, worker

CANARY = "pa/ss:w@rd canary-0451"


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "workers", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=120, check=False
    )


def port_of(process: Worker) -> int:
    until(lambda: "listening on" in process.said or process.process.poll() is not None)
    found = re.search(r"listening on \S+ port (\d+)", process.said)
    assert found, process.said
    return int(found[1])


def fetched(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read()


def status(port: int, path: str) -> tuple[int, dict[str, Any]]:
    code, body = fetched(port, path)
    return code, json.loads(body)


def test_once_works_until_nothing_is_ready_and_says_a_line_for_each_job(tmp_path: Path) -> None:
    lay_out(tmp_path, "one", "two")
    with opened(tmp_path) as session:
        ids = [add(session, name) for name in ("one", "two", "one")]
        done = run(tmp_path, "run", "--once")
        assert (done.returncode, done.stderr) == (0, "")
        assert all(session.state.inbox.ended(each) for each in ids)
        assert len({line.split()[1] for line in done.stdout.splitlines()}) == 2
    again = run(tmp_path, "run", "--once")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_the_log_lines_of_a_job_have_every_field_and_one_correlation_id(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    with opened(tmp_path) as session:
        (ended,) = ends_of_one(session, tmp_path)
        receipt = session.state.ledger.receipt(ended.run_id)
        assert receipt is not None
        lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if line.startswith("{")]
        assert {line["service"] for line in lines} == {"workers"}
        about = [line for line in lines if line["correlation_id"]]
        assert {"job.started", "job.ended"} <= {line["event"] for line in about}
        assert {line["correlation_id"] for line in about} == {receipt.correlation_id}
        (end,) = [line for line in lines if line["event"] == "job.ended"]
        assert (end["status"], end["job_type"], end["run_id"]) == ("succeeded", "ingest.pull_source", ended.run_id)
        assert end["duration_ms"] >= 0
        started = [line for line in lines if line["event"] == "job.started"]
        assert [line["status"] for line in started] == ["started"] and started[0]["job_id"] == end["job_id"]


def ends_of_one(session: Any, folder: Path) -> list[Any]:
    ids = [add(session, "one")]
    done = run(folder, "run", "--once", "--verbose", KFM_LOG="jsonl")
    (folder / "log").write_text(done.stderr)
    assert done.returncode == 0, done.stderr
    return ends(session, ids)


def test_a_first_signal_lets_the_job_at_work_end_and_nothing_new_begin(tmp_path: Path) -> None:
    lay_out(tmp_path, "slow", "one")
    with opened(tmp_path) as session, worker(tmp_path) as process:
        slow = add(session, "slow")
        until(lambda: begun(tmp_path))
        later = add(session, "one")
        process.signal(signal.SIGTERM)
        until(lambda: "stopping" in process.said)
        (tmp_path / "may-end").touch()
        assert process.process.wait(60) == 0
        assert session.state.inbox.ended(slow) is not None
        assert session.state.inbox.ended(later) is None
        assert not [lease for lease in session.state.leases.below("job") if lease.expires_ms]


@pytest.mark.parametrize(("number", "code"), sampled([(signal.SIGTERM, 143), (signal.SIGINT, 130)]))
def test_a_second_signal_leaves_the_job_to_another_worker(tmp_path: Path, number: int, code: int) -> None:
    lay_out(tmp_path, "slow")
    with opened(tmp_path) as session, worker(tmp_path) as process:
        slow = add(session, "slow")
        until(lambda: begun(tmp_path))
        process.signal(number)
        until(lambda: "stopping" in process.said)
        process.signal(number)
        assert process.process.wait(60) == code
        assert "left to be resumed" in process.said and "Traceback" not in process.said
        assert session.state.inbox.ended(slow) is None
        (tmp_path / "may-end").touch()
        assert run(tmp_path, "run", "--once").returncode == 0
        (ended,) = ends(session, [slow])
        assert session.state.ledger.receipt(ended.run_id) is not None
        assert len(begun(tmp_path)) == 2


def test_a_child_that_was_killed_is_replaced_and_another_finishes_its_job(tmp_path: Path) -> None:
    lay_out(tmp_path, "slow")
    with opened(tmp_path) as session, worker(tmp_path, "--concurrency", "2") as process:
        slow = add(session, "slow")
        until(lambda: begun(tmp_path))
        (victim,) = begun(tmp_path)
        before = process.children()
        assert victim in before
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(begun(tmp_path)) == 2)
        (tmp_path / "may-end").touch()
        ends(session, [slow])
        until(lambda: len(process.children()) == 2 and victim not in process.children())
        assert "a worker ended (SIGKILL); another one starts" in process.said
        job = session.state.jobs.get(slow)
        assert job is not None and job.attempts == 2
        assert process.stop() == 0


@pytest.mark.long
def test_four_workers_share_the_work_and_are_counted_together(tmp_path: Path) -> None:
    names = [f"d{n}" for n in range(8)]
    lay_out(tmp_path, *names)
    with opened(tmp_path) as session, worker(tmp_path, "--concurrency", "4", "--listen", "127.0.0.1:0") as process:
        port = port_of(process)
        until(lambda: status(port, "/readyz")[0] == 200)
        assert status(port, "/livez") == (200, {"alive": True, "workers": 4})
        ends(session, [add(session, name) for name in names])
        kind = {"job_type": "ingest.pull_source"}
        until(lambda: read(fetched(port, "/metrics")[1].decode())["kfm_jobs_succeeded_total"].value(**kind) == 8)
        found = read(fetched(port, "/metrics")[1].decode())
        assert found["kfm_jobs_started_total"].value(**kind) == 8
        assert found["kfm_job_duration_seconds"].value("_count", **kind) == 8
        assert (found["kfm_workers"].value(), found["kfm_state_up"].value()) == (4, 1)
        until(lambda: read(fetched(port, "/metrics")[1].decode())["kfm_queue_depth"].value() == 0)
        assert process.stop() == 0


@pytest.mark.long
def test_the_counts_of_a_worker_that_was_killed_stay(tmp_path: Path) -> None:
    lay_out(tmp_path, "one", "two")
    with opened(tmp_path) as session, worker(tmp_path, "--concurrency", "2", "--listen", "127.0.0.1:0") as process:
        port = port_of(process)

        def done() -> float:
            found = read(fetched(port, "/metrics")[1].decode())["kfm_jobs_succeeded_total"]
            return found.value(job_type="ingest.pull_source")

        ends(session, [add(session, "one"), add(session, "two")])
        until(lambda: done() == 2)
        before = process.children()
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(process.children()) == 2 and not {*before} & {*process.children()})
        assert done() == 2
        assert process.stop() == 0


@pytest.mark.long
def test_a_worker_that_drains_is_alive_and_not_ready(tmp_path: Path) -> None:
    lay_out(tmp_path, "slow")
    with opened(tmp_path) as session, worker(tmp_path, "--listen", "127.0.0.1:0") as process:
        port = port_of(process)
        add(session, "slow")
        until(lambda: begun(tmp_path))
        until(lambda: status(port, "/readyz")[0] == 200)
        assert status(port, "/livez")[1]["at_work"] is True
        process.signal(signal.SIGTERM)
        until(lambda: status(port, "/readyz")[0] == 503)
        assert status(port, "/readyz")[1]["draining"] is True
        assert status(port, "/livez")[0] == 200
        (tmp_path / "may-end").touch()
        assert process.process.wait(60) == 0


@pytest.mark.long
def test_a_freeze_is_shown_and_is_no_failure(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    opened(tmp_path).close()
    frozen = [sys.executable, "-m", "kfm", "freeze", "global", "--reason", "a test"]
    done = subprocess.run(frozen, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with worker(tmp_path, "--listen", "127.0.0.1:0") as process:
        port = port_of(process)
        until(lambda: status(port, "/readyz")[0] == 200)
        assert status(port, "/readyz")[1]["frozen"] is True


@pytest.mark.long
def test_a_supervisor_that_was_killed_leaves_no_workers_behind(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    with opened(tmp_path) as session, worker(tmp_path, "--concurrency", "2") as process:
        process.ready()
        ends(session, [add(session, "one")])
        children = process.children()
        assert len(children) == 2
        process.signal(signal.SIGKILL)
        process.process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


@pytest.mark.long
def test_a_supervisor_ends_with_the_code_of_a_child_that_could_never_start_again(tmp_path: Path) -> None:
    lay_out(tmp_path, "one")
    with opened(tmp_path) as session, worker(tmp_path, "--concurrency", "2") as process:
        process.ready()
        ends(session, [add(session, "one")])
        (tmp_path / "kfm.yml").write_text("datasets: 7\n")
        os.kill(process.children()[0], signal.SIGKILL)
        assert process.process.wait(60) == 3
        assert "Traceback" not in process.said


REFUSED = {
    "no configuration": ("", {}, 3, "kfm.yml"),
    "a state in memory": ("state: memory", {}, 3, "seen by no other process"),
    "no library": ("", {"PYTHONPATH": "hidden"}, 3, r"pip install 'kansas-frontier-matrix\[queue\]'"),
    "no password": ("redis: {password: env:NOT_THERE}", {}, 3, "NOT_THERE"),
    "an unknown pool": ("", {}, 3, "no custodian"),
    "an open address": ("", {}, 3, "--behind-proxy"),
    "a wrong number": ("", {}, 2, "a number from 1 to"),
}
FLAGS = {
    "an unknown pool": ("--pool", "nobody"),
    "an open address": ("--listen", "0.0.0.0:0"),
    "a wrong number": ("--concurrency", "0"),
}


@pytest.mark.parametrize("what", sampled(REFUSED, every=4))
def test_a_worker_refuses_to_start_in_one_line(tmp_path: Path, what: str) -> None:
    more, env, code, expected = REFUSED[what]
    with redis_server(tmp_path / "redis", password=CANARY) as server:
        folder = lay_out(tmp_path / "site", "one", queue=server.url)
        said = (folder / "kfm.yml").read_text()
        if what.endswith("password"):
            said += more + "\n"
        elif more:
            said = said.replace("state: sqlite:.kfm/state.db", more)
        (folder / "kfm.yml").write_text(said)
        (folder / "hidden").mkdir()
        (folder / "hidden" / "sitecustomize.py").write_text(
            "import importlib.util as u\nold = u.find_spec\n"
            "u.find_spec = lambda name, *more: None if name == 'celery' else old(name, *more)\n"
        )
        if what == "no configuration":
            (folder / "kfm.yml").unlink()
        env = {name: str(folder / value) if value == "hidden" else value for name, value in env.items()}
        done = run(folder, "run", *FLAGS.get(what, ()), "--once", **env)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1 and re.search(expected, done.stderr), done.stderr
    assert "canary" not in done.stderr


def test_no_secret_of_the_broker_is_seen_anywhere(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis", password=CANARY) as server:
        folder = lay_out(
            tmp_path / "site", "one", "two", queue=server.url, more="redis: {password: env:BROKER_PASSWORD}\n"
        )
        os.environ["BROKER_PASSWORD"] = CANARY
        try:
            seen = secret_hunt(folder, server)
        finally:
            del os.environ["BROKER_PASSWORD"]
    for text in seen:
        assert text and "canary" not in text and "w%40rd" not in text and "cmFyeS0" not in text


def secret_hunt(folder: Path, server: Any) -> list[str]:
    flags = ("--concurrency", "2", "--listen", "127.0.0.1:0", "--verbose")
    with opened(folder) as session, worker(folder, *flags, KFM_LOG="jsonl") as process:
        port = port_of(process)
        ends(session, [add(session, "one")])
        server.kill()
        ends(session, [add(session, "two")])
        until(lambda: "queue.failed" in process.said)
        seen = [fetched(port, path)[1].decode() for path in ("/livez", "/readyz", "/metrics")]
        pids = [str(process.process.pid), *map(str, process.children())]
        seen.append(subprocess.run(["ps", "-o", "args=", "-p", ",".join(pids)], capture_output=True, text=True).stdout)
        assert process.stop() == 0
        seen += [process.said, process.out.read_text(), str(session.wake_up.problem)]
        assert read(seen[2])["kfm_queue_broker_up"].value() in (0, 1)
    return seen


def test_a_message_wakes_a_worker_long_before_it_would_look_itself(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as server:
        folder = lay_out(tmp_path / "site", "one", "two", queue=server.url)
        said = (folder / "kfm.yml").read_text()
        (folder / "kfm.yml").write_text(said.replace("sweep_s: 0.3", "sweep_s: 3600"))
        with opened(folder) as session, worker(folder) as process:
            process.ready()
            for name in ("one", "two", "one"):
                until(lambda: server.client().info("clients")["blocked_clients"])  # it sleeps
                ends(session, [add(session, name)])
            assert process.stop() == 0
        assert server.client().llen("kfm") == 0


@pytest.mark.long
def test_doctor_says_whether_the_broker_answers(tmp_path: Path) -> None:
    def broker() -> tuple[bool, str, str]:
        words = [sys.executable, "-m", "kfm", "doctor", "--json"]
        found = json.loads(subprocess.run(words, cwd=tmp_path, capture_output=True, text=True).stdout)
        (one,) = [each for each in found["checks"] if each["check"] == "queue.broker"]
        return one["ok"], one["found"], one["why"]

    with redis_server(tmp_path / "redis") as server:
        lay_out(tmp_path, "one", queue=server.url)
        well = broker()
        server.fill()
        full = broker()
    down = broker()
    (tmp_path / "kfm.yml").write_text("redis: {password: env:NOT_THERE}\n" + (tmp_path / "kfm.yml").read_text())
    closed = broker()
    assert well == (True, "answers; messages: 0", "")
    place, until = f"the broker at 127.0.0.1:{server.port}", "; until then workers look into the inbox every 0.3 s"
    assert full == (
        False, f"{place} has no memory left", f"raise its maxmemory, or remove what else is in it{until}"
    )  # fmt: skip
    assert down == (False, f"{place} does not answer", f"start it, or correct `queue`{until}")
    assert closed[0] is False and "NOT_THERE" in closed[1] and until not in closed[2], "no worker starts then"


UNTIL = "; until it can be used, workers look into the inbox every 0.3 s"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("down", "kfm: the broker at 127.0.0.1:{port} does not answer; start it, or correct `queue`"),
        ("password", "kfm: the broker at 127.0.0.1:{port} refuses the password or the user; correct `redis.password`"),
    ],
)
def test_a_new_worker_starts_and_works_while_its_broker_cannot_be_used_and_uses_it_afterwards(
    tmp_path: Path, what: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake_up, "FIRST_S", 0.1)  # of the session here
    secret = tmp_path / "password"
    secret.write_text("wrong canary-0451" if what == "password" else CANARY)
    secret.chmod(0o600)
    with redis_server(tmp_path / "redis", password=CANARY) as server:
        folder = lay_out(
            tmp_path / "site", "one", "two", queue=server.url, more=f"redis: {{password: 'file:{secret}'}}\n"
        )
        if what == "down":
            server.kill()
        with opened(folder) as session, worker(folder, "--verbose") as process:
            process.ready()
            ends(session, [add(session, "one")])
            (line,) = [each for each in process.said.splitlines() if UNTIL in each]
            assert line.startswith(said.format(port=server.port)), line
            if what == "down":
                server.start()
            secret.write_text(CANARY)
            until(lambda: server.client().info("clients")["blocked_clients"])
            until(lambda: "queue.answered" in process.said)
            ends(session, [add(session, "two")])
            assert process.stop() == 0
        assert "canary" not in process.said and "Traceback" not in process.said


@pytest.mark.long
def test_a_worker_starts_and_works_while_its_broker_is_down(tmp_path: Path) -> None:
    lay_out(tmp_path, "one", queue="redis://127.0.0.1:1/0")
    with opened(tmp_path) as session:
        ids = [add(session, "one")]
        done = run(tmp_path, "run", "--once")
        assert done.returncode == 0
        assert done.stderr.count(UNTIL) == 1
        ends(session, ids)
