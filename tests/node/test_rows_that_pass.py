"""A run that took in nothing, or far less than before, is no success: its source is held, in either language.

Each story is told by Python and by Node, and both leave the same bytes behind.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
        contract: {%s columns: [{name: mm, type: number, mode: discard-row}]}
    outputs: {all: {from: rain, steps: [{filter: {column: station, not_equals: gone}}]%s}}
"""


def config(contract: str = "", output: str = "") -> str:
    return CONFIG % (contract and contract + ",", output and ", " + output)


def table(good: int, bad: int = 0, station: str = "KMHK") -> str:
    return "station,mm\n" + "".join(f"{station},{n}\n" for n in range(good)) + f"{station},much\n" * bad


def told(tmp_path: Path, source: str, story: Story, contract: str = "", output: str = "") -> list[Seen]:
    """What either runner makes of it, which is the same."""
    files = {"kfm.yml": config(contract, output), "rain.csv": source}
    tellings = {name: tell(tmp_path / "site", files, story, lambda _n, who=name: who) for name in ("python", "node")}
    assert not list(differences(tellings["python"], tellings["node"]))
    return tellings["node"]


def receipt(seen: Seen) -> dict[str, Any]:
    (found,) = json.loads(seen.answer.out)["receipts"]
    assert isinstance(found, dict)
    return found


def refs(seen: Seen) -> set[str]:
    return {name for name in seen.rows["refs"] if name.startswith(("processed/", "published/"))}


def once(code: int) -> Story:
    def story(site: Site) -> None:
        site.run("run", "--json", code=code)

    return story


def twice(then: str, code: int) -> Story:
    def story(site: Site) -> None:
        site.run("run", "--json")
        site.put("rain.csv", then)
        site.run("run", "--json", code=code)

    return story


def test_a_source_of_which_no_row_passes_is_held(tmp_path: Path) -> None:
    (seen,) = told(tmp_path, table(0, bad=4), once(3), "max_held_share: 1")
    assert receipt(seen)["outcome"] == "held" and not refs(seen)
    assert "none of the 4 rows passed (rows.none)" in seen.answer.err and "allow_empty" in seen.answer.err


def test_a_source_without_a_row_is_held(tmp_path: Path) -> None:
    (seen,) = told(tmp_path, table(0), once(3))
    assert receipt(seen)["outcome"] == "held" and not refs(seen)
    assert "there is no row in it (rows.none)" in seen.answer.err


def test_a_source_that_may_be_empty_is_not_held_for_it(tmp_path: Path) -> None:
    (seen,) = told(tmp_path, table(0), once(0), "allow_empty: true")
    assert receipt(seen)["outcome"] == "done"


def test_more_than_a_fifth_of_the_rows_held_holds_the_source(tmp_path: Path) -> None:
    (seen,) = told(tmp_path, table(7, bad=2), once(3))
    found = receipt(seen)
    assert (found["outcome"], found["held_rows"], found["rows"]) == ("held", 2, 9) and not refs(seen)
    assert "2 of 9 rows are held, more than max_held_share allows (rows.share)" in seen.answer.err


def test_a_fifth_of_the_rows_held_does_not(tmp_path: Path) -> None:
    (seen,) = told(tmp_path, table(8, bad=2), once(0))
    assert (receipt(seen)["held_rows"], receipt(seen)["rows"]) == (2, 10)


def test_the_contract_says_how_many_may_be_held(tmp_path: Path) -> None:
    told(tmp_path, table(1, bad=2), once(0), "max_held_share: 0.7")
    told(tmp_path, table(9, bad=1), once(3), "max_held_share: 0.05")


def test_a_fifth_fewer_rows_than_the_version_before_hold_the_source(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(100), twice(table(80), 3))
    assert receipt(seen)["outcome"] == "held"
    assert "80 rows passed, and 100 in the version before (rows.shrunk)" in seen.answer.err
    assert "shrink_limit" in seen.answer.err


def test_a_few_rows_less_do_not(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(100), twice(table(81), 0))
    assert receipt(seen)["outcome"] == "done"


