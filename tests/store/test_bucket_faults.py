"""A bucket behind a network that breaks: nothing half written is ever seen, and what is tried again is written once."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm.bucket import AT_ONCE, Bucket
from kfm.errors import Corrupt, KfmError, Unavailable
from kfm.sinks.bucket_publisher import BucketPublisher
from kfm.store.buckets.bucket_objects import BucketObjects
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState
from tests.sampling import sampled
from tests.servers.http_fault_proxy import Fault, FaultProxy, proxied
from tests.servers.seaweed import Seaweed
from tests.servers.seaweed import seaweed as seaweed
from tests.sinks.test_publishers import POINTER, NoLock, pointer
from tests.store.buckets import at, fresh

ONE, PARTS = b"large" * 20_000, b"0123456789abcdef" * (AT_ONCE // 16) * 2 + b"end"
FAULTS: tuple[Fault, ...] = ("reset-after", "reset-before", "503", "cut", "slow", "twice")


def name_of(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


@pytest.fixture
def proxy(seaweed: Seaweed) -> Iterator[FaultProxy]:
    with proxied(seaweed.endpoint) as between:
        yield between


def stores(proxy: FaultProxy, scratch: Path) -> tuple[BucketObjects, Bucket]:
    """Objects behind the proxy, and the same bucket without it."""
    direct = fresh("http://" + proxy.upstream)
    behind = at(proxy.endpoint, direct.prefix, wait_s=5)
    return BucketObjects(behind, StoredState(MemoryTables(), lambda: 1), str(scratch)), direct


@pytest.mark.parametrize(("body", "method"), sampled([(ONE, "PUT"), (PARTS, "PUT"), (PARTS, "POST")]))
@pytest.mark.parametrize("fault", sampled(FAULTS, 2))
def test_a_put_whose_request_or_answer_is_lost_is_one_whole_object(
    proxy: FaultProxy, tmp_path: Path, fault: Fault, body: bytes, method: str
) -> None:
    objects, direct = stores(proxy, tmp_path)
    proxy.breaks(fault, method)
    assert objects.put(body) == name_of(body)
    assert proxy.fired[fault] == 1
    assert [each.size for each in direct.below("")] == [len(body)]
    assert objects.read(name_of(body)) == body


@pytest.mark.parametrize("body", sampled([ONE, PARTS]))
@pytest.mark.parametrize("fault", sampled(["cut", "reset-before", "503"]))
def test_a_put_that_never_succeeds_leaves_nothing(proxy: FaultProxy, tmp_path: Path, fault: Fault, body: bytes) -> None:
    objects, direct = stores(proxy, tmp_path)
    objects._bucket = at(proxy.endpoint, direct.prefix, wait_s=1)
    proxy.breaks(fault, "PUT", times=1000)
    with pytest.raises(Unavailable) as raised:
        objects.put(body)
    assert "kfm resume" in raised.value.hint and "\n" not in str(raised.value)
    assert proxy.fired[fault] > 1 and list(direct.below("")) == [] and os.listdir(tmp_path) == []
    proxy.breaks("", "PUT")
    assert objects.put(body) == name_of(body)


@pytest.mark.parametrize("body", sampled([ONE, PARTS]))
def test_a_store_that_answers_other_bytes_is_found_out(proxy: FaultProxy, tmp_path: Path, body: bytes) -> None:
    objects, _ = stores(proxy, tmp_path)
    name = objects.put(body)
    for read in (objects.read, lambda n: objects.open(n).read()):
        proxy.breaks("flipped", "GET")
        with pytest.raises(Corrupt, match="have another digest"):
            read(name)
    assert proxy.fired["flipped"] == 2 and objects.read(name) == body


@pytest.mark.parametrize("fault", sampled(["short", "reset-after", "reset-before", "503"]))
def test_a_get_that_breaks_is_tried_again(proxy: FaultProxy, tmp_path: Path, fault: Fault) -> None:
    objects, _ = stores(proxy, tmp_path)
    name = objects.put(PARTS)
    proxy.breaks(fault, "GET", times=2)
    assert objects.read(name) == PARTS
    assert proxy.fired[fault] == 2


@pytest.mark.parametrize("fault", ["reset-after", "reset-before", "503", "twice"])
def test_a_pointer_and_a_file_whose_answer_is_lost_are_written_once(proxy: FaultProxy, fault: Fault) -> None:
    direct = fresh("http://" + proxy.upstream)
    publisher = BucketPublisher(at(proxy.endpoint, direct.prefix, wait_s=5), NoLock)
    for seq in (1, 2):
        proxy.breaks(fault, "PUT")
        publisher.update_metadata(POINTER, pointer(seq), "k")
    proxy.breaks(fault, "PUT")
    publisher.write_file("datasets/d/a.csv", name_of(b"1"), 1, "k", [b"1"])
    proxy.breaks(fault, "DELETE")
    publisher.remove_file("datasets/d/a.csv", "k", lambda: None)
    assert proxy.fired[fault] == 4
    assert json.loads((direct.read(POINTER) or (b"",))[0])["seq"] == 2
    assert [each.path for each in direct.below("")] == [POINTER]


def test_the_bytes_of_a_large_file_are_checked_before_it_appears(seaweed: Seaweed) -> None:
    bucket = fresh(seaweed.endpoint)
    publisher = BucketPublisher(bucket, NoLock)
    with pytest.raises(Corrupt, match="do not have the expected digest"):
        publisher.write_file("datasets/d/a.csv", name_of(b"other"), len(PARTS), "k", [PARTS])
    assert list(bucket.below("")) == []


KILLED = """
import sys
from kfm.store.buckets.bucket_objects import BucketObjects
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState
from tests.store.buckets import at

