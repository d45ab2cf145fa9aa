"""One steward alone does not write the open word, and every request names the effective levels that it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, dataset, hits, installation, label, labels

DERIVED = """  again:
    updater: updaters.py:Copy
    title: again
    license: CC0-1.0
    sources:
      sites: {dataset: sites, zone: processed}
"""
JUMP = ("labels", "set", "source:sites.csv", "--sensitivity", "public")


@pytest.fixture
def graves(site: Kfm) -> Kfm:
    """A restricted table that `care` would still generalise, and a dataset made from it."""
    installation(dataset("sites", "sites.csv", mask=True), DERIVED)
    labels(label("source: sites.csv", "restricted", care="community"))
    assert site("run", "sites").code == 0
    return site


def key(name: str) -> tuple[str, ...]:
    return "--key", str(SAFE / f"{name}.key"), "--reason", "as agreed"


def waiting(kfm: Kfm) -> list[str]:
    return [row["id"] for row in kfm("review", "list", "--json").data if row["kind"] == "order"]


def test_the_open_word_takes_two_while_another_word_holds_the_level(site: Kfm) -> None:
    labels(label("source: sites.csv", care="sacred", access_rights="closed"))
    installation(dataset("sites", "sites.csv", mask=True))
    site("run", "sites")  # closed: the labels come into force
    written = Path("labels.yml").read_text()
    for more in (("--sensitivity", "public"), ("--care", "open"), ("--access", "open")):
        asked = site("labels", "set", "source:sites.csv", *more, *key("sue"))
        assert asked.code == 4, asked.err
        assert "sites/sites: closed → closed" in asked.err
    assert Path("labels.yml").read_text() == written
    assert len(waiting(site)) == 3


def test_a_word_that_nothing_else_holds_is_not_written_by_one_alone_without_keys(kfm: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True))
    labels(label("source: sites.csv", "restricted", care="sacred"))
    refused = kfm(*JUMP, "--reason", "small")
    assert refused.code == 4 and "that takes two stewards" in refused.err
    assert "restricted" in Path("labels.yml").read_text()


def test_a_request_its_review_and_its_signature_name_every_level_touched(graves: Kfm) -> None:
    asked = graves(*JUMP, *key("olli"))
    assert asked.code == 4
    (request,) = waiting(graves)
    levels = ["sites/sites: restricted → generalised, cell 6", "again: restricted → generalised, cell 6",
              "sites: restricted → generalised, cell 6"]  # fmt: skip
    shown = graves("review", "show", request)
    signed = graves("review", "approve", request, *key("sue"))
    for line in levels:
        assert line in asked.err
        assert line in shown.out
        assert line in signed.err
    assert all(line in graves("review", "show", request, "--json").data["more"]["params"]["levels"] for line in levels)


def test_the_jump_to_public_is_shown_for_what_it_is_or_refused(graves: Kfm) -> None:
    """The second of two small changes: `care` was the last word that held the level. The mask says otherwise."""
    assert by_order(graves, SAFE, *JUMP).code == 0
    assert "restricted" not in Path("labels.yml").read_text()
    words = ("labels", "set", "source:sites.csv", "--care", "open")
    second = graves(*words, *key("olli"))
    assert second.code == 4
    assert "sites/sites: generalised, cell 6 → generalised, cell 6 (label.resolution)" in second.err
    assert hits() == []


def test_signatures_do_not_count_for_levels_that_they_do_not_name(graves: Kfm) -> None:
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("    title: sites", "    sensitivity: restricted\n    title: sites"))
    asked = graves(*JUMP, *key("olli"))
    assert "sites/sites: restricted → restricted" in asked.err
    (request,) = waiting(graves)
    assert graves("review", "approve", request, *key("sue")).code == 0
    Path("kfm.yml").write_text(text)
    last = graves("review", "approve", request, *key("sam"))
    assert last.code == 4 and "levels.changed" in last.err, last.err
    assert "sensitivity: restricted" in Path("labels.yml").read_text()


def test_a_request_to_publish_names_the_level_of_the_version(site: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True))
    labels(label("source: sites.csv"))
    assert site("run", "sites").code == 0
    assert site("publish", "sites", *key("olli")).code == 4
    (request,) = waiting(site)
    assert "sites: nothing → generalised, cell 6" in site("review", "show", request).out
    assert "sites: nothing → generalised, cell 6" in site("review", "approve", request, *key("sue")).err


def test_a_finer_mask_names_the_cells_before_and_after(site: Kfm) -> None:
    installation(dataset("sites", "sites.csv", mask=True))
    labels(label("source: sites.csv", public_resolution=8))
    assert site("run", "sites").code == 0
    Path("mask.yml").write_text(Path("mask.yml").read_text().replace("resolution: 6", "resolution: 7"))
    assert site("mask", "deploy", "sites", "sites", *key("olli")).code == 4
    (request,) = waiting(site)
    assert "sites/sites: generalised, cell 6 → generalised, cell 7" in site("review", "show", request).out


def test_a_request_about_public_data_is_as_it_was(site: Kfm) -> None:
    installation(dataset("open", "open.csv", sensitivity="public"), custodians=False)
    Path("open.csv").write_text("town\nHays\n")
    labels()
    assert site("run", "open").code == 0
    assert site("publish", "open", *key("olli")).code == 4
    (request,) = waiting(site)
    assert site("review", "show", request, "--json").data["more"]["params"] == {"ref": "published/open"}
