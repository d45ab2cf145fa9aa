"""`kfm review` lists everything that waits for a person, with its evidence, and nothing of the data."""

from __future__ import annotations

from pathlib import Path

from .conftest import Kfm, tree
from .test_restricted import CONFIG, DATA, UPDATER, leaks


def laid_out(sensitivity: str = "restricted") -> None:
    Path("kfm.yml").write_text(CONFIG.replace("sensitivity: restricted", f"sensitivity: {sensitivity}"))
    Path("digs.py").write_text(UPDATER)
    Path("digs.csv").write_text(DATA.replace("470,", "unknown,"))


def test_nothing_is_pending_review_in_the_beginning(kfm: Kfm) -> None:
    laid_out()
    answer = kfm("review", "list")
    assert answer.code == 0 and "nothing is pending review" in answer.err
    assert kfm("review", "list", "--json").data == []


def test_held_rows_wait_with_their_rules(kfm: Kfm) -> None:
    laid_out()
    assert kfm("run").code == 0
    before = tree()
    (item,) = kfm("review", "list", "--json").data
    assert item["kind"] == "held" and item["dataset"] == "digs" and item["id"] == "held-digs"
    assert "1 of 3 rows" in item["what"]
    shown = kfm("review", "show", "held-digs", "--json")
    assert shown.code == 0, shown.err
    (finding,) = [line for line in shown.data["more"]["findings"] if line["column"]]
    assert finding["column"] == "age" and finding["times"] == "1" and finding["rows"] == "2"
    answer = kfm("review", "show", "held-digs")
    assert "kfm quarantine digs" in answer.out
    assert leaks(shown.out + answer.out + answer.err) == []
    assert tree() == before


def test_a_gate_that_said_no_waits_until_it_says_yes(kfm: Kfm) -> None:
    public = CONFIG.replace("sensitivity: restricted", "sensitivity: public")
    laid_out()
    Path("kfm.yml").write_text(public.replace("    license: CC0-1.0\n", ""))
    Path("digs.csv").write_text(DATA)
    assert kfm("run").code == 0
    assert kfm("promote", "digs").code == 4
    (item,) = kfm("review", "list", "--json").data
    assert item["kind"] == "gate" and item["what"].startswith("promote: ") and item["dataset"] == "digs"
    shown = kfm("review", "show", item["id"], "--json").data["more"]
    assert all(line["gate"] for line in shown["reasons"])
    assert any("license" in line["reason"] for line in shown["reasons"])
    assert shown["before"] == "nothing" and shown["keys"] == "3 added, 0 changed, 0 removed"
    assert leaks(str(shown)) == []
    Path("kfm.yml").write_text(public)
    assert kfm("promote", "digs").code == 0
    assert kfm("review", "list", "--json").data == []


def test_an_item_that_does_not_wait_is_reported(kfm: Kfm) -> None:
    laid_out()
    answer = kfm("review", "show", "held-nothing")
    assert answer.code == 3 and "`kfm review list --all`" in answer.complaint
