"""`promote: auto` publishes what a run makes of a plainly public dataset, unless a gate or a person refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.app.backfills.sites import Site as Backfills
from tests.app.previews.branches import CONFIG as BRANCHED
from tests.app.previews.branches import Site as Branches
from tests.app.previews.branches import wells
from tests.app.previews.test_killed_anywhere import DYING
from tests.cli.conftest import Kfm
from tests.sampling import sampled

CONFIG = """\
kfm: 1
datasets:
  wells:
    version: 1.0.0
    title: Wells
    license: CC0-1.0
    sensitivity: public
    promote: auto
    sources:
      wells: {uri: wells.csv, format: csv, contract: {columns: [{name: id}, {name: depth, type: integer}]}}
    outputs:
      all: {from: wells, format: csv}
"""
READER = """\
  deep:
    version: 1.0.0
    title: Deep wells
    license: CC0-1.0
    sensitivity: public
    promote: auto
    sources:
      wells: {dataset: wells, zone: published, format: csv}
    outputs:
      all: {from: wells, format: csv}
"""


def begin(config: str = CONFIG, n: int = 1) -> None:
    Path("kfm.yml").write_text(config)
    change(n)


def change(n: int) -> None:
    Path("wells.csv").write_text("id,depth\n" + "".join(f"{each},{n}{each}\n" for each in range(20)))


def public(dataset: str = "wells") -> str:
    """What the public folder says is current; empty: nothing is public."""
    current = Path(f"public/datasets/{dataset}/current.json")
    if not current.exists():
        return ""
    version = json.loads(current.read_text()).get("version") or ""
    if version:
        folder = Path(f"public/datasets/{dataset}/versions")
        assert (folder / version.removeprefix("sha256:")[:16]).is_dir(), version
    return str(version)


def refs(kfm: Kfm) -> dict[str, str]:
    return {each["ref"]: each["version"] for each in kfm("refs", "list", "--json").data}


def run(kfm: Kfm, *words: str, code: int = 0) -> list[dict[str, Any]]:
    said = kfm("run", "--json", *words)
    assert said.code == code, said
    return list(said.data["receipts"])


def history(kfm: Kfm) -> list[dict[str, Any]]:
    return list(kfm("refs", "history", "published/wells", "--json").data)


def test_what_a_run_made_is_public_with_a_receipt_that_says_it_was_automatic(kfm: Kfm) -> None:
    begin()
    made, moved = run(kfm)
    assert (made["job_type"], moved["job_type"], moved["status"]) == (
        "ingest.pull_source",
        "operation.promote",
        "SUCCESS",
    )
    assert public() == refs(kfm)["processed/wells"]
    (entry,) = history(kfm)
    assert (entry["op"], entry["actor"]) == ("promote", "kfm, promote: auto")
    assert moved["actor"] == "kfm, promote: auto"
    assert made["run_id"] in moved["reason"]
    assert [each["gate"] for each in moved["policy_decisions"]] == ["promotion.checklist"]
    assert [each["outcome"] for each in run(kfm)] == ["noop"]  # and nothing more is said or written
    change(2)
    before = public()
    run(kfm)
    assert public() not in ("", before)
    assert kfm("reconcile", "--public").code == 0


def test_manual_is_what_it_was(kfm: Kfm) -> None:
    begin(CONFIG.replace("    promote: auto\n", ""))
    assert len(run(kfm)) == 1
    begin(CONFIG.replace("auto", "manual"))
    assert len(run(kfm)) == 1
    assert public() == ""


def test_a_run_prints_where_the_files_are_and_a_quiet_run_prints_nothing(kfm: Kfm) -> None:
    begin()
    said = kfm("run")
    assert said.code == 0
    assert "its files are in public/datasets/wells/versions/" in said.err
    change(2)
    said = kfm("-q", "run")
    assert (said.code, said.err) == (0, "")
    assert public() == refs(kfm)["processed/wells"]


def test_a_dry_run_predicts_it_and_changes_nothing(kfm: Kfm) -> None:
    begin()
    run(kfm)
    before = public()
    change(2)
    said = kfm("run", "--dry-run", "--json")
    assert said.code == 0, said
    assert [each["job_type"] for each in said.data["receipts"]] == ["ingest.pull_source", "operation.promote"]
    assert "datasets/wells/current.json" in [each["target"] for each in said.data["effects"]]
    assert public() == before
    assert len(run(kfm)) == 2
    begin(CONFIG.replace("auto", "manual"), 3)
    run(kfm)
    begin(n=3)
    said = kfm("run", "--dry-run", "--json")
    assert said.code == 0, said
    assert "published/wells" in [move["ref"] for receipt in said.data["receipts"] for move in receipt["moves"]]
    assert public() != refs(kfm)["processed/wells"]


def test_what_reads_what_is_public_reads_what_was_just_published(kfm: Kfm) -> None:
    begin(CONFIG + READER)
    run(kfm)
    change(2)
    run(kfm)
    at = refs(kfm)
    assert public("wells") == at["processed/wells"]
    assert public("deep") == at["processed/deep"]
    entries = Path(f"public/datasets/deep/versions/{public('deep')[7:23]}")
    assert any("3,23" in path.read_text() for path in entries.rglob("*") if path.is_file())


# -- the gate, and people


def test_a_gate_that_says_no_leaves_the_run_and_says_what_to_do(kfm: Kfm) -> None:
    begin(CONFIG.replace("    license: CC0-1.0\n", ""))
    said = kfm("run")
    assert said.code == 4, said
    assert "license" in said.err
    assert "was made, and is not public" in said.err
    assert "`kfm publish wells --reason …`" in said.err
    at = refs(kfm)
    assert at["processed/wells"]
    assert not at.get("published/wells")
    assert public() == ""
    begin()  # with its licence: a run that makes nothing new publishes what is there
    outcomes = [each["outcome"] for each in run(kfm)]
    assert outcomes == ["noop", "done"]
    assert public() == at["processed/wells"]


OPEN = "version: 1\nlabels:\n" + "".join(
    f"  - {{of: {{{of}}}, sensitivity: public, care: open}}\n" for of in ("source: wells.csv", "dataset: wells")
)
RULE = """\
package main

