"""A source of several custodians: all keys are available or nothing is read, one key encrypts, and each custodian
approves.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.app.governance.people import make_list
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import KEY, SAFE, dataset, every_byte, hits, installation, label, labels

TRIBE = hashlib.sha256(b"the tribe's").hexdigest()


@pytest.fixture
def shared(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """The dataset is the office's, the file the tribe's."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    monkeypatch.setenv("KFM_SECRET_TRIBE", TRIBE)
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="public"))
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("custodians:\n", "custodians:\n  tribe: {key: 'env:KFM_SECRET_TRIBE'}\n"))
    labels(label("dataset: sites"), label("source: sites.csv", custodian="tribe"))
    make_list(kfm, SAFE, "office")
    for name, signers in (("tom", ("ada",)), ("tia", ("ada", "tom"))):
        signed = [word for each in signers for word in ("--key", str(SAFE / f"{each}.key"))]
        words = ("--person", name, "--role", "steward", "--custodian", "tribe", "--out", str(SAFE / f"{name}.key"))
        assert kfm("keys", "new", *words, *signed).code == 0
    return kfm


@pytest.mark.parametrize("missing", ["KFM_SECRET_OFFICE", "KFM_SECRET_TRIBE"])
def test_without_the_key_of_one_of_them_nothing_is_read(
    shared: Kfm, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.delenv(missing)
    ran = shared("run", "sites")
    assert ran.code == 4 and "is missing" in ran.err
    assert hits() == []


def test_the_first_by_name_seals_and_each_is_asked_before_anything_is_public(shared: Kfm) -> None:
    ran = shared("run", "sites")
    assert ran.code == 0, ran.err
    (row,) = shared("labels", "show", "sites", "--json").data
    assert row["custodians"] == ["office", "tribe"] and row["sealed_by"] == "office"
    assert "the key of office encrypts it" in shared("labels", "show", "sites").err
    asked = shared("promote", "sites", "--key", str(SAFE / "olli.key"), "--reason", "x")
    assert asked.code == 4
    (order,) = [one["id"] for one in shared("review", "list", "--json").data if one["kind"] == "order"]
    for name in ("sue", "sam", "tom", "tia"):
        assert not Path("public/datasets/sites").exists(), name
        assert shared("review", "approve", order, "--key", str(SAFE / f"{name}.key")).code == 0
    assert Path("public/datasets/sites").exists()
    assert hits() == []
    assert not any(b"14QX10" in body for body in every_byte().values())


def test_lowering_takes_the_stewards_of_each(shared: Kfm) -> None:
    assert shared("run", "sites").code == 0
    Path("labels.yml").write_text(
        "version: 1\nlabels:\n  - of: {dataset: sites}\n    sensitivity: generalised\n    care: open\n"
        "    custodian: office\n    public_resolution: 6\n  - of: {source: sites.csv}\n    sensitivity: generalised\n"
        "    care: open\n    custodian: tribe\n    public_resolution: 6\n"
    )
    words = ("labels", "set", "source:sites.csv", "--resolution", "7", "--key", str(SAFE / "olli.key"))
    assert shared(*words, "--reason", "finer").code == 4
    (order,) = [one["id"] for one in shared("review", "list", "--json").data if one["kind"] == "order"]
    for name in ("tom", "tia", "sue"):
        assert shared("review", "approve", order, "--key", str(SAFE / f"{name}.key")).code == 0
        assert "public_resolution: 7" not in Path("labels.yml").read_text(), name
    assert shared("review", "approve", order, "--key", str(SAFE / "sam.key")).code == 0
    assert "public_resolution: 7" in Path("labels.yml").read_text()