endpoint, prefix, scratch = sys.argv[1:]
objects = BucketObjects(at(endpoint, prefix), StoredState(MemoryTables(), lambda: 1), scratch)
print("begins", flush=True)
objects.put_stream(bytes([n]) * (1 << 20) for n in range(50))
"""


@pytest.mark.long
@pytest.mark.parametrize("parts", [1, 3, 5])
def test_a_process_that_is_killed_in_a_large_put_leaves_nothing_under_the_name(
    proxy: FaultProxy, tmp_path: Path, parts: int
) -> None:
    objects, direct = stores(proxy, tmp_path)
    words = [sys.executable, "-c", textwrap.dedent(KILLED), proxy.endpoint, direct.prefix, str(tmp_path / "scratch")]
    proxy.breaks("slow", "PUT", times=1000, part="partNumber")
    with subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.getcwd()}) as running:
        until = time.monotonic() + 60
        while proxy.passed["PUT"] < parts:
            assert running.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
    name = name_of(b"".join(bytes([n]) * (1 << 20) for n in range(50)))
    assert not objects.has(name) and list(direct.below("")) == []
    with pytest.raises(Corrupt, match="is missing"):
        objects.read(name)
    assert os.listdir(tmp_path / "scratch") == []
    proxy.rule = lambda _method, _path: ""
    assert objects.put_stream(bytes([n]) * (1 << 20) for n in range(50)) == (name, 50 << 20)


def test_a_fault_of_every_kind_names_no_address_of_the_server(proxy: FaultProxy, tmp_path: Path) -> None:
    objects, direct = stores(proxy, tmp_path)
    objects._bucket = at(proxy.endpoint, direct.prefix, wait_s=1)
    name = name_of(ONE)
    proxy.breaks("503", "GET", times=1000)
    with pytest.raises(KfmError) as said:
        objects.read(name)
    assert str(said.value).startswith("cannot read an object: the bucket kfm-kept answers 503")
    assert "127.0.0.1" not in str(said.value) and proxy.fired["503"] > 1
