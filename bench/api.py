"""What the API costs over HTTP: `python bench/api.py [ITEMS]` (default: 1,000,000).

One `kfm serve` over twenty published datasets, whose index of items holds so many synthetic items (bench/items.py); one
connection that stays open, one request after another.

- **Small answers** next to bare Starlette, which answers with the same bytes and headers from memory, and with no route
  but theirs: in turns, round by round, as a ratio of requests a second (the processor time of the server too).
- **Item search**: boxes of one degree, of twenty, most of the earth and over the date line, mixed with a month, a year
  and no interval, 100 items a page. Milliseconds on the wire, and of the server's processor.
- **Pages**: bytes of each page with its style sheet and modules, as sent and compressed (gzip 6).
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import items

from kfm import config
from kfm.app.serving.item_catalog import ItemCatalog
from kfm.app.serving.serve_gate import ServeGate
from kfm.app.serving.shelf import Shelf
from kfm.app.session.session import open_session
from kfm.cli.listener import index_file
from kfm.cli.main import main as kfm

ROUNDS, REQUESTS = 5, 400
SMALL = ("/v1", "/v1/datasets/d00", "/stac/conformance", "/v1/me")
PAGES = ("/", "/datasets/d00/", "/focus/d00", "/runs", "/ledger", "/now", "/review", "/governance", "/lineage/d00")
DATASET = """\
  NAME:
    title: Scenes NAME
    license: CC0-1.0
    sensitivity: public
    updater: copied.py:Copied
    sources: {rows: {uri: rows.csv, format: csv, contract: {columns: [{name: id}]}}}
"""
UPDATER = """\
import json

from kfm import Output, Plan, Step, Updater


class Copied(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        found = [
            {"type": "Feature", "properties": {"id": row["id"]},
             "geometry": {"type": "Point", "coordinates": [float(row["lon"]), float(row["lat"])]}}
            for row in read.csv(0)
        ]
        body = json.dumps({"type": "FeatureCollection", "features": found}).encode()
        return Output(body=body, media_type="application/geo+json")
"""
STARLETTE = """\
import json, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
said = json.load(open(sys.argv[1]))


def endpoint(path):
    body, headers = said[path]["body"].encode(), said[path]["headers"]

    async def answer(request):
        return Response(body, headers=headers)

    return answer


app = Starlette(routes=[Route(path, endpoint(path)) for path in said])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=False, log_level="critical", server_header=False,
            timeout_keep_alive=300)
