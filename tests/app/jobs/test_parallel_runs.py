"""`kfm run --jobs`: datasets wait for their servers together, and end as if they had run one after another."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kfm.app.runs.parallel_jobs import job_count, order_of
from kfm.config import load
from kfm.errors import BadInput
from tests.app.jobs.hosts import NOW, begun, dataset, hosts, installation, kfm, reading, rows
from tests.sampling import sampled

VARIES = {
    "duration_ms", "finished_at", "started_at", "host", "pid", "trace_id", "telemetry", "latency_ms", "tool_versions",
    "energy_kwh", "co2e_g", "attempt",
}  # fmt: skip


def steady(value: Any) -> Any:
    """The value without what differs between two runs of the same work."""
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if key not in VARIES}
    return [steady(item) for item in value] if isinstance(value, list) else value


def test_thirty_hosts_are_asked_at_once_by_default(tmp_path: Path) -> None:
    with hosts(30) as server:
        text = ""
        for n in range(30):
            server.bodies[f"/{n}.csv"] = rows(n)
            text += dataset(f"d{n:02}", f"http://127.0.0.{n + 1}:{server.port}/{n}.csv")
        site = installation(tmp_path, server, text)
        config = load(str(site / "kfm.yml"), {}).config
        server.together = expected = min(30, job_count(config, config.datasets))
        done = kfm(site, "run", "--json")
        assert done.code == 0, done.err
        assert server.most == expected > 1
        assert server.most_of_host == 1
        receipts = done.data["receipts"]
        assert [each["dataset"] for each in receipts] == sorted(config.datasets)
        assert len(server.asked) == 30


@pytest.mark.parametrize(("said", "expected"), sampled([(", per_host: 2", 2), ("", 6)]))
def test_one_host_gets_only_so_many_requests_at_once(tmp_path: Path, said: str, expected: int) -> None:
    with hosts(1) as server:
        text = ""
        for n in range(8):
            server.bodies[f"/{n}.csv"] = rows(n)
            text += dataset(f"d{n}", f"http://127.0.0.1:{server.port}/{n}.csv")
        site = installation(tmp_path, server, text, per_host=said)
        server.together = expected
        done = kfm(site, "run", "--jobs", "8", "--quiet")
        assert done.code == 0, done.err
        assert (server.most, server.most_of_host) == (expected, expected)
        assert len(server.asked) == 8


def test_one_job_asks_one_host_after_another(tmp_path: Path) -> None:
    with hosts(3) as server:
        text = ""
        for n in range(3):
            server.bodies[f"/{n}.csv"] = rows(n)
            text += dataset(f"d{n}", f"http://127.0.0.{n + 1}:{server.port}/{n}.csv")
        assert kfm(installation(tmp_path, server, text), "run", "--jobs", "1", "--quiet").code == 0
        assert (server.most, len(server.asked)) == (1, 3)


@pytest.mark.parametrize("jobs", ["0", "many", "٣"])
def test_a_number_of_jobs_that_is_none_is_refused(tmp_path: Path, jobs: str) -> None:
    with hosts(1) as server:
        site = installation(tmp_path, server, dataset("d", f"http://127.0.0.1:{server.port}/d.csv"))
        done = kfm(site, "run", f"--jobs={jobs}")
        assert done.code == BadInput.exit_code and "a whole number from 1 to 1000" in done.err
        assert server.asked == []


def mixed(server: Any) -> str:
    """A slow one that fails, one that another reads, one that reads it, a shared source, a local one, a failing one."""
    at = f"http://127.0.0.%d:{server.port}"
    server.bodies |= {"/b.csv": rows(2), "/shared.csv": rows(3), "/odd.csv": b"id,value\n1,2\n3\n4,5\n"}
    server.statuses["/c.csv"] = 503
    text = dataset("a-gone", f"{at % 1}/gone.csv") + dataset("b", f"{at % 2}/b.csv", "promote: auto")
    text += reading("b-again", "b") + dataset("c", f"{at % 3}/c.csv") + dataset("local", "local.csv")
    text += dataset("odd", f"{at % 4}/odd.csv")
    return text + dataset("s1", f"{at % 5}/shared.csv") + dataset("s2", f"{at % 5}/shared.csv")


def told(site: Path, jobs: str, *more: str) -> tuple[int, Any]:
    (site / "local.csv").write_bytes(rows(9))
    done = kfm(site, "run", "--json", "--jobs", jobs, *more, KFM_NOW=NOW)
    assert "Traceback" not in done.err
    found = steady(done.data)
    for receipt in found["receipts"]:
        if receipt["status"] != "SUCCESS":  # the id of a run that claimed nothing counts earlier entries of the ledger
            receipt.pop("run_id")
    effects = found.pop("effects")  # as they came; catalogs and pages name the place of a run in the ledger
    data = {each["target"]: each["digest"] for each in effects if each["target"].endswith((".csv", ".ndjson"))}
    return done.code, (found, data, sorted(each["method"] for each in effects))


@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_jobs_answer_as_one_after_another(tmp_path: Path, more: tuple[str, ...]) -> None:
    with hosts(5) as server:
        text = mixed(server)
        one = installation(tmp_path / "one", server, text, "publish: file:public")
        many = installation(tmp_path / "many", server, text, "publish: file:public")
        serial = told(one, "1", *more)
        asked, server.asked = sorted(server.asked), []
        assert told(many, "4", *more) == serial
        assert sorted(server.asked) == asked
        assert [host for host, path, _ in asked if path == "/shared.csv"] == ["127.0.0.5"] * 2
        if not more:
            assert [status for _, path, status in asked if path == "/shared.csv"] == [200, 304]
            names = [sorted(p.relative_to(s) for p in (s / "public" / "datasets").rglob("*")) for s in (one, many)]
            assert names[0] == names[1] != []
            refs = [kfm(s, "refs", "list", "--json").data for s in (one, many)]
            assert steady(refs[0]) == steady(refs[1])
        else:
            assert sorted(p.name for p in many.iterdir()) == ["kfm.yml", "local.csv"]


def test_the_exit_code_is_that_of_the_first_dataset_that_failed_not_of_the_quickest(tmp_path: Path) -> None:
    with hosts(2) as server:
        at = f"http://127.0.0.%d:{server.port}"
        server.statuses["/b.csv"] = 503
        site = installation(tmp_path, server, dataset("a", f"{at % 1}/a.csv") + dataset("b", f"{at % 2}/b.csv"))
        server.held = {"/a.csv"}
        run = begun(site, "run", "--jobs", "2", "--json")
        server.wait_until(1)
        with server.news:
            assert server.news.wait_for(lambda: ("127.0.0.2", "/b.csv", 503) in server.asked, 20)
        server.release()
        out, err = run.communicate(timeout=60)
        serial = kfm(site, "run", "--jobs", "1", "--json")
        assert run.returncode == serial.code != 0, err
        assert [each["dataset"] for each in json.loads(out)["receipts"]] == ["a", "b"]
        assert "a:" in err and "b:" in err


def test_a_dataset_waits_for_what_it_reads_and_for_what_shares_its_source(tmp_path: Path) -> None:
    with hosts(5) as server:
        config = load(str(installation(tmp_path, server, mixed(server)) / "kfm.yml"), {}).config
    names = ["b-again", "b", "s1", "local", "s2", "c", "b"]
    assert order_of(config, names) == [frozenset(each) for each in ((), (0,), (), (), (2,), (), (0, 1))]


def test_every_line_of_the_log_is_whole(tmp_path: Path) -> None:
    with hosts(5) as server:
        site = installation(tmp_path, server, mixed(server))
        (site / "local.csv").write_bytes(rows(9))
        done = kfm(site, "run", "--jobs", "8", "--verbose", KFM_LOG="jsonl")
        lines = [line for line in done.err.splitlines() if not line.startswith("kfm: ")]
        events = [json.loads(line) for line in lines]
        ended = [each["dataset_ids"][0] for each in events if each["event"] == "run.committed"]
        assert sorted(ended) == ["b", "b", "b-again", "local", "s1", "s2"]  # b is promoted, too


@pytest.mark.parametrize(("number", "code"), sampled([(signal.SIGINT, 130), (signal.SIGTERM, 143)]))
def test_a_signal_ends_jobs_that_wait_for_a_server(tmp_path: Path, number: int, code: int) -> None:
    with hosts(3) as server:
        at = f"http://127.0.0.%d:{server.port}"
        server.bodies = {f"/{n}.csv": rows(n) for n in range(3)}
        site = installation(tmp_path, server, "".join(dataset(f"d{n}", f"{at % (n + 1)}/{n}.csv") for n in range(3)))
        server.held = set(server.bodies)
        run = begun(site, "run", "--jobs", "3")
        server.wait_until(3)
        run.send_signal(number)
        _, err = run.communicate(timeout=15)  # the servers still hold their answers
        assert run.returncode == code
        assert "`kfm resume`" in err
        server.release()
        assert kfm(site, "run", "--quiet").code == 0


STEPS = """\
import os, time
from kfm import Output, Plan, Step, Updater

