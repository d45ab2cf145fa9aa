"""Servers that are dead, hang, speak nonsense or hang up: one clear line, and nothing half delivered."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from kfm.errors import Unavailable
from kfm.projections import cypher
from kfm.sinks.neo4j import GraphSink
from tests.sinks.graph.crowd import a_run, crowd, letters
from tests.sinks.graph.server import Neo4jServer, free_port
from tests.sinks.graph.test_neo4j import holds, sink_of

PASSWORD = "canary-of-a-password"
HANDSHAKE = b"\x00\x00\x04\x05"  # Bolt 5.4, which the driver offers

Behaviour = Callable[[socket.socket], None]


@contextmanager
def serving(behaves: Behaviour) -> Iterator[tuple[int, list[bytes]]]:
    """A port where every connection is treated so; and what was first said on each."""
    heard: list[bytes] = []
    open_ones: list[socket.socket] = []

    def treat(connection: socket.socket) -> None:
        with suppress(OSError):
            heard.append(connection.recv(1 << 16))
            behaves(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                open_ones.append(connection)
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1], heard
        listening.shutdown(socket.SHUT_RDWR)
    for connection in open_ones:
        connection.close()


def hangs(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    threading.Event().wait(60)


def begins_and_hangs(connection: socket.socket) -> None:
    connection.sendall(HANDSHAKE)
    while connection.recv(1 << 16):
        pass


def hangs_up(connection: socket.socket) -> None:
    connection.close()


def begins_and_hangs_up(connection: socket.socket) -> None:
    connection.sendall(HANDSHAKE)
    connection.recv(1 << 16)
    connection.close()


def speaks_http(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def speaks_nonsense(connection: socket.socket) -> None:
    connection.sendall(HANDSHAKE)
    connection.recv(1 << 16)
    connection.sendall(bytes(range(256)) * 64)
    connection.close()


def answers_nonsense(connection: socket.socket) -> None:
    """Well framed, and no answer: a list where a message belongs, over and over."""
    connection.sendall(HANDSHAKE)
    while connection.recv(1 << 16):
        connection.sendall(b"\x00\x02\x91\x01\x00\x00" * 8)


def says_an_error_of_its_own(connection: socket.socket, self_possessed: bool = True) -> None:
    """FAILURE {code: …, message: …}: its words are not ours to tell."""
    connection.sendall(HANDSHAKE)
    connection.recv(1 << 16)
    message = f"canary {PASSWORD}".encode()
    code = b"Neo.ClientError.Statement.SyntaxError" if self_possessed else b"canary\n" + message
    body = (
        b"\xb1\x7f\xa2\x84code\xd0" + bytes([len(code)]) + code + b"\x87message\xd0" + bytes([len(message)]) + message
    )
    connection.sendall(len(body).to_bytes(2, "big") + body + b"\x00\x00")
    time.sleep(0.2)
    connection.close()


def says_an_error_with_another_code(connection: socket.socket) -> None:
    says_an_error_of_its_own(connection, self_possessed=False)


LIARS = [
    says_an_error_of_its_own,
    says_an_error_with_another_code,
    hangs,
    begins_and_hangs,
    hangs_up,
    begins_and_hangs_up,
    speaks_http,
    speaks_nonsense,
    answers_nonsense,
]


def sink_at(port: int, scheme: str = "neo4j") -> GraphSink:
    url = f"{scheme}://127.0.0.1:{port}"
    known = ("neo4j", PASSWORD)
    return GraphSink(url, lambda: known, database="neo4j", constraints=cypher.CONSTRAINTS, seconds=0.5)


@pytest.mark.parametrize("scheme", ["neo4j", "bolt"])
@pytest.mark.parametrize("liar", LIARS, ids=lambda liar: str(liar.__name__))
def test_a_server_that_lies_is_a_server_that_is_not_there(
    liar: Behaviour, scheme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(liar) as (port, heard):
        with pytest.raises(Unavailable) as unavailable:
            sink_at(port, scheme).send(letters([a_run(1)]))
    assert heard, "nobody asked it"
    told = str(unavailable.value)
    assert f"{scheme}://127.0.0.1:{port}" in told and "canary" not in told and "\n" not in told
    assert unavailable.value.exit_code == 69
    said = capfd.readouterr()
    assert said.out + said.err == ""


def test_nobody_is_at_home() -> None:
    port = free_port()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port}") as unavailable:
        sink_at(port).send(letters([a_run(1)]))
    assert unavailable.value.exit_code == 69 and "canary" not in str(unavailable.value)


class Cutting:
    """Between us and the server: lets so many bytes through, then is silent or hangs up."""

    def __init__(self, to: int, most: int, *, hang: bool) -> None:
        self.to, self.most, self.hang, self.passed, self.fired = to, most, hang, 0, False

    def __call__(self, connection: socket.socket, first: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.to)) as behind:
            threading.Thread(target=self._back, args=(behind, connection), daemon=True).start()
            chunk = first
            while chunk:
                self.passed += len(chunk)
                if self.passed > self.most:
                    self.fired = True
                    if self.hang:
                        threading.Event().wait(3)
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                behind.sendall(chunk)
                chunk = connection.recv(4096)

    def _back(self, behind: socket.socket, connection: socket.socket) -> None:
        with suppress(OSError):
            while chunk := behind.recv(1 << 16):
                if self.fired and self.hang:
                    return
                connection.sendall(chunk)


@pytest.mark.xdist_group("neo4j")
@pytest.mark.parametrize(
    ("hang", "places"),
    [
        pytest.param(False, (600, 2000, 6000), id="closes"),
        pytest.param(True, (900, 6000), id="hangs"),
        pytest.param(False, (600, 900, 2000, 6000, 12_000), id="closes anywhere", marks=pytest.mark.long),
    ],
)
def test_a_connection_cut_anywhere_leaves_a_whole_batch_or_nothing(
    server: Neo4jServer, hang: bool, places: tuple[int, ...]
) -> None:
    runs = crowd(40, 5)
    told = letters(runs)
    sink_of(server).send([])  # the constraints
    fired = 0
    for most in places:
        cutting = Cutting(server.port, most, hang=hang)
        with _through(cutting) as port:
            sink = sink_of(server, url=f"bolt://127.0.0.1:{port}", seconds=1)
            try:
                sink.send(told)
            except Unavailable as problem:
                assert server.password not in str(problem)
        fired += cutting.fired
        there = server.ask("MATCH (r:Run) RETURN count(r) AS n")[0]["n"]
        assert there in (0, len(runs))
        if there:
            holds(server, runs)
            server.empty()
    assert fired >= 2
    sink_of(server).send(told)
    holds(server, runs)


@contextmanager
def _through(cutting: Cutting) -> Iterator[int]:
    def treat(connection: socket.socket) -> None:
        with suppress(OSError):
            cutting(connection, connection.recv(4096))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
