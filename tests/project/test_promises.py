"""The table of promises shows what was tried, at which commit and on which day, and does not flatter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.crash import counts
from tests.power import tally
from tests.project import parts, promises, recording
from tests.project.bans import ROOT
from tests.seeded.bugs import BUGS
from tests.seeded.claims import CLAIMS

GUARANTEES = "| **Crash** | it holds | | `pytest tests/crash/test_kills.py tests/power` |\n"


def run(**more: Any) -> dict[str, Any]:
    when = {"commit": "c" * 40, "changed": False, "finished": "2026-01-01T00:00:00Z", "minutes": 1.5}
    return {**when, "python": "3.11.7", "system": "Linux x86_64", "files": {}, **more}


def numbers(**more: Any) -> dict[str, Any]:
    return {"passed": 3, "failed": 0, "skipped": 0, "differences": 0, "counted": {}, "seeds": [], **more}


def rows(**runs: dict[str, Any]) -> list[list[str]]:
    text = promises.page(GUARANTEES, {"parts": {name.replace("_", "-"): one for name, one in runs.items()}})
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "| [tests/" in line]


KILLS = "tests/crash/test_kills.py"
POWER = [file for file in parts.test_files() if file.startswith("tests/power/")]


def test_every_promise_of_the_page_names_tests_that_exist() -> None:
    text = promises.GUARANTEES.read_text(encoding="utf-8")
    found = promises.promised(text)
    assert len(found) == len(re.findall(r"^\| \*\*", text, re.M)) >= 15
    for promise, tests in found:
        assert tests and all((ROOT / path).exists() for path in tests), promise


STANDS_IN = "tests/sinks/github/test_standin.py"  # is about what stands in for GitHub, and the product is not in it
PLANTS = "tests/seeded"  # is what puts the bugs in


def test_of_every_promise_each_test_is_known_to_notice_a_bug() -> None:
    tried = " ".join(bug.tests for bug in (*BUGS.values(), *CLAIMS.values()))
    named = {test for _, tests in promises.promised(promises.GUARANTEES.read_text()) for test in tests}
    assert {test for test in named if test not in tried} == {STANDS_IN, PLANTS}


def test_numbers_that_a_test_counts_go_with_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    item = SimpleNamespace(user_properties=[])
    monkeypatch.setattr(recording, "current", item)
    tally.tally("any", "first", (0, 3), 1, kept_rows=5)
    assert item.user_properties == [("counted", ("kept rows", 5)), ("failures", 1), ("seeds", (0, 2))]
    item.user_properties.clear()
    before = counts.so_far()
    counts.seed(7)
    counts.add("singles", 2)
    counts.add("differences")
    counts.record(before)
    found = [("seeds", (7, 7)), ("failures", 1), ("counted", ("crash singles", 2))]
    assert item.user_properties == found


def test_the_numbers_of_a_run_are_shown_with_its_seeds_its_commit_and_its_day() -> None:
    power = {file: numbers(passed=1, counted={"cuts": 2}, seeds=[[0, 9], [20, 20]]) for file in POWER}
    kills, cuts = rows(
        kills_1=run(files={KILLS: numbers(counted={"crash singles": 200}, seeds=[[1, 2], [9, 9]])}),
        kills_2=run(files={KILLS: numbers(counted={"crash singles": 81}, seeds=[[3, 3]])}),
        **{f"power_{n}": run(changed=True, files=power if n == 1 else {}) for n in (1, 2, 3)},
    )
    assert kills[0] == "Crash"
    assert kills[2:] == ["6 tests, 281 crash singles", "1-3, 9", "0", f"{'c' * 12} 2026-01-01"]
    number = len(POWER)
    assert cuts[2:] == [f"{number} tests, {2 * number} cuts", "0-9, 20", "0", f"{'c' * 12}+ 2026-01-01"]


def test_failures_skips_and_tests_that_were_not_run_are_shown() -> None:
    kills, power = rows(kills_1=run(files={KILLS: numbers(failed=2, skipped=1, differences=4)}))
    assert kills[2] == "5 tests, **1 skipped**, **part kills-2 not run**" and kills[4] == "**6**"
    assert power[2:] == ["**not run**", "", "", ""]
    assert "files not run**" in rows(power_1=run(files={POWER[0]: numbers()}))[1][2]


def test_the_page_lists_the_last_run_of_every_part() -> None:
    text = promises.page(
        GUARANTEES, {"parts": {"store": run(files={"tests/a.py": numbers(), "tests/b.py": numbers()})}}
    )
    assert f"| store | 2026-01-01T00:00:00Z | {'c' * 12} | 1.5 | 3.11.7 | Linux x86_64 | 2 | 6 | 0 | 0 |" in text
    for name in parts.PARTS:
        assert name == "store" or f"| {name} | **not run** |" in text


@pytest.mark.parametrize(
    ("option", "arguments", "whole"),
    [
        ({}, None, True),
        ({"part": None}, None, False),
        ({"markexpr": "not long"}, None, False),
        ({"keyword": "crash"}, None, False),
        ({"collectonly": True}, None, False),
        ({}, [KILLS + "::test_one"], False),
        ({}, [], False),
    ],
)
def test_only_a_run_of_a_whole_part_is_recorded(option: dict[str, Any], arguments: Any, whole: bool) -> None:
    given = {"markexpr": parts.EVERYTHING, "keyword": "", "collectonly": False, "part": "kills-1", **option}
    assert recording.leaves_nothing_out(SimpleNamespace(**given), [KILLS] if arguments is None else arguments) is whole


def report(nodeid: str, when: str = "call", outcome: str = "passed", said: Any = ()) -> Any:
    return SimpleNamespace(nodeid=nodeid, when=when, outcome=outcome, user_properties=said)


def test_a_run_writes_the_file_of_its_part_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "promises"
    folder.mkdir()
    (folder / "store.json").write_text(json.dumps(run()))
    recorder = recording.Recorder()
    recorder.hear(report("tests/a.py::x", "setup"))
    recorder.hear(report("tests/a.py::x", said=[("counted", ("kills", 2)), ("other", 1), ("seeds", (4, 9))]))
    recorder.hear(report("tests/a.py::y", said=[("counted", ("kills", 3)), ("seeds", (1, 3))]))
    recorder.hear(report("tests/a.py::y", "teardown", said=[("counted", ("kills", 3))]))
    recorder.hear(report("tests/a.py::v", outcome="failed", said=[("failures", 2), ("counted", ("kills", 9))]))
    recorder.hear(report("tests/a.py::z", "setup", "failed"))
    recorder.hear(report("tests/a.py::w", "setup", "skipped"))
    recorder.write_down("kills-1", folder)
    found = recording.read(folder / "kills-1.json")
    assert found["files"] == {
        "tests/a.py": numbers(passed=2, failed=2, skipped=1, differences=2, counted={"kills": 5}, seeds=[[1, 9]])
    }
    assert re.fullmatch(r"[0-9a-f]{40}", found["commit"]) and found["finished"].endswith("Z")
    assert recording.read(folder / "store.json") == run()


def test_a_run_of_one_part_leaves_the_rows_of_others_as_they_are(tmp_path: Path) -> None:
    before = run(commit="a" * 40, finished="2025-01-01T00:00:00Z")
    crash, power = {KILLS: numbers()}, {file: numbers() for file in POWER}
    kept = {"parts": {"kills-1": {**before, "files": crash}, "power-1": {**before, "files": power}}}
    (tmp_path / "kills-1.json").write_text(json.dumps(run(files=crash)))
    (tmp_path / "unknown.json").write_text(json.dumps(run(files=crash)))
    now, taken = promises.take(kept, tmp_path)
    assert taken == ["kills-1"] and set(now["parts"]) == {"kills-1", "power-1"}
    assert promises.row(KILLS, now).age == f"{'c' * 12} 2026-01-01"
    assert promises.row("tests/power", now) == promises.row("tests/power", kept)
    assert promises.row("tests/power", now).age == f"{'a' * 12} 2025-01-01"
    older = {"parts": {"kills-1": run(finished="2027-01-01T00:00:00Z", files=crash)}}
    assert promises.take(older, tmp_path)[1] == []  # a run that is older than the one that is kept


def test_a_row_from_before_the_parts_stays_until_a_part_has_its_test(tmp_path: Path) -> None:
    earlier = promises.Row("9 tests", "", "0", "b 2025-01-01")
    kept = {"earlier": {KILLS: earlier._asdict(), "tests/power": earlier._asdict()}}
    assert promises.row(KILLS, kept) == earlier
    (tmp_path / "kills-1.json").write_text(json.dumps(run(files={KILLS: numbers()})))
    now, _ = promises.take(kept, tmp_path)
    assert promises.row(KILLS, now).count == "3 tests, **part kills-2 not run**"
    assert promises.row("tests/power", now) == earlier and list(now["earlier"]) == ["tests/power"]


def test_a_run_of_a_part_that_went_counts_until_parts_of_today_have_run(tmp_path: Path) -> None:
    kept = {"parts": {"gone": run(files={KILLS: numbers(passed=9)})}}
    assert promises.row(KILLS, kept).count.startswith("9 tests")
    assert "gone" in promises.take(kept, tmp_path)[0]["parts"]
    (tmp_path / "kills-2.json").write_text(json.dumps(run(files={KILLS: numbers()})))
    now, _ = promises.take(kept, tmp_path)
    assert list(now["parts"]) == ["kills-2"] and promises.row(KILLS, now).count.startswith("3 tests")


def test_the_page_in_the_repository_is_the_one_that_this_code_writes() -> None:
    assert promises.PAGE.read_text(encoding="utf-8") == promises.current(), "run `make schemas`"


def test_the_page_has_a_row_for_every_promise_and_test_of_the_guarantees_and_no_other() -> None:
    guaranteed = promises.promised(promises.GUARANTEES.read_text(encoding="utf-8"))
    written = promises.tried(promises.PAGE.read_text(encoding="utf-8"))
    assert written == [(promise, path) for promise, tests in guaranteed for path in tests], "run `make schemas`"


def test_every_test_file_is_in_a_part_and_every_path_of_a_part_holds_tests() -> None:
    files = parts.test_files()
    assert len(files) > 300 and [file for file in files if not parts.family_of(file)] == []
    for family, (shares, paths) in parts.TABLE.items():
        assert shares >= 1 and family in {part.family for part in parts.PARTS.values()}
        for path in paths:
            assert [f for f in files if f == path or (f.startswith(path + "/") and parts.family_of(f) == family)], path


def test_a_file_is_in_the_part_that_names_it_before_the_part_of_its_folder() -> None:
    assert parts.family_of(KILLS) == "kills" and parts.family_of("tests/crash/test_stops.py") == "crash"
    assert parts.family_of("tests/elsewhere/test_any.py") is None


def test_every_test_is_in_exactly_one_share_of_its_part() -> None:
    for shares in (1, 2, 6):
        cut = [parts.Part(f"any-{n}", "any", n, shares) for n in range(1, shares + 1)]
        held = [[part.holds(f"{KILLS}::test_one[{n}]") for part in cut] for n in range(600)]
        assert all(sum(one) == 1 for one in held)
        assert all(sum(column) > 400 / shares for column in zip(*held, strict=True))


def test_a_family_stands_for_its_shares_and_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert [part.name for part in parts.chosen(["kills", "store"])] == ["kills-1", "kills-2", "store"]
    assert parts.chosen([]) == list(parts.PARTS.values())
    assert parts.main(["kill"]) == 2 and "there is no part 'kill'" in capsys.readouterr().err
    assert parts.main(["--list"]) == 0 and "seeded-1" in capsys.readouterr().out
    assert parts.command(parts.PARTS["kills-2"], 2)[-3:] == ["--part", "kills-2", KILLS]
