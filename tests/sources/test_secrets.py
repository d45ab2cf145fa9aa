"""Keys of a source are referred to: they reach its origin, and nothing else ever holds them in clear."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.model.keys import run_key_of
from kfm.model.records import SourceRef
from kfm.model.secret_refs import key_in_clear, referring
from tests.node.sites import command

RUNNERS = ("python", "node")
KEY, TOKEN = "canary-key-0123456789/&=%", "Bearer canary-token-9876543210"
BODY = b"id,mm\n1,2\n"


class Origin:
    """A server that gives its data only to who knows the key, and may send them elsewhere."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.redirect = ""
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("authorization", "")))
                if outer.redirect:
                    self.send_response(302)
                    self.send_header("location", outer.redirect.replace("KEY", self.path.partition("?")[2]))
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("content-type", "text/csv")
                self.send_header("content-length", str(len(BODY)))
                self.end_headers()
                self.wfile.write(BODY)

            def log_message(self, *_: object) -> None: ...

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def origins() -> Iterator[tuple[Origin, Origin]]:
    both = Origin(), Origin()
    yield both
    for each in both:
        each.server.shutdown()


def site(folder: Path, port: int, other: int, more: str = "") -> Path:
    folder.mkdir()
    (folder / "kfm.yml").write_text(
        f"""accept_weak_storage: true
network: {{allow: ["127.0.0.1:{port}", "127.0.0.1:{other}", "localhost:{other}"]}}
datasets:
  wells:
    version: "1.0.0"
    title: Wells
    license: CC0-1.0
    sensitivity: public
    sources:
      wells:
        uri: http://127.0.0.1:{port}/data?format=csv{more}
        format: csv
        contract: {{columns: [{{name: mm, type: number}}]}}
        headers: {{Authorization: "file:token"}}
        query: {{key: "env:KFM_SECRET_WELLS"}}
    outputs: {{all: {{from: wells}}}}
"""
    )
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "token").chmod(0o600)
    return folder


