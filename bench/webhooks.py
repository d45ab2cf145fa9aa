"""The webhooks' door under load: requests a second, and how long the slowest hundredth waits.

    .venv/bin/python bench/webhooks.py [--requests 15000] [--connections 32]

The door and its senders share the machine, as the numbers say. Every accepted request is durable before its answer:
afterwards the inbox must hold exactly as many triggers as were accepted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from kfm import config  # noqa: E402
from kfm.app.session.session import open_session  # noqa: E402
from tests.api.door import Case, Senders, installation, served  # noqa: E402


async def load(port: int, cases: list[Case], connections: int) -> tuple[float, list[float], dict[int, int]]:
    """Seconds for all, how long each took, and how often each status came."""
    waiting = iter([case.request() for case in cases])
    took: list[float] = []
    statuses: dict[int, int] = {}

    async def sender() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in waiting:
            begin = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
            await reader.readexactly(length)
            took.append(time.perf_counter() - begin)
            status = int(head[9:12])
            statuses[status] = statuses.get(status, 0) + 1
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(sender() for _ in range(connections)))
    return time.perf_counter() - begin, took, statuses


def measured(kind: str, count: int, connections: int) -> dict[str, object]:
    senders = Senders(7)
    if kind == "verified":
        cases = [senders.valid() for _ in range(count)]
    else:
        cases = [senders._flipped_signature() for _ in range(count)]
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder, served(installation(Path(folder))) as (port, _):
        asyncio.run(load(port, [senders._flipped_signature() for _ in range(500)], connections))  # warm
        seconds, took, statuses = asyncio.run(load(port, cases, connections))
        with open_session(config.load(str(Path(folder) / "kfm.yml"), {}), mode="read") as session:
            kept = sum(1 for _ in session.state.inbox.waiting())
        assert kept == statuses.get(202, 0), (kept, statuses)
    took.sort()
    return {
        "requests": kind,
        "count": count,
        "connections": connections,
        "per_second": round(count / seconds),
        "p50_ms": round(took[len(took) // 2] * 1000, 1),
        "p99_ms": round(took[int(len(took) * 0.99)] * 1000, 1),
        "statuses": statuses,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=15_000)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    (ROOT / "build").mkdir(exist_ok=True)
    print(json.dumps({"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}))
    for kind in ("verified", "forged"):
        print(json.dumps(measured(kind, options.requests, options.connections)), flush=True)


if __name__ == "__main__":
    main()
