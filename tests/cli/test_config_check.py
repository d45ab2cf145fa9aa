"""`kfm config check`: all mistakes of kfm.yml and of the files it names at once, each with its place and its cure."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.maintenance import config_check
from kfm.config.config_mistakes import mistakes_of
from kfm.errors import BadInput
from kfm.parsing import record_shape
from tests.config.test_config import ENV_CASES, JSON_CASES, TAIL, YAML_CASES
from tests.node.fuzz_config import case
from tests.node.fuzz_documents import examples
from tests.sampling import tries

from .conftest import Kfm, tree
from .protected import POLICY

UPDATER = "class U:\n    pass\n"
WRONG = """\
kfm: 1
stat: memory
labels: labels.yml
policy: {folder: rules}
datasets:
  rain:
    updatr: u.py:U
    licence: CC0-1.0
    schedule: hourly
    sources:
      gauges:
        url: data/gauges.csv
        contract:
          columns:
            - {name: id, type: string}
            - {name: mm, type: float, min: 0}
            - {type: int}
  wells:
    updater: nowhere.py:Wells
    extent: {bbox: [1, 2, 3]}
    sources:
      wells: {uri: data/wells.csv, mask: masks/wells.yml}
      other: {uri: data/wells.csv, mask: masks/none.yml}
  tiles:
    updater: u.py:Tiles
webhooks:
  hook: {datasets: [nope], secrets: [env:S]}
