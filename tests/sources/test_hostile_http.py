"""Whatever a server does, a fetch ends in time, in a typed error, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.errors import Denied, Refused, Unavailable
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.sources.http import HttpSource
from kfm.sources.http1 import Budget
from tests.sampling import stride
from tests.sources.fetching import NOW, fetch_in_time, request_for
from tests.sources.hostile_server import BEHAVIOURS, Behaviour, Exchange, Script, ScriptedServer
from tests.sources.memory_objects import MemoryObjects, digest_of


def test_the_catalogue_is_large_and_its_names_are_distinct() -> None:
    assert len(BEHAVIOURS) >= 100
    assert len({b.name for b in BEHAVIOURS}) == len(BEHAVIOURS)


@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda b: b.name)
def test_a_hostile_answer_ends_in_a_typed_error_and_nothing_is_acquired(behaviour: Behaviour) -> None:
    objects = MemoryObjects()
    with ScriptedServer(behaviour.script) as server:
        outcome = fetch_in_time(request_for(server, **behaviour.limits), objects)
    assert server.fired
    assert isinstance(outcome, behaviour.error), outcome
    assert type(outcome) in (Refused, Unavailable, Denied)
    assert "canary-secret" not in f"{outcome} {outcome.fields}"
    assert objects.open_stagings == 0
    assert objects.stored == {}


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [
        ("120", 120), ("0", 0), ("99999999999999999999999", 3600), ("86400", 3600), ("-5", None), ("soon", None),
        ("", None), ("1e9", None), ("Thu, 01 Jan 2026 00:01:00 GMT", 60), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Thu, 99 Jan 2026 00:00:00 GMT", None), ("\xb2", None),
        ("Thu, 1 Jan 2026 00:01:00 GMT", None), ("Thu, 01 Jan 2026 00:01:00 +0000", None),
        ("Thursday, 01-Jan-26 00:01:00 GMT", None), ("Thu, 29 Feb 2025 00:01:00 GMT", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_reported_but_never_for_longer_than_an_hour(
    status: int, retry_after: str, seconds: int | None
) -> None:
    objects = MemoryObjects()
    with ScriptedServer(lambda x: x.answer(f"{status} Later", f"Retry-After: {retry_after}")) as server:
        outcome = fetch_in_time(request_for(server), objects)
    assert server.fired
    assert isinstance(outcome, Unavailable)
    assert outcome.fields["retry_after_s"] == seconds
    assert outcome.fields["status"] == status


INTERNAL = [
    "127.0.0.1", "127.1", "127.0.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "0x7f.1", "0",
    "0.0.0.0", "localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
    "169.254.169.254", "[::ffff:169.254.169.254]", "[64:ff9b::169.254.169.254]", "[64:ff9b::7f00:1]",
    "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:1::1]", "[fec0::1]", "[fe80::1]", "[fd00:ec2::254]", "[ff02::1]",
    "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1",
    "198.18.0.1", "224.0.0.1", "255.255.255.255", "168.63.129.16", "[2001:db8::1]",
]  # fmt: skip


@pytest.mark.parametrize("host", INTERNAL)
def test_a_redirect_to_an_internal_address_is_denied_though_the_host_is_listed(host: str) -> None:
    dialled: list[str] = []

    def dial(address: str, port: int, seconds: float) -> Any:
        from kfm.sources.connect import dial_tcp

        dialled.append(f"{address}:{port}")
        return dial_tcp(address, port, seconds)

    objects = MemoryObjects()
    there = f"Location: http://{host}/latest/meta-data/"
    with ScriptedServer(lambda x: x.answer("302 Found", there)) as server:
        # The source itself is reached as "localhost:port", so that no spelling above is the allowed one.
        asked = request_for(
            server,
            uri=f"http://localhost:{server.port}/",
            allow=(f"localhost:{server.port}",),
            hosts=(host.strip("[]"),),
        )
        outcome = fetch_in_time(asked, objects, HttpSource(resolve=_only_ipv4_localhost, dial=dial))
    assert server.fired
    assert isinstance(outcome, Denied), outcome
    assert "the address is" in outcome.message
    assert dialled == [f"127.0.0.1:{server.port}"]
    assert objects.stored == {}


def _only_ipv4_localhost(host: str, port: int) -> list[str]:
    from kfm.sources.connect import system_resolve

    return ["127.0.0.1"] if host == "localhost" else system_resolve(host, port)


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "017700000001", "0x7f.1", "127.0.1"])
def test_an_old_spelling_of_an_allowed_address_is_judged_on_what_it_resolves_to(host: str) -> None:
    with ScriptedServer(lambda x: x.answer("200 OK", "Content-Length: 2", body=b"ok")) as server:
        outcome = fetch_in_time(request_for(server, uri=f"http://{host}:{server.port}/"), MemoryObjects())
        assert isinstance(outcome, Denied)
        assert "this machine" in outcome.message
        assert server.connections == 0


@pytest.mark.parametrize("order", [("93.184.216.34", "127.0.0.1"), ("127.0.0.1", "93.184.216.34")])
def test_one_internal_address_among_public_ones_condemns_the_name(order: tuple[str, ...]) -> None:
    dialled: list[str] = []
    source = HttpSource(resolve=lambda host, port: list(order), dial=lambda a, p, s: dialled.append(a))  # type: ignore[arg-type,return-value]
    outcome = fetch_in_time(FetchRequest(uri="http://data.example.org/"), MemoryObjects(), source)
    assert isinstance(outcome, Denied)
    assert dialled == []


def test_a_name_that_changes_its_address_between_check_and_use_is_asked_only_once() -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    asked: list[str] = []
    dialled: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    def dial(address: str, port: int, seconds: float) -> Any:
        dialled.append(address)
        raise ConnectionRefusedError

    request = FetchRequest(uri="http://rebind.example.org/")
    outcome = fetch_in_time(request, MemoryObjects(), HttpSource(resolve=resolve, dial=dial))
    assert isinstance(outcome, Unavailable)
    assert (asked, dialled) == (["rebind.example.org"], ["93.184.216.34"])


def test_a_name_that_changes_its_address_between_two_hops_is_denied_at_the_second() -> None:
    answers = [["93.184.216.34"], ["127.0.0.1"]]
    with ScriptedServer(lambda x: x.answer("302 Found", "Location: /again")) as server:

        def dial(address: str, port: int, seconds: float) -> Any:
            from kfm.sources.connect import dial_tcp

            return _Elsewhere(dial_tcp("127.0.0.1", server.port, seconds), (address, port))

        source = HttpSource(resolve=lambda host, port: answers.pop(0), dial=dial)
        outcome = fetch_in_time(FetchRequest(uri="http://rebind.example.org/"), MemoryObjects(), source)
    assert server.fired
    assert server.connections == 1
    assert answers == []
    assert isinstance(outcome, Denied)


class _Elsewhere:
    """A socket that claims another peer: stands for a public server in a test without a network."""

    def __init__(self, sock: Any, peer: tuple[str, int]) -> None:
        self._sock = sock
        self._peer = peer

    def getpeername(self) -> tuple[str, int]:
        return self._peer

    def __enter__(self) -> _Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)


def test_a_socket_whose_other_end_is_not_the_checked_address_is_denied() -> None:
    with ScriptedServer(lambda x: x.answer("200 OK", "Content-Length: 2", body=b"ok")) as server:

        def dial(address: str, port: int, seconds: float) -> Any:
            from kfm.sources.connect import dial_tcp

            dialled.append(address)
            return dial_tcp("127.0.0.1", server.port, seconds)

        dialled: list[str] = []
        source = HttpSource(resolve=lambda host, port: ["93.184.216.34"], dial=dial)
        objects = MemoryObjects()
        outcome = fetch_in_time(FetchRequest(uri="http://data.example.org/"), objects, source)
    assert dialled == ["93.184.216.34"]
    assert all(x.path == "" for x in server.exchanges)  # nothing was asked
    assert isinstance(outcome, Denied)
    assert objects.stored == {}


def test_a_name_server_that_never_answers_is_left_behind() -> None:
    begun, end = threading.Event(), threading.Event()

    def resolve(host: str, port: int) -> list[str]:
        begun.set()
        end.wait(10)
        return []

    request = FetchRequest(uri="http://slow.example.org/", timeout_ms=200, total_ms=400)
    outcome = fetch_in_time(request, MemoryObjects(), HttpSource(resolve=resolve))
    assert begun.is_set()
    assert isinstance(outcome, Unavailable)
    end.set()


@pytest.mark.parametrize(
    ("timeout_ms", "waited_ms", "said"),
    [
        (300, 300, "was silent for 300 ms"),
        (300, 700, "was not fetched within 700 ms"),
        (20_000, 699, "was not fetched within 700 ms"),
    ],
)
def test_the_limit_that_ran_out_is_named_also_where_a_timer_was_early(
    timeout_ms: int, waited_ms: int, said: str
) -> None:
    now = 0.0
    budget = Budget(timeout_ms=timeout_ms, total_ms=700, wire_bytes=1, monotonic=lambda: now)
    assert budget.patience() == min(timeout_ms, 700) / 1000
    now = waited_ms / 1000
    with pytest.raises(Unavailable, match=said):
        raise budget.silence()


def test_a_name_without_an_address_is_unavailable() -> None:
    def resolve(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    request = FetchRequest(uri="http://nowhere.example.org/")
    outcome = fetch_in_time(request, MemoryObjects(), HttpSource(resolve=resolve))
    assert isinstance(outcome, Unavailable)
    outcome = fetch_in_time(request, MemoryObjects(), HttpSource(resolve=lambda host, port: []))
    assert isinstance(outcome, Unavailable)


def test_another_port_of_a_public_address_is_denied() -> None:
    source = HttpSource(resolve=lambda host, port: ["93.184.216.34"])
    outcome = fetch_in_time(FetchRequest(uri="http://data.example.org:6379/"), MemoryObjects(), source)
    assert isinstance(outcome, Denied)
    assert "6379" in outcome.message


def test_an_answer_cut_by_the_disk_is_not_mistaken_for_a_fault_of_the_source() -> None:
    class FullDisk(MemoryObjects):
        def stage(self) -> Any:
            staging = super().stage()

            def write(chunk: bytes) -> None:
                raise OSError(28, "No space left on device")

            staging.write = write  # type: ignore[method-assign]
            return staging

    objects = FullDisk()
    with ScriptedServer(lambda x: x.answer("200 OK", "Content-Length: 2", body=b"ok")) as server:
        outcome = fetch_in_time(request_for(server), objects)
    assert server.fired
    assert isinstance(outcome, OSError)
    assert objects.open_stagings == 0


LARGE = 400 << 20


def large_body(x: Exchange) -> None:
    x.answer("200 OK", f"Content-Length: {LARGE}")
    send_large(x)


def large_chunk(x: Exchange) -> None:
    x.send(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{LARGE:x}\r\n")
    send_large(x)
    x.send("\r\n0\r\n\r\n")


def send_large(x: Exchange) -> None:
    piece = bytes(1 << 20)
    for _ in range(LARGE // len(piece)):
        x.send(piece)


def test_large_and_hostile_bodies_stay_within_256_mib_of_memory() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell how much memory a process held")
    root = Path(__file__).parents[2]
    probe = subprocess.Popen(
        [sys.executable, "-m", "tests.sources.memory_probe"],
        cwd=root, env={**os.environ, "PYTHONPATH": f"{root / 'src'}"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert probe.stdin is not None and probe.stdout is not None

    def fetched(script: Script, **limits: Any) -> list[str]:
        """How it ended, and the most memory until then."""
        with ScriptedServer(script) as server:
            probe.stdin.write(msgspec.json.encode(request_for(server, **limits)) + b"\n")
            probe.stdin.flush()
            answer = probe.stdout.readline().decode().split()
        assert server.fired
        return answer

    with probe:
        patient = {"max_bytes": 1 << 30, "timeout_ms": 60_000, "total_ms": 600_000}
        for script in (large_body, large_chunk):
            size, mib = fetched(script, **patient)
            assert int(size) == LARGE and int(mib) <= 256, script
        for behaviour in BEHAVIOURS[:: stride(4)]:
            error, mib = fetched(behaviour.script, **behaviour.limits)
            assert error == behaviour.error.__name__ and int(mib) <= 256, (behaviour.name, error, mib)
        probe.stdin.close()
        size, mib = probe.stdout.readline().decode().split()
        assert int(mib) > int(size) >> 20 == 256, "it would not have been noticed"


def test_a_known_source_that_turns_hostile_changes_nothing_of_what_was_known() -> None:
    body = b"station,name\n1,Topeka\n"
    objects = MemoryObjects()
    digest = objects.put(body)
    for name in ("answers_404", "answers_410", "empty_200", "closes_before_the_length", "gzip_cut_off", "answers_503"):
        behaviour = next(b for b in BEHAVIOURS if b.name == name)
        with ScriptedServer(behaviour.script) as server:
            request = request_for(server)
            known = Checkpoint(
                uri=request.uri, content_hash=digest, size=len(body), media_type="text/csv", etag='"a"',
                last_modified="", fetched_ms=NOW - 1000, checked_ms=NOW - 1000,
            )  # fmt: skip
            outcome = fetch_in_time(request, objects, known=known)
        assert server.fired
        assert isinstance(outcome, behaviour.error)
        assert objects.stored == {digest_of(body): body}


def test_a_proxy_of_the_environment_is_never_spoken_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(x: Exchange) -> None:
        x.answer("200 OK", "Content-Length: 2", body=b"ok")

    with ScriptedServer(serve) as proxy, ScriptedServer(serve) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{proxy.here}")
        outcome = fetch_in_time(request_for(server), MemoryObjects())
        assert isinstance(outcome, Fetched)
        assert (proxy.connections, server.connections) == (0, 1)
