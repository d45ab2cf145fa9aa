"""Objects of S3 stores: asked for as anybody may or with keys, judged as any other address, and not sent twice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.errors import BadInput, Denied, KfmError
from kfm.model.records import FetchRequest
from kfm.model.secret import Secret
from kfm.sources.s3 import AMAZON, S3Keys, S3Source, S3Store, address_of, parts_of, signed_headers
from tests.engine.installations import Installation, environment
from tests.node.sites import command
from tests.servers.seaweed import ACCESS, SECRET, running, signed
from tests.sources.memory_objects import MemoryObjects
from tests.sources.packed import NAME, ROWS, zipped
from tests.sources.s3_server import MemoryStore, serving

KEYS = S3Keys(Secret(ACCESS.encode()), Secret(SECRET.encode()), None)
ENV = {"KFM_SECRET_ACCESS": ACCESS, "KFM_SECRET_SECRET": SECRET}

CONFIG = """
kfm: 1
accept_weak_storage: true
network: {{allow: ["{host}"]}}
s3:
  rain-ks: {{endpoint: "{endpoint}"{keys}}}
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources:
      rain: {{uri: "s3://rain-ks/{key}", format: csv, contract: {{columns: [{{name: mm, type: number}}]}}{more}}}
    outputs: {{all: {{from: rain}}}}
