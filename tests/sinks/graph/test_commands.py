"""Commands while the graph is unreachable: runs go on, one line says what was not delivered, `kfm sinks` says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment, ran, started  # noqa: F401
from tests.sinks.graph.server import free_port
from tests.sinks.graph.test_lying_servers import serving, speaks_http

PASSWORD = "canary-of-a-password"


def with_graph(port: int) -> str:
    settings, url = Path("kfm.yml"), f"bolt://127.0.0.1:{port}"
    text = "\n".join(line for line in settings.read_text().splitlines() if not line.startswith("graph:"))
    settings.write_text(f"{text}\ngraph: {url}\n")
    return url


def test_a_graph_that_is_not_there_fails_no_run_and_is_reported(
    ran: Kfm,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", "neo4j")
    url = with_graph(free_port())
    answer = ran("run")
    assert answer.code == 0 and "NEO4J_PASSWORD" in answer.err, answer.err  # nobody set it
    monkeypatch.setenv("NEO4J_PASSWORD", PASSWORD)
    for _ in range(2):
        told = ran("sinks", "retry", "graph")
        assert told.code == 69 and url in told.err + told.out
        assert PASSWORD not in told.err + told.out and "Traceback" not in told.err
    with serving(speaks_http) as (port, heard):
        url = with_graph(port)
        told = ran("sinks", "retry", "graph")
        assert heard and told.code == 69 and url in told.err + told.out
    shown = ran("sinks", "--json")
    assert shown.code == 69 and PASSWORD not in shown.out
    (sink,) = (one for one in shown.data if one["sink"] == "graph")
    assert sink["cursor"] == 0 and sink["lag"] > 0 and not sink["dead"]
    verdict = {one["check"]: one for one in ran("doctor", "--json").data["checks"]}["sink.graph"]
    assert verdict["ok"] is False and url in verdict["found"] and "kfm sinks retry graph" in verdict["why"]
    assert PASSWORD not in str(verdict)
    with_graph(free_port())
    settings = Path("kfm.yml")
    settings.write_text("\n".join(line for line in settings.read_text().splitlines() if not line.startswith("graph:")))
    assert "sink.graph" not in ran("doctor").out, "nobody is told who is not in the configuration"
