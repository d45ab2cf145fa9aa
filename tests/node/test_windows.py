"""`--window` builds the partitions of a declared time column that lie in it, and leaves the others as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installations import NOW
from tests.node.sites import Seen, Site, Story, differences, tell

CONFIG = """\
accept_weak_storage: true
datasets:
  rain:
    version: "1.0.0"
    title: Rain
    license: CC0-1.0
    sensitivity: public
    sources:
      rain:
        uri: rain.csv
        format: csv
        complete: true
        contract: {partition_by: day, columns: [{name: day, required: true}, {name: mm, type: number}]}
    outputs: {by-day: {from: rain, partition_by: day%s}}
"""
DAYS = ("2025-11-30", "2025-12-10", "2026-01-03", "2026-01-05")


def rain(mm: str, *days: str) -> str:
    return "day,mm\n" + "".join(f"{day},{mm}\n" for day in days)


def told(tmp_path: Path, story: Story, extra: str = ", window_by: day") -> list[Seen]:
    files = {"kfm.yml": CONFIG % extra, "rain.csv": rain("1", *DAYS)}
    tellings = [tell(tmp_path / "site", files, story, lambda _n, who=name: who) for name in ("python", "node")]
    assert not list(differences(*tellings))
    return tellings[1]


def receipt(seen: Seen) -> dict[str, Any]:
    (found,) = json.loads(seen.answer.out)["receipts"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("window", ["2026-01-01/2026-01-31", "P30D"])
def test_what_lies_outside_is_carried_over_although_it_changed_or_went(tmp_path: Path, window: str) -> None:
    assert NOW.startswith("2026-01-05")
    made: dict[str, bytes] = {}

    def story(site: Site) -> None:
        site.run("run", "--json")
        site.put("rain.csv", rain("22", *DAYS[1:], "2026-01-04"))
        site.run("run", "--window", window, "--json")
        for day in (*DAYS, "2026-01-04"):
            made[day] = site.kfm("cat", "processed/rain", f"by-day/{day}").out.encode()
        site.run("run", "--window", window, "--json")

    _, second, again = told(tmp_path, story)
    late = [day for day, body in made.items() if b",22" in body]
    lies = {"2026-01-01/2026-01-31": ["2026-01-03", "2026-01-05", "2026-01-04"]}
    lies["P30D"] = ["2025-12-10", *lies["2026-01-01/2026-01-31"]]
    assert late == lies[window] and b",1\n" in made["2025-11-30"]
    assert receipt(second)["changes"] == {"added": 1, "changed": len(late) - 1, "removed": 0, "keys": 5}
    assert receipt(again)["outcome"] == "noop"
    runs = [json.loads(body) for body in second.rows["runs"].values()]
    absolute = {"P30D": "2025-12-06/2026-01-05"}.get(window, window)
    assert {run["trigger"]["window"] for run in runs} == {"", absolute}


@pytest.mark.parametrize("window", ["yesterday", "2026-01-31/2026-01-01", "PT1H", "2026-01-01"])
def test_any_other_text_is_refused_by_the_command_line(tmp_path: Path, window: str) -> None:
    (seen,) = told(tmp_path, lambda site: void(site.run("run", "--window", window, code=3)))
    assert "--window is neither two days nor a duration" in seen.answer.err
    assert not seen.rows["runs"] and not seen.rows["receipts"]


def test_a_dataset_that_declares_no_column_of_time_refuses_it(tmp_path: Path) -> None:
    (seen,) = told(tmp_path, lambda site: void(site.run("run", "--window", "P30D", code=3)), extra="")
    assert "--window has no meaning for rain: its output by-day declares no window_by" in seen.answer.err
    assert not seen.rows["receipts"]


def test_values_that_are_not_times_are_reported_and_nothing_changes(tmp_path: Path) -> None:
    def story(site: Site) -> None:
        site.put("rain.csv", rain("1", "monday"))
        site.run("run", "--window", "P30D", code=3)

    (seen,) = told(tmp_path, story)
    assert (
        "a value of 'day' is not a day, month, year or instant" in seen.answer.err and "monday" not in seen.answer.err
    )
    assert "processed/rain" not in seen.rows["refs"]


def test_a_column_that_keys_are_not_made_of_cannot_be_the_window(tmp_path: Path) -> None:
    files = {"kfm.yml": CONFIG % ", window_by: mm", "rain.csv": rain("1", *DAYS)}
    site = Site(tmp_path / "site", files, lambda _n: "python")
    python, node = site.python("run"), site.node("run")
    assert python == node and python.code == 3
    assert "window_by is not the partition_by of the output" in python.err


def void(_seen: Seen) -> None:
    """A story tells nothing."""