def test_rows_that_are_held_are_rows_that_are_lost(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(100), twice(table(79, bad=19), 3))
    assert "79 rows passed, and 100 in the version before (rows.shrunk)" in seen.answer.err


def test_the_contract_says_how_much_a_source_may_shrink(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(100), twice(table(2), 0), "shrink_limit: 1")
    assert receipt(seen)["outcome"] == "done"


def test_a_held_source_is_compared_with_what_is_live_and_not_with_what_was_held(tmp_path: Path) -> None:
    def story(site: Site) -> None:
        site.run("run", "--json")
        for rows in (50, 50, 85):
            site.put("rain.csv", table(rows))
            site.run("run", "--json", code=3 if rows == 50 else 0)

    *_, seen = told(tmp_path, table(100), story)
    assert receipt(seen)["outcome"] == "done"


def test_after_a_rollback_the_version_that_was_put_back_is_the_one_before(tmp_path: Path) -> None:
    def story(site: Site) -> None:
        site.run("run", "--json")
        first = site.ref("processed/rain")
        site.put("rain.csv", table(1000))
        site.run("run", "--json")
        site.kfm("rollback", "rain", "--ref", "processed/rain", "--to", first, "--reason", "a wrong file")
        site.put("rain.csv", table(90))
        site.run("run", "--json")

    *_, seen = told(tmp_path, table(100), story)
    assert receipt(seen)["outcome"] == "done"


def test_an_output_that_had_rows_and_is_only_a_header_now_is_held(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(100), twice(table(101, station="gone"), 3))
    found = receipt(seen)
    assert found["outcome"] == "held"
    assert "output 'all' has no rows any more" in seen.answer.err and "allow_empty" in seen.answer.err


def test_an_output_that_may_be_empty_is_not_held_for_it(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(100), twice(table(101, station="gone"), 0), output="allow_empty: true")
    assert receipt(seen)["outcome"] == "done"


def test_an_output_that_never_had_rows_is_not_held(tmp_path: Path) -> None:
    _, seen = told(tmp_path, table(10, station="gone"), twice(table(11, station="gone"), 0))
    assert receipt(seen)["outcome"] == "unchanged"


def test_the_receipt_and_the_table_count_what_changed(tmp_path: Path) -> None:
    files = {
        "kfm.yml": """\
accept_weak_storage: true
execute: {threads: 1}
deletion_budget: 0.5
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources:
      rain:
        uri: rain.csv
        format: csv
        complete: true
        contract: {partition_by: station, columns: [{name: mm, type: number, mode: discard-row}]}
    outputs: {all: {from: rain, partition_by: station}}
""",
        "rain.csv": "station,mm\na,1\nb,2\nc,3\nd,4\ne,5\nf,much\n",
    }

    def story(site: Site) -> None:
        site.run("run", "--json")
        site.put("rain.csv", "station,mm\nb,2\nc,30\nd,40\ne,5\nf,6\ng,7\n")
        site.run("run", "--json")
        site.run("run")
        site.put("rain.csv", "station,mm\nb,2\nc,310\nd,40\ne,5\nf,6\ng,7\n")
        site.run("run")

    tellings = [tell(tmp_path / "site", files, story, lambda _n, who=name: who) for name in ("python", "node")]
    assert not list(differences(*tellings))
    first, second, nothing, last = tellings[0]
    assert receipt(first)["changes"] == {"added": 5, "changed": 0, "removed": 0, "keys": 5}
    assert receipt(second)["changes"] == {"added": 2, "changed": 2, "removed": 1, "keys": 6}
    assert (receipt(first)["rows"], receipt(first)["held_rows"]) == (6, 1)
    heads, row = [line.split() for line in last.answer.out.splitlines()]
    shown = dict(zip(heads, row, strict=True))
    names = ("ADDED", "CHANGED", "REMOVED", "KEYS", "HELD", "ROWS")
    assert [shown[name] for name in names] == ["0", "1", "0", "6", "0", "6"]
    assert dict(zip(*[line.split() for line in nothing.answer.out.splitlines()], strict=True))["ADDED"] == "-"
