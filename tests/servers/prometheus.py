"""A Prometheus and an Alertmanager of Debian on free ports of this machine, in a folder that ends with the test."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.abilities import lacking
from tests.servers.postgres import free_port

WAIT_S = 60.0


def program(*names: str) -> str:
    """The first of these programs that is here."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        lacking(f"no {names[0]} on this machine")
    return found


def promtool(*words: str, text: str | None = None, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program("promtool"), *words], input=text, cwd=at, check=False, capture_output=True, text=True, timeout=60
    )


class _Server:
    """One process with an HTTP interface on 127.0.0.1, killed at the end."""

    def __init__(self, folder: Path, words: Sequence[str], port: int) -> None:
        self.port = port
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen([*words], cwd=folder, stdout=log, stderr=log)
        self.until(lambda: self._get("/-/ready"), "it is ready")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _get(self, path: str) -> bytes:
        with urlopen(f"{self.url}{path}", timeout=5) as answer:
            return bytes(answer.read()) or b"ok"

    def get(self, path: str, **query: str) -> Any:
        return json.loads(self._get(f"{path}?{urlencode(query)}" if query else path))

    def until(self, what: Callable[[], object], said: str, seconds: float = WAIT_S) -> Any:
        """Wait until this is true; return what it gave."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self._process.poll() is None, self.log.read_text(errors="replace")[-2000:]
            with suppress(OSError, ValueError):
                if found := what():
                    return found
            time.sleep(0.1)
        raise AssertionError(f"never: {said}; {self.log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Alertmanager(_Server):
    """Receives alerts and sends them nowhere."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        said = "route: {receiver: nobody, group_wait: 0s, group_interval: 1s}\nreceivers: [{name: nobody}]\n"
        (folder / "alertmanager.yml").write_text(said)
        port = free_port()
        name = program("prometheus-alertmanager", "alertmanager")
        words = [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--storage.path=data"]
        super().__init__(folder, [name, "--config.file=alertmanager.yml", *words], port)

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that it has now, as its API tells them."""
        found: list[dict[str, Any]] = self.get("/api/v2/alerts")
        return found

    def wait_for(self, name: str, **labels: str) -> dict[str, str]:
        """Wait for an alert of this name that has these labels; return all its labels."""

        def found() -> dict[str, str] | None:
            every: list[dict[str, str]] = [each["labels"] for each in self.alerts()]
            return next((each for each in every if {"alertname": name, **labels}.items() <= each.items()), None)

        come: dict[str, str] = self.until(found, f"alert {name} has come with {labels}")
        return come


class Prometheus(_Server):
    """Scrapes and judges its rules each second."""

    def __init__(self, folder: Path, target: str, *, rules: Path | None, alertmanager: Alertmanager | None) -> None:
        folder.mkdir(parents=True)
        said: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [{"job_name": "kfm", "static_configs": [{"targets": [target]}]}],
        }
        if rules is not None:
            said["rule_files"] = [str(rules)]
        if alertmanager is not None:
            targets = [{"targets": [f"127.0.0.1:{alertmanager.port}"]}]
            said["alerting"] = {"alertmanagers": [{"static_configs": targets}]}
        (folder / "prometheus.yml").write_text(json.dumps(said))
        port = free_port()
        words = [f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.path=data", "--web.enable-lifecycle"]
        super().__init__(folder, [program("prometheus"), "--config.file=prometheus.yml", *words], port)

    def query(self, expr: str) -> dict[str, float]:
        """The values of an instant query, each under its labels in order, without those that Prometheus adds."""
        found = self.get("/api/v1/query", query=expr)
        assert found["status"] == "success", found
        values = {}
        for each in found["data"]["result"]:
            labels = {k: v for k, v in each["metric"].items() if k not in ("__name__", "instance", "job")}
            values[",".join(f"{k}={v}" for k, v in sorted(labels.items()))] = float(each["value"][1])
        return values

    def wait_for(self, expr: str, is_right: Callable[[float], bool], seconds: float = WAIT_S) -> float:
        """Wait until the sum of an instant query is right; return it."""

        def found() -> tuple[float] | None:
            values = self.query(expr)
            return (sum(values.values()),) if values and is_right(sum(values.values())) else None

        (value,) = self.until(found, expr, seconds)
        return float(value)

    def firing(self) -> list[str]:
        """The names of the alerts that fire."""
        found = self.get("/api/v1/alerts")["data"]["alerts"]
        return sorted(each["labels"]["alertname"] for each in found if each["state"] == "firing")


@contextmanager
def alertmanager_server(folder: Path) -> Iterator[Alertmanager]:
    server = Alertmanager(folder)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def prometheus_server(
    folder: Path, target: str, *, rules: Path | None = None, alertmanager: Alertmanager | None = None
) -> Iterator[Prometheus]:
    """Scrape /metrics of `target` (host:port) each second, judge the rules of a file and tell an Alertmanager."""
    server = Prometheus(folder, target, rules=rules, alertmanager=alertmanager)
    try:
        yield server
    finally:
        server.kill()