deny contains "%s" if input.step.to == "published"
"""


def asked(kfm: Kfm) -> list[dict[str, Any]]:
    """All that was asked to be published."""
    return [each for each in kfm("runs", "list", "--limit", "0", "--json").data if each["op"] == "promote"]


def test_a_denial_is_asked_for_again_only_when_something_changed(kfm: Kfm) -> None:
    """Another declaration, labels, rules or version. Until then a run says so, and records no more than itself."""
    ruled, titled = CONFIG + "policy: {folder: own}\n", CONFIG.replace("title: Wells", "title: Deep wells")
    Path("own").mkdir()
    begin()
    changes: dict[str, dict[str, str]] = {
        "rules": {"own/never.rego": RULE % "not yet", "kfm.yml": ruled},
        "another declaration": {"kfm.yml": titled + "policy: {folder: own}\n"},
        "labels": {"labels.yml": OPEN, "kfm.yml": titled + "policy: {folder: own}\nlabels: labels.yml\n"},
        "other labels": {"labels.yml": OPEN + "# looked at\n"},
        "other rules with the same words": {"own/never.rego": RULE % "not yet" + "# looked at\n"},
        "other rules": {"own/never.rego": RULE % "not today"},
        "another version": {"wells.csv": Path("wells.csv").read_text() + "20,7\n"},
    }
    for count, (what, files) in enumerate(changes.items(), 1):
        for name, text in files.items():
            Path(name).write_text(text)
        said = kfm("run")
        assert (said.code, len(asked(kfm))) == (4, count), (what, said)
        for words in (("run",), ("resume",), ("run", "--force", "--reason", "again"), ("run", "--dry-run")):
            said = kfm(*words)
            assert (said.code, len(asked(kfm))) == (4, count), (what, words, said)
            assert "wells is not public: run " in said.err and " was denied" in said.err, said
            assert ("not yet" if count < 6 else "not today") in said.err, said
            assert "`kfm publish wells --reason …`" in said.err, said
    assert kfm("promote", "wells", "--reason", "all the same").code == 4  # a person is answered every time
    assert len(asked(kfm)) == len(changes) + 1
    assert kfm("run").code == 4
    assert len(asked(kfm)) == len(changes) + 1
    assert public() == ""
    Path("kfm.yml").write_text(CONFIG)
    assert [each["outcome"] for each in run(kfm)] == ["noop", "done"]
    assert public() == refs(kfm)["processed/wells"]


def test_processes_that_promote_the_same_version_at_once_leave_no_failed_receipt(
    kfm: Kfm, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfm.app.runs import auto_promotion

    begin()
    original, overtaken = auto_promotion.run_operation, []

    def overtake(session: Any, *words: Any, **more: Any) -> Any:
        """Another process promotes the same version between the look at the refs and the promotion."""
        if not overtaken:
            overtaken.append(True)
            original(session, *words, **more)
        return original(session, *words, **more)

    monkeypatch.setattr(auto_promotion, "run_operation", overtake)
    answer = kfm("run")
    assert answer.code == 0 and overtaken, answer.err
    assert public() == refs(kfm)["processed/wells"]
    receipts = kfm("runs", "receipts", "--limit", "0", "--json").data
    assert not [each for each in receipts if each["status"] == "FAILED"], receipts


def test_what_a_person_took_back_stays_back_until_there_is_something_new(kfm: Kfm) -> None:
    begin()
    run(kfm)
    first = public()
    change(2)
    run(kfm)
    second = public()
    assert kfm("rollback", "wells", "--reason", "wrong").code == 0
    assert public() == first
    said = kfm("run")
    assert said.code == 0
    assert f"{second[:19]} was withdrawn by tester" in said.err and "The same bytes stay withdrawn" in said.err
    assert f"`kfm publish wells --to {second[7:23]} --reason …`" in said.err
    assert kfm("resume").code == 0
    assert kfm("up", "--once").code == 0
    assert public() == first
    change(3)
    run(kfm)
    assert public() not in ("", first, second)
    third = public()
    change(2)  # what was taken back, made again: nobody has agreed to it
    run(kfm)
    assert refs(kfm)["processed/wells"] == second
    assert public() == third
    assert kfm("promote", "wells", "--reason", "it was right").code == 3
    assert kfm("promote", "wells", "--to", second, "--reason", "it was right").code == 0
    assert public() == second
    change(3)
    run(kfm)
    change(2)  # a person put it back since
    run(kfm)
    assert public() == second


def test_what_a_person_withdrew_stays_withdrawn_until_there_is_something_new(kfm: Kfm) -> None:
    begin()
    run(kfm)
    assert kfm("rollback", "wells", "--to", "nothing", "--reason", "not ours").code == 0
    for words in (("run",), ("resume",), ("up", "--once"), ("run", "--force", "--reason", "again")):
        kfm(*words)
        assert public() == "", words
    change(2)
    run(kfm)
    assert public() == refs(kfm)["processed/wells"]


def test_a_version_that_is_older_than_what_a_person_did_is_not_published(kfm: Kfm) -> None:
    """Nobody published it when it was made, and a person went back since: it is not new any more."""
    begin()
    run(kfm)
    first = public()
    change(2)
    run(kfm)
    begin(CONFIG.replace("auto", "manual"), 3)
    run(kfm)
    assert kfm("rollback", "wells", "--reason", "wrong").code == 0
    begin(n=3)
    run(kfm)
    assert public() == first
    begin(n=4)
    run(kfm)
    assert public() == refs(kfm)["processed/wells"] != first


def test_what_is_frozen_is_published_by_the_run_after_the_thaw(kfm: Kfm) -> None:
    begin(CONFIG.replace("auto", "manual"))
    run(kfm)
    begin()
    assert kfm("freeze", "wells", "--reason", "look").code == 0
    kfm("run")
    kfm("resume")
    assert public() == ""
    assert kfm("thaw", "wells", "--reason", "fine").code == 0
    run(kfm)
    assert public() == refs(kfm)["processed/wells"]


def test_where_people_sign_nothing_is_published_by_itself(kfm: Kfm) -> None:
    begin()
    assert kfm("keys", "new", "--person", "ann", "--role", "admin", "--out", "../ann.key").code == 0
    said = kfm("run")
    assert said.code == 4, said
    assert "key list" in said.err
    assert "promote: manual" in said.err
    assert public() == ""
    assert refs(kfm)["processed/wells"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sensitivity: public", "sensitivity: generalised"),
        ("sensitivity: public", "sensitivity: closed"),
        ("    sensitivity: public\n", ""),
        ("format: csv, contract", "mask: mask.yml, format: csv, contract"),
    ],
)
def test_a_declaration_that_is_not_plainly_public_is_refused(kfm: Kfm, old: str, new: str) -> None:
    begin(CONFIG.replace(old, new))
    for words in (("config", "show"), ("run",)):
        said = kfm(*words)
        assert said.code == 3, said
        first = said.err.partition("\n")[0]
        assert "datasets.wells.promote is auto" in first
        assert "not plainly public" in first
        assert "promote: manual" in first
    assert not Path("public").exists()


def test_what_reads_something_that_is_not_public_is_refused(kfm: Kfm) -> None:
    closed = CONFIG.replace("sensitivity: public", "sensitivity: restricted").replace("    promote: auto\n", "")
    begin(closed + READER)
    said = kfm("config", "show")
    assert said.code == 3
    assert "datasets.deep.promote is auto" in said.complaint


def test_labels_that_say_otherwise_win(kfm: Kfm) -> None:
    """The declaration says public, the file of labels does not: it is not plainly so."""
    begin("labels: labels.yml\n" + CONFIG)
    Path("labels.yml").write_text(
        "version: 1\nlabels:\n  - of: {source: wells.csv}\n    sensitivity: generalised\n    care: open\n"
    )
    kfm("run")
    assert public() == ""


# -- backfills and previews


def by_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Backfills:
    site = Backfills(tmp_path / "rain", monkeypatch)
    config = site.folder / "kfm.yml"
    config.write_text(config.read_text().replace("rain.py:Rain\n", "rain.py:Rain\n    promote: auto\n"))
    return site


def test_a_backfill_publishes_once_when_all_of_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = by_partition(tmp_path, monkeypatch)
    started = site.backfill("start")
    assert (started["state"], started["counts"]) == ("finished", {"made": 5})
    with site.open() as session:
        (moved,) = session.state.refs.history("published/rain")
        assert (moved.after, moved.actor) == (session.state.refs.at("processed/rain"), "kfm, promote: auto")
    assert public("rain") == site.version()
    assert [part for part, _ in site.runs()] == site.days


def test_a_backfill_that_waits_is_published_once_by_kfm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = by_partition(tmp_path, monkeypatch)
    site.backfill("start", "--later")
    assert public("rain") == ""
    site.kfm_up()
    assert site.backfill("status")[0]["state"] == "finished"
    with site.open() as session:
        assert [moved.after for moved in session.state.refs.history("published/rain")] == [site.version()]
    assert public("rain") == site.version()


def test_a_quarantined_partition_of_a_backfill_does_not_delay_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = by_partition(tmp_path, monkeypatch)
    site.rows(site.days[1], "not a number")
    assert site.backfill("start", code=3)["counts"] == {"made": 4, "held": 1}
    first = public("rain")
    assert first == site.version() != ""
    site.rows(site.days[1], 7)
    assert site.backfill("resume", "--only-failed")["counts"] == {"made": 5}
    assert public("rain") == site.version() != first


def test_a_preview_is_never_published_by_itself(tmp_path: Path) -> None:
    config = BRANCHED.replace("  gauges:\n", "  gauges:\n    promote: auto\n")
    site = Branches(tmp_path, config)
    assert site.kfm("run").code == 0
    before = site.refs()
    assert before["published/gauges"] == before["processed/gauges"]
    site.branch("more")
    site.write("data/gauges.csv", "id,flow\n1,10\n2,20\n3,30\n")
    site.replace("kfm.yml", "    updater: wells.py:Wells\n", "    updater: wells.py:Wells\n    promote: auto\n")
    site.write("data/wells.csv", wells(3))
    site.commit("another gauge, and wells that publish themselves")
    said = site.kfm("preview", "build", "more", "--json")
    assert said.code == 0 and set(said.data["datasets"]) == {"gauges", "wells"}, said
    for words in (
        ("preview", "build", "more"),
        ("run",),
        ("resume",),
        ("up", "--once"),
        ("triggers", "watch", "--once"),
    ):
        assert site.kfm(*words).code == 0, words
        there = {ref: at for ref, at in site.refs().items() if not ref.startswith("preview/")}
        assert there == before, words
    assert said.data["datasets"]["gauges"] not in before.values()
    files = [path.read_text() for path in (site.folder / "public").rglob("*") if path.is_file()]
    assert files and not any("3,30" in text or "east,300" in text for text in files)


# -- faults

PARTS = 16
BETWEEN = """
import os, signal, sys
from kfm.app.runs import auto_promotion
auto_promotion.check_plainly_public = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from kfm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def call(how: str, *words: str, at: int = 0) -> int:
    env = {**os.environ, "KFM_ACTOR": "ann", "KFM_ACCEPT_WEAK_STORAGE": "true", "DIE_AT": str(at)}
    command = [sys.executable, "-c", how, *words]
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode


THEN = [("run",), ("resume",), ("up", "--once"), ("triggers", "watch", "--once")]


@pytest.mark.parametrize("then", THEN, ids=["run", "resume", "up", "watch"])
def test_killed_between_the_run_and_its_promotion_the_next_command_publishes_it(
    kfm: Kfm,
    then: tuple[str, ...],
) -> None:
    begin()
    run(kfm)
    change(2)
    before = public()
    assert call(BETWEEN, "run") == -signal.SIGKILL
    made = refs(kfm)["processed/wells"]
    assert (public(), refs(kfm)["published/wells"]) == (before, before)
    assert made != before
    assert kfm(*then).code == 0
    assert public() == made
    assert [entry["after"] for entry in history(kfm)] == [before, made]


@pytest.mark.parametrize("now", ["", "2026-03-04T05:06:07Z"], ids=["a clock", "a clock that stands"])
def test_a_person_who_goes_back_between_the_kill_and_the_next_run_wins(
    kfm: Kfm, now: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if now:  # then the ledger alone says what came first
        monkeypatch.setenv("KFM_NOW", now)
    begin()
    run(kfm)
    change(2)
    assert call(BETWEEN, "run") == -signal.SIGKILL
    assert kfm("rollback", "wells", "--to", "nothing", "--reason", "not ours").code == 0
    for words in THEN[:2] if now else THEN:
        assert kfm(*words).code == 0
        assert public() == "", words
    change(3)
    assert kfm("run").code == 0
    assert public() == refs(kfm)["processed/wells"]


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_killed_anywhere_each_version_is_public_once(kfm: Kfm, part: int) -> None:
    begin()
    run(kfm)
    before, here, killed = public(), Path.cwd(), 0
    for at in range(1 + part, 1000, PARTS):
        folder = here.parent / f"{part}-{at}"
        shutil.copytree(here, folder)
        os.chdir(folder)
        change(2)
        code = call(DYING, "run", at=at)
        killed += code == -signal.SIGKILL
        if code != -signal.SIGKILL:
            assert code == 0
            break
        assert kfm(*THEN[at % 2 * 2]).code == 0
        assert kfm("run").code == 0  # what was killed before it began is asked for by nobody else
        at_refs = refs(kfm)
        assert public() == at_refs["processed/wells"] == at_refs["published/wells"] != before, at
        assert [entry["before"] for entry in history(kfm)] == ["", before], at
        assert kfm("doctor", "--deep").code == 0, at
    os.chdir(here)
    assert killed
