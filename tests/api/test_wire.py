"""What comes over the wire before it is a request: large bodies, odd cuts, trailers, garbage, and nothing at all."""

from __future__ import annotations

import asyncio
import random
import signal
import ssl
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kfm.api import server
from tests.api.door import Case, Senders, installation, served

T = TypeVar("T")
LIMIT = 256 * 1024
TLS = Path(__file__).parent.parent / "sources" / "tls"


class Padded(Senders):
    """Signed requests whose bodies are exactly as long as they are asked to be."""

    def long(self, name: str, size: int) -> Case:
        body = self._unified(name)
        body += b" " * (size - len(body))
        assert len(body) == size
        return self._plain(body)


@pytest.fixture(scope="module")
def door_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with served(installation(tmp_path_factory.mktemp("door"))) as (port, _):
        yield port


def within(work: Coroutine[Any, Any, T]) -> T:
    """Or the test fails, instead of waiting for ever."""

    async def bounded() -> T:
        return await asyncio.wait_for(work, 60)

    return asyncio.run(bounded())


async def answered(port: int, parts: list[bytes]) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        if len(parts) > 1:
            await asyncio.sleep(0.001)
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    return int(head[9:12])


def cut(request: bytes, way: str, dice: random.Random) -> list[bytes]:
    end_of_head = request.index(b"\r\n\r\n") + 4
    if way == "one write":
        return [request]
    if way == "inside the head":
        at = dice.randrange(1, end_of_head)
        return [request[:at], request[at:]]
    if way == "after the head":
        return [request[:end_of_head], request[end_of_head:]]
    places = sorted(dice.sample(range(1, len(request)), 20))
    return [request[a:b] for a, b in zip([0, *places], [*places, len(request)], strict=True)]


@pytest.mark.parametrize("way", ["one write", "inside the head", "after the head", "many writes"])
def test_a_signed_body_of_any_size_up_to_the_limit_is_answered_however_it_is_cut(door_port: int, way: str) -> None:
    dice = random.Random(way)
    senders = Padded(7)
    sizes = [1 << 10, 32 << 10, 63 << 10, 64 << 10, (64 << 10) + 1, 65_000, 66_000, 80_000, 96 << 10, 100_000]
    sizes += [120_000, 127 << 10, 128 << 10, 129 << 10, 192 << 10, 250_000, LIMIT - 1, LIMIT]
    sizes += [dice.randrange(60 << 10, 140 << 10) for _ in range(22)]
    for number, size in enumerate(sizes):
        request = senders.long(f"{way}-{number}", size).request()
        assert within(answered(door_port, cut(request, way, dice))) == 202, (way, size)


def test_several_large_requests_in_one_write_are_all_answered(door_port: int) -> None:
    senders = Padded(8)

    async def ask() -> list[int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", door_port)
        writer.write(b"".join(senders.long(f"pipelined-{n}", 70_000).request() for n in range(3)))
        found = []
        for _ in range(3):
            head = await reader.readuntil(b"\r\n\r\n")
            found.append(int(head[9:12]))
            await reader.readuntil(b"\n")
        writer.close()
        return found

    assert within(ask()) == [202, 202, 202]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_head_that_is_too_long_is_hung_up_on_though_it_comes_whole(door_port: int, at_once: bool) -> None:
    """Also if it ends in the very read that brought it."""
    head = b"POST /webhooks/plain HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * (200 << 10) + b"\r\ncontent-length: 0\r\n\r\n"

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", door_port)
        try:
            writer.write(head if at_once else head[:100])
            await writer.drain()
            if not at_once:
                await asyncio.sleep(0.05)
                writer.write(head[100:])
            return await reader.read(100)
        except ConnectionError:
            return b""

    assert within(ask()) == b""


def chunked(body: bytes, headers: list[tuple[str, bytes]], trailers: list[tuple[str, bytes]]) -> bytes:
    head = [b"POST /webhooks/plain HTTP/1.1", b"host: x", b"transfer-encoding: chunked"]
    head += [name.encode() + b": " + value for name, value in headers]
    end = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in trailers)
    return b"\r\n".join(head) + b"\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n" + end + b"\r\n"


def test_a_signature_in_a_trailer_is_none(door_port: int) -> None:
    case = Padded(9).long("trailing", 900)
    signed = list(case.headers)
    assert within(answered(door_port, [chunked(case.body, [], signed)])) == 403
    assert within(answered(door_port, [chunked(case.body, signed, [("x-kfm-signature", b"sha256=00")])])) == 202


def test_a_trailer_without_end_is_hung_up_on(door_port: int) -> None:
    case = Padded(10).long("endless", 900)
    start = chunked(case.body, list(case.headers), [])[:-2] + b"x-a: "

    async def ask() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", door_port)
        try:
            writer.write(start)
            for _ in range(1024):
                writer.write(b"a" * 65536)
                await writer.drain()
            return await reader.read(100)
        except ConnectionError:
            return b""

    assert within(ask()) == b""


@pytest.mark.parametrize("kind", ["a folder is in its place", "its folder is a file"])
def test_a_refusal_stays_a_refusal_though_its_log_cannot_be_opened(tmp_path: Path, kind: str) -> None:
    folder = installation(tmp_path)
    (folder / "kfm.yml").write_text((folder / "kfm.yml").read_text() + "state: sqlite:data/state.db\n")
    if kind == "a folder is in its place":
        (folder / ".kfm" / "webhook_failures.jsonl").mkdir(parents=True)
    else:
        (folder / "kfm.yml").write_text((folder / "kfm.yml").read_text() + "objects: file:data/objects\n")
        (folder / ".kfm").write_text("not a folder")
    senders = Senders(3)
    case = senders._flipped_signature()
    with served(folder) as (port, process):
        statuses = [within(answered(port, [case.request()])) for _ in range(50)]
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert set(statuses) == {403}
    about = [line for line in told.splitlines() if "webhook_failures.jsonl" in line]
    assert 1 <= len(about) <= 2, "said at once, and summed up in the end"


def test_garbage_is_summed_up_on_stderr_instead_of_a_line_each(tmp_path: Path) -> None:
    async def garbage(port: int) -> None:
        for n in range(300):
            status = await answered(port, [b"garbage %d\r\n\r\n" % n])
            assert status == 400

    with served(installation(tmp_path)) as (port, process):
        within(garbage(port))
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    lines = told.splitlines()
    assert len(lines) < 12, lines[:20]
    said = [line for line in lines if "Invalid HTTP request" in line]
    assert said and sum(int(line.rpartition("(")[2].split()[0]) if "more" in line else 1 for line in said) == 300


def test_a_handshake_that_never_comes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with a short time, so that nobody has to wait for the real one."""
    assert server.SECONDS_FOR_HANDSHAKE <= 15
    monkeypatch.setattr(server, "SECONDS_FOR_HANDSHAKE", 0.2)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "localhost.pem", TLS / "key.pem")
    listener = server.listen("127.0.0.1", 0)

    async def app(scope: object, receive: object, send: object) -> None:
        raise AssertionError("nobody speaks to it")

    async def silent() -> bytes:
        uvicorn = server.server_of(app, context)
        serving_it = asyncio.create_task(uvicorn.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        try:
            return await asyncio.wait_for(reader.read(1), 30)
        finally:
            writer.close()
            uvicorn.should_exit = True
            await serving_it

    assert within(silent()) == b""
