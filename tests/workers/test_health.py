"""Probes and Prometheus over HTTP: short answers, on this machine only unless the operator says otherwise."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kfm.errors import BadInput, Refused
from kfm.workers import health
from kfm.workers.health import Health, check_listen, serving


class Answers:
    alive = True
    ready = True


@pytest.fixture
def port() -> Iterator[int]:
    Answers.alive = Answers.ready = True
    answers = Health(
        live=lambda: (Answers.alive, {"alive": Answers.alive}),
        ready=lambda: (Answers.ready, {"ready": Answers.ready, "frozen": True}),
        metrics=lambda: "kfm_workers 1\n",
    )
    with serving(("127.0.0.1", 0), answers) as port:
        yield port


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, body)
    answer = connection.getresponse()
    found = answer.status, answer.headers, answer.read()
    connection.close()
    return found


def test_probes_are_answered_with_a_status_and_json(port: int) -> None:
    status, headers, body = ask(port, "/livez")
    assert (status, json.loads(body), headers["Content-Type"]) == (200, {"alive": True}, "application/json")
    assert json.loads(ask(port, "/readyz?verbose")[2]) == {"ready": True, "frozen": True}
    Answers.alive = Answers.ready = False
    assert (ask(port, "/livez")[0], ask(port, "/readyz")[0]) == (503, 503)


def test_metrics_have_the_type_that_prometheus_expects(port: int) -> None:
    status, headers, body = ask(port, "/metrics")
    assert (status, body) == (200, b"kfm_workers 1\n")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_there_is_nothing_else(port: int) -> None:
    assert ask(port, "/")[0] == ask(port, "/../etc/passwd")[0] == 404
    assert ask(port, "/livez", "POST", b"x")[0] == 501
    assert ask(port, "/livez", "DELETE")[0] == 501
    status, headers, body = ask(port, "/livez", "HEAD")
    assert (status, body) == (200, b"")
    assert headers["Server"] == "kfm"


def test_a_server_survives_what_is_no_http(port: int) -> None:
    for sent in (
        b"",
        b"\x16\x03\x01garbage\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(sent)
    assert ask(port, "/livez")[0] == 200


def test_silent_clients_do_not_keep_the_others_out_for_ever(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health._Handler, "timeout", 0.2)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(health.MOST_AT_ONCE + 4)]
    for each in silent[-4:]:
        each.settimeout(20)
        assert each.recv(1) == b""  # too many at once: hung up
    for each in silent[:-4]:
        each.settimeout(20)
        assert each.recv(1) == b""  # silent for too long
    assert ask(port, "/livez")[0] == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.9.9.9"])
def test_this_machine_may_always_be_listened_on(host: str) -> None:
    check_listen(host, behind_proxy=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", ""])
def test_another_address_needs_a_flag(host: str) -> None:
    with pytest.raises(Refused, match="--behind-proxy"):
        check_listen(host, behind_proxy=False)
    check_listen(host, behind_proxy=True)


def test_a_port_that_is_taken_is_one_line(port: int) -> None:
    with (
        pytest.raises(BadInput, match="address already in use"),
        serving(("127.0.0.1", port), Health(*[lambda: ""] * 3)),
    ):  # type: ignore[arg-type]
        pass
