"""What `otel` may say: an address without secrets in it, references, and signals that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.config import load
from kfm.errors import BadInput
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.policy.servers import free_port

DATASETS = "datasets: {}\n"


def loaded(folder: Path, text: str) -> None:
    (folder / "kfm.yml").write_text(DATASETS + text)
    load(str(folder / "kfm.yml"), {})


@pytest.mark.parametrize(
    "said",
    [
        "endpoint: https://otel.example.org",
        "endpoint: https://otel.example.org:4318/tenant/",
        "endpoint: http://127.0.0.1:4318",
        "endpoint: env:OTEL_EXPORTER_OTLP_ENDPOINT, signals: [traces]",
        "endpoint: https://otel.example.org, headers: {Authorization: env:A, x-tenant: file:tenant}, timeout_s: 2.5",
        "endpoint: ''",
    ],
)
def test_a_collector_is_taken(tmp_path: Path, said: str) -> None:
    loaded(tmp_path, f"otel: {{{said}}}\n")


def test_a_host_that_is_named_may_be_reached_in_the_open(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"otel\.endpoint is not encrypted"):
        loaded(tmp_path, "otel: {endpoint: 'http://otel.internal:4318'}\n")
    loaded(tmp_path, "otel: {endpoint: 'http://otel.internal:4318'}\nnetwork: {allow: ['otel.internal:4318']}\n")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("endpoint: 'https://user:canary@otel.example.org'", "otel.endpoint is not an address"),
        ("endpoint: 'https://otel.example.org?key=canary'", "otel.endpoint is not an address"),
        ("endpoint: 'grpc://canary.example.org'", "otel.endpoint is not an address"),
        ("endpoint: 'http://canary.example.org'", "otel.endpoint is not encrypted"),
        ("endpoint: ['canary']", "otel.endpoint"),
        ("signals: []", "otel.signals names no signal"),
        ("signals: [traces, traces]", "otel.signals names a signal twice"),
        ("signals: [spans]", "otel.signals"),
        ("headers: {Authorization: Bearer canary}", "otel.headers.Authorization is not a reference"),
        ("headers: {Authorization: 'env:'}", "otel.headers.Authorization is not a reference"),
        ("headers: {'a b': env:CANARY}", "is not a valid name"),
        ("headers: {X-Key: env:A, x-key: env:B}", "is given twice"),
        ("headers: {Content-Encoding: env:A}", "is a header that KFM sets itself"),
        ("headers: {host: env:A}", "is a header that KFM sets itself"),
        ("timeout_s: 0", "otel.timeout_s"),
        ("protocol: grpc", "otel"),
    ],
)
def test_a_mistake_is_refused_without_being_shown(tmp_path: Path, said: str, told: str) -> None:
    with pytest.raises(BadInput, match=told) as refused:
        loaded(tmp_path, f"otel: {{{said}}}\n")
    assert "canary" not in str(refused.value)


GAUGES = ("init", "gauges")


@pytest.fixture
def gauges(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:  # noqa: F811
    """The example installation, and the command line in its folder."""
    assert kfm(*GAUGES).code == 0
    monkeypatch.chdir("gauges")
    return kfm


def add(text: str) -> None:
    with Path("kfm.yml").open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("settings", "words", "told"),
    [
        ("", ("--metrics", "--otlp"), "no collector is configured"),
        ("otel: {endpoint: 'http://127.0.0.1:1', signals: [logs]}\n", ("--metrics", "--otlp"), "leaves metrics out"),
        ("otel: {endpoint: 'http://127.0.0.1:1'}\n", ("--otlp",), "--otlp sends metrics"),
        ("otel: {endpoint: 'http://127.0.0.1:1'}\n", ("--metrics", "--otlp", "--to", "a"), "--otlp sends metrics"),
        ("otel: {endpoint: env:NOT_SET_ANYWHERE}\n", ("--metrics", "--otlp"), "what env:NOT_SET_ANYWHERE holds"),
    ],
)
def test_metrics_without_a_collector_for_them_are_refused(
    gauges: Kfm, settings: str, words: tuple[str, ...], told: str
) -> None:
    add(settings)
    answer = gauges("runs", "signals", *words)
    assert answer.code in (3, 4) and told in answer.err and "Traceback" not in answer.err


def test_a_collector_that_does_not_answer_is_named_with_its_setting(gauges: Kfm) -> None:
    add(f"otel: {{endpoint: 'http://127.0.0.1:{free_port()}'}}\n")
    answer = gauges("runs", "signals", "--metrics", "--otlp")
    assert answer.code == 69 and "does not answer" in answer.err and "otel.endpoint" in answer.err


def test_a_header_that_is_no_header_stops_the_sink_and_is_not_shown(
    gauges: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_KEY", "canary\r\nX: canary")
    add("otel: {endpoint: 'http://127.0.0.1:1', headers: {X-Key: env:OTEL_KEY}}\n")
    assert gauges("run").code == 0
    answer = gauges("sinks")
    assert answer.code == 69 and "is no header" in answer.out and "canary" not in answer.out + answer.err
