"""Nothing of a protected table is in the graph, in the events, in what a sink complains of or in what it set aside."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.engine.protected.conftest import SAFE, SECRETS, dataset, hits, installation, label, labels, site  # noqa: F401
from tests.policy.servers import pretending, saying
from tests.sinks.graph.server import Neo4jServer

pytestmark = pytest.mark.xdist_group("neo4j")

EVERYTHING = (
    "MATCH (n) OPTIONAL MATCH (n)-[e]->() RETURN labels(n) AS l, properties(n) AS n, type(e) AS t, properties(e) AS e"
)


def test_no_canary_reaches_a_sink(
    site: Kfm,  # noqa: F811
    server: Neo4jServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEO4J_USERNAME", server.user)
    monkeypatch.setenv("NEO4J_PASSWORD", server.password)
    monkeypatch.setenv("OPENLINEAGE_KEY", "canary-of-a-key")
    installation(
        dataset("sites", "sites.csv", mask=True, sensitivity="public", updater="ByKind"),
        dataset("vault", "copy.csv"),
    )
    raw = Path("sites.csv").read_bytes()
    Path("copy.csv").write_bytes(raw)
    labels(
        label("dataset: sites"),
        label("source: sites.csv"),
        label("dataset: vault", "restricted"),
        label("source: copy.csv", "restricted"),
    )
    with pretending(saying(b"no: " + raw, 400)) as url:
        settings = (
            f"graph: {server.url}\nopenlineage: {{file: events.ndjson, url: '{url}', api_key: env:OPENLINEAGE_KEY}}\n"
        )
        Path("kfm.yml").write_text(settings + Path("kfm.yml").read_text())
        said = [site("run", "sites"), by_order(site, SAFE, "promote", "sites"), site("run", "vault")]
        assert [answer.code for answer in said] == [0, 0, 0], said
        Path("sites.csv").write_bytes(raw.replace(b"trinomial", b"trinominal", 1))
        said.append(site("run", "sites"))
        assert said[-1].code != 0
    told = json.dumps(server.ask(EVERYTHING))
    events = Path("events.ndjson").read_text()
    assert "kfm://ref/published/sites" in told and "kfm://withheld/" in told and '"GENERATED"' in told
    assert "sites" in events and server.ask("MATCH (r:Run {dataset: 'vault'}) RETURN count(r) AS n") == [{"n": 1}]
    out = "".join(answer.out + answer.err for answer in said)
    secrets = [*SECRETS, hashlib.sha256(raw).hexdigest(), "copy.csv", "sites.csv", "canary-of-a-key", server.password]
    for secret in secrets:
        assert secret.lower() not in (told + events).lower(), secret
    for secret in (*SECRETS, "canary-of-a-key", server.password):
        assert secret.lower() not in out.lower(), secret
    assert hits([*SECRETS, "canary-of-a-key", server.password]) == []
