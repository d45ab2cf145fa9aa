"""An installation with one dataset, as a person types commands at it, and `kfm up` next to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

SAID = """\
publish: file:public
catalog: ""
pages: false
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources:
      rain: {uri: rain.csv, format: csv, contract: {columns: [{name: n, type: integer}]}}
    outputs: {rain: {from: rain}}
"""


class Site:
    def __init__(self, folder: Path, said: str = SAID) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kfm.yml").write_text(said)
        self.source("n\n1\n")

    def source(self, text: str) -> None:
        (self.folder / "rain.csv").write_text(text)

    def environment(self) -> dict[str, str]:
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("KFM_")}
        return {**inherited, "KFM_ACTOR": "tester", "KFM_REASON": "a test"}

    def kfm(self, *words: str, code: int = 0) -> str:
        """Type a command; return its stdout."""
        done = subprocess.run(
            [sys.executable, "-m", "kfm", *words],
            cwd=self.folder, env=self.environment(), check=False, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr if code else done.stdout

    @contextmanager
    def up(self, *flags: str) -> Iterator[str]:
        """`kfm up --listen` at work; yields host:port."""
        words = [sys.executable, "-m", "kfm", "--json", "up", "--listen", "127.0.0.1:0", *flags]
        with (self.folder / "up.log").open("wb") as log:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith('{"listening"'), (line, (self.folder / "up.log").read_text())
            yield json.loads(line)["listening"].partition("://")[2]
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (self.folder / "up.log").read_text()
        finally:
            process.kill()
            process.communicate()


def scraped(target: str) -> str:
    with urlopen(f"http://{target}/metrics", timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        return str(answer.read(), "utf-8")


def slo(
    name: str,
    indicator: str = "success",
    *,
    dataset: str = "rain",
    target: float = 0.75,
    value: float | None = None,
    window: str = "30d",
    says: str = "",
) -> str:
    """An OpenSLO document, as JSON, which is YAML."""
    source = {"metricSource": {"type": "kfm", "spec": {"indicator": indicator, "dataset": dataset}}}
    ratio = {"ratioMetric": {"counter": True, "good": source, "total": source}}
    objective = {"target": target} if value is None else {"target": target, "op": "lte", "value": value}
    said = {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": name, "displayName": says, "annotations": {"why": says}},
        "spec": {
            "service": dataset,
            "description": says,
            "indicator": {
                "metadata": {"name": name},
                "spec": ratio if indicator == "success" else {"thresholdMetric": source},
            },
            "timeWindow": [{"duration": window, "isRolling": True}],
            "budgetingMethod": "Timeslices" if indicator == "freshness" else "Occurrences",
            "objectives": [objective],
        },
    }
    return json.dumps(said, indent=2)


def promise(folder: Path, name: str, indicator: str = "success", **more: Any) -> None:
    """Write an objective into the folder of objectives."""
    (folder / "slos").mkdir(exist_ok=True)
    (folder / "slos" / f"{name}.yml").write_text(slo(name, indicator, **more))
