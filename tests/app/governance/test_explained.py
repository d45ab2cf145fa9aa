"""An explanation of protected data shows its classification, its custodian and its resolution, and nothing of its
content.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.governance.test_canaries import Site
from tests.masking.canaries import hits


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    found = Site(tmp_path_factory.mktemp("explained") / "site", 40)
    labels = found.folder / "labels.yml"
    labels.write_text(labels.read_text().replace("care: open", "care: community\n    authority: The society", 1))
    found.people()
    found.kfm("run", "sites", "vault")
    found.kfm("promote", "sites", "--key", str(found.folder.parent / "safe/olli.key"), "--reason", "cells", expect=4)
    return found


def test_an_explanation_shows_governance_and_no_address(site: Site) -> None:
    told = site.kfm("explain", "sites", "--json").data
    said = " ".join(line["text"] for line in told["lines"] if line["about"] == "governance")
    for word in ("generalised", "resolution 7", "society", "The society decides"):
        assert word in said, said
    assert told["chain"][0]["id"].startswith("kfm://withheld/") and told["chain"][0]["name"] == "a protected source"
    assert "sites.csv" not in str(told) and told["chain"][-1]["level"] == "generalised"


def test_a_restricted_source_is_shown_without_its_name_or_count(site: Site) -> None:
    told = site.kfm("explain", "vault", "--json").data
    assert told["chain"][-1]["level"] == "restricted" and "raw.csv" not in str(told)
    assert not any("rows" in line["text"] for line in told["lines"])
    for words in (("explain", "vault", "--format", "html"), ("explain", "vault", "--format", "mermaid")):
        answer = site.kfm(*words)
        assert "raw.csv" not in answer.out and "shard-" not in answer.out


def test_the_reason_for_masking_or_waiting_is_shown_with_the_person_to_ask(site: Site) -> None:
    found = {one["what"]: one for one in reversed(site.kfm("why-not", "sites", "--json").data["reasons"])}
    assert "resolution 7" in found["masked"]["why"] and found["masked"]["do"] == "kfm labels show sites"
    assert "promote was requested by olli and is open" in found["approval"]["why"]
    assert found["approval"]["do"].startswith("kfm review show ")
    assert site.kfm("why-not", "sites", "--exit-code", expect=None).code in (3, 7)
    closed = {one["what"]: one for one in site.kfm("why-not", "vault", "--json").data["reasons"]}
    assert "restricted" in closed["closed"]["why"]


def test_without_the_key_the_explanation_is_the_same(site: Site) -> None:
    for name in ("sites", "vault"):
        with_key = site.kfm("explain", name, "--json").out
        assert site.kfm("explain", name, "--json", KFM_SECRET_SOCIETY="").out == with_key
        assert site.kfm("why-not", name, "--json", KFM_SECRET_SOCIETY="").data["reasons"]


def test_nothing_of_it_is_on_the_terminal(site: Site) -> None:
    site.kfm("explain", "sites")
    site.kfm("explain", "sites", "--format", "html", "--out", str(Path(site.folder) / "page.html"))
    assert b"generalised" in bytes(site.terminal)
    assert hits(bytes(site.terminal) + (site.folder / "page.html").read_bytes(), site.canaries) == set()
