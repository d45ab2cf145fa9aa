"""The scratch files of a restricted run cannot be read on the disk."""

from __future__ import annotations

import io
import os
import random
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from kfm.crypto.encrypted_scratch import PIECE, encrypted_file
from kfm.engine.manifest import manifest_builder
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import IDS, UPDATERS, dataset, hits, installation, label, labels

ASIDE = """

class Aside(Copy):
    \"\"\"A key for each row, which tells its id; and the rows themselves, laid aside and read back.\"\"\"

    def plan(self, inputs):
        return Plan([Step(id=f"row-{n}", key=(f"ID{n}",), params={"n": n}) for n in range(12)], complete=True)

    def perform(self, step, read):
        with read.scratch() as file:
            file.write(read.bytes(0) * 400)
            file.seek(0)
            lines = file.read(len(read.bytes(0))).splitlines()
        return Output(body=lines[1 + step.params["n"]], media_type="text/csv")
"""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Second handles on every unnamed file, which outlive it."""
    found: list[int] = []
    real = tempfile.TemporaryFile

    def watched(*words: Any, **how: Any) -> BinaryIO:
        file: BinaryIO = real(*words, **how)
        found.append(os.dup(file.fileno()))
        return file

    monkeypatch.setattr(tempfile, "TemporaryFile", watched)
    return found


def on_disk(handles: list[int]) -> bytes:
    out = []
    for handle in handles:
        out.append(os.pread(handle, os.fstat(handle).st_size, 0))
        os.close(handle)
    return b"".join(out)


def aside(sensitivity: str) -> None:
    said = {"sensitivity": "public"} if sensitivity == "public" else {}
    installation(dataset("sites", "sites.csv", updater="Aside", **said), custodians=not said)
    Path("updaters.py").write_text(UPDATERS + ASIDE.replace("ID{n}", "{'" + IDS[0] + "'}-{n:02d}"))
    labels(*([] if said else [label("dataset: sites", sensitivity), label("source: sites.csv", sensitivity)]))


def test_a_restricted_run_lays_nothing_aside_in_clear(
    site: Kfm, kept: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_builder, "SORT_IN_MEMORY", 3)
    aside("restricted")
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    body = on_disk(kept)
    assert len(kept) >= 12 + 3 and len(body) > 12 * PIECE  # the steps laid rows aside, and the manifest its lines
    assert not [secret for secret in (*IDS, "cottonwood", "trinomial") if secret.encode() in body]
    assert hits() == []


def test_what_is_public_is_laid_aside_as_it_is(site: Kfm, kept: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would see it."""
    monkeypatch.setattr(manifest_builder, "SORT_IN_MEMORY", 3)
    aside("public")
    assert site("run", "sites").code == 0
    assert IDS[0].encode() in on_disk(kept)


def test_sealed_scratch_is_a_file_like_any_other() -> None:
    below = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with what is above it
    rng = random.Random(5)
    plain = io.BytesIO()
    with encrypted_file(below) as sealed:
        for _ in range(300):
            at = rng.randrange(len(plain.getvalue()) + 1)
            body = bytes([rng.randrange(256)]) * rng.choice((1, 100, PIECE, 3 * PIECE + 7))
            for file in (sealed, plain):
                file.seek(at)
                file.write(body)
                file.seek(at // 2)
            assert sealed.read(2 * PIECE) == plain.read(2 * PIECE)
        sealed.seek(0)
        assert sealed.read() == plain.getvalue() and sealed.seek(0, 2) == len(plain.getvalue())
        sealed.flush()
        below.seek(0)
        stored = below.read()
        assert len(stored) >= len(plain.getvalue()) and plain.getvalue()[:64] not in stored
    assert below.closed
