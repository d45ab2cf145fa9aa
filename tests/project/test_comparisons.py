"""The page of comparisons says of every peer what it does better, of which version, and where that is written."""

from __future__ import annotations

import re

import pytest

from tests.project.bans import ROOT

PAGE = (ROOT / "docs" / "comparisons.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (?!In short)(.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
MEASURED = {"DBOS": "dbos", "Dagster": "dagster", "Prefect": "prefect"}


def test_those_people_ask_about_are_there_and_in_the_table() -> None:
    asked = {"DBOS", "Temporal", "Dagster", "Airflow", "Prefect", "dlt", "lakeFS", "NASA Cumulus"}
    assert asked <= set(SECTIONS)
    assert "as of November 2026" in PAGE
    linked = re.findall(r"^\| \[[^\]]+\]\(#([^)]+)\)", PAGE, re.M)
    assert sorted(linked) == sorted(name.lower().replace(" ", "-") for name in SECTIONS)


@pytest.mark.parametrize("name", SECTIONS)
def test_a_peer_is_shown_with_what_it_does_better_its_version_and_sources(name: str) -> None:
    text = SECTIONS[name]
    assert "**Better than KFM**" in text and "**KFM does and it does not**" in text
    assert re.search(r"\d+\.\d+|names no version|README of 20\d\d", text)
    better = text.partition("**Better than KFM**")[2].partition("\n- **")[0]
    assert "](https://" in better, "says where it is written"


def test_no_measured_number_is_on_this_page() -> None:
    assert re.findall(r"\d+(?:\.\d+)?\s?(?:x|\u00d7|times|ms|/s|percent|%)", PAGE) == []


@pytest.mark.parametrize("name", MEASURED)
def test_the_version_on_the_page_is_the_measured_one(name: str) -> None:
    pins = (ROOT / "bench" / "peers-requirements" / f"{MEASURED[name]}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{MEASURED[name]}==([\d.]+)", pins, re.M)
    assert found and found.group(1) in SECTIONS[name]
