"""Thousands of answers made by mutating good ones: each is either read rightly or refused, never misread."""

from __future__ import annotations

import gzip
import random
import socket
import threading
from collections.abc import Iterator

import pytest

from kfm.errors import KfmError
from kfm.model.records import FetchRequest
from kfm.sources.http import HttpSource
from tests.sources.memory_objects import MemoryObjects, digest_of

BODY = b"station,name\n" + b"1,Topeka\n2,Wichita\n" * 20


def _good_answers() -> list[bytes]:
    packed = gzip.compress(BODY, mtime=0)
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (BODY[:7], BODY[7:200], BODY[200:])) + b"0\r\n\r\n"
    length = b"Content-Length: %d\r\n"
    head = b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Type: text/csv\r\n'
    return [
        head + length % len(BODY) + b"\r\n" + BODY,
        head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked,
        head + b"Content-Encoding: gzip\r\n" + length % len(packed) + b"\r\n" + packed,
        b"HTTP/1.1 100 Continue\r\n\r\n" + head + length % len(BODY) + b"\r\n" + BODY,
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n",
        b"HTTP/1.1 503 Later\r\nRetry-After: 10\r\n\r\n",
    ]


PIECES = [
    b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"-", b"0", b"ffff", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n", b"HTTP/1.1 200 OK\r\n", b"\xff" * 9,
    b"a" * 70_000, b"X: y\r\n" * 250, b"\r\n\r\n", b"\x1f\x8b", b"0\r\n\r\n", b"Location: http://127.0.0.1/\r\n",
]  # fmt: skip


def _mutated(rng: random.Random) -> bytes:
    answer = bytearray(rng.choice(_GOOD))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(answer) + 1) if rng.random() < 0.4 else rng.randrange(min(len(answer), 160) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            answer[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del answer[at : at + rng.randint(1, 30)]
        elif kind == 2 and answer:
            answer[at % len(answer)] ^= 1 << rng.randrange(8)
        elif kind == 3:
            del answer[at:]
        else:
            end = rng.randrange(at, len(answer) + 1)
            answer[at:at] = answer[at:end]
    return bytes(answer)


_GOOD = _good_answers()


class Replayer:
    """Sends what it is told to and closes, one connection at a time."""

    def __init__(self) -> None:
        self.answer = b""
        self.served = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.here = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                try:
                    sock.recv(65536)
                    self.served += 1
                    sock.sendall(self.answer)
                    sock.shutdown(socket.SHUT_WR)
                    while sock.recv(65536):
                        pass
                except OSError:
                    continue

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def replayer() -> Iterator[Replayer]:
    server = Replayer()
    yield server
    server.close()


def _run(replayer: Replayer, seeds: range) -> tuple[int, int]:
    taken = refused = 0
    for seed in seeds:
        replayer.answer = _mutated(random.Random(seed))
        objects = MemoryObjects()
        request = FetchRequest(
            uri=f"http://{replayer.here}/", allow=(replayer.here,), timeout_ms=20_000, total_ms=60_000,
            max_bytes=1 << 20,
            complete=True,
        )  # fmt: skip
        served = replayer.served
        try:
            got = HttpSource().fetch(request, None, objects)
        except KfmError as error:
            refused += 1
            assert objects.stored == {}, f"seed {seed}: {error}"
        else:
            taken += 1
            body = objects.stored[got.ref.content_hash]
            assert (digest_of(body), len(body)) == (got.ref.content_hash, got.ref.size), f"seed {seed}"
            # A sealed body that is only the beginning of the true one would be a truncation unseen. The one
            # way to it is a mutation of the length itself, which no reader could tell from the truth.
            if got.ref.complete and len(body) < len(BODY) and BODY.startswith(body):
                head = replayer.answer.partition(b"\r\n\r\n")[0]
                assert b"\nContent-Length: %d" % len(BODY) not in head, f"seed {seed}"
        assert objects.open_stagings == 0, f"seed {seed}"
        assert replayer.served > served, f"seed {seed}: nothing was injected"
    return taken, refused


def test_two_thousand_mutated_answers_are_read_rightly_or_refused(replayer: Replayer) -> None:
    taken, refused = _run(replayer, range(2_000))
    assert taken > 100 and refused > 1_000  # the mutations are neither all fatal nor all harmless


@pytest.mark.long
def test_thirty_thousand_mutated_answers_are_read_rightly_or_refused(replayer: Replayer) -> None:
    taken, refused = _run(replayer, range(2_000, 32_000))
    assert taken > 1_500 and refused > 15_000
