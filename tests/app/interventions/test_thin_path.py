"""Publish, correct, roll back, stop, go on by a plan, lose the disk, restore: with a real Neo4j, a real Prometheus that
sees every act, and an alert that reaches a real Alertmanager."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.objectives.site import Site, promise
from tests.servers.prometheus import Prometheus, alertmanager_server, prometheus_server
from tests.sinks.graph.conftest import one_neo4j, server
from tests.sinks.graph.server import Neo4jServer

__all__ = ["one_neo4j", "server"]

pytestmark = pytest.mark.xdist_group("neo4j")
NAMES = ("kfm_ops_latency_ms", "kfm_ops_wal_entries", "kfm_ops_retry_count", "kfm_ops_care_flags")
SAID = """\
publish: file:public
catalog: file:catalog
accept_weak_storage: true
graph: {graph}
neo4j: {{user: "file:username", password: "file:password"}}
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources:
      rain: {{uri: rain.csv, format: csv, contract: {{columns: [{{name: n, type: integer}}]}}}}
    outputs: {{rain: {{from: rain}}}}
  sums:
    version: "1.0.0"
    title: Sums
    license: CC0-1.0
    sensitivity: public
    sources:
      rain: {{dataset: rain, format: csv, contract: {{columns: [{{name: n, type: integer}}]}}}}
    outputs: {{sums: {{from: rain}}}}
"""


@pytest.fixture
def site(tmp_path: Path, server: Neo4jServer) -> Iterator[Site]:
    found = Site(tmp_path / "site", SAID.format(graph=server.url))
    for name, text in (("username", server.user), ("password", server.password)):
        (found.folder / name).write_text(text)
        (found.folder / name).chmod(0o600)
    promise(found.folder, "rain-success", target=0.95)
    yield found


def title(site: Site) -> str:
    return str(json.loads((site.folder / "catalog/rain/collection.json").read_text())["title"])


def at(site: Site, ref: str) -> str:
    return next((row["version"] for row in json.loads(site.kfm("refs", "list", "--json")) if row["ref"] == ref), "")


def in_graph(server: Neo4jServer) -> dict[str, str]:
    """The version of each published ref, as the graph says it."""
    rows = server.ask(
        "MATCH (d:Dataset) WHERE d.key STARTS WITH 'kfm://ref/published/' RETURN d.key AS k, d.version AS v"
    )
    return {row["k"].removeprefix("kfm://ref/"): row["v"] or "" for row in rows}


def both(site: Site) -> dict[str, str]:
    return {ref: at(site, ref) for ref in ("published/rain", "published/sums")}


def saw(seen: Prometheus, op: str, least: int = 1) -> None:
    seen.wait_for(f'kfm_operations_total{{op="{op}",outcome="done"}}', lambda n: n >= least)


@pytest.mark.long
def test_every_act_is_seen_everywhere_and_a_backup_brings_it_back(
    site: Site, server: Neo4jServer, tmp_path: Path
) -> None:
    site.kfm("alerts", "write", "--to", "rules.yml")
    site.kfm("run")
    with (
        site.up() as target,
        alertmanager_server(tmp_path / "alerts") as alerts,
        prometheus_server(
            tmp_path / "prometheus", target, rules=site.folder / "rules.yml", alertmanager=alerts
        ) as seen,
    ):
        for name in ("rain", "sums"):
            site.kfm("publish", name)
        saw(seen, "promote", 2)
        first = both(site)
        assert in_graph(server) == first and title(site) == "Rain"

        site.kfm("hotfix", "new", "title", "rain", "--set", "title=Rain of a week")
        site.kfm("hotfix", "apply", "hotfixes/title.yml")
        saw(seen, "hotfix")
        assert title(site) == "Rain of a week" and in_graph(server) == first

        site.source("n\n1\n2\n")
        site.kfm("run")
        for name in ("rain", "sums"):
            site.kfm("publish", name)
        assert title(site) == "Rain of a week" and in_graph(server) == both(site) != first
        site.kfm("rollback", "rain", "--cascade")
        saw(seen, "rollback")
        assert both(site) == first == in_graph(server), "every read model went back in one commit"
        assert title(site) == "Rain of a week"

        site.kfm("freeze", "--level", "red")
        seen.wait_for('kfm_frozen{scope="global",level="red"}', lambda n: n == 1)
        site.source("n\n1\n2\n3\n")
        site.kfm("run", "rain", code=5)
        shown = site.kfm("thaw", "--catch-up", "none", "--dry-run")
        assert "published" not in shown and at(site, "switch/global") == "frozen"
        site.kfm("thaw", "--catch-up", "none")
        saw(seen, "thaw")
        assert json.loads(site.kfm("triggers", "list", "--json")) == [] and both(site) == first

        site.source("n\nx\n")
        site.kfm("run", "rain", code=3)
        alerts.wait_for("KfmErrorBudgetBurnt", slo="rain-success", severity="ticket")
        refused = site.kfm("hotfix", "revert", "title", code=4)
        assert "kfm slo override" in refused and title(site) == "Rain of a week"
        for name in NAMES:
            assert seen.query(f"sum({name})")[""] >= 0
        assert seen.query("kfm_ops_broken_links") == {"": 0}
        site.kfm("backup", "../backup")
        saw(seen, "backup")

    kept, shown_then = both(site), title(site)
    site.kfm("reconcile")
    shutil.rmtree(site.folder / ".kfm")
    site.kfm("restore", "../backup")
    assert both(site) == kept
    site.kfm("thaw")
    site.kfm("reconcile", "--repair")
    site.kfm("doctor", "--deep")
    assert title(site) == shown_then and in_graph(server) == kept
    assert json.loads(site.kfm("hotfix", "list", "--json"))[0]["state"] == "applied"
