"""A label is on a source, not on one spelling of its address: a second spelling publishes nothing of it."""

from __future__ import annotations

import os
import posixpath
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import KEY, dataset, hits, installation, label, labels, table

FILES = [
    "./data/sites.csv",
    "data//sites.csv",
    "file:data/sites.csv",
    "FILE:data/sites.csv",
    "file:data/sites%2Ecsv",
    "file:data%2Fsites.csv",
    "file:data/%73%69tes.csv",
    "file://{here}/data/sites.csv",
    "file://localhost{here}/data/sites.csv",
    "file://LOCALHOST{here}/data/sites%2ecsv",
    "{here}/data/sites.csv",
    "data/link.csv",  # a hard link: another name of the same file
]
URLS = [
    "http://127.0.0.1:{port}/./sites.csv",
    "http://127.0.0.1:{port}//sites.csv",
    "http://127.0.0.1:{port}/x/../sites.csv",
    "http://127.0.0.1:{port}/sites%2Ecsv",
    "http://127.0.0.1:{port}/%73ites.csv",
    "HTTP://127.0.0.1:{port}/sites.csv",
    "http://localhost:{port}/sites.csv",
    "http://LocalHost:{port}/sites.csv",
    "http://127.0.0.1:{port}/sites.csv?download=1",
]


@pytest.fixture
def free(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    return kfm


@pytest.fixture
def port() -> Iterator[int]:
    """A server that reads paths as most do: decoded, and with their dots resolved. `/moved` redirects."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = posixpath.normpath(unquote(self.path.partition("?")[0])).replace("//", "/")
            if path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/x/..//sites%2Ecsv")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = table().encode() if path == "/sites.csv" else b"town,people\nHays,21000\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


def open_table(uri: str, port: int = 0) -> None:
    """A dataset that its author declares public and that reads the table under this address."""
    installation(dataset("copy", uri, sensitivity="public"), dataset("sites", "data/other.csv", sensitivity="public"))
    Path("sites.csv").unlink()
    Path("data").mkdir(exist_ok=True)
    Path("data/sites.csv").write_text(table())
    Path("data/other.csv").write_text("town,people\nHays,21000\n")
    if uri.endswith("link.csv"):
        os.link("data/sites.csv", "data/link.csv")
    if port:
        network = f"network:\n  allow: ['127.0.0.1:{port}', 'localhost:{port}']\n"
        Path("kfm.yml").write_text(network + Path("kfm.yml").read_text())


def check_nothing_is_published(free: Kfm) -> None:
    ran = free("run", "copy")
    assert ran.code in (3, 4), ran.out + ran.err
    free("publish", "copy", "--reason", "try")
    # The folder of the sources is the operator's own; everything else is the product's.
    assert [one for one in hits() if not one.startswith("data/")] == []


@pytest.mark.parametrize("spelling", FILES)
def test_a_labelled_file_is_protected_in_every_spelling(free: Kfm, spelling: str) -> None:
    open_table(spelling.format(here=os.getcwd()))
    labels(label("source: data/sites.csv", "restricted"))
    check_nothing_is_published(free)


@pytest.mark.parametrize("spelling", FILES)
def test_a_label_in_every_spelling_protects_the_file(free: Kfm, spelling: str) -> None:
    open_table("data/sites.csv")
    if spelling.endswith("link.csv"):
        os.link("data/sites.csv", "data/link.csv")
    labels(label(f"source: '{spelling.format(here=os.getcwd())}'", "restricted"))
    check_nothing_is_published(free)


@pytest.mark.parametrize("spelling", URLS)
def test_a_labelled_url_is_protected_in_every_spelling(free: Kfm, port: int, spelling: str) -> None:
    open_table(spelling.format(port=port), port)
    labels(label(f"source: 'http://127.0.0.1:{port}/sites.csv'", "restricted"))
    check_nothing_is_published(free)


def test_a_redirect_to_a_labelled_address_is_denied(free: Kfm, port: int) -> None:
    open_table(f"http://127.0.0.1:{port}/moved", port)
    labels(label(f"source: 'http://127.0.0.1:{port}/sites.csv'", "restricted"))
    Path("kfm.yml").write_text(
        Path("kfm.yml").read_text() + dataset("known", f"http://127.0.0.1:{port}/sites.csv", sensitivity="public")
    )
    ran = free("run", "copy")
    assert ran.code == 4 and "a label protects" in ran.err, ran.err
    check_nothing_is_published(free)


def test_a_label_may_give_the_name_of_the_source(free: Kfm) -> None:
    open_table("data/sites.csv")
    text = (
        Path("kfm.yml")
        .read_text()
        .replace("      sites:\n        uri: data/other", "      towns:\n        uri: data/other")
    )
    Path("kfm.yml").write_text(text)
    labels(label("source: sites", "restricted"))
    check_nothing_is_published(free)
    shown = free("labels", "show", "copy", "--json").data
    assert [row["level"] for row in shown if row["source"] == "sites"] == ["restricted"], shown
    assert "restricted" not in [row["level"] for row in free("labels", "show", "sites", "--json").data]


def test_what_was_published_under_another_spelling_is_withdrawn_when_the_label_comes(free: Kfm) -> None:
    open_table("file:data/sites%2Ecsv")
    labels()
    right = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(right.replace("custodians:\n  office: {key: 'env:KFM_SECRET_OFFICE'}\n", ""))
    assert free("run", "copy").code == 0
    assert free("publish", "copy", "--reason", "nobody knew").code == 0
    assert [one for one in hits() if one.startswith("public/")]
    Path("kfm.yml").write_text(right)
    labels(label("source: data/sites.csv", "restricted"))
    free("run")
    assert [one for one in hits() if one.startswith("public/")] == []
    status = free("status")
    assert "withdrawn" in status.out + status.err, status.out + status.err