"""
FILES = {
    "u.py": UPDATER,
    "kfm.yml": WRONG,
    "labels.yml": (
        "version: 1\nlabels:\n  - of: {dataset: wells, source: x}\n    sensitivty: generalised\n    care: open\n"
    ),
    "masks/wells.yml": "id: Wells\nversion: '1'\nnamespace: n\nrecord_id: id\nresolution: 99\n",
    "rules/a.rego": "package kfm\n",
    "pipelines/schedules/a.yml": (
        "schedules:\n"
        "  one: {dataset: wels, cadence: monthly}\n"
        '  two: {dataset: wells, cron: "99 * * * *", timezone: Mars/Base}\n'
    ),
    "pipelines/schedules/b.yml": "schedules: [\n",
    "pipelines/backfills/a.yml": "backfills:\n  one: {dataset: wells, partitions: {kind: day, from: '2024-01-01'}}\n",
}
# Every mistake above: its file, its line and column, and the start of its cure.
EXPECTED = [
    ("kfm.yml", 2, 1, "did you mean state? write state: …"),
    ("kfm.yml", 4, 10, "write `package main`"),
    ("kfm.yml", 7, 5, "did you mean updater? write updater: …"),
    ("kfm.yml", 8, 5, "did you mean license? write license: CC0-1.0"),
    ("kfm.yml", 9, 5, 'write schedule: {cron: "0 * * * *"}'),
    ("kfm.yml", 12, 9, "did you mean uri? write uri: data/gauges.csv"),
    ("kfm.yml", 15, 26, "did you mean text? write type: text"),
    ("kfm.yml", 16, 26, "did you mean number? write type: number"),
    ("kfm.yml", 16, 39, "did you mean minimum? write minimum: …"),
    ("kfm.yml", 17, 15, "add it"),
    ("kfm.yml", 17, 16, "did you mean integer? write type: integer"),
    ("kfm.yml", 19, 5, "correct the path"),
    ("kfm.yml", 20, 14, "west, south, east, north"),
    ("kfm.yml", 23, 36, "write the file, or correct the path"),
    ("kfm.yml", 25, 5, "write updater: u.py:U"),
    ("kfm.yml", 27, 21, "correct it"),
    ("pipelines/schedules/a.yml", 2, 9, "did you mean wells?"),
    ("pipelines/schedules/a.yml", 2, 24, 'write cron: "0 0 1 * *" instead of cadence'),
    ("pipelines/schedules/a.yml", 3, 3, "write one like America/Chicago"),
    ("pipelines/schedules/a.yml", 3, 3, "write the minute like 30"),
    ("pipelines/schedules/b.yml", 1, 12, "close it"),
    ("pipelines/backfills/a.yml", 2, 25, "such as from: 2024-01-01"),
    ("labels.yml", 3, 5, "give one of dataset, source, bytes, record"),
    ("labels.yml", 4, 5, "did you mean sensitivity? write sensitivity: generalised"),
    ("masks/wells.yml", 1, 1, "write it so that it does"),
    ("masks/wells.yml", 1, 1, "add it"),
    ("masks/wells.yml", 5, 1, "write a number in this range"),
]


def put(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def told(kfm: Kfm, *words: str) -> list[dict[str, Any]]:
    answer = kfm("config", "check", "--json", *words)
    mistakes: list[dict[str, Any]] = json.loads(answer.out)["mistakes"]
    assert answer.code == (3 if mistakes else 0), answer
    return mistakes


def places(mistakes: list[dict[str, Any]]) -> list[tuple[str, int, int, str]]:
    return sorted((each["file"], each["line"], each["column"], each["hint"]) for each in mistakes)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_mistakes_of_all_files_are_reported_at_once(kfm: Kfm, folder: Path) -> None:
    put(FILES)
    before = tree()
    mistakes = told(kfm)
    found, expected = places(mistakes), sorted(EXPECTED)
    assert [each[:3] for each in found] == [each[:3] for each in expected], found
    for one, (*_, hint) in zip(found, expected, strict=True):
        assert any(other[:3] == one[:3] and other[3].startswith(hint) for other in found), (hint, found)
    assert {each["code"] for each in mistakes} == {"input.bad"}
    assert tree() == before


def test_each_mistake_is_a_line_for_people_with_its_place_and_its_cure(kfm: Kfm, folder: Path) -> None:
    put(FILES)
    answer = kfm("config", "check")
    lines = answer.err.splitlines()
    assert answer.code == 3 and answer.out == "" and len(lines) == len(EXPECTED)
    for file, line, column, hint in EXPECTED:
        assert any(each.startswith(f"kfm: {file}:{line}:{column}: ") and f"; {hint}" in each for each in lines), hint


def test_run_reports_the_same_mistakes_before_it_starts(kfm: Kfm, folder: Path) -> None:
    put(FILES)
    before = tree()
    checked, ran = kfm("config", "check"), kfm("run")
    assert (ran.code, ran.out, ran.err) == (3, "", checked.err)
    error = json.loads(kfm("run", "--json").out)["error"]
    assert error["key"] == "stat" and len(error["others"]) == len(EXPECTED) - 1
    assert tree() == before


def test_of_many_unknown_keys_the_first_hundred_are_printed_and_the_others_are_counted(
    kfm: Kfm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Near names are looked for a hundred times at each of two readings, not for every key."""
    searched: list[str] = []
    nearest = record_shape.nearest
    monkeypatch.setattr(record_shape, "nearest", lambda name, known: searched.append(name) or nearest(name, known))
    put({"kfm.yml": "kfm: 1\n" + "".join(f"strange{n}: 1\n" for n in range(2000))})
    for words in (("config", "check"), ("run",)):
        answer = kfm(*words)
        lines = answer.err.splitlines()
        assert answer.code == 3 and len(lines) == 101 and lines[-1].startswith("kfm: 1,902 more mistakes; ")
        assert lines[0].startswith("kfm: kfm.yml:2:1: unknown key strange0")
    assert len(searched) <= 100 * 10
    mistakes = told(kfm)
    unknown = [each["line"] for each in mistakes if each["key"].startswith("strange")]
    assert unknown == list(range(2, 2002)) and len(mistakes) == 2002


SCHEDULE = 'schedules: {one: {dataset: DATASET, cron: "0 6 * * *"}}\n'
BACKFILL = "backfills: {one: {dataset: DATASET, partitions: {kind: name, keys: [a]}}}\n"


