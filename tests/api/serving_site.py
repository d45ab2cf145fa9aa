"""A real HTTP server over one public dataset, one that was never public and one that was closed a moment ago.

The server listens in this process, on a real socket. Nothing of the closed datasets may be in any answer.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kfm.api.console.static_files import address_of as address_of_static
from kfm.api.openapi import address_of
from kfm.api.routes import ApiRoute
from kfm.api.server import Served, listening
from kfm.app.session.session import open_session
from kfm.cli.listener import index_file, reopened
from kfm.config import load
from kfm.model import refs

OPEN, SECRET, CLOSED = "parcels", "vaulted", "shutted"  # of one length: a name must not tell by its length
STORY = "tale"
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
  tale:
    job: story.node
    title: A tale of parcels
    license: CC0-1.0
    sensitivity: public
    sources: {text: {uri: tale.md, format: text}, parcels: {dataset: parcels, zone: published}}
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
        self._known: dict[str, dict[str, str]] = {}

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

    def about(self, dataset: str) -> dict[str, str]:
        """The version of a dataset, the run that made it and its entry in the ledger; of one that never was, nothing
        that exists."""
        if not self._known:
            resolved = load(str(self.folder / "kfm.yml"), {})
            with open_session(resolved, mode="read") as session:
                for entry in session.state.ledger.entries():
                    if entry.op_type == "ingest" or entry.dataset not in self._known:
                        version = session.state.refs.at(refs.processed(entry.dataset))
                        told = {"run": entry.run_id, "index": str(entry.index), "version": version}
                        self._known[entry.dataset] = told
        return self._known.get(dataset, {"run": str(uuid.uuid4()), "index": "999", "version": "sha256:" + "0" * 64})

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
    (folder / "tale.md").write_text("# A tale of parcels\n\nIt rests on [two parcels](kfm://dataset/parcels).\n")
    for name in ("canary7391", "canary7391-too"):
        (folder / f"{name}.csv").write_text(f"id,depth\n{CANARY},1\n{CANARY}b,{len(name)}\n")
    before = os.getcwd()
    os.chdir(folder)
    try:
        for name in (OPEN, SECRET, CLOSED):
            assert main(["run", name]) == 0
        for name in (OPEN, CLOSED):
            assert main(["publish", name, "--reason", "a test"]) == 0
        assert main(["run", STORY]) == 0
        assert main(["publish", STORY, "--reason", "a test"]) == 0
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


REQUESTED = {"{request}", "{trigger}"}


def is_endless(route: ApiRoute) -> bool:
    """Return whether the answer of a route goes on until the caller leaves."""
    return route.media == "text/event-stream"


def readable(routes: Sequence[ApiRoute]) -> list[ApiRoute]:
    """Return the routes that the one user of an installation without a key list may read, and whose answers end. It has
    no change request, and nobody requested anything there. Routes that ask a sign-in provider are left out."""
    ends = [r for r in routes if r.method == "GET" and not is_endless(r) and not REQUESTED & set(r.path.split("/"))]
    return [r for r in ends if "single" in r.audiences and r.asks is None]


def addresses(route: ApiRoute, dataset: str, site: Site) -> str:
    """Return an address of this route about a dataset. Of the public one it exists."""
    name = STORY if dataset == OPEN and route.tag in ("stories", "pages") and "stories" in route.path else dataset
    values = {
        "name": name,
        "thing": dataset,
        "item": "all",
        "path": "current.json",
        "file": address_of_file("console.css"),
        "request": "0123456789abcdef",
        "trigger": "000000000001",
    }
    values |= site.about(dataset)

    def value(found: re.Match[str]) -> str:
        assert found.group(1) in values, (
            f"say what stands for {found.group(0)} of {route.path} in tests/api/serving_site.py"
        )
        return values[found.group(1)]

    return re.sub(r"\{(\w+)\}", value, address_of(route))


def address_of_file(name: str) -> str:
    return address_of_static(name).rpartition("/")[2]
