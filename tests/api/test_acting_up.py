"""`kfm up --listen` carries out what is requested of it, also while a run is at work."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from typing import Any

import pytest

from kfm.app.session.session import open_session
from kfm.config import load
from tests.api.test_up_serves import up

pytestmark = [pytest.mark.usefixtures("clean"), pytest.mark.long]
SLOW = """\
import time

from kfm import Output, Plan, Step, Updater


class Slow(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id=f"step-{n}", key=(str(n),)) for n in range(200)])

    def perform(self, step, read):
        time.sleep(0.3)
        return Output.csv(read.csv(0))
"""
CONFIG = """\
accept_weak_storage: true
datasets:
  slow:
    title: Slow
    license: CC0-1.0
    sensitivity: public
    updater: slow.py:Slow
    sources: {rows: {uri: rows.csv, format: csv, poll_s: 0}}
"""


class Caller:
    def __init__(self, port: int) -> None:
        self.port = port
        self.own = {"Origin": f"http://127.0.0.1:{port}", "KFM-CSRF": self.ask("/v1/me")["csrf"]}

    def ask(self, path: str, body: Any = None, key: str = "") -> Any:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            if body is None:
                line.request("GET", path)
            else:
                named = {**self.own, "Content-Type": "application/json", "Idempotency-Key": key}
                line.request("POST", path, json.dumps(body), named)
            return json.loads(line.getresponse().read())
        finally:
            line.close()

    def until(self, path: str, state: str) -> Any:
        for _ in range(600):
            found = self.ask(path)
            if found["state"] == state:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{path} is not {state}: {found}")


def test_a_freeze_does_not_wait_for_the_run_that_it_stops(tmp_path: Path) -> None:
    (tmp_path / "kfm.yml").write_text(CONFIG)
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "rows.csv").write_text("id\na\n")
    with up(tmp_path) as port:
        caller = Caller(port)
        run = caller.ask("/v1/operations", {"operation": "run", "dataset": "slow", "reason": "a test"}, "1")
        caller.until(run["see"], "running")
        freeze = {"operation": "freeze", "dataset": "slow", "reason": "a test"}
        assert caller.until(caller.ask("/v1/operations", freeze, "2")["see"], "done")["outcome"] == "done"
        assert caller.ask(run["see"])["state"] != "done", "the run was at work when the freeze ended"
    with open_session(load(str(tmp_path / "kfm.yml"), {}), mode="read") as session:
        assert session.state.refs.at("switch/dataset/slow") == "frozen"
        assert not session.state.refs.at("processed/slow")
