"""Nothing is shown that may not be: a label that is tightened while a file is on its way, an index that is damaged or
older than the state, a configuration that cannot be read, a policy engine that is down."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.serving import Served, serving
from tests.engine.installations import Installation

SIZE = 48 << 20  # more than the buffers on the way hold
CONFIG = """\
accept_weak_storage: true
publish: noop
datasets:
  grid:
    title: A grid
    license: CC0-1.0
    sensitivity: public
    updater: grid.py:Grid
    sources:
      seed: {uri: seed.csv, format: csv, contract: {columns: [{name: n, type: integer}]}}
"""
UPDATER = f"""
from kfm import Output, Plan, Step, Updater


class Grid(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("seed")]

    def plan(self, inputs):
        return Plan([Step(id=name, key=(name,)) for name in ("large", "small")], complete=True)

    def perform(self, step, read):
        count = {SIZE} if step.id == "large" else 10
        return Output(body=b"0123456789abcdef" * (count // 16 + 1), media_type="application/octet-stream")
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("serving") / "site"
    folder.mkdir()
    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "grid.py").write_text(UPDATER)
    (folder / "seed.csv").write_text("n\n1\n")
    site = Installation(folder)
    site.kfm("run", "grid")
    site.kfm("publish", "grid", "--reason", "a test")
    return site


@pytest.fixture
def site(made: Installation, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "site"
    shutil.copytree(made.folder, folder)
    yield folder


def close(folder: Path) -> None:
    path = folder / "kfm.yml"
    path.write_text(path.read_text().replace("sensitivity: public", "sensitivity: restricted"))


def href(served: Served, key: str) -> str:
    files = served.ask("/v1/datasets/grid").data["files"]
    return str(next(one["href"] for one in files if one["key"] == [key]))


def test_a_file_that_is_closed_on_its_way_does_not_arrive_whole(site: Path) -> None:
    with serving(site) as served:
        path, port = href(served, "large"), int(served.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            got = len(client.recv(65536))
            close(site)
            while piece := client.recv(1 << 20):
                got += len(piece)
        assert 0 < got < SIZE, "it was sent whole"
        assert served.ask(path).status == 404 and served.ask(href_small(path)).status == 404
        for address in ("/v1/datasets/grid", "/stac/collections/grid", "/datasets/grid/", "/focus/grid"):
            assert served.ask(address).status == 404


def href_small(path: str) -> str:
    return path.replace("large", "small")


def test_a_file_that_stays_public_arrives_whole_and_in_parts(site: Path) -> None:
    with serving(site) as served:
        path = href(served, "large")
        whole = served.ask(path)
        assert whole.status == 200 and len(whole.body) == int(whole.headers["content-length"]) > SIZE
        part = served.ask(path, Range="bytes=1000-1999")
        assert (part.status, part.body) == (206, whole.body[1000:2000])
        assert part.headers["content-range"] == f"bytes 1000-1999/{len(whole.body)}"
        assert served.ask(path, Range="bytes=-5").body == whole.body[-5:]
        assert served.ask(path, Range=f"bytes={len(whole.body)}-").status == 416
        assert served.ask(path, If_None_Match=whole.headers["etag"]).status == 304
        head = served.ask(path, "HEAD")
        assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(whole.body)))


@pytest.mark.parametrize("harm", ["gone", "empty", "noise", "cut"])
def test_an_index_that_is_damaged_is_made_again_and_shows_nothing_closed(site: Path, harm: str) -> None:
    index = site / ".kfm" / "serve" / "items.db"
    with serving(site) as served:
        assert len(served.ask("/stac/search").data["features"]) == 2
    body = index.read_bytes()
    for path in index.parent.glob("items.db*"):
        path.unlink()
    if harm != "gone":
        index.write_bytes({"empty": b"", "noise": os.urandom(len(body)), "cut": body[: len(body) // 2]}[harm])
    with serving(site) as served:
        assert len(served.ask("/stac/search").data["features"]) == 2
        close(site)
        assert served.ask("/stac/search").data["features"] == []


def test_an_index_from_before_a_withdrawal_shows_nothing_of_it(site: Path) -> None:
    """As after a restore of the folder: what the index has counts for nothing if the ref says otherwise."""
    installed = Installation(site)
    with serving(site) as served:
        assert len(served.ask("/stac/search").data["features"]) == 2
        kept = {path.name: path.read_bytes() for path in (site / ".kfm" / "serve").iterdir()}
    installed.kfm("rollback", "grid", "--to", "nothing", "--reason", "a test")
    for name, body in kept.items():
        (site / ".kfm" / "serve" / name).write_bytes(body)
    with serving(site) as served:
        assert served.ask("/stac/search").data["features"] == []
        assert served.ask("/stac/collections/grid/items").status == 404


def test_while_kfm_yml_cannot_be_read_nothing_is_shown(site: Path) -> None:
    with serving(site) as served:
        assert served.ask("/v1/datasets/grid").status == 200
        config = site / "kfm.yml"
        right = config.read_text()
        config.write_text(right.replace("sensitivity", "sensitivty"))
        answer = served.ask("/v1/datasets/grid")
        assert answer.status == 503 and "grid" not in answer.text and answer.headers["retry-after"]
        config.write_text(right)
        assert served.ask("/v1/datasets/grid").status == 200


def test_a_policy_engine_that_is_down_shows_nothing(site: Path) -> None:
    with serving(site) as served:
        assert served.ask("/v1/datasets/grid").status == 200
        with socket.create_server(("127.0.0.1", 0)) as deaf:  # it accepts, and never answers
            port = deaf.getsockname()[1]
            config = site / "kfm.yml"
            config.write_text(f"policy: {{url: 'http://127.0.0.1:{port}', timeout_s: 0.3}}\n" + config.read_text())
            assert served.ask("/v1/datasets/grid").status == 404
            assert served.ask("/v1/datasets").data["datasets"] == []
