"""The commands on an installation without problems."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import jsonschema
import pytest

from kfm.config import ExecuteConfig

from .conftest import Kfm, shell, tree

DATA = Path("data/rain_gauges.csv")


HAYS = "gauge,county,month,rain_mm\nhays,ellis,2025-11,19.1\nhays,ellis,2025-12,11.3\nhays,ellis,2026-01,12.7\n"


def change_data() -> None:
    DATA.write_text(DATA.read_text() + "colby,thomas,2026-01,9.9\n")


# ------------------------------------------------------------------------------------------- init


def test_init_writes_an_installation_that_runs(kfm: Kfm) -> None:
    answer = kfm("init", "new/place")
    assert answer.code == 0
    assert answer.out.splitlines() == [
        "new/place/kfm.yml",
        "new/place/updaters/rain_gauges.py",
        "new/place/data/rain_gauges.csv",
        "new/place/.gitignore",
        "new/place/README.md",
        "new/place/kfm.schema.json",
        "new/place/tests/test_rain_gauges.py",
    ]
    assert kfm("run", "--config", "new/place/kfm.yml").code == 0


@pytest.mark.parametrize("name", ["kfm.yml", "kfm.yaml", "kfm.json", "updaters/rain_gauges.py", "data/rain_gauges.csv"])
def test_init_overwrites_nothing_and_leaves_nothing_behind(kfm: Kfm, name: str) -> None:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = tree()
    answer = kfm("init")
    assert answer.code == 3
    assert f"{name} is there already" in answer.complaint
    assert tree() == before


def test_init_that_cannot_finish_leaves_nothing_behind(kfm: Kfm) -> None:
    Path("data").write_text("a file where a folder must be")
    before = tree()
    assert kfm("init").code == 3
    assert tree() == before


def test_init_follows_no_link_out_of_its_folder(kfm: Kfm, tmp_path: Path) -> None:
    Path("kfm.yml").symlink_to(tmp_path / "elsewhere.yml")
    assert kfm("init").code == 3
    assert not (tmp_path / "elsewhere.yml").exists()


# -------------------------------------------------------------------------------------------- run


def test_a_run_publishes_then_has_nothing_to_do(started: Kfm) -> None:
    first = started("run", "--json")
    assert first.code == 0
    (receipt,) = first.data["receipts"]
    assert (receipt["status"], receipt["outcome"], receipt["actor"]) == ("SUCCESS", "done", "tester")
    second = started("run", "--json")
    assert second.code == 0
    assert second.data["receipts"][0]["outcome"] == "noop"
    assert started("run", "--exit-code").code == 10


def test_exit_code_of_a_run_that_changed_something_is_zero(started: Kfm) -> None:
    assert started("run", "--exit-code").code == 0


def test_a_dry_run_predicts_and_changes_nothing(started: Kfm) -> None:
    before = tree()
    foretold = started("run", "--dry-run", "--json")
    assert foretold.code == 0
    assert tree() == before
    assert foretold.data["receipts"][0]["dry_run"] is True
    assert all(effect["dry_run"] for effect in foretold.data["effects"])
    real = started("run", "--json")
    assert real.data["receipts"][0]["moves"] == foretold.data["receipts"][0]["moves"]
    assert [e["target"] for e in real.data["effects"]] == [e["target"] for e in foretold.data["effects"]]


def test_force_runs_again_and_the_reason_is_kept(started: Kfm) -> None:
    started("run")
    answer = started("run", "--force", "--reason", "I doubt it", "--actor", "me", "--json")
    (receipt,) = answer.data["receipts"]
    assert (receipt["status"], receipt["reason"], receipt["actor"]) == ("SUCCESS", "I doubt it", "me")


def test_data_goes_to_stdout_and_words_to_stderr(started: Kfm) -> None:
    answer = started("run", "--dry-run")
    assert answer.out.startswith("DATASET")
    assert answer.err == "dry run: nothing was changed\n"
    assert started("run", "--dry-run", "--quiet").err == ""


def test_verbose_prints_every_event_on_stderr(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = started("run", "--verbose", "--json")
    assert answer.data["receipts"]
    assert " run.committed " in answer.err
    change_data()
    monkeypatch.setenv("KFM_LOG", "jsonl")
    lines = [json.loads(line) for line in started("run", "--verbose").err.splitlines()]
    assert "run.committed" in [line["event"] for line in lines]


def test_one_bad_dataset_does_not_keep_the_others_from_running(started: Kfm) -> None:
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text + "  broken:\n    updater: updaters/none.py:X\n")
    answer = started("run", "--json")
    assert answer.code == 3
    assert [receipt["dataset"] for receipt in answer.data["receipts"]] == ["rain-gauges"]
    assert [error["dataset"] for error in answer.data["errors"]] == ["broken"]


# ------------------------------------------------------------------------------- refs, cat, runs


def test_cat_writes_the_bytes_of_an_entry(ran: Kfm) -> None:
    answer = ran("cat", "published/rain-gauges", "ellis")
    assert answer.out == HAYS
    assert answer.err == ""
    listed = ran("cat", "published/rain-gauges", "--json").data
    assert [entry["key"] for entry in listed] == [["ellis"], ["ford"], ["riley"]]
    assert ran("cat", listed[0]["digest"]).out == answer.out


def test_held_shows_what_is_held_back_and_why(started: Kfm) -> None:
    assert "nothing of rain-gauges is quarantined" in started("held", "rain-gauges").err
    assert "1 row quarantined, see `kfm quarantine rain-gauges`" in started("run").err
    answer = started("held", "rain-gauges")
    assert "minimum" in answer.out and "-1" not in answer.out
    assert "1 of 12 rows quarantined" in answer.err
    report = started("held", "rain-gauges", "--json").data
    assert report["dataset"] == "rain-gauges"
    assert [source["held_rows"] for source in report["sources"]] == [1]
    assert started("cat", "quarantine/rain-gauges").data == report
    (row,) = [json.loads(line) for line in started("held", "rain-gauges", "--rows").out.splitlines()]
    assert row["row"] == 8 and row["data"]["rain_mm"] == "-1"
    assert started("held", "nowhere").code == 3


def test_held_says_when_a_whole_source_is(started: Kfm) -> None:
    Path("data/rain_gauges.csv").write_text("gauge,county\na,b\n,c\n")
    assert "see `kfm quarantine rain-gauges`" in started("run").complaint
    answer = started("held", "rain-gauges")
    assert "required" in answer.out
    assert "the whole source is held" in answer.err


def test_findings_of_one_kind_are_one_line_with_the_first_rows_they_are_in(started: Kfm) -> None:
    rows = "".join(f"g{n},c,2026-01,-1\n" for n in range(250)) + "h,c,soon,1\n"
    Path("data/rain_gauges.csv").write_text("gauge,county,month,rain_mm\n" + rows)
    started("run")
    header, *lines = started("held", "rain-gauges").out.splitlines()
    assert header.split() == ["SOURCE", "COLUMN", "RULE", "TIMES", "LINE", "WHAT"]
    assert [line.split()[1:4] for line in lines] == [["rain_mm", "minimum", "199+"], ["month", "pattern", "1"]]
    assert "1, 2, 3 …" in lines[0] and " 251 " in lines[1]
    assert "251 findings, of which the first 200 are counted above" in started("held", "rain-gauges").err


def test_a_dry_run_shows_what_it_would_quarantine_and_a_plan_says_where_to_look(started: Kfm) -> None:
    answer = started("run", "--dry-run")
    assert "WOULD HOLD" in answer.out and "rain-gauges/gauges  rain_mm  minimum" in answer.out
    assert "nothing of rain-gauges is quarantined" in started("held", "rain-gauges").err
    Path("data/rain_gauges.csv").write_text("gauge,county\na,b\n,c\n")
    answer = started("run", "--dry-run")
    assert answer.code == 3 and "the source is held" in answer.out
    told = dict(zip(*(line.split() for line in answer.out.splitlines()[:2]), strict=True))
    assert (told["OUTCOME"], told["ADDED"], told["HELD"]) == ("held", "-", "all")
    assert "`kfm run rain-gauges --dry-run` shows all that would be held" in started("plan", "rain-gauges").complaint


def test_a_promotion_of_what_is_published_already_says_so(ran: Kfm) -> None:
    answer = ran("promote", "rain-gauges")
    assert answer.code == 0 and "nothing moved: it is there already" in answer.err


def test_a_message_names_what_it_is_about_once(started: Kfm) -> None:
    assert started("promote", "rain-gauges").complaint.startswith("kfm: rain-gauges has no processed version")
    assert started("rollback", "rain-gauges").complaint.startswith("kfm: rain-gauges: published/rain-gauges has no")


def test_an_author_sees_the_traceback_when_it_is_asked_for(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path("updaters/rain_gauges.py")
    path.write_text(path.read_text().replace('row["county"]', 'row["country"]'))
    answer = started("run")
    assert answer.code == 1
    assert "raised KeyError at rain_gauges.py:" in answer.complaint
    assert "KFM_LOG=debug shows the traceback" in answer.complaint
    assert "Traceback" not in answer.err
    monkeypatch.setenv("KFM_LOG", "debug")
    answer = started("run")
    assert "Traceback" in answer.err and "KeyError: 'country'" in answer.err
    assert "KeyError: 'country'" not in Path(".kfm/artifacts/event_log.jsonl").read_text()


def test_cat_of_an_unknown_key_says_so(ran: Kfm) -> None:
    answer = ran("cat", "published/rain-gauges", "../x")
    assert answer.code == 3
    assert "has no entry '../x'" in answer.complaint


def test_refs_and_their_history(ran: Kfm) -> None:
    refs = {row["ref"]: row["version"] for row in ran("refs", "list", "--json").data}
    assert refs["published/rain-gauges"] == refs["processed/rain-gauges"]
    (entry,) = ran("refs", "history", "published/rain-gauges", "--json").data
    assert (entry["op"], entry["reason"], entry["actor"]) == ("promote", "first", "tester")
    assert [row["ref"] for row in ran("refs", "list", "published/", "--json").data] == ["published/rain-gauges"]


def test_runs_are_listed_newest_first_and_shown(ran: Kfm) -> None:
    rows = ran("runs", "list", "--json").data
    assert [row["op"] for row in rows] == ["promote", "ingest"]
    assert len(ran("runs", "list", "--limit", "1", "--json").data) == 1
    assert ran("runs", "list", "--dataset", "global", "--json").data == []
    ingest = rows[1]["run"]
    shown = ran("runs", "show", ingest[:8], "--json").data
    assert shown["receipt"]["run_id"] == shown["run"]["run_id"] == ingest
    assert shown["telemetry"]["run_id"] == ingest
    assert "rain-gauges 1.0.0" in ran("runs", "show", ingest).out
    steps = ran("runs", "steps", ingest, "--json").data
    assert [(s["step"]["id"], s["status"]) for s in steps] == [
        ("county-ellis", "DONE"),
        ("county-ford", "DONE"),
        ("county-riley", "DONE"),
    ]
    assert all(step["digest"].startswith("sha256:") for step in steps)


def test_receipts_are_listed_and_shown(ran: Kfm) -> None:
    receipts = ran("runs", "receipts", "--json").data
    assert [receipt["job_type"] for receipt in receipts] == ["operation.promote", "ingest.pull_source"]
    assert ran("runs", "receipt", "last", "--json").data == receipts[0]


def test_looking_changes_nothing(ran: Kfm) -> None:
    before = tree()
    for arguments in (
        ["runs", "list"],
        ["runs", "show", "last"],
        ["runs", "steps", "last"],
        ["refs", "list"],
        ["refs", "history", "published/rain-gauges"],
        ["cat", "published/rain-gauges", "ellis"],
        ["runs", "receipts"],
        ["runs", "receipt", "last"],
        ["config", "show", "--resolved"],
        ["config", "schema", "config"],
        ["promote", "rain-gauges", "--dry-run"],
        ["rollback", "rain-gauges", "--ref", "processed/rain-gauges", "--dry-run"],
        ["freeze", "--dry-run"],
        ["run", "--dry-run"],
    ):
        ran(*arguments)
    assert tree() == before


# ------------------------------------------------------------------------------------------ moves


def test_rollback_and_rollback_forward_bring_back_the_same_bytes(ran: Kfm) -> None:
    first = ran("refs", "list", "published/", "--json").data
    change_data()
    assert ran("run").code == 0
    assert ran("promote", "rain-gauges").code == 0
    second = ran("refs", "list", "published/", "--json").data
    assert first != second
    foretold = ran("rollback", "rain-gauges", "--dry-run", "--json").data
    done = ran("rollback", "rain-gauges", "--reason", "oops", "--json").data
    assert done["receipts"][0]["moves"] == foretold["receipts"][0]["moves"]
    assert ran("refs", "list", "published/", "--json").data == first
    assert ran("rollback", "rain-gauges", "--to", second[0]["version"], "--reason", "right").code == 0
    assert ran("refs", "list", "published/", "--json").data == second
    assert ran("rollback", "rain-gauges", "--to", first[0]["version"]).code == 0
    assert ran("refs", "list", "published/", "--json").data == first


def test_rollback_without_an_earlier_version_is_refused(ran: Kfm) -> None:
    answer = ran("rollback", "rain-gauges")
    assert answer.code == 3
    assert "no version before" in answer.complaint


def test_the_first_edition_can_be_withdrawn_and_brought_back(ran: Kfm) -> None:
    before = ran("refs", "list", "published/", "--json").data
    foretold = ran("rollback", "rain-gauges", "--to", "nothing", "--dry-run", "--json").data
    assert ran("refs", "list", "published/", "--json").data == before
    done = ran("rollback", "rain-gauges", "--to", "nothing", "--reason", "too early", "--json").data
    assert done["receipts"][0]["moves"] == foretold["receipts"][0]["moves"]
    assert ran("refs", "list", "published/", "--json").data == []
    assert json.loads(Path("public/datasets/rain-gauges/current.json").read_text())["version"] == ""
    assert ran("rollback", "rain-gauges", "--to", before[0]["version"], "--reason", "right").code == 0
    assert ran("refs", "list", "published/", "--json").data == before


def test_only_what_is_published_can_be_withdrawn(ran: Kfm) -> None:
    answer = ran("rollback", "rain-gauges", "--ref", "processed/rain-gauges", "--to", "nothing")
    assert answer.code == 3
    assert "not published" in answer.complaint


def test_a_version_to_roll_back_to_may_be_named_by_its_start(ran: Kfm) -> None:
    first = ran("refs", "list", "published/", "--json").data[0]["version"]
    ran("rollback", "rain-gauges", "--to", "nothing")
    shown = first[:19]  # as `kfm refs history` shows it
    assert shown in ran("refs", "history", "published/rain-gauges").out
    assert ran("rollback", "rain-gauges", "--to", shown, "--reason", "right", "--dry-run").code == 0
    assert ran("rollback", "rain-gauges", "--to", shown.removeprefix("sha256:"), "--reason", "right").code == 0
    assert ran("refs", "list", "published/", "--json").data[0]["version"] == first
    answer = ran("rollback", "rain-gauges", "--to", "sha256:0000000")
    assert answer.code == 3
    assert "no version of published/rain-gauges begins with 0000000" in answer.complaint


def test_promotion_without_a_licence_is_denied_until_it_is_declared(started: Kfm) -> None:
    path = Path("kfm.yml")
    whole = path.read_text()
    path.write_text(whole.replace("    license: CC0-1.0\n", ""))
    started("run")
    answer = started("promote", "rain-gauges")
    assert answer.code == 4
    assert "licence: license is not declared" in answer.complaint
    assert started("refs", "list", "published/", "--json").data == []
    path.write_text(whole)
    assert started("promote", "rain-gauges").code == 0


def test_what_is_restricted_today_is_neither_promoted_nor_rolled_back_to(ran: Kfm) -> None:
    data = Path("data/rain_gauges.csv")
    data.write_text(data.read_text().replace("12.7", "13.7"))
    ran("run")
    assert ran("promote", "rain-gauges", "--reason", "second").code == 0
    assert ran("doctor").code == 0
    (published,) = ran("refs", "list", "published/", "--json").data
    path = Path("kfm.yml")
    path.write_text(path.read_text().replace("sensitivity: public", "sensitivity: restricted"))
    report = ran("doctor", "--json")
    assert report.code == 3
    assert [check["check"] for check in report.data["checks"] if not check["ok"]] == ["published.rain-gauges"]
    data.write_text(data.read_text().replace("13.7", "14.7"))
    withdrawn = ran("run")
    assert withdrawn.code == 0 and "withdrawn from the public files" in withdrawn.err, withdrawn.err
    back = ["rollback", "rain-gauges", "--to", published["version"], "--reason", "right"]
    for words in (["promote", "rain-gauges"], back):
        answer = ran(*words)
        assert answer.code == 4, answer.err
        assert "its sensitivity is not public" in answer.complaint
    assert ran("refs", "list", "published/", "--json").data == []
    assert ran("doctor").code == 0


@pytest.mark.parametrize("scope", ["global", "rain-gauges"])
def test_what_is_frozen_waits_for_the_thaw(started: Kfm, scope: str) -> None:
    assert started("freeze", scope, "--reason", "storm").code == 0
    answer = started("run", "--json")
    assert answer.code == 5
    assert answer.data["receipts"][0]["outcome"] == "frozen"
    assert started("thaw", scope).code == 0
    resumed = started("resume", "--json")
    assert resumed.code == 0
    assert [receipt["outcome"] for receipt in resumed.data["receipts"]] == ["done"]


def test_a_frozen_run_says_who_froze_it_and_what_to_do(started: Kfm) -> None:
    started("freeze", "rain-gauges", "--reason", "storm")
    answer = started("run")
    assert "by tester (storm); its trigger is kept: `kfm thaw rain-gauges --reason …`, then `kfm resume`" in answer.err
    assert "1 waiting: `kfm resume` takes it up" in started("thaw", "rain-gauges").err
    assert started("resume").code == 0
    assert "waiting" not in started("thaw", "rain-gauges").err


def test_a_promotion_says_where_the_files_are_and_what_they_consist_of(started: Kfm) -> None:
    started("run")
    answer = started("promote", "rain-gauges", "--reason", "first")
    version = started("refs", "list", "published/", "--json").data[0]["version"]
    folder = Path("public/datasets/rain-gauges/versions") / version[7:23]
    assert f"its files are in {folder}" in answer.err
    assert version[:19] in answer.out
    manifest = folder.with_suffix(".ndjson").read_bytes()
    assert "sha256:" + hashlib.sha256(manifest).hexdigest() == version
    digests = {json.loads(line)["digest"] for line in manifest.splitlines()}
    assert digests == {"sha256:" + hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


def test_nothing_to_resume_is_no_error(ran: Kfm) -> None:
    answer = ran("resume")
    assert answer.code == 0
    assert "nothing was left to resume" in answer.err


# ---------------------------------------------------------------------------- configuration, colour


def test_config_show_prints_values_and_where_they_come_from(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_EXECUTE__THREADS", "3")
    data = started("config", "show", "--resolved", "--json").data
    assert data["settings"]["execute.threads"] == {"value": 3, "origin": "env KFM_EXECUTE__THREADS"}
    assert data["settings"]["execute.window"] == {"value": ExecuteConfig().window, "origin": "default"}
    assert data["root"] == os.getcwd()
    assert "execute.window" not in started("config", "show").out


def test_colours_only_where_they_are_wanted(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in started("config", "show").out
    monkeypatch.setenv("KFM_COLOR", "always")
    assert "\x1b[" in started("config", "show").out
    assert "\x1b" not in started("config", "show", "--no-color").out
    assert "\x1b" not in started("config", "show", "--json").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in started("config", "show").out


def test_schemas_are_listed_and_hold(ran: Kfm) -> None:
    names = ran("config", "schema", "--json").data
    assert names[0] == "config"
    assert ran("config", "schema").out.split() == names
    for name in names:
        jsonschema.Draft202012Validator.check_schema(ran("config", "schema", name).data)
    receipt = ran("runs", "receipt", "last", "--json").data
    jsonschema.validate(receipt, ran("config", "schema", "receipt").data)


# ------------------------------------------------------------------------------- plan, log, doctor


def test_plan_shows_the_steps_and_changes_nothing(started: Kfm) -> None:
    before = tree()
    answer = started("plan", "rain-gauges")
    assert answer.code == 0
    for part in ("county-ellis", "county-ford", "steps", "this would be the first run"):
        assert part in answer.out
    shown = started("plan", "rain-gauges", "--json").data["shown"]
    assert [step["id"] for step in shown] == ["county-ellis", "county-ford", "county-riley"]
    assert tree() == before


def test_a_plan_that_changed_under_its_version_is_refused_with_the_difference(ran: Kfm) -> None:
    assert "the same plan as the locked one" in ran("plan", "rain-gauges", "--check").out
    path = Path("updaters/rain_gauges.py")
    path.write_text(path.read_text().replace("county-{name}", "renamed-{name}"))
    shown = shell("kfm plan rain-gauges")
    assert shown.returncode == 3
    assert "bump the version" in shown.stdout
    assert "+ step renamed-ellis" in shown.stdout
    checked = shell("kfm plan rain-gauges --check")
    assert checked.returncode == 3
    assert checked.stdout == ""
    assert checked.stderr.startswith("kfm: the plan of rain-gauges changed under the same inputs and version: - step")
    path.write_text(path.read_text().replace('version = "1.0.0"', 'version = "1.1.0"'))
    bumped = shell("kfm plan rain-gauges --check")
    assert bumped.returncode == 0
    assert "since the last run:" in bumped.stdout


def test_the_log_of_a_run_is_the_same_before_and_after_compaction(ran: Kfm) -> None:
    run_id = ran("runs", "list", "--json").data[-1]["run"]
    log = ran("runs", "wal", run_id)
    records = [json.loads(line) for line in log.out.splitlines()]
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert {record["phase"] for record in records} == {"PLAN", "EXECUTE", "UPSERT", "LINEAGE"}
    steps = ran("runs", "steps", run_id).out
    assert ran("runs", "compact", "--json").data == {"archived_runs": 2}
    assert ran("runs", "wal", run_id) == log
    assert ran("runs", "steps", run_id).out == steps
    assert ran("runs", "compact").out == "0 runs archived\n"


def test_a_skipped_run_has_no_log_and_no_steps(ran: Kfm) -> None:
    assert ran("run").code == 0
    answer = ran("runs", "wal", "last")
    assert answer.code == 3
    assert "has no log" in answer.complaint
    assert ran("runs", "steps", "last", "--json").data == []


def test_doctor_prints_what_it_checked(ran: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ran("doctor", "--deep", "--i-accept", "--json")
    assert answer.code == 0
    checks = {check["check"]: check for check in answer.data["checks"]}
    assert checks["sqlite.synchronous"]["found"] == "FULL"
    assert checks["ledger.chain"]["found"] == "2 entries intact"
    assert "sqlite.synchronous" in ran("doctor", "--i-accept").out


def test_doctor_finds_damaged_bytes(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_STATE", "jsonl:journal")
    assert started("run").code == 0
    files = [
        path for path in Path.cwd().rglob("*") if path.is_file() and "journal" in str(path.relative_to(Path.cwd()))
    ]
    journal = max(files, key=lambda path: path.stat().st_size)
    body = bytearray(journal.read_bytes())
    body[len(body) // 2] ^= 1
    journal.write_bytes(body)
    answer = started("doctor", "--deep")
    assert answer.code == 65
    assert answer.complaint


def test_artifacts_go_where_they_are_wanted(started: Kfm, tmp_path: Path) -> None:
    names = ["event_log.jsonl", "idempotency.json", "publisher_trace.jsonl", "run.jsonl"]
    before = tree()
    elsewhere = tmp_path / "elsewhere"
    assert started("run", "--dry-run", "--artifacts", str(elsewhere)).code == 0
    assert tree() == before, "a dry run writes only where it was told to"
    assert sorted(path.name for path in elsewhere.iterdir()) == names
    for line in (elsewhere / "run.jsonl").read_text().splitlines():
        assert json.loads(line)["dry_run"] is True
    assert started("run").code == 0
    assert sorted(path.name for path in Path(".kfm/artifacts").iterdir()) == names
    events = [json.loads(line) for line in Path(".kfm/artifacts/event_log.jsonl").read_text().splitlines()]
    assert "run.committed" in [event["event"] for event in events]


def test_init_goes_through_folders_that_are_not_there_yet(kfm: Kfm) -> None:
    answer = kfm("init", "a/b/../c/")
    assert answer.code == 0, answer.err
    assert Path("a/c/kfm.yml").is_file()
    Path("d").write_text("in the way")
    before = tree()
    assert "cannot be written: file exists" in kfm("init", "e/../d/f").complaint
    assert tree() == before


def test_runs_are_listed_of_a_dataset_that_left_the_configuration_and_of_none_that_never_was(ran: Kfm) -> None:
    config = Path("kfm.yml")
    whole = config.read_text()
    config.write_text(whole[: whole.index("datasets:")] + "datasets: {later: {updater: updaters/rain_gauges.py:X}}\n")
    assert len(ran("runs", "list", "--dataset", "rain-gauges", "--json").data) == 2
    assert ran("runs", "list", "--dataset", "later", "--json").data == []
    answer = ran("runs", "list", "--dataset", "latr")
    assert (answer.code, answer.out) == (3, "")
    assert "there is no dataset 'latr'; did you mean later?" in answer.complaint


@pytest.mark.parametrize("words", [("--to", ""), ("--from", ""), ("--ref", "")])
def test_an_empty_version_or_ref_is_a_mistake_and_not_the_one_before(ran: Kfm, words: tuple[str, str]) -> None:
    """As `--to "$VERSION"` is where the variable is not set."""
    ran("promote", "rain-gauges")
    refs = ran("refs", "list").out
    answer = ran("rollback", "rain-gauges", *words)
    assert answer.code == 3 and answer.err.count("\n") == 1
    assert ran("refs", "list").out == refs
