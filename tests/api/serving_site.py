"""A real HTTP server over one public dataset, one that was never public and one that was closed a moment ago.

The server listens in this process, on a real socket. Nothing of the closed datasets may be in any answer.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kfm.api.openapi import address_of
from kfm.api.routes import ApiRoute
from kfm.api.server import Served, listening
from kfm.cli.look.serve import index_file, reopened
from kfm.config import load

OPEN, SECRET, CLOSED = "parcels", "vaulted", "shutted"  # of one length: a name must not tell by its length
ABSENT = ("missing", "nothing", "no-such")
CANARY = "canary7391"  # in every row, key, step and source address of the closed datasets
CONFIG = """\
accept_weak_storage: true
catalog: file:catalog
datasets:
  parcels:
    title: Parcels
    license: CC0-1.0
    sensitivity: public
    updater: copied.py:Copied
    sources: {rows: {uri: rows.csv, format: csv}}
    CONTRACT
  vaulted:
    title: Vaulted canary7391
    license: CC0-1.0
    sensitivity: restricted
    updater: copied.py:Copied
    sources: {rows: {uri: canary7391.csv, format: csv}}
    CONTRACT
  shutted:
    title: Shutted canary7391
    license: CC0-1.0
    sensitivity: SHUTTED
    updater: copied.py:Copied
    sources: {rows: {uri: canary7391-too.csv, format: csv}}
    CONTRACT
""".replace("}}\n    CONTRACT", ", contract: {columns: [{name: id, required: true}, {name: depth}]}}}")
UPDATER = """\
from kfm import Output, Plan, Step, Updater


class Copied(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("rows")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=(name,)) for name in ("all", "more")])

    def perform(self, step, read):
        return Output.csv(read.csv(0))
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    def steady(self) -> tuple[int, dict[str, str], bytes]:
        """What two answers to the same request have in common: all but the time of day and the ids of the request."""
        return self.status, {name: value for name, value in self.headers.items() if name not in PASSING}, self.body


# Headers that differ from one request to the next.
PASSING = ("date", "traceparent", "x-correlation-id")


class Site:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.base = f"http://127.0.0.1:{port}"

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            found = connection.getresponse()
            return Answer(found.status, {n.lower(): v for n, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def raw(self, request: bytes) -> bytes:
        """Send these bytes and return everything that comes until the server closes or is silent for a moment."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            sock.sendall(request)
            sock.shutdown(socket.SHUT_WR)
            parts = []
            while part := sock.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def close_dataset(self, name: str) -> None:
        """Tighten the label of a dataset. No command has withdrawn it yet."""
        path = self.folder / "kfm.yml"
        head, _, rest = path.read_text().partition(f"  {name}:\n")
        path.write_text(f"{head}  {name}:\n" + rest.replace("sensitivity: public", "sensitivity: restricted", 1))


@contextmanager
def served_site(folder: Path) -> Iterator[Site]:
    make(folder)
    with serving(folder) as site:
        yield site


def make(folder: Path, *, closing: bool = True) -> None:
    """Publish two datasets, process the third, and close the second."""
    from kfm.cli.main import main

    (folder / "kfm.yml").write_text(CONFIG.replace("SHUTTED", "public"))
    (folder / "copied.py").write_text(UPDATER)
    (folder / "rows.csv").write_text("id,depth\na,1\nb,2\n")
    for name in ("canary7391", "canary7391-too"):
        (folder / f"{name}.csv").write_text(f"id,depth\n{CANARY},1\n{CANARY}b,{len(name)}\n")
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert main(["run"]) == 0
        for name in (OPEN, CLOSED):
            assert main(["publish", name, "--reason", "a test"]) == 0
    finally:
        os.chdir(before)
    if closing:
        Site(folder, 0).close_dataset(CLOSED)


@contextmanager
def serving(folder: Path) -> Iterator[Site]:
    resolved = load(str(folder / "kfm.yml"), {})
    again = partial(reopened, resolved)
    served = Served(again, resolved.path, index_file(resolved))
    with listening(again, "127.0.0.1", 0, None, metrics=False, served=served) as port:
        yield Site(folder, port)


def addresses(route: ApiRoute, dataset: str, site: Site) -> str:
    """Return an address of this route about a dataset. Of the public one it exists."""
    values = {"name": dataset, "thing": dataset, "item": "all", "path": "current.json"}
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found.group(1), "x"), address_of(route))
