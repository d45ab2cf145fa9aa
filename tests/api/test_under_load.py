"""Two hundred clients next to a publisher, and servers that are killed while they take requests."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.session.session import open_session
from kfm.model.keys import digest
from tests.api import door
from tests.api.door import Case, Senders
from tests.api.load import Told, many_clients, memory_of
from tests.api.serving import Served, serving
from tests.api.serving_site import OPEN, make

AT = f"/v1/datasets/{OPEN}"
PATHS = (
    AT, f"{AT}/versions", f"/stac/search?collections={OPEN}", f"/datasets/{OPEN}/current.json", "/v1/datasets",
    f"/datasets/{OPEN}/", "/", f"/v1/focus/{OPEN}", f"/stac/collections/{OPEN}/items?limit=1", "/v1/refs",
)  # fmt: skip


def kfm(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kfm.cli.main", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


class Publisher(threading.Thread):
    """Rolls back and promotes again, as an operator does, until it is told to end."""

    def __init__(self, folder: Path, newest: str) -> None:
        super().__init__(daemon=True)
        self.folder, self.newest = folder, newest
        self.moves = 0
        self.wrong: list[str] = []
        self.ending = threading.Event()

    def run(self) -> None:
        commands = (("rollback", OPEN), ("promote", OPEN, "--to", self.newest))
        while not self.ending.is_set():
            for words in commands:
                done = kfm(self.folder, *words, "--reason", "a test")
                if done.returncode:
                    self.wrong.append(done.stderr)
                    return
                self.moves += 1


def standing(folder: Path) -> dict[int, str]:
    """The published version after each entry of the ledger."""
    found, now = {}, ""
    with open_session(config.load(str(folder / "kfm.yml"), {}), mode="read") as session:
        for entry in session.state.ledger.entries():
            for move in entry.moves:
                if move.ref == f"published/{OPEN}":
                    now = move.after
            found[entry.index] = now
    return found


def items_of(body: bytes) -> frozenset[tuple[str, str]]:
    features = json.loads(body)["features"]
    return frozenset((each["id"], each["assets"]["data"]["file:checksum"]) for each in features)


def torn(told: Told, versions: dict[int, str], files: dict[str, str], items: dict[str, frozenset[Any]]) -> str:
    """Return what does not agree with the ledger entry that an answer names; empty if all does."""
    if told.path in files:  # the bytes of a file of one version
        if told.status == 404:
            return ""  # its version is not the current one
        return "" if digest(told.body) == files[told.path] else "other bytes"
    if told.status != 200:
        return f"status {told.status}"
    index = int(told.headers["kfm-ledger-entries"])
    version = versions[index]
    if told.path.startswith("/v1/"):
        data = json.loads(told.body)
        if data["ledger_entries"] != index:
            return f"of entry {data['ledger_entries']}, said to be of {index}"
        if told.path in (AT, f"/v1/focus/{OPEN}") and data["version"] != version:
            return f"version {data['version']} at entry {index}"
        if told.path == AT and {each["digest"] for each in data["files"]} != _digests(files, version):
            return f"files of another version at entry {index}"
        if told.path == f"{AT}/versions" and data["versions"][0]["version"] != version:
            return f"the newest is {data['versions'][0]} at entry {index}"
        if told.path == "/v1/datasets":
            (own,) = [each for each in data["datasets"] if each["dataset"] == OPEN]
            return "" if own["version"] == version else f"{own['version']} in the list at entry {index}"
        if told.path == "/v1/refs":
            (ref,) = [each["target"] for each in data["refs"] if each["ref"] == f"published/{OPEN}"]
            return "" if ref == version else f"the ref leads to {ref} at entry {index}"
    if told.path.startswith("/stac/"):
        found = items_of(told.body)
        whole = found == items[version] or ("limit=1" in told.path and found and found <= items[version])
        return "" if whole else f"items of another version at entry {index}"
    if told.path.endswith("current.json") and json.loads(told.body)["version"] != version:
        return f"the pointer leads elsewhere at entry {index}"
    if told.path == f"/datasets/{OPEN}/" and version[7:19].encode() not in told.body:
        return f"the page is of another version at entry {index}"
    return ""


def _digests(files: dict[str, str], version: str) -> set[str]:
    return {own for path, own in files.items() if path.endswith(f"#{version}")}


def attack(folder: Path, clients: int, seconds: float) -> tuple[Counter[str], Publisher, list[tuple[float, float]]]:
    """Ask the server of two versions next to the publisher. Fails at the first answer that is wrong; returns how many
    answers of each path came, the publisher, and the memory of the server by the time."""
    make(folder)
    files: dict[str, str] = {}
    items: dict[str, frozenset[Any]] = {}
    with serving(folder, "--rate", "0") as served:
        _remember(served, files, items)
        (folder / "rows.csv").write_text("id,depth\na,1\nb,3\nc,4\n")
        for words in (("run", OPEN), ("publish", OPEN, "--reason", "a test")):
            done = kfm(folder, *words)
            assert done.returncode == 0, done.stderr
        newest = _remember(served, files, items)
        assert len(items) == 2 and len(set(items.values())) == 2
        paths = [*PATHS, *(path for path in files if "#" not in path)]
        told: list[Told] = []
        memory: list[tuple[float, float]] = []
        counted = Counter[str]()
        publisher = Publisher(folder, newest)
        publisher.start()
        began = time.monotonic()

        def look() -> None:
            while not publisher.ending.wait(1):
                memory.append((time.monotonic() - began, memory_of(served.process.pid)))

        looking = threading.Thread(target=look, daemon=True)
        looking.start()
        seen = set[tuple[str, str, bytes]]()

        def hear(one: Told) -> None:
            """Keep an answer once: what the same entry is said of with the same bytes is judged once."""
            counted[one.path] += 1
            key = one.path, one.headers.get("kfm-ledger-entries", str(one.status)), digest(one.body).encode()
            if key not in seen:
                seen.add(key)
                told.append(one)

        def order(number: int) -> Iterator[str]:
            yield from random.Random(number).sample(paths, len(paths))

        port = int(served.url.rpartition(":")[2])
        try:
            asyncio.run(many_clients(port, clients, seconds, order, hear))
        finally:
            publisher.ending.set()
            publisher.join(timeout=120)
            looking.join(timeout=10)
    assert publisher.wrong == []
    versions = standing(folder)
    wrong = [(one.path, found) for one in told if (found := torn(one, versions, files, items))]
    assert wrong == [], wrong[:5]
    assert len({one.headers.get("kfm-ledger-entries") for one in told}) >= min(publisher.moves, 3)
    planted = next(one for one in told if one.path == AT)
    other = next(version for version in items if version != json.loads(planted.body)["version"])
    assert torn(planted, dict.fromkeys(versions, other), files, items), "an answer of another version is found"
    return counted, publisher, memory


def _remember(served: Served, files: dict[str, str], items: dict[str, frozenset[Any]]) -> str:
    """Keep which files and items the current version has, and return the version."""
    said = served.ask(AT).data
    for each in said["files"]:
        files[each["href"]] = files[f"{each['href']}#{said['version']}"] = each["digest"]
    items[said["version"]] = items_of(served.ask(f"/stac/search?collections={OPEN}").body)
    return str(said["version"])


@pytest.mark.long
@pytest.mark.usefixtures("clean")
def test_200_clients_next_to_a_publisher_get_whole_answers_and_memory_stays_flat(tmp_path: Path) -> None:
    counted, publisher, memory = attack(tmp_path, 200, 60)
    assert publisher.moves >= 2 and counted.total() > 1000 and min(counted[path] for path in PATHS) > 10
    half = [own for at, own in memory if at > memory[-1][0] / 2]
    first, last = half[: len(half) // 3], half[-len(half) // 3 :]
    assert statistics.median(last) < statistics.median(first) * 1.05 + 4, memory


# -- kills


class Caller:
    """Sends webhooks until the server is gone, and remembers what it was told."""

    def __init__(self, senders: Senders) -> None:
        self.senders = senders
        self.taken: dict[str, Case] = {}  # by delivery: told 202 or 200
        self.untold: dict[str, Case] = {}  # sent, and no answer came: to be sent again
        self.since: dict[str, float] = {}  # when each was signed: after five minutes its signature is stale
        self.again = 0

    def next(self, draw: random.Random) -> Case:
        for known, share in ((self.untold, 0.5), (self.taken, 0.2)):
            fresh = [name for name in list(known)[-400:] if time.monotonic() - self.since[name] < 120]
            if fresh and draw.random() < share:
                self.again += 1
                return known[draw.choice(fresh)]
        case = self.senders.valid()
        self.since[case.effect] = time.monotonic()
        return case

    async def send(self, port: int, draw: random.Random) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                case = self.next(draw)
                if case.effect not in self.taken:
                    self.untold[case.effect] = case
                writer.write(case.request())
                head = await reader.readuntil(b"\r\n\r\n")
                assert int(head[9:12]) in case.statuses, head
                await reader.readuntil(b"\n")
                self.taken[case.effect] = case
                self.untold.pop(case.effect, None)
        finally:
            writer.close()


def killed(folder: Path, caller: Caller, draw: random.Random) -> None:
    """Start `kfm up --listen`, send to it from eight sides, and kill it in the middle."""
    command = [sys.executable, "-m", "kfm.cli.main", "--json", "up", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(
        command, cwd=folder, env=door.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    port = int(json.loads(process.stdout.readline())["listening"].rpartition(":")[2])
    wanted = len(caller.taken) + draw.randrange(5, 60)

    async def run() -> None:
        tasks = [asyncio.create_task(caller.send(port, draw)) for _ in range(8)]
        while len(caller.taken) < wanted:
            await asyncio.sleep(0)
            broken = [task for task in tasks if task.done() and isinstance(task.exception(), AssertionError)]
            assert not broken, broken[0].exception()
        process.send_signal(signal.SIGKILL)
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, OSError | EOFError) for each in found), found

    try:
        asyncio.run(run())
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.stdout.close()
    assert process.wait(timeout=30) == -signal.SIGKILL, "the fault fired"


@pytest.mark.parametrize("kills", [pytest.param(100, marks=pytest.mark.long)])
def test_what_was_acknowledged_is_there_after_every_kill_and_has_one_effect(kills: int, tmp_path: Path) -> None:
    folder, draw = door.installation(tmp_path), random.Random(kills)
    caller = Caller(Senders(kills))
    for _ in range(kills):
        killed(folder, caller, draw)
    done = subprocess.run(
        [sys.executable, "-m", "kfm.cli.main", "triggers", "watch", "--once"],
        cwd=folder, env=door.environment(), capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open_session(config.load(str(folder / "kfm.yml"), {}), mode="read") as session:
        inbox = session.state.inbox
        deliveries = list(inbox.deliveries())
        # `kfm up` itself asks for a run when it first looks at a source.
        ended = [each.trigger.trigger_id for each in inbox.all_ended() if each.trigger.kind != "poll"]
        kept = {name for each in deliveries for name in each.trigger_ids}  # GitHub's by the digest of its body, too
        assert list(inbox.waiting()) == []
        receipts = Counter(entry.run_id for entry in session.state.ledger.entries())
    assert len(caller.taken) <= len(kept) <= len(caller.taken) + len(caller.untold), "a delivery starts one trigger"
    assert sorted(ended) == sorted(kept), "and each trigger ended once"
    assert len(caller.taken) > 5 * kills and caller.again > kills
    assert set(receipts.values()) == {1}, "no run is in the ledger twice"
