"""The table of promises says what was tried, in which run, and does not flatter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.power import tally
from tests.project import promises, recording
from tests.project.bans import ROOT
from tests.seeded.bugs import BUGS
from tests.seeded.claims import CLAIMS

GUARANTEES = "| **Crash** | it holds | | `pytest tests/crash/test_kills.py tests/power` |\n"


def result(session: str = "one", **more: Any) -> dict[str, Any]:
    run = {"session": session, "commit": "c" * 40, "changed": False, "finished": "2026-01-01T00:00:00Z"}
    numbers = {"passed": 3, "failed": 0, "skipped": 0, "counted": {}}
    return {**run, "python": "3.11.7", "system": "Linux x86_64", **numbers, **more}


def part(**more: Any) -> dict[str, Any]:
    return {"counts": {"seeded_bugs": 3}, "failures": 0, "test": "tests/power/test_simulated.py", **more}


def rows(results: dict[str, Any], suites: dict[str, Any] | None = None) -> list[list[str]]:
    text = promises.page(GUARANTEES, results, suites or {})
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "| [tests/" in line]


def test_every_promise_of_the_page_names_tests_that_exist() -> None:
    text = promises.GUARANTEES.read_text(encoding="utf-8")
    found = promises.promised(text)
    assert len(found) == len(re.findall(r"^\| \*\*", text, re.M)) >= 15
    for promise, tests in found:
        assert tests and all((ROOT / path).exists() for path in tests), promise


STANDS_IN = "tests/sinks/github/test_standin.py"  # is about what stands in for GitHub, and the product is not in it
PLANTS = "tests/seeded"  # is what puts the bugs in
NOT_YET = {
    "tests/crash/test_disk_faults.py",
    "tests/node/test_dry_run.py",
}  # red in a copy of the repository, bug or not


def test_of_every_promise_each_test_is_known_to_notice_a_bug() -> None:
    tried = " ".join(bug.tests for bug in (*BUGS.values(), *CLAIMS.values()))
    named = {test for _, tests in promises.promised(promises.GUARANTEES.read_text()) for test in tests}
    assert {test for test in named if test not in tried} == {STANDS_IN, PLANTS, *NOT_YET}


def test_a_suite_that_counts_says_in_which_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "FOLDER", tmp_path)
    tally.tally("any", "first", (0, 3), tries=5)
    body = promises.suites_in(tmp_path)["any"]
    (part,) = [part for _, part in promises.parts_of({"any": body}, "tests/project/test_promises.py")]
    assert part["counts"] == {"tries": 5} and part["seeds"] == [0, 3] and body["session"] == tally.SESSION
    assert (ROOT / promises.KILLS).is_file()


def test_the_numbers_of_a_run_are_told_with_its_seeds_and_its_commit() -> None:
    results = {
        "tests/crash/test_kills.py": result(counted={"crash singles": 281}),
        "tests/power/test_simulated.py": result(),
        "tests/power/test_published.py": result(passed=1),
        "tests/power/test_real_cuts.py": result(passed=1),
    }
    suites = {
        "crash": {"session": "one", "counts": {"singles": 281}, "failures": 0, "seeds": [1, 2, 3, 9]},
        "power-simulated": {"session": "one", "parts": {"a": part(seeds=[0, 2000]), "b": part(seeds=[])}},
    }
    kills, power = rows(results, suites)
    power[2] = power[2].replace(", **tests/power/test_sqlite_cuts.py not run**", "")
    assert kills[0] == "Crash" and kills[2:] == ["3 tests, 281 crash singles", "1-3, 9", "0", "c" * 12]
    assert power[2:] == ["5 tests, 6 seeded bugs", "0-1999", "0", "c" * 12]


def test_failures_skips_and_what_was_not_run_are_told() -> None:
    kills, power = rows({"tests/crash/test_kills.py": result(failed=2, skipped=1)})
    assert kills[2] == "5 tests, **1 skipped**" and kills[4] == "**2**"
    assert power[2:] == ["**not run**", "", "", ""]
    assert "files not run**" in rows({"tests/power/test_simulated.py": result()})[1][2]
    assert rows({"tests/crash/test_kills.py": result()}, {"crash": {
        "session": "one", "counts": {}, "failures": 4, "seeds": []}})[0][4] == "**4**"  # fmt: skip


def test_numbers_of_another_run_are_left_out_and_that_is_said() -> None:
    suites = {"crash": {"session": "two", "counts": {"singles": 9}, "failures": 0, "seeds": [7]}}
    kills, _ = rows({"tests/crash/test_kills.py": result()}, suites)
    assert kills[2] == "3 tests, the numbers of crash are of another run and left out" and kills[3] == ""


def test_the_page_says_which_run_it_is_from() -> None:
    one = promises.page(GUARANTEES, {"tests/a.py": result(), "tests/b.py": result()}, {})
    assert "From one run of the tests:" in one
    assert f"| 2026-01-01T00:00:00Z | {'c' * 12} | 3.11.7 | Linux x86_64 | 2 | 6 | 0 | 0 |" in one
    two = promises.page(GUARANTEES, {"tests/a.py": result(), "tests/b.py": result("two", changed=True)}, {})
    assert "**Not from one run, but from 2**" in two and f"{'c' * 12} with uncommitted changes" in two
    assert "No run is recorded" in promises.page(GUARANTEES, {}, {})


@pytest.mark.parametrize(
    ("option", "arguments", "whole"),
    [
        ({}, [], True),
        ({"markexpr": "long or not long"}, ["tests/engine"], True),
        ({"markexpr": "not long"}, [], False),
        ({"keyword": "crash"}, [], False),
        ({"collectonly": True}, [], False),
        ({}, ["tests/a.py::test_one"], False),
    ],
)
def test_only_a_run_that_leaves_nothing_out_is_kept(option: dict[str, Any], arguments: list[str], whole: bool) -> None:
    asked = SimpleNamespace(**{"markexpr": "", "keyword": "", "collectonly": False, **option})
    assert recording.leaves_nothing_out(asked, arguments) is whole


def report(nodeid: str, when: str = "call", outcome: str = "passed", counted: Any = ()) -> Any:
    return SimpleNamespace(nodeid=nodeid, when=when, outcome=outcome, user_properties=counted, testrun_uid="uid")


def test_a_run_is_written_over_the_files_it_ran_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "promises" / "results.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"tests/a.py": result("before"), "tests/b.py": result("before")}))
    recorder = recording.Recorder()
    recorder.hear(report("tests/a.py::x", "setup"))
    recorder.hear(report("tests/a.py::x", counted=[("counted", ("kills", 2)), ("other", 1)]))
    recorder.hear(report("tests/a.py::y", counted=[("counted", ("kills", 3))]))
    recorder.hear(report("tests/a.py::z", "setup", "failed"))
    recorder.hear(report("tests/a.py::w", "setup", "skipped"))
    recorder.write_down(file)
    found = recording.read(file)
    a = found["tests/a.py"]
    assert (a["passed"], a["failed"], a["skipped"], a["counted"]) == (2, 1, 1, {"kills": 5})
    assert a["session"] == "uid" and re.fullmatch(r"[0-9a-f]{40}", a["commit"])
    assert found["tests/b.py"]["session"] == "before"


def test_the_page_in_the_repository_is_one_this_code_made() -> None:
    text = promises.PAGE.read_text(encoding="utf-8")
    assert text.startswith(promises.NOTICE)
    assert "| promise | test | count | seeds | failures | commit |" in text
    assert ("No run is recorded" in text) is not ("| finished | commit |" in text)  # it says which run, or that none is


def test_the_page_tells_of_every_promise_and_test_of_the_guarantees_and_of_no_other() -> None:
    guaranteed = promises.promised(promises.GUARANTEES.read_text(encoding="utf-8"))
    written = list(promises.tried(promises.PAGE.read_text(encoding="utf-8")))
    assert written == [(promise, path) for promise, tests in guaranteed for path in tests], "run `make schemas`"


def test_a_promise_that_came_or_went_is_put_right_and_nothing_is_claimed_for_it() -> None:
    results = {"tests/crash/test_kills.py": result(), "tests/gone.py": result()}
    written = promises.page("| **Crash** | a | | `pytest tests/crash/test_kills.py tests/gone.py` |\n", results, {})
    assert (
        promises.refitted("| **Crash** | a | | `pytest tests/crash/test_kills.py tests/gone.py` |\n", written)
        == written
    )
    today = "| **New** | b | | `pytest tests/power` |\n| **Crash** | a | | `pytest tests/crash/test_kills.py` |\n"
    found = promises.refitted(today, written)
    assert list(promises.tried(found)) == [("New", "tests/power"), ("Crash", "tests/crash/test_kills.py")]
    kept = promises.tried(written)[("Crash", "tests/crash/test_kills.py")]
    assert found.endswith(f"| New | [tests/power](../tests/power) | {promises.NOT_RUN} |  |  |  |\n{kept}\n")
    assert found.partition("| New")[0] == written.partition("| Crash")[0]


def test_a_row_of_which_the_last_run_says_nothing_stays_with_its_run() -> None:
    guarantees = "| **Crash** | a | | `pytest tests/a.py tests/b.py` |\n"
    earlier = {**result(), "commit": "a" * 40, "finished": "2025-01-01T00:00:00Z"}
    first = promises.page(guarantees, {"tests/a.py": earlier, "tests/b.py": earlier}, {})
    second = promises.page(guarantees, {"tests/b.py": result("two")}, {}, first)
    assert "**Not from one run, but from 2**" in second
    kept, new = promises.tried(second).values()
    assert kept == promises.tried(first)[("Crash", "tests/a.py")] and kept.endswith(f"| {'a' * 12} |")
    assert new.endswith(f"| {'c' * 12} |")
    assert second.index("2025-01-01T00:00:00Z") < second.index("2026-01-01T00:00:00Z")
    assert promises.page(guarantees, {"tests/b.py": result("two")}, {}, second) == second
    third = promises.page(guarantees, {"tests/a.py": result("three"), "tests/b.py": result("three")}, {}, second)
    assert "From one run of the tests:" in third and "a" * 12 not in third
