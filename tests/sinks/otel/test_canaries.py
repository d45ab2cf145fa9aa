"""Nothing of a protected table is in a span, an attribute, a log record, a metric, or what is sent with them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from kfm.app.session.session import open_session
from kfm.config import load
from kfm.delivery.run_times import run_times
from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.delivery.ledger_runs import public_runs
from tests.engine.protected.conftest import SAFE, SECRETS, dataset, hits, installation, label, labels, site  # noqa: F401
from tests.sinks.otel.receiver import Receiver, attributes, configured, receiving

KEY = "canary-of-a-key"


def texts(message: Any) -> str:
    """All text of a decoded message; ids and other bytes as hexadecimal digits."""
    return "\n".join(
        f"{span.name} {span.status.message} {attributes(span)} {span.trace_id.hex()} {span.span_id.hex()}"
        for resource in message.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    )


def about(receiver: Receiver, name: str) -> list[dict[str, Any]]:
    return [said for said in map(attributes, receiver.spans()) if said.get("kfm.dataset") == name]


def test_no_canary_reaches_a_collector(
    site: Kfm,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_KEY", KEY)
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
    with receiving() as receiver:
        settings = configured(receiver.url, ", headers: {X-Key: env:OTEL_KEY}")
        Path("kfm.yml").write_text(settings + Path("kfm.yml").read_text())
        said = [site("run", "sites"), by_order(site, SAFE, "promote", "sites"), site("run", "vault")]
        assert [answer.code for answer in said] == [0, 0, 0], said
        Path("sites.csv").write_bytes(raw.replace(b"trinomial", b"trinominal", 1))  # held: it names the columns
        said.append(site("run", "sites"))
        assert said[-1].code != 0
        Path("sites.csv").write_bytes(raw + raw.splitlines()[1] + b"\n")  # held: the same record twice
        said.append(site("run", "sites"))
        said.append(site("runs", "signals", "--metrics", "--otlp"))
        assert said[-1].code == 0 and receiver.of("/v1/metrics")
        said.append(site("sinks", "--json"))
        assert all(headers["x-key"] == KEY for headers in receiver.headers)
    out = "".join(answer.out + answer.err for answer in said)
    sent = b"\n".join(receiver.raw)
    told = "\n".join(texts(request) for request in receiver.of("/v1/traces")) + "".join(map(str, receiver.logs()))
    assert b"sites" in sent and about(receiver, "sites") and about(receiver, "vault")
    secrets = [*SECRETS, hashlib.sha256(raw).hexdigest(), "copy.csv", "sites.csv", "trinom", KEY]
    for secret in secrets:
        assert secret.lower().encode() not in sent.lower(), secret
        assert secret.lower() not in told.lower(), secret
    for secret in (*SECRETS, KEY):
        assert secret.lower() not in out.lower(), secret
    assert hits([*SECRETS, KEY]) == []
    failed = [each for each in about(receiver, "sites") if each["kfm.status"] == "FAILED"]
    assert failed and {each["error.type"] for each in failed} == {each["kfm.outcome"] for each in failed}


def test_a_run_about_protected_data_shows_no_step_and_no_count(site: Kfm) -> None:  # noqa: F811
    contract = "        contract: {partition_by: kind, columns: [{name: site}, {name: kind}]}\n"
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="public", updater="ByKind", more=contract))
    labels(label("dataset: sites"), label("source: sites.csv"))
    with receiving() as receiver:
        Path("kfm.yml").write_text(configured(receiver.url) + Path("kfm.yml").read_text())
        assert site("run", "sites").code == 0
        with open_session(load("kfm.yml", {}), mode="read") as session:
            *_, run = public_runs(session.state, session.objects)
            measured = session.state.ledger.telemetry(run.run_id)
            assert run.labels is not None and measured is not None and measured.artifact_count == 3
            assert run_times(session.state, run).steps == () and run_times(session.state, run).left == 0
    names = [span.name for span in receiver.spans()]
    assert "EXECUTE" in names and "step" not in names
    root = attributes(receiver.roots()[run.run_id])
    counts = ("outputs", "artifact", "bytes", "rows", "retry", "source_id", "partition", "correlation", "left_out")
    assert not [name for name in root if any(word in name for word in counts)]
    assert "kfm.duration_ms" in root
