"""A wrong argument gives one clear line and the right exit code, and nothing changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Kfm, tree

ZEROS = "sha256:" + "0" * 64

# arguments, exit code, what the line must say
CASES: dict[str, tuple[list[str], int, str]] = {
    # usage
    "no such command": (["rnu"], 2, "kfm has no command 'rnu'; did you mean run?"),
    "a command like nothing": (["zzzz"], 2, "see `kfm --help`"),
    "no subcommand": (["runs"], 2, "required: COMMAND"),
    "no such subcommand": (["runs", "lst"], 2, "did you mean list?"),
    "no such flag": (["run", "--frobnicate"], 2, "--frobnicate"),
    "half a flag": (["run", "--dry"], 2, "--dry"),
    "a flag without its value": (["run", "--window"], 2, "expected one argument"),
    "too many arguments": (["plan", "a", "b"], 2, "unrecognized arguments: b; see `kfm plan --help`"),
    "a flag that is misspelt": (["run", "--dryrun"], 2, "unrecognized arguments: --dryrun; did you mean --dry-run?"),
    "a flag of another command": (["run", "--yearly"], 2, "unrecognized arguments: --yearly; see `kfm run --help`"),
    "too few": (["promote"], 2, "required: DATASET"),
    "a limit that is no number": (["runs", "list", "--limit", "many"], 2, "must be a whole number"),
    "a negative limit": (["runs", "list", "--limit=-1"], 2, "must be a whole number"),
    "a limit in other digits": (["runs", "list", "--limit", "٣"], 2, "must be a whole number"),
    "a limit longer than any list": (["runs", "list", "--limit", "9" * 10], 2, "must be a whole number"),
    "a port beyond the last": (["webhooks", "serve", "--port", "65536"], 2, "--port: must be at most 65535"),
    "a port that is no number": (["webhooks", "serve", "--port", "http"], 2, "--port: must be a whole number"),
    "no such format": (["runs", "wal", "last", "--format", "xml"], 2, "no format 'xml'"),
    "no such shell": (["config", "completion", "tcsh"], 2, "no shell 'tcsh'"),
    "a command that colours": (["\x1b[31mrun"], 2, r"'\u001b[31mrun'"),
    "a command of two lines": (["run\nkfm: done"], 2, r"'run\u000akfm: done'"),
    "a command that is no text": ([os.fsdecode(b"\xff\xfe")], 2, r"'\udcff\udcfe'"),
    # configuration
    "no such file": (["run", "--config", "none.yml"], 3, "none.yml does not exist"),
    "a folder as file": (["run", "--config", "data"], 3, "data is not a file"),
    "a file name with NUL": (["run", "--config", "a\0b"], 3, "cannot be read"),
    "data as configuration": (["run", "--config", "data/rain_gauges.csv"], 3, "must be a mapping"),
    # names
    "no such dataset": (["run", "rain-guages"], 3, "did you mean rain-gauges?"),
    "a dataset like nothing": (["run", "zzzz"], 3, "names rain-gauges"),
    "a dataset that climbs": (["run", "../../etc/passwd"], 3, "is not a valid name"),
    "a dataset in capitals": (["run", "RAIN"], 3, "is not a valid name"),
    "a dataset without a name": (["run", ""], 3, "is not a valid name"),
    "a dataset of two lines": (["run", "a\nb"], 3, r"'a\u000ab' is not a valid name"),
    "a dataset that is no text": (["run", os.fsdecode(b"\xff")], 3, r"'\udcff' is not a valid name"),
    "a very long dataset": (["run", "a" * 100_000], 3, "is not a valid name"),
    "one bad dataset among good ones": (["run", "rain-gauges", "zzzz"], 3, "there is no dataset 'zzzz'"),
    "promote of nothing": (["promote", "zzzz"], 3, "there is no dataset"),
    "promote of a path": (["promote", "published/rain-gauges"], 3, "is not a valid name"),
    "rollback of nothing": (["rollback", "zzzz"], 3, "there is no dataset"),
    "freeze of nothing": (["freeze", "zzzz"], 3, "there is no dataset"),
    "thaw of nothing": (["thaw", "../x"], 3, "is not a valid name"),
    "runs of nothing": (["runs", "list", "--dataset", "zzzz"], 3, "there is no dataset 'zzzz'"),
    "runs of no name": (["runs", "list", "--dataset", ""], 3, "is not a valid name"),
    "plan of nothing": (["plan", "zzzz"], 3, "there is no dataset"),
    "no such run": (["runs", "show", "00000000"], 3, "there is no run 00000000"),
    "a run that is no id": (["runs", "show", "../x"], 3, "is not the id of a run"),
    "steps of no run": (["runs", "steps", "ffffffff"], 3, "there is no run"),
    "resume of no run": (["resume", "ffffffff"], 3, "there is no run"),
    "resume of a path": (["resume", "/etc/passwd"], 3, "is not the id of a run"),
    "receipt of no run": (["runs", "receipt", "ffffffff"], 3, "there is no run"),
    "log of no run": (["runs", "wal", "ffffffff"], 3, "there is no run"),
    "history of no ref": (["refs", "history", "published/zzzz"], 3, "there is no ref"),
    "history of a path": (["refs", "history", "../../etc"], 3, "is not a ref"),
    "cat of no ref": (["cat", "processed/zzzz"], 3, "there is no ref"),
    "cat of a path": (["cat", "/etc/passwd"], 3, "is not a ref"),
    "cat of a climbing ref": (["cat", "published/../x"], 3, "is not a ref"),
    "cat of no digest": (["cat", "sha256:abc"], 3, "is not a ref"),
    "cat of an unknown digest": (["cat", ZEROS], 3, "there is no object"),
    "a prefix of two lines": (["refs", "list", "a\nb"], 3, "is not the start of a ref"),
    "rollback to no digest": (["rollback", "rain-gauges", "--to", "yesterday"], 3, "'yesterday' is not a digest"),
    "rollback of no ref": (["rollback", "rain-gauges", "--ref", "../x"], 3, "is not a ref"),
    "no such schema": (["config", "schema", "recipt"], 3, "did you mean receipt?"),
    # values
    "force without a reason": (["run", "--force"], 3, "--force needs a reason"),
    "force with an empty reason": (["run", "--force", "--reason", "  "], 3, "--force needs a reason"),
    "a reason of two lines": (["promote", "rain-gauges", "--reason", "a\nb"], 3, "--reason must be one line"),
    "a very long actor": (["freeze", "--actor", "x" * 5000], 3, "--actor must be one line"),
    "a window of two lines": (["run", "--window", "a\r\nb"], 3, "--window must be one line"),
    "artifacts into a file": (["run", "--artifacts", "kfm.yml"], 3, "is not a folder"),
    "artifacts into nowhere": (["run", "--artifacts", ""], 3, "is not a folder"),
    "init over an installation": (["init"], 3, "is there already"),
    "init below a file": (["init", "kfm.yml/x"], 3, "cannot be written"),
    "init nowhere": (["init", ""], 3, "empty"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_clear_line_the_right_code_and_nothing_changed(started: Kfm, case: str) -> None:
    arguments, code, said = CASES[case]
    before = tree()
    answer = started(*arguments)
    assert said in answer.complaint
    assert answer.code == code
    assert answer.out == ""
    assert tree() == before


@pytest.mark.parametrize("case", [name for name in CASES if name != "a very long dataset"])
def test_machines_get_the_same_as_json(started: Kfm, case: str) -> None:
    arguments, code, _ = CASES[case]
    before = tree()
    answer = started("--json", *arguments)
    assert answer.code == code
    error = answer.data["error"]
    assert error["code"] in ("usage", "input.bad", "refused")
    assert error["message"]
    assert answer.complaint.startswith("kfm: ")
    assert tree() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["plan", "a"],
        ["resume"],
        ["runs", "list"],
        ["runs", "show", "last"],
        ["runs", "steps", "last"],
        ["refs", "list"],
        ["refs", "history", "published/a"],
        ["cat", "published/a"],
        ["runs", "receipts"],
        ["runs", "receipt", "last"],
        ["promote", "a"],
        ["rollback", "a"],
        ["freeze"],
        ["thaw"],
        ["runs", "wal", "last"],
        ["runs", "compact"],
        ["doctor"],
        ["config", "show"],
    ],
    ids=" ".join,
)
def test_without_an_installation_every_command_says_how_to_begin(kfm: Kfm, arguments: list[str]) -> None:
    answer = kfm(*arguments)
    assert answer.code == 3
    assert "no kfm.yml here or in a folder above; write one with `kfm init`" in answer.complaint
    assert tree() == {}


BAD_UPDATERS = {
    "no such file": (None, "does not exist"),
    "not Python": ("class RainGauges(\n", "cannot be loaded: SyntaxError at rain_gauges.py:1"),
    "fails on import": ("import math\n1 / 0\n", "cannot be loaded: ZeroDivisionError at rain_gauges.py:2"),
    "no such class": ("x = 1\n", "has no class RainGauges"),
    "not an updater": ("class RainGauges:\n    pass\n", "is not an Updater"),
    "no version": ("from kfm import Updater\nclass RainGauges(Updater):\n    id = 'a'\n", "has no version"),
}


@pytest.mark.parametrize("case", BAD_UPDATERS)
def test_an_updater_that_cannot_be_loaded_is_reported_in_one_line(started: Kfm, case: str) -> None:
    text, said = BAD_UPDATERS[case]
    path = Path("updaters/rain_gauges.py")
    path.unlink()
    if text is not None:
        path.write_text(text)
    answer = started("run")
    assert said in answer.complaint
    assert answer.code == 3
    assert "rain-gauges" in answer.complaint


@pytest.mark.parametrize("case", BAD_UPDATERS)
def test_the_doctor_names_a_dataset_whose_updater_cannot_be_loaded(started: Kfm, case: str) -> None:
    text, said = BAD_UPDATERS[case]
    path = Path("updaters/rain_gauges.py")
    path.unlink()
    if text is not None:
        path.write_text(text)
    answer = started("--json", "doctor")
    assert answer.code == 3
    (bad,) = [check for check in answer.data["checks"] if not check["ok"] and "filesystem" not in check["check"]]
    assert bad["check"] == "rain-gauges.updater" and said in bad["found"] and bad["why"]
    lines = [line for line in started("doctor").out.splitlines() if "bad" in line]
    assert len(lines) == 1 and lines[0].startswith("rain-gauges.updater")


def test_a_missing_source_is_reported_in_one_line(started: Kfm) -> None:
    Path("data/rain_gauges.csv").unlink()
    answer = started("run")
    assert answer.code in (3, 69)
    assert "rain-gauges: " in answer.complaint


def test_a_source_that_breaks_its_contract_is_held(started: Kfm) -> None:
    Path("data/rain_gauges.csv").write_text("gauge,county,month,rain_mm\nhays,ellis,CANARY,1\n")
    answer = started("run")
    assert answer.code == 3
    assert "held" in answer.complaint
    assert "CANARY" not in answer.complaint, "a message never quotes the data"
    assert started("refs", "list", "processed/", "--json").data == []


def test_mistakes_in_environment_variables_are_reported_too(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_EXECUTE__THREADS", "many")
    answer = started("run")
    assert answer.code == 3
    assert "KFM_EXECUTE__THREADS" in answer.complaint
    monkeypatch.delenv("KFM_EXECUTE__THREADS")
    monkeypatch.setenv("KFM_NOW", "noonish")
    answer = started("run")
    assert answer.code == 3
    assert "KFM_NOW is not an instant" in answer.complaint


def test_a_damaged_store_is_corrupt_not_a_traceback(ran: Kfm) -> None:
    Path(".kfm/state.db").write_bytes(b"this is no database" * 100)
    for side in (".kfm/state.db-wal", ".kfm/state.db-shm"):
        Path(side).unlink(missing_ok=True)
    for arguments in (["refs", "list"], ["run"], ["runs", "list"], ["run", "--dry-run"]):
        answer = ran(*arguments)
        assert answer.code == 65, answer
        assert answer.complaint