class Slow(Updater):
    id = "NAME"
    version = "1.0.0"
    def inputs(self, trigger, sources):
        return [sources.pin("body")]
    def plan(self, inputs):
        return Plan([Step(id=f"s{n}", key=(f"s{n}",), needs=(f"s{n-1}",) if n else ()) for n in range(10)])
    def perform(self, step, read):
        with open("seen", "a") as file:
            file.write("NAME\\n")
        while os.path.exists("hold"):
            time.sleep(0.02)
        return Output(step.id.encode(), media_type="text/plain")
"""


def held_steps(site: Path, *more: str) -> Path:
    text = "\n".join(["publish: noop", *more, "datasets:\n"])
    for name in ("one", "two"):
        (site / f"{name}.py").write_text(STEPS.replace("NAME", name))
        text += f"  {name}:\n    updater: {name}.py:Slow\n    sensitivity: public\n"
        text += "    sources: {body: {uri: body.txt, format: text}}\n".replace("body.txt", f"{name}.txt")
        (site / f"{name}.txt").write_text("x")
    (site / "kfm.yml").write_text(text)
    (site / "hold").write_text("")
    return site


def begun_steps(site: Path, run: subprocess.Popen[str]) -> None:
    while not (site / "seen").exists():
        assert run.poll() is None, run.communicate()


def test_the_first_signal_stops_at_the_next_step_and_resume_finishes(tmp_path: Path) -> None:
    site = held_steps(tmp_path)
    run = begun(site, "run", "--jobs", "2")
    begun_steps(site, run)
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    assert "stopping at the next step" in run.stderr.readline()
    assert run.poll() is None  # it waits for the step
    (site / "hold").unlink()
    _, err = run.communicate(timeout=30)
    assert run.returncode == 130 and "`kfm resume`" in err
    before = (site / "seen").read_text().split()
    assert len(before) < 20
    assert kfm(site, "resume", "--quiet").code == 0
    assert kfm(site, "run", "--quiet", "--jobs", "2").code == 0
    assert len((site / "seen").read_text().split()) <= 20 + 2  # only the steps in doubt are performed again


@pytest.mark.long
def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    site = held_steps(tmp_path)
    run = begun(site, "run", "--jobs", "2")
    begun_steps(site, run)
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    assert "once more ends at once" in run.stderr.readline()
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=15)  # the step is still held
    assert run.returncode == 130 and "`kfm resume`" in err
    (site / "hold").unlink()
    assert kfm(site, "resume", "--quiet").code == 0