def typed(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
    env = {**inherited, "KFM_SECRET_WELLS": KEY, **env}
    return subprocess.run(list(words), cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


def nowhere(folder: Path, *told: subprocess.CompletedProcess[str]) -> None:
    """Not in a file that was made, nor in what was said."""
    searched = [done.stdout + done.stderr for done in told]
    made = [path for path in folder.rglob("*") if path.is_file() and path.name != "token"]
    assert len(made) > 3
    for text in (*searched, *(path.read_bytes().decode("latin-1") for path in made)):
        assert "canary" not in text


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_key_reaches_its_origin_and_is_shown_as_a_reference_everywhere(
    tmp_path: Path, origins: tuple[Origin, Origin], runner: str
) -> None:
    origin, other = origins
    folder = site(tmp_path / "site", origin.port, other.port)
    kfm = (sys.executable, "-m", "kfm")
    told = [
        typed(folder, *command(runner, "run", "--verbose"), KFM_LOG="jsonl"),
        typed(folder, *kfm, "promote", "wells", "--reason", "first"),
        typed(folder, *kfm, "runs", "receipt", "last"),
        typed(folder, *kfm, "config", "show", "--resolved"),
        typed(folder, *kfm, "triggers", "watch", "--once"),
        typed(folder, *kfm, "plan", "wells"),
    ]
    assert [done.returncode for done in told] == [0] * len(told), told
    asked = "/data?format=csv&key=canary-key-0123456789%2F%26%3D%25"
    assert origin.asked and set(origin.asked) == {(asked, TOKEN)}
    nowhere(folder, *told)
    name = f"http://127.0.0.1:{origin.port}/data?format=csv&key={{env:KFM_SECRET_WELLS}}#authorization={{file:token}}"
    (row,) = json.loads((folder / ".kfm/artifacts/idempotency.json").read_text())["runs"]
    assert row["source_metadata"][0]["uri"] == name
    assert name in next((folder / ".kfm/receipts").rglob("*.json")).read_text()
    assert "env:KFM_SECRET_WELLS" in told[3].stdout and "file:token" in told[3].stdout


@pytest.mark.parametrize("runner", RUNNERS)
def test_both_runners_know_it_by_the_same_name(tmp_path: Path, origins: tuple[Origin, Origin], runner: str) -> None:
    origin, other = origins
    folder = site(tmp_path / "site", origin.port, other.port)
    for words in (command(runner, "run"), command("node" if runner == "python" else "python", "run")):
        done = typed(folder, *words)
        assert done.returncode == 0, done
    assert "noop" in done.stdout


@pytest.mark.parametrize("runner", RUNNERS)
def test_no_secret_crosses_to_another_origin(tmp_path: Path, origins: tuple[Origin, Origin], runner: str) -> None:
    origin, other = origins
    folder = site(tmp_path / "site", origin.port, other.port)
    origin.redirect = f"http://127.0.0.1:{other.port}/elsewhere"
    assert typed(folder, *command(runner, "run")).returncode == 0
    assert other.asked == [("/elsewhere", "")], "followed, with nothing of ours"
    del other.asked[:]
    origin.redirect = f"http://127.0.0.1:{other.port}/elsewhere?KEY"
    refused = typed(folder, *command(runner, "run"))
    assert refused.returncode == 4 and "with a secret of this source in the address" in refused.stderr, refused
    assert other.asked == []
    nowhere(folder, refused)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    "name", ["key", "token", "apikey", "api-key", "sig", "X-Amz-Signature", "%6bey", "access_token"]
)
def test_a_key_in_clear_is_refused_by_its_place(tmp_path: Path, runner: str, name: str) -> None:
    folder = site(tmp_path / "site", 1, 2, more=f"&{name}=canary")
    refused = typed(folder, *command(runner, "run"))
    assert refused.returncode == 3
    assert "datasets.wells.sources.wells.uri holds a key in clear, as the parameter" in refused.stderr
    assert "`query:`" in refused.stderr and "canary" not in refused.stderr
    assert not (folder / ".kfm").exists()


CODE = """
from kfm import Output, Plan, Step, Updater


class Wells(Updater):
    id = "wells"
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("https://example.org/data?token=canary")]

    def plan(self, inputs):
        return Plan([Step(id="all", key=("all",))])

    def perform(self, step, read):
        return Output.text("x")
"""


def test_a_key_in_clear_in_the_code_of_an_updater_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "wells.py").write_text(CODE)
    (tmp_path / "kfm.yml").write_text("accept_weak_storage: true\ndatasets: {wells: {updater: 'wells.py:Wells'}}\n")
    refused = typed(tmp_path, sys.executable, "-m", "kfm", "run")
    assert refused.returncode == 3 and "holds a key in clear" in refused.stderr
    assert all(b"canary" not in path.read_bytes() for path in (tmp_path / ".kfm").rglob("*") if path.is_file())


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("env:KFM_SECRET_WELLS", "plain-text", "sources.wells.query.key is not a reference"),
        ("http://127.0.0.1:1/", "http://example.org/", "would be sent unencrypted"),
        ("http://127.0.0.1:1/", "data/", "would be sent unencrypted, or not at all"),
        ("Authorization", "bad name", "is not a valid name"),
        ("env:KFM_SECRET_WELLS", "env:KFM_SECRET_NOBODY", "the secret env:KFM_SECRET_NOBODY is empty"),
    ],
)
def test_what_is_no_reference_or_leads_nowhere_is_refused(
    tmp_path: Path, runner: str, before: str, after: str, complaint: str
) -> None:
    folder = site(tmp_path / "site", 1, 2)
    said = (folder / "kfm.yml").read_text()
    assert before in said
    (folder / "kfm.yml").write_text(said.replace(before, after))
    refused = typed(folder, *command(runner, "run"))
    assert refused.returncode == 3 and complaint in refused.stderr, refused


def test_other_references_are_another_name_and_give_another_run_key() -> None:
    uri = "https://h/a"
    ways = [({}, {}), ({"A": "env:X"}, {}), ({"A": "env:Y"}, {}), ({"B": "env:X"}, {}), ({}, {"A": "env:X"}),
            ({}, {"A": "file:X"}), ({}, {"A": "env:X", "B": "env:X"}), ({"A": "env:X"}, {"B": "env:X"}),
            ({}, {"A": "file:X}&B={env:X"}), ({"A": "file:a#b"}, {})]  # fmt: skip
    names = [referring(uri, headers, query) for headers, query in ways]
    assert len(set(names)) == len(ways) and names[0] == uri
    keys = {run_key_of([SourceRef(uri=name, content_hash="", size=0)], "", "1.0.0") for name in names}
    assert len(keys) == len(ways)
    assert referring(uri, {"A": "env:X"}, {"b": "env:Y", "a": "env:Z"}) == referring(
        uri, {"A": "env:X"}, {"a": "env:Z", "b": "env:Y"}
    ), "whatever order they are written in"


def test_what_only_looks_a_little_like_a_key_is_let_be() -> None:
    for uri in (
        "https://h/?year=2026&keyword=x",
        "https://h/#key=1",
        "data/key=1.csv",
        "https://h/?key=",
        "https://h/?key",
    ):
        assert key_in_clear(uri) == ""
