"""A source that turned into another kind of file, or has another header, is quarantined until a person has looked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_small_promises import RUNNERS, kfm_in, typed
from tests.node.sites import command

FREE = """\
kfm: 1
datasets:
  wells:
    version: 1.0.0
    title: Wells
    license: CC0-1.0
    sensitivity: public
    sources:
      wells: {uri: wells.csv, FORM}
    outputs:
      all: {from: wells}
"""
TABLE = "format: csv, contract: {}"
GOOD = "id,mm\n" + "".join(f"{n},{n}\n" for n in range(20))
PAGE = "<!DOCTYPE html>\n<html><body>\n" + "<p>Service unavailable</p>\n" * 400 + "</body></html>\n"
CHANGES = {
    "an error page": (TABLE, PAGE, "source.kind"),
    "an error in JSON": (TABLE, '{"error": "try again later"}\n', "source.kind"),
    "an error in plain text": (TABLE, "The service is unavailable.\n" * 20, "source.header"),
    "a column that is gone": (TABLE, GOOD.replace("id,mm", "id,inches"), "source.header"),
}


def state(folder: Path) -> tuple[bool, str]:
    (row,) = json.loads(kfm_in(folder, "status", "--json").stdout)["datasets"]
    return row["is_held"], row["version"]


def findings(folder: Path) -> list[dict[str, Any]]:
    (source,) = json.loads(kfm_in(folder, "quarantine", "wells", "--json").stdout)["sources"]
    return list(source["findings"])


QUICK = (("an error page", "python"), ("an error in plain text", "node"))
EVERY = [
    pytest.param(change, runner, marks=[] if (change, runner) in QUICK else [pytest.mark.long])
    for change in CHANGES
    for runner in RUNNERS
]


@pytest.mark.parametrize(("change", "runner"), EVERY)
def test_a_change_of_kind_or_of_a_free_header_is_quarantined(tmp_path: Path, runner: str, change: str) -> None:
    form, body, rule = CHANGES[change]
    (tmp_path / "kfm.yml").write_text(FREE.replace("FORM", form))
    source = tmp_path / "wells.csv"
    source.write_text(GOOD)
    run = command(runner, "run", "wells")
    assert typed(tmp_path, *run).returncode == 0
    good = state(tmp_path)
    source.write_text(body)
    answer = typed(tmp_path, *run)
    assert answer.returncode == 3, answer
    assert rule in answer.stderr and "--force --reason" in answer.stderr
    assert state(tmp_path) == (True, good[1])
    assert [each["rule"] for each in findings(tmp_path)] == [rule]
    source.write_text(GOOD)
    assert typed(tmp_path, *run).returncode == 0
    assert state(tmp_path) == good == (False, good[1])


@pytest.mark.long
def test_a_source_that_a_person_declares_differently_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "kfm.yml").write_text(FREE.replace("FORM", TABLE))
    source = tmp_path / "wells.csv"
    source.write_text(GOOD)
    assert kfm_in(tmp_path, "run", "wells").returncode == 0
    (tmp_path / "kfm.yml").write_text(FREE.replace("FORM", "format: ndjson"))
    source.write_text("".join(f'{{"id": {n}}}\n' for n in range(20)))
    assert kfm_in(tmp_path, "run", "wells").returncode == 0


@pytest.mark.parametrize("runner", ["python", pytest.param("node", marks=pytest.mark.long)])
def test_a_person_may_accept_the_change_and_the_good_bytes_may_return(tmp_path: Path, runner: str) -> None:
    (tmp_path / "kfm.yml").write_text(FREE.replace("FORM", TABLE))
    source = tmp_path / "wells.csv"
    source.write_text(GOOD)
    run = command(runner, "run", "wells")
    assert typed(tmp_path, *run).returncode == 0
    good = state(tmp_path)
    source.write_text(PAGE)
    assert typed(tmp_path, *run, "--force", "--reason", "it is so").returncode == 0
    assert state(tmp_path)[1] != good[1]
    source.write_text(GOOD)
    answer = typed(tmp_path, *run)
    assert answer.returncode == 0, "the last good bytes are neither of another kind nor shrunk: " + answer.stderr
    assert state(tmp_path) == good