"""


class Server:
    """A server in a process of its own, and one open connection to it."""

    def __init__(self, process: subprocess.Popen[Any], port: int) -> None:
        self.process = process
        self.line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.line.request("GET", path)
        answer = self.line.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    def busy(self) -> float:
        """Milliseconds of the processor until now, of all threads."""
        folder, spent = Path(f"/proc/{self.process.pid}/task"), 0
        for each in os.listdir(folder):
            try:
                spent += int((folder / each / "schedstat").read_text().split()[0])
            except FileNotFoundError:  # a thread that ended
                continue
        return spent / 1e6

    def measured(self, path: str, times: int) -> tuple[float, float]:
        """Requests a second, and milliseconds of the processor for each."""
        busy, begun = self.busy(), time.perf_counter()
        for _ in range(times):
            status, _, _ = self.get(path)
            assert status == 200, (path, status)
        return times / (time.perf_counter() - begun), (self.busy() - busy) / times


@contextmanager
def started(words: list[str], port: Callable[[subprocess.Popen[Any]], int], cwd: Path) -> Iterator[Server]:
    process = subprocess.Popen(words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield Server(process, port(process))
    finally:
        process.terminate()
        process.wait()


def port_of(process: subprocess.Popen[Any]) -> int:
    assert process.stdout is not None
    return int(json.loads(process.stdout.readline())["listening"].rpartition(":")[2])


def install(folder: Path, total: int) -> None:
    """Publish the datasets, and give the index their items."""
    names = [f"d{n:02}" for n in range(items.DATASETS)]
    text = "accept_weak_storage: true\ndatasets:\n" + "".join(DATASET.replace("NAME", name) for name in names)
    (folder / "kfm.yml").write_text(text)
    (folder / "copied.py").write_text(UPDATER)
    places = "".join(f"{n},{37 + n * 7 % 30 / 10:.3f},{-101 + n * 11 % 60 / 10:.3f}\n" for n in range(300))
    (folder / "rows.csv").write_text(f"id,lat,lon\n{places}")
    os.chdir(folder)
    os.environ |= {"KFM_ACTOR": "bench", "KFM_REASON": "a benchmark"}
    assert kfm(["--quiet", "run"]) == 0
    assert all(kfm(["--quiet", "publish", name, "--reason", "a benchmark"]) == 0 for name in names)
    resolved, draw = config.load(str(folder / "kfm.yml"), os.environ), random.Random(1)
    catalog = ItemCatalog(index_file(resolved))
    with open_session(resolved, mode="read") as session:
        for shown in Shelf(session, ServeGate(session), "public").all():
            own = items.items(draw, shown.dataset, total // items.DATASETS)
            catalog.index.replace(shown.dataset, shown.mark, own)
    catalog.close()


def small_answers(server: Server, folder: Path) -> None:
    said = {}
    for path in SMALL:
        status, headers, body = server.get(path)
        assert status == 200
        left = {"date", "content-length", "server", "transfer-encoding"}
        said[path] = {"body": body.decode(), "headers": {n: v for n, v in headers.items() if n not in left}}
    (folder / "said.json").write_text(json.dumps(said))
    (folder / "bare.py").write_text(STARLETTE)
    free = 20_000 + os.getpid() % 20_000
    with started([sys.executable, "bare.py", "said.json", str(free)], lambda _: free, folder) as bare:
        for _ in range(100):
            try:
                bare.get(SMALL[0])
                break
            except OSError:
                bare.line.close()
                time.sleep(0.1)
        print(f"\nsmall answers next to bare Starlette with the same bytes, {ROUNDS} rounds of {REQUESTS} requests")
        for path in SMALL:
            ratios, costs, rates = [], [], []
            for _ in range(ROUNDS):
                (before, own), (rate, busy), (after, again) = (
                    bare.measured(path, REQUESTS), server.measured(path, REQUESTS), bare.measured(path, REQUESTS)
                )  # fmt: skip
                ratios.append(rate / ((before + after) / 2))
                costs.append((own + again) / 2 / busy)
                rates.append(rate)
            print(
                f"{path:22} {statistics.median(rates):6.0f} a second   ratio {spread(ratios)}"
                f"   of the processor's time {spread(costs)}   {len(said[path]['body'])} bytes"
            )


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):5.2f} ({min(values):.2f} to {max(values):.2f})"


def item_search(server: Server, searches: int = 60) -> None:
    draw, wire, busy = random.Random(2), list[float](), list[float]()
    for box in ("small", "medium", "large", "date line"):
        for span in ("month", "year", "always"):
            for _ in range(searches):
                query = {"bbox": ",".join(map(repr, items.boxes(draw, box))), "limit": "100"}
                if ends := items.spans(draw, span):
                    query["datetime"] = "/".join(map(instant, ends))
                spent, begun = server.busy(), time.perf_counter()
                status, _, body = server.get(f"/stac/search?{urlencode(query)}")
                wire.append((time.perf_counter() - begun) * 1e3)
                busy.append(server.busy() - spent)
                assert status == 200, body
    print(f"\nitem search, {len(wire)} searches")
    for name, times in (("on the wire", wire), ("of the processor", busy)):
        times.sort()
        print(f"{name:22} p50 {statistics.median(times):6.1f} ms   p95 {times[int(len(times) * 0.95)]:6.1f} ms")


def instant(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))


def page_sizes(server: Server) -> None:
    print("\npages with their style sheets and modules: bytes as sent, and with gzip 6")
    for path in PAGES:
        status, _, body = server.get(path)
        assert status == 200, path
        parts = [body]
        for at in sorted(set(re.findall(rb'(?:href|src)="(/static/[^"]+)"', body))):
            parts.append(server.get(at.decode())[2])
        sent, packed = sum(map(len, parts)), sum(len(gzip.compress(part, 6)) for part in parts)
        print(f"{path:22} {sent / 1000:7.1f} kB   {packed / 1000:6.1f} kB compressed")


def main(total: int) -> None:
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder, total)
        words = [sys.executable, "-m", "kfm.cli.main", "--json", "serve", "--port", "0", "--rate", "0"]
        with started(words, port_of, folder) as server:
            small_answers(server, folder)
            item_search(server)
            page_sizes(server)
        os.chdir("/")
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
