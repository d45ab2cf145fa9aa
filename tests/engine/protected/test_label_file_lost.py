"""While the label file is missing or unreadable, a steward can still make a label stricter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401
from tests.engine.protected.conftest import SAFE, dataset, installation, label, labels

SUE = ("--key", str(SAFE / "sue.key"), "--reason", "the family asked")
BROKEN = "version: 1\nlabels: [\n  - of: {dataset: sites\n"


@pytest.mark.parametrize("how", ["missing", "unreadable"])
def test_a_label_becomes_stricter_and_the_other_signed_labels_stay(site: Kfm, how: str) -> None:
    assert site("run", "sites").code == 0
    signed = Path("labels.yml").read_text()
    lose(how)
    assert site("run", "sites", "--force", "--reason", "x").code != 0  # the slip is one
    answer = site("labels", "set", "source:sites.csv", "--sensitivity", "closed", *SUE)
    assert answer.code == 0, answer.err
    assert f"was {how}: it was written again from the signed labels" in answer.err
    after = Path("labels.yml").read_text()
    assert after.replace("closed", "generalised") == signed and after != signed
    if how == "unreadable":
        assert Path("labels.yml.unreadable").read_text() == BROKEN
    assert "closed" in site("labels", "show").out


@pytest.mark.parametrize("how", ["missing", "unreadable"])
def test_a_looser_label_still_needs_two_and_the_signed_labels_are_written_again(site: Kfm, how: str) -> None:
    assert site("run", "sites").code == 0
    signed = Path("labels.yml").read_text()
    lose(how)
    answer = site("labels", "set", "source:sites.csv", "--resolution", "8", *SUE)
    assert answer.code == 4, answer.err
    assert Path("labels.yml").read_text() == signed
    assert site("run", "sites", "--force", "--reason", "x").code == 0


def test_without_signed_labels_the_error_names_the_command_that_withdraws(kfm: Kfm) -> None:  # noqa: F811
    installation(dataset("towns", "sites.csv", sensitivity="public"), custodians=False)
    labels(label("dataset: towns", "public", custodian=None, public_resolution=None))
    assert kfm("run").code == 0
    lose("unreadable")
    answer = kfm("labels", "set", "dataset:towns", "--sensitivity", "closed", "--reason", "x")
    assert answer.code == 3 and "kfm rollback DATASET --to nothing" in answer.err, answer.err
    assert Path("labels.yml").read_text() == BROKEN


def lose(how: str) -> None:
    if how == "missing":
        Path("labels.yml").unlink()
    else:
        Path("labels.yml").write_text(BROKEN)