"""
SIGNED = ", access_key: 'env:KFM_SECRET_ACCESS', secret_key: 'env:KFM_SECRET_SECRET'"


def site(folder: Path, endpoint: str, *, keys: str = "", key: str = "2026/rain.csv", more: str = "") -> Installation:
    host = endpoint.partition("://")[2]
    (folder / "kfm.yml").write_text(CONFIG.format(endpoint=endpoint, host=host, keys=keys, key=key, more=more))
    return Installation(folder)


def test_the_example_of_the_specification_is_signed_as_it_says() -> None:
    said = signed_headers(
        "https://examplebucket.s3.amazonaws.com/test.txt", "us-east-1", KEYS, "2013-05-24T00:00:00Z",
        {"Range": "bytes=0-9"},
    )  # fmt: skip
    assert said["authorization"].endswith("Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
    assert SECRET not in str(said)


@pytest.mark.parametrize(
    ("store", "bucket", "key", "address"),
    [
        (
            AMAZON,
            "noaa-ghcn-pds",
            "csv/by year/1763.csv",
            "https://noaa-ghcn-pds.s3.amazonaws.com/csv/by%20year/1763.csv",
        ),
        (S3Store("", "eu-west-1", None), "b-1", "k", "https://b-1.s3.eu-west-1.amazonaws.com/k"),
        (S3Store("", "us-east-1", KEYS), "b-1", "é+/k", "https://b-1.s3.us-east-1.amazonaws.com/%C3%A9%2B/k"),
        (AMAZON, "a.b.c", "k", "https://s3.us-east-1.amazonaws.com/a.b.c/k"),
        (S3Store("https://lakefs.example/", "x", None), "repo", "main/a.csv", "https://lakefs.example/repo/main/a.csv"),
    ],
)
def test_where_an_object_is_asked_for(store: S3Store, bucket: str, key: str, address: str) -> None:
    assert address_of(store, bucket, key) == address


@pytest.mark.parametrize(
    "uri", ["s3://b", "s3://bb/", "s3://bbb/a/../b", "s3://bbb/a//b", "s3://bbb/a?b", "s3://BBB/a", "s3://u:p@bbb/a"]
)
def test_what_names_no_object_is_refused(uri: str) -> None:
    with pytest.raises(BadInput):
        parts_of(uri)


def test_a_public_bucket_is_read_and_what_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    store = MemoryStore()
    store.objects["/rain-ks/2026/rain.csv"] = ROWS
    with serving(store) as endpoint:
        there = site(tmp_path, endpoint)
        there.kfm("run")
        assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS
        sent = store.sent
        assert " noop " in there.kfm("run").out
        assert store.sent == sent
        assert store.asked[-1] == ("/rain-ks/2026/rain.csv", 304)
        store.objects["/rain-ks/2026/rain.csv"] = ROWS + b"3,4\n"
        there.kfm("run")
        assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS + b"3,4\n"
        receipt = there.kfm("runs", "list", "--json").out
    assert "authorization" not in receipt.lower()


def test_keys_by_reference_sign_and_are_written_nowhere(tmp_path: Path) -> None:
    store = MemoryStore(ACCESS, SECRET)
    store.objects["/rain-ks/2026/rain%20%C3%A9.csv"] = ROWS
    with serving(store) as endpoint:
        there = site(tmp_path, endpoint, keys=SIGNED, key="2026/rain é.csv")
        there.kfm("run", env=ENV)
        assert " noop " in there.kfm("run", env=ENV).out
        wrong = there.kfm("run", "--force", "--reason", "x", env={**ENV, "KFM_SECRET_SECRET": "y" * 40}, expect=3)
        assert "s3://rain-ks answers 403" in wrong.err
        assert "under `s3:`" in wrong.err
    assert [status for _, status in store.asked] == [200, 304, 403]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
            assert ACCESS.encode() not in path.read_bytes(), path


def test_a_member_of_an_archive_in_a_bucket(tmp_path: Path) -> None:
    store = MemoryStore(ACCESS, SECRET)
    store.objects["/rain-ks/2026/rain.zip"] = zipped((NAME, ROWS))
    with serving(store) as endpoint:
        there = site(tmp_path, endpoint, keys=SIGNED, key="2026/rain.zip", more=f", member: {NAME}")
        there.kfm("run", env=ENV)
        assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS
        assert " noop " in there.kfm("run", env=ENV).out
    assert [status for _, status in store.asked] == [200, 304]


def test_a_store_on_a_private_address_is_not_reached_unless_it_is_allowed() -> None:
    source = S3Source(lambda _: S3Store("http://127.0.0.1:9", "us-east-1", None))
    with pytest.raises(Denied, match="this machine"):
        source.fetch(FetchRequest(uri="s3://bbb/k", now_ms=1), None, MemoryObjects())


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (", access_key: 'env:A'", "has only one of access_key and secret_key"),
        (", access_key: AKIA, secret_key: hush", "is not a reference"),
        (", session_token: 'env:A'", "has no meaning without keys"),
        (", region: 'a/b'", "is not a region"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, keys: str, complaint: str) -> None:
    there = site(tmp_path, "http://127.0.0.1:9", keys=keys)
    assert complaint in there.kfm("run", expect=3).err


def test_keys_do_not_go_over_the_wire_in_clear(tmp_path: Path) -> None:
    there = site(tmp_path, "http://store.example", keys=SIGNED)
    assert "is not the https address of a store" in there.kfm("run", expect=3).err


def test_node_refuses_an_object_and_still_runs_the_others(tmp_path: Path) -> None:
    site(tmp_path, "http://127.0.0.1:9")
    text = (tmp_path / "kfm.yml").read_text()
    more = '  other:\n    version: "1.0.0"\n    sensitivity: public\n    sources: {a: {uri: a.csv, format: csv}}\n'
    (tmp_path / "kfm.yml").write_text(text + more + "    outputs: {all: {from: a}}\n")
    (tmp_path / "a.csv").write_bytes(ROWS)

    def node(dataset: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("node", "run", dataset),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    assert node("other").returncode == 0
    refused = node("rain")
    assert refused.returncode == 3
    assert "KFM cannot read a source with the scheme 's3'" in refused.stderr


# ------------------------------------------------------------------------------------ a real server


@pytest.fixture(scope="module")
def seaweed() -> Iterator[str]:
    with running() as server:
        server.put("/rain-ks", b"")
        yield server.endpoint


@pytest.mark.long
def test_a_real_store_gives_what_keys_may_read_and_what_anybody_may(tmp_path: Path, seaweed: str) -> None:
    signed(seaweed, "/rain-ks/2026/rain%20%C3%A9.csv", ROWS)
    there = site(tmp_path, seaweed, keys=SIGNED, key="2026/rain é.csv")
    there.kfm("run", env=ENV)
    assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS
    events = there.kfm("run", "--verbose", env={**ENV, "KFM_LOG": "jsonl"})
    pinned = [json.loads(line) for line in events.err.splitlines() if '"source.pinned"' in line]
    assert [line["not_modified"] for line in pinned] == [True]
    signed(seaweed, "/rain-ks/2026/rain%20%C3%A9.csv", ROWS + b"3,4\n")
    there.kfm("run", env=ENV)
    assert there.kfm("cat", "processed/rain", "all").out.encode() == ROWS + b"3,4\n"
    anybody = site(tmp_path, seaweed)
    assert "answers 403" in anybody.kfm("run", expect=3).err


@pytest.mark.long
def test_a_real_store_lets_anybody_read_what_is_public(seaweed: str) -> None:
    signed(seaweed, "/open-data/a.csv", ROWS)
    objects = MemoryObjects()
    source = S3Source(lambda _: S3Store(seaweed, "us-east-1", None))
    request: Any = FetchRequest(uri="s3://open-data/a.csv", now_ms=1, allow=(seaweed.partition("://")[2],))
    fetched = source.fetch(request, None, objects)
    assert objects.stored[fetched.ref.content_hash] == ROWS
    assert source.fetch(request, fetched.checkpoint, objects).not_modified
    with pytest.raises(KfmError, match=r"40[34]"):
        source.fetch(FetchRequest(uri="s3://open-data/none.csv", now_ms=1, allow=request.allow), None, objects)
