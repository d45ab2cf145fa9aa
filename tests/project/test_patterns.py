"""The pages of patterns, specs and checklists: each says what it has to, names tests that are there, and its tables are
made of the code. That their commands do what they say is shown where guides are (test_guides.py)."""

from __future__ import annotations

import re

import pytest

from kfm.errors import Unavailable
from kfm.projections.wal_records import wal_records
from tests.cli.test_continued import Flaky, flaky_site
from tests.project import specs
from tests.project.bans import ROOT
from tests.project.guides import blocks

DOCS = ROOT / "docs"
PATTERNS = {
    "concurrency-locks",
    "discovery-to-draft-pr",
    "focus-mode",
    "idempotent-upserts",
    "provenance-attestations",
    "replay-safe-outbox",
    "wal-replay",
}
SPECS = {
    "updater-interface": {"the fields of Updater", "the methods of Updater", "SourceRef", "Step"},
    "wal-record": {"WalRecord"},
    "lineage-cypher": {"the properties of the graph", "the statements of the graph"},
    "telemetry": {"RunTelemetry", "TelemetryBundle", "OperationTelemetry"},
}
CHECKLISTS = {"rollout", "canary", "governance-review"}
_TEST = re.compile(r"\[[^\]]+\]\(\.\./\.\./(tests/[^)#]+)\) `(test_\w+)`")


def section(text: str, title: str) -> str:
    """What stands under a heading, up to the next one of its height."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1] if found else ""


def wrong(text: str) -> list[str]:
    """What a page of a pattern lacks."""
    found = []
    for title in ("The promise", "How it is kept", "What it survives", "What it does not promise"):
        if not section(text, title).strip():
            found.append(f"nothing under {title!r}")
    rows = [line for line in section(text, "What it survives").splitlines() if line.startswith("| ")][1:]
    if len(rows) < 3:
        found.append("fewer than three faults")
    for row in rows:
        named = _TEST.findall(row)
        if not named:
            found.append(f"no test is named: {row}")
        for path, name in named:
            if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text(encoding="utf-8"):
                found.append(f"there is no {name} in {path}")
    return found


def test_the_pages_there_are() -> None:
    assert {page.stem for page in (DOCS / "patterns").glob("*.md")} == PATTERNS
    assert {page.stem for page in (DOCS / "specs").glob("*.md")} == set(SPECS)
    assert {page.stem for page in (DOCS / "checklists").glob("*.md")} == CHECKLISTS


@pytest.mark.parametrize("name", sorted(PATTERNS))
def test_a_pattern_says_its_promise_how_it_is_kept_and_which_test_shows_each_fault(name: str) -> None:
    assert wrong((DOCS / "patterns" / f"{name}.md").read_text(encoding="utf-8")) == []


def test_a_pattern_that_names_no_test_or_one_that_is_gone_is_found() -> None:
    text = (DOCS / "patterns" / "wal-replay.md").read_text(encoding="utf-8")
    named = _TEST.search(text)
    assert named is not None
    assert wrong(text.replace(named[2], "test_that_is_gone"))
    assert wrong(re.sub(r"\[[^\]]+\]\(\.\./\.\./tests/[^|]*", "everybody ", text))
    assert wrong(text.replace("## The promise", "## A promise")) == ["nothing under 'The promise'"]


@pytest.mark.parametrize("name", sorted(SPECS))
def test_what_a_spec_says_of_records_is_made_of_them(name: str) -> None:
    text = (DOCS / "specs" / f"{name}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- made of: ([^>]+) -->", text)) == SPECS[name]
    assert specs.filled(text) == text


def test_every_field_and_method_on_the_page_is_explained() -> None:
    for tables in SPECS.values():
        for name in tables - {"SourceRef", "Step"}:  # their types say most of it
            for row in specs.TABLES[name]().splitlines():
                if row.startswith("| `"):
                    assert row.rstrip("| ").count("|") >= 3 and not row.endswith("|  |"), f"{name}: {row}"


def test_a_table_that_is_not_what_the_code_makes_is_found() -> None:
    page = (DOCS / "specs" / "wal-record.md").read_text(encoding="utf-8")
    assert specs.filled(page.replace("| `seq` |", "| `number` |")) == page
    with pytest.raises(KeyError):
        specs.filled("<!-- made of: Nothing -->\n<!-- end -->\n")


def test_the_payloads_on_the_page_are_those_of_a_run() -> None:
    """Of one in which a step failed and was tried again: it has a record of every kind there is."""
    page = (DOCS / "specs" / "wal-record.md").read_text(encoding="utf-8")
    rows = [row.strip("| ").split("|") for row in section(page, "What `payload` holds").splitlines()[3:] if "|" in row]
    told = {(row[0].strip(" `"), row[1].strip(" `")): set(re.findall(r"`(\w+)`", "".join(row[2:]))) for row in rows}
    site, updater = flaky_site(), Flaky(Unavailable("not now"))
    updater.retries = 1
    receipt = site.run(updater)
    run = site.state.runs.get(receipt.run_id)
    assert run is not None and receipt.outcome == "done"
    segments = (segment for segment, _ in site.state.journal.segments(run.run_id))
    steps = updater.plan([]).steps
    assert {(each.phase, each.status): set(each.payload) for each in wal_records(run, steps, segments)} == told


@pytest.mark.parametrize("name", sorted(CHECKLISTS))
def test_every_item_of_a_checklist_says_how_to_look(name: str) -> None:
    """By a command that is run here, or one that can be typed, or a page."""
    text = (DOCS / "checklists" / f"{name}.md").read_text(encoding="utf-8")
    items = re.split(r"^- \[ \] ", text, flags=re.M)[1:]
    assert len(items) >= 6 and len(blocks(text)) >= 6
    for item in items:
        own = re.split(r"^## ", item, flags=re.M)[0]
        assert blocks(own) or re.search(r"`kfm [^`]+`|\]\([\w./#-]+\)", own), item