def test_run_refuses_mistakes_of_schedules_and_backfills_although_kfm_yml_loads(started: Kfm) -> None:
    put({"pipelines/schedules/a.yml": SCHEDULE, "pipelines/backfills/a.yml": BACKFILL})
    before = tree()
    checked, ran = started("config", "check"), started("run")
    assert (checked.code, len(checked.err.splitlines())) == (3, 2)
    assert (ran.code, ran.out, ran.err) == (3, "", checked.err)
    assert started("run", "--dry-run").err == checked.err
    assert tree() == before
    put({"pipelines/schedules/a.yml": SCHEDULE.replace("DATASET", "rain-gauges")})
    put({"pipelines/backfills/a.yml": BACKFILL.replace("DATASET", "rain-gauges")})
    assert started("run").code == 0


def test_run_checks_unchanged_schedules_and_backfills_once(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[object] = []
    check = config_check.refuse_mistakes
    monkeypatch.setattr(config_check, "refuse_mistakes", lambda *given: checks.append(check(*given)))
    assert started("run").code == 0 and not checks, "there is no schedule and no backfill"
    put({"pipelines/backfills/a.yml": BACKFILL.replace("DATASET", "rain-gauges")})
    assert [started("run", "--dry-run").code for _ in range(2)] == [0, 0] and len(checks) == 2, "it keeps no stamp"
    assert [started("run").code for _ in range(2)] == [0, 0] and len(checks) == 3
    put({"pipelines/schedules/a.yml": SCHEDULE.replace("DATASET", "rain-gauges")})
    assert [started("run").code for _ in range(2)] == [0, 0] and len(checks) == 4
    monkeypatch.setenv("KFM_WATCH__POLL_S", "7")
    assert [started("run").code for _ in range(2)] == [0, 0] and len(checks) == 5
    put({"pipelines/schedules/a.yml": SCHEDULE})
    assert [started("run").code for _ in range(2)] == [3, 3] and len(checks) == 5, "a check that raises is not kept"
    Path(".kfm/checked").write_text("damaged")
    put({"pipelines/schedules/a.yml": SCHEDULE.replace("DATASET", "rain-gauges")})
    assert started("run").code == 0 and len(checks) == 6


def test_run_names_every_mask_without_a_label_and_leaves_receipts(kfm: Kfm, folder: Path) -> None:
    source = "    sources: {s: {uri: %s.csv, format: csv, mask: m.yml}, t: {uri: %s2.csv, format: csv, mask: m.yml}}\n"
    declared = "".join(
        f"  {name}:\n    updater: kfm.updaters.mirror:Mirror\n" + source % (name, name) for name in ("a", "b")
    )
    labels = "version: 1\nlabels:\n  - of: {dataset: z}\n    sensitivity: public\n    care: open\n"
    put({"m.yml": POLICY, "labels.yml": labels, "kfm.yml": "labels: labels.yml\ndatasets:\n" + declared})
    mistakes = [each["message"] for each in told(kfm)]
    ran = kfm("run")
    assert ran.code == 3 and len(mistakes) == 5
    assert [message for message in mistakes if ran.err.count(message) != 1] == [mistakes[0]]
    assert ran.err.count(mistakes[0]) == 2, "each of both runs is refused for the first, and says so"
    answer = json.loads(kfm("run", "--json").out)
    assert [receipt["status"] for receipt in answer["receipts"]] == ["FAILED", "FAILED"]
    assert len(answer["errors"]) == 4


def test_a_right_configuration_is_answered_in_one_line(started: Kfm) -> None:
    answer = started("config", "check")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("no mistakes in kfm.yml") and answer.out.count("\n") == 1
    assert told(started) == []


def test_a_file_that_does_not_parse_is_checked_as_far_as_it_does(kfm: Kfm, folder: Path) -> None:
    text = (
        "stat: memory\n"
        "datasets:\n"
        '  quoted:\n    updater: "u.py:U\n    title: x\n'
        "  tabbed:\n\tupdater: u.py:U\n"
        "  right: {updater: u.py:U, sources: {s: {dataset: tabbed}, t: {dataset: quotd}}}\n"
        "  twice: {updater: u.py:U}\n"
        "  twice: {updater: u.py:U}\n"
        "execute: {threads: [}\n"
        "pools: {a: 0}\n"
    )
    put({"u.py": UPDATER, "kfm.yml": text, "pipelines/schedules/s.yml": "schedules: {a: {dataset: tabbed}}\n"})
    found = [(each["file"], each["line"]) for each in told(kfm)]
    assert found == [
        ("kfm.yml", 4), ("kfm.yml", 1), ("kfm.yml", 7), ("kfm.yml", 8), ("kfm.yml", 10), ("kfm.yml", 11),
        ("kfm.yml", 12), ("pipelines/schedules/s.yml", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe", b"a: \xff\n", b"[", b"- a\n", b"hello\n", b"{", b"\t", b"a:\n\t- b\n"]
)
@pytest.mark.parametrize("name", ["kfm.yml", "kfm.json"])
def test_a_file_of_nothing_usable_is_one_mistake_and_other_files_are_still_checked(
    kfm: Kfm, folder: Path, name: str, body: bytes
) -> None:
    put({"pipelines/schedules/s.yml": "schedules: [\n", "pipelines/backfills/b.yml": "backfill: {}\n"})
    Path(name).write_bytes(body)
    files = [each["file"] for each in told(kfm)]
    assert files[0] == name and set(files) == {name, "pipelines/schedules/s.yml", "pipelines/backfills/b.yml"}


def test_a_file_that_is_not_there_is_the_only_mistake(kfm: Kfm, folder: Path) -> None:
    (mistake,) = told(kfm, "--config", "none.yml")
    assert mistake["message"] == "none.yml does not exist"


def test_a_variable_of_the_environment_is_named_as_the_place(
    kfm: Kfm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put({"u.py": UPDATER, "kfm.yml": "stat: memory\n" + TAIL})
    monkeypatch.setenv("KFM_EXECUTE__TREADS", "4")
    monkeypatch.setenv("KFM_WATCH__POLL_S", "x")
    mistakes = told(kfm)
    assert [each["file"] for each in mistakes] == ["environment", "environment", "kfm.yml"]
    assert "KFM_EXECUTE__TREADS is not a setting; did you mean KFM_EXECUTE__THREADS?" in kfm("config", "check").err


def test_masks_without_labels_and_labels_that_match_nothing_are_among_the_mistakes(kfm: Kfm, folder: Path) -> None:
    source = "datasets:\n  a:\n    updater: u.py:U\n    sources: {s: {uri: a.csv, format: csv, mask: m.yml}}\n"
    labels = "version: 1\nlabels:\n  - of: {dataset: b}\n    sensitivity: public\n    care: open\n"
    put({"u.py": UPDATER, "m.yml": POLICY, "labels.yml": labels, "kfm.yml": "labels: labels.yml\n" + source})
    before = tree()
    found = told(kfm)
    assert [(each["file"], each["line"]) for each in found] == [("kfm.yml", 5), ("labels.yml", 3)], found
    assert "has a mask and no label" in found[0]["message"] and "matches nothing" in found[1]["message"]
    assert all(each["hint"] for each in found)
    assert tree() == before
    put({"kfm.yml": source})
    (mistake,) = told(kfm)
    assert "kfm.yml names no file of labels" in mistake["message"]


def test_no_updater_is_run_to_check_it(kfm: Kfm, folder: Path) -> None:
    raising = "open('ran', 'w').close()\nclass U:\n    pass\n"
    put({"u.py": raising, "pack/__init__.py": raising, "pack/mod.py": raising})
    right = ("u.py:U", "pack.mod:U", "kfm.updaters.mirror:Mirror")
    put(
        {
            "kfm.yml": "datasets:\n"
            + "".join(f"  {id}: {{updater: {name}}}\n" for id, name in zip("abc", right, strict=True))
        }
    )
    assert told(kfm) == []
    put({"u.py": "class U(:\n", "pack/mod.py": "class V:\n    pass\n"})
    put({"kfm.yml": "datasets:\n  a: {updater: u.py:U}\n  b: {updater: pack.mod:U}\n  c: {updater: pack.none:U}\n"
         "  d: {updater: package:none}\n"})  # fmt: skip
    found = [(each["file"], each["line"], each["hint"]) for each in told(kfm)]
    assert [each[:2] for each in found] == [("u.py", 1), ("kfm.yml", 3), ("kfm.yml", 4), ("kfm.yml", 5)]
    assert found[1][2] == "write updater: pack.mod:V"
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("schedule: daily", "write schedule: {cadence: daily}"),
        ("schedule: weekly", "write schedule: {cadence: weekly}"),
        ("schedule: hourly", 'write schedule: {cron: "0 * * * *"}'),
        ("schedule: monthly", 'write schedule: {cron: "0 0 1 * *"}'),
        ("schedule: yearly", "write schedule: {cadence: annual}"),
        ('schedule: "30 6 * * mon"', 'write schedule: {cron: "30 6 * * mon"}'),
        ("schedule: {cadence: hourly}", 'write cron: "0 * * * *" instead of cadence'),
        ("schedule: {cadence: yearly}", "write cadence: annual"),
        ("licence: MIT", "write license: MIT"),
        ("sensitivity: Public", "write sensitivity: public"),
        ("sources: {s: {url: data/a.csv}}", "write uri: data/a.csv"),
        ("sources: {s: {path: data/a.csv}}", "write uri: data/a.csv"),
        ("sources: {s: {file: data/a.csv}}", "write uri: data/a.csv"),
        ('sources: {s: {url: "https://example.org/a?x=CANARY"}}', "write uri: …"),
        *(
            (f"sources: {{s: {{uri: a, contract: {{columns: [{{name: x, type: {word}}}]}}}}}}", f"write type: {right}")
            for word, right in (
                ("string", "text"), ("str", "text"), ("float", "number"), ("double", "number"), ("int", "integer"),
                ("bool", "boolean"), ("timestamp", "datetime"), ("Text", "text"),
            )
        ),
    ],
)  # fmt: skip
def test_a_plain_synonym_is_answered_with_the_line_to_write(kfm: Kfm, folder: Path, written: str, answer: str) -> None:
    put({"u.py": UPDATER, "kfm.yml": f"datasets:\n  a:\n    updater: u.py:U\n    {written}\n"})
    (mistake,) = told(kfm)
    assert mistake["line"] == 4 and answer in mistake["hint"], mistake
    assert "CANARY" not in json.dumps(mistake)


def same_first(path: Path, text: str | bytes, env: dict[str, str]) -> int:
    """How many mistakes there are: none if the file is right, and else with the one among them that is raised alone."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    found = [str(problem) for problem in mistakes_of(str(path), env).mistakes]
    try:
        config.load(str(path), env)
    except BadInput as problem:
        assert str(problem) in found, (text, env, found)
    else:
        assert found == [], (text, env)
    assert len(set(found)) == len(found)
    return len(found)


def test_what_is_collected_holds_what_is_raised_and_is_empty_where_nothing_is(tmp_path: Path) -> None:
    for cases, name in ((YAML_CASES, "kfm.yml"), (JSON_CASES, "kfm.json")):
        assert all(same_first(tmp_path / name, text, {}) for text, _ in cases.values())
    assert all(same_first(tmp_path / "kfm.yml", TAIL, env) for env, _ in ENV_CASES.values())
    pick, known = random.Random(24), examples()
    several = 0
    for _ in range(tries(300)):
        ending, text, env = case(pick, known)
        several += same_first(tmp_path / f"fuzzed.{ending}", text, env) > 1
    assert several > 30
