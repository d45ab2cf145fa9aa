"""Protected datasets of two custodians and public ones, at work at the same time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kfm.crypto.custodian_key import CustodianKey
from kfm.crypto.encryption import decrypted, encryption_key_id
from kfm.engine.manifest import manifest_builder
from kfm.model.secret import Secret
from tests.app.governance.people import make_list
from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.engine.protected.conftest import IDS, KEY, SAFE, SECRETS, dataset, hits, installation, label, labels, table

TRIBE = hashlib.sha256(b"the tribe's").hexdigest()
TOKEN = "tok-5f2a9c1e7b"
TRIBE_ROWS = [secret.replace("14QX", "23RY").replace("cottonwood", "hackberry") for secret in (*IDS, "cottonwood")]

CODE = """
import os, threading
from kfm import Output, Plan, Step, Updater

together = threading.Barrier(int(os.environ["TOGETHER"]))


class Aside(Updater):
    \"\"\"A file for each row, laid aside while every other dataset does the same.\"\"\"

    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("sites")]

    def plan(self, inputs):
        return Plan([Step(id=f"row-{n}", key=(f"k{n:02d}",), params={"n": n}) for n in range(12)], complete=True)

    def perform(self, step, read):
        if step.params["n"] == 0:
            together.wait(20)
        with read.scratch() as file:
            file.write(read.bytes(0) * 50)
            file.seek(0)
            lines = file.read(len(read.bytes(0))).splitlines()
        return Output(body=lines[1 + step.params["n"]], media_type="text/csv")


class Fails(Aside):
    def perform(self, step, read):
        together.wait(20)
        raise ValueError(read.bytes(0).decode())
"""


@pytest.fixture
def laid_aside(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Second handles on every unnamed file, which outlive it, each with the thread that opened it."""
    found: list[tuple[str, int]] = []
    real = tempfile.TemporaryFile

    def watched(*words: Any, **how: Any) -> BinaryIO:
        file: BinaryIO = real(*words, **how)
        found.append((threading.current_thread().name, os.dup(file.fileno())))
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    monkeypatch.setattr(manifest_builder, "SORT_IN_MEMORY", 3)
    return found


def public_rows(name: str) -> str:
    return "site,kind\n" + "".join(f"{name}-{n},x\n" for n in range(12))


@pytest.fixture
def mixed(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:  # noqa: F811
    """Tables of the office and the tribe, one of a third custodian without a key, one that fails, two public ones."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    monkeypatch.setenv("KFM_SECRET_TRIBE", TRIBE)
    monkeypatch.setenv("TOGETHER", "5")
    said = {name: dataset(name, f"{name}.csv", updater="Aside") for name in ("office", "tribe", "museum")}
    said["fails"] = dataset("fails", "fails.csv", updater="Fails")
    for name in ("plain", "simple"):
        said[name] = dataset(name, f"{name}.csv", updater="Aside", sensitivity="public")
    installation(*said.values())
    Path("updaters.py").write_text(CODE)
    keys = "custodians:\n  tribe: {key: 'env:KFM_SECRET_TRIBE'}\n  museum: {key: 'env:KFM_SECRET_MUSEUM'}\n"
    Path("kfm.yml").write_text(Path("kfm.yml").read_text().replace("custodians:\n", keys))
    Path("sites.csv").unlink()
    theirs = table().replace("14QX", "23RY").replace("cottonwood", "hackberry")
    inputs = {"office": table(), "museum": table(), "tribe": theirs, "fails": theirs}
    for name, text in {**inputs, "plain": public_rows("plain"), "simple": public_rows("simple")}.items():
        Path("in").mkdir(exist_ok=True)
        Path(f"in/{name}.csv").write_text(text)
    Path("kfm.yml").write_text(re.sub(r"uri: (\w+\.csv)", r"uri: in/\1", Path("kfm.yml").read_text()))
    owners = {"office": "office", "tribe": "tribe", "museum": "museum", "fails": "tribe"}
    labels(*(label(f"{kind}: {at}", "restricted", custodian=owner) for name, owner in owners.items()
             for kind, at in (("dataset", name), ("source", f"in/{name}.csv"))))  # fmt: skip
    make_list(kfm, SAFE, "office")
    return kfm


def stored() -> Iterator[bytes]:
    """Every object of the installation, as it is stored."""
    yield from (path.read_bytes() for path in Path(".kfm/objects").rglob("*") if path.is_file())
    with closing(sqlite3.connect(".kfm/state.db")) as state:
        for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in state.execute(f'SELECT * FROM "{name}"'):
                yield from (value for value in row if isinstance(value, bytes))


def opened(secret: str, has: bytes) -> int:
    """How many stored objects with rows this key opens; all of them have only rows with this."""
    key = CustodianKey(Secret(secret.encode()))
    mine = {each for each in stored() if encryption_key_id(each) == key.key_id}
    bodies = [b"".join(decrypted([each], {key.key_id: key}.get)) for each in mine]
    found = [{word for word in (b"14QX", b"23RY") if word in body} for body in bodies]
    assert set().union(*found) <= {has}
    return sum(map(bool, found))


def test_jobs_of_two_custodians_neither_leak_nor_mix(
    mixed: Kfm, laid_aside: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kfm.app.runs.parallel_jobs.cores", lambda: 8)  # all of them compute at the same time
    monkeypatch.setattr("kfm.app.runs.parallel_jobs._memory", lambda: 64 << 30)
    monkeypatch.setenv("KFM_LOG", "jsonl")
    ran = mixed("run", "--jobs", "6", "--json", "--verbose")
    outcomes = {each["dataset"]: each["status"] for each in json.loads(ran.out)["receipts"]}
    assert {name for name, status in outcomes.items() if status == "SUCCESS"} == {"office", "tribe", "plain", "simple"}
    assert ran.code != 0 and "KFM_SECRET_MUSEUM" in ran.err and "raised ValueError" in ran.err
    secrets = [*SECRETS, *TRIBE_ROWS, KEY, TRIBE]
    assert not [secret for secret in secrets if secret.lower() in (ran.out + ran.err).lower()]
    for path in Path("in").iterdir():
        path.unlink()
    assert hits(secrets) == []
    threads = {thread for thread, _ in laid_aside}
    bodies = [os.pread(handle, os.fstat(handle).st_size, 0) for _, handle in laid_aside]
    for _, handle in laid_aside:
        os.close(handle)
    body = b"".join(bodies)
    assert len(threads) >= 4 and b"plain-3" in body  # public rows are laid aside as they are: so the test sees them
    assert not [secret for secret in secrets if secret.encode() in body]
    for name, other in (("plain", "simple"), ("simple", "plain")):
        shown = mixed("cat", name, "k03").out
        assert f"{name}-3" in shown and other not in shown
    assert opened(KEY, b"14QX") >= 12 and opened(TRIBE, b"23RY") >= 12
