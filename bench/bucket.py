"""What the store of objects costs over obstore itself: the same bytes to the same server, by turns in one run.

    python bench/bucket.py [--mib 1024] [--count 300] [--rounds 3]

SeaweedFS runs on this machine, so the network costs nothing and every cost of ours shows. A ratio of 1 is as fast as
obstore alone. obstore alone does less: it computes no digest of the content, and it checks nothing of what it reads.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import obstore

from kfm.bucket import PART
from kfm.store.buckets.bucket_objects import BucketObjects
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState
from tests.servers.seaweed import running
from tests.store.buckets import at

SMALL = 100_000  # bytes: the least that is not a row of the state is 64 KiB
CHUNK = 1 << 20


def measured(rounds: int, works: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """Return the median seconds of each work. They take turns, so that both meet the same disturbances."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for n in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            work(n)
            times[name].append(time.perf_counter() - begun)
    return {name: statistics.median(found) for name, found in times.items()}


def show(what: str, found: dict[str, float], amount: float, unit: str) -> None:
    alone, kfm = found["obstore"], found["kfm"]
    print(f"{what:<22}{amount / alone:>10.0f}{amount / kfm:>10.0f}  {unit:<10}{alone / kfm:>6.2f}x", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with running() as server, tempfile.TemporaryDirectory(dir=".") as scratch:
        bucket = at(server.endpoint, "bench")
        objects = BucketObjects(bucket, StoredState(MemoryTables(), lambda: 1), scratch)
        store = bucket.store
        print(f"{'':<22}{'obstore':>10}{'kfm':>10}")
        small(options, objects, store)
        large(options, objects, store)


def small(options: argparse.Namespace, objects: BucketObjects, store: Any) -> None:
    bodies = [[os.urandom(SMALL) for _ in range(options.count)] for _ in range(2 * options.rounds)]
    names: list[str] = []

    def put_alone(n: int) -> None:
        for m, body in enumerate(bodies[n]):
            obstore.put(store, f"small/{n}/{m}", body, mode="create", use_multipart=False)

    def put(n: int) -> None:
        names.extend(objects.put(body) for body in bodies[options.rounds + n])

    def get_alone(n: int) -> None:
        for m in range(options.count):
            bytes(obstore.get(store, f"small/{n}/{m}").bytes())

    def get(n: int) -> None:
        for name in names[n * options.count : (n + 1) * options.count]:
            objects.read(name)

    show("put 100 kB", measured(options.rounds, {"obstore": put_alone, "kfm": put}), options.count, "objects/s")
    show("get 100 kB", measured(options.rounds, {"obstore": get_alone, "kfm": get}), options.count, "objects/s")


def large(options: argparse.Namespace, objects: BucketObjects, store: Any) -> None:
    chunk = os.urandom(CHUNK)
    names: dict[int, str] = {}

    def chunks(start: bytes) -> Any:
        yield start
        for _ in range(options.mib):
            yield chunk

    def put_alone(n: int) -> None:
        obstore.put(store, f"large/{n}", chunks(b"a%d" % n), chunk_size=PART, max_concurrency=4)

    def put(n: int) -> None:
        names[n] = objects.put_stream(chunks(b"k%d" % n))[0]

    def get_alone(n: int) -> None:
        for part in obstore.get(store, f"large/{n}").stream(min_chunk_size=CHUNK):
            len(part)

    def get_hashed(n: int) -> None:
        total = hashlib.sha256()
        for part in obstore.get(store, f"large/{n}").stream(min_chunk_size=CHUNK):
            total.update(part)

    def get(n: int) -> None:
        with objects.open(names[n]) as file:
            while file.read(CHUNK):
                pass

    show(f"put {options.mib} MiB", measured(options.rounds, {"obstore": put_alone, "kfm": put}), options.mib, "MiB/s")
    found = measured(options.rounds, {"obstore": get_alone, "hashed": get_hashed, "kfm": get})
    show(f"get {options.mib} MiB", found, options.mib, "MiB/s")
    show("  also hashed by both", {**found, "obstore": found["hashed"]}, options.mib, "MiB/s")


if __name__ == "__main__":
    main()
