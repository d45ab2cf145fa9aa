"""Many clients of one server at once, each with a connection that stays open, and what each of them was answered."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple


class Told(NamedTuple):
    path: str
    status: int
    headers: dict[str, str]
    body: bytes


async def many_clients(
    port: int, clients: int, seconds: float, paths: Callable[[int], Iterator[str]], hear: Callable[[Told], None]
) -> int:
    """Ask for so long, and return how many answers came whole. Each client asks for the paths that `paths` yields for
    its number, again and again. An answer that breaks off raises."""
    loop = asyncio.get_running_loop()
    until, count = loop.time() + seconds, itertools.count()

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        for path in itertools.cycle(list(paths(number))):
            if loop.time() > until:
                break
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            hear(await _answer(reader, path))
            next(count)
        writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return next(count)


async def _answer(reader: asyncio.StreamReader, path: str) -> Told:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    return Told(path, int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"])))


def memory_of(pid: int) -> float:
    """The memory of a process that is its own, in MiB."""
    said = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = [int(line.split()[1]) for line in said.splitlines() if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(own) / 1024
