"""Promise 4: over a damaged state every command refuses with exit code 65 in one line, and changes nothing."""

from __future__ import annotations

import hmac
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from kfm.app.session.session import open_session
from kfm.cli.main import main
from kfm.config import load

MESSAGE = """{"source_id": "gauges", "trigger": "etag-change", "event_type": "update",
"sent_at": "2026-01-01T00:00:00Z", "metadata": {}, "integrity": {"version": "v1"}}"""
SECRET = b"9f2c4e6a8b0d1f3e5c7a9b8d6f4e2c0a"
SIGNED = "X-KFM-Signature: sha256=" + hmac.new(SECRET, MESSAGE.encode(), "sha256").hexdigest()

# Everything that opens the state and ends by itself.
COMMANDS = (
    ["run"], ["run", "--dry-run"], ["plan", "rain-gauges"], ["resume"], ["runs", "list"], ["runs", "show", "last"],
    ["runs", "steps", "last"], ["refs", "list"], ["refs", "history", "processed/rain-gauges"], ["runs", "receipts"],
    ["runs", "receipt", "last"], ["cat", "rain-gauges"], ["held", "rain-gauges"], ["held", "rain-gauges", "--rows"],
    ["runs", "wal", "last"], ["runs", "telemetry"], ["runs", "telemetry", "--stdout"], ["triggers", "list"],
    ["triggers", "list", "--all"], ["triggers", "show", "000000000001"], ["triggers", "retry", "000000000001"],
    ["triggers", "watch", "--once"], ["webhook", "replay", "gauges", "--body", "message.json", "--header", SIGNED],
    ["promote", "rain-gauges"], ["rollback", "rain-gauges", "--reason", "r"], ["freeze", "--reason", "r"],
    ["thaw", "--reason", "r"], ["runs", "compact"], ["doctor"], ["doctor", "--deep"],
)  # fmt: skip


@pytest.fixture(params=["sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl"])
def state(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with two runs and a promotion behind it; gives the path of its state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KFM_ACTOR", "tester")
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")  # the temporary folder may be one in memory
    assert main(["init"]) == 0
    config = Path("kfm.yml")
    hook = "webhooks: {gauges: {datasets: [rain-gauges], secrets: ['file:secret']}}\n"
    config.write_text(config.read_text().replace("sqlite:.kfm/state.db", request.param) + hook)
    Path("message.json").write_text(MESSAGE)
    Path("secret").write_bytes(SECRET)
    Path("secret").chmod(0o600)
    assert main(["run"]) == 0
    assert main(["promote", "rain-gauges"]) == 0
    data = Path("data/rain_gauges.csv")
    data.write_text(data.read_text() + "colby,thomas,2026-01,9.9\n")
    assert main(["run"]) == 0
    return Path(request.param.partition(":")[2])


def everything() -> dict[str, bytes]:
    """Every file that says something: not the locks, and not what SQLite leaves empty next to a database."""
    found = {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}
    return {
        name: body
        for name, body in found.items()
        if not name.endswith(("-shm", ".lock")) and (body or not name.endswith("-wal"))
    }


def rows_in(state: Path) -> object:
    if state.suffix != ".db":
        return state.read_bytes()
    with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [database.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables]


def refuse(capsys: pytest.CaptureFixture[str], state: Path, damage: str, first_bad: int) -> None:
    """In a journal of lines the first bad record is named by its number; a database has none."""
    number = f"record {first_bad} " if state.suffix == ".jsonl" else ""
    before = everything()
    for command in COMMANDS:
        capsys.readouterr()
        code = main(command)
        said = capsys.readouterr()
        assert code == 65, f"{damage}: kfm {' '.join(command)} ended with {code}: {said.err or said.out}"
        assert "Traceback" not in said.err
        assert said.err.strip(), "a refusal says why"
        assert number in said.err, f"{damage}: kfm {' '.join(command)} does not name {number}: {said.err}"
        changed = {name for name, _ in everything().items() ^ before.items()}
        assert not changed, f"{damage}: kfm {' '.join(command)} changed {changed}"


def test_every_command_refuses_a_state_with_a_flipped_bit(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = state.read_bytes()
    stored = rows_in(state)
    at = len(whole) // 2
    while rows_in(state) == stored:  # a database has places in which nothing is stored any more
        at = whole.index(b"rain-gauges", at + 1)
        state.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    refuse(capsys, state, "a flipped bit", whole[:at].count(b"\n") + 1)


def test_every_command_refuses_a_state_that_was_cut_short(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = state.read_bytes()
    state.write_bytes(body[: len(body) * 2 // 3])
    refuse(capsys, state, "cut short", state.read_bytes().count(b"\n") + 1)


def test_every_command_refuses_a_state_that_was_emptied(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state.write_bytes(b"")
    refuse(capsys, state, "emptied", 1)


def test_no_command_works_over_a_damaged_state(state: Path) -> None:
    body = state.read_bytes()
    state.write_bytes(body[: len(body) * 2 // 3])
    before = everything()
    argv = [sys.executable, "-m", "kfm.cli.main", "webhooks", "serve", "--port", "0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 65, done
    assert done.stdout == ""
    assert done.stderr.startswith("kfm: ") and done.stderr.count("\n") == 1
    assert everything() == before


def test_every_command_refuses_a_restored_older_state_until_an_operator_accepts_it(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = state.read_bytes()
    data = Path("data/rain_gauges.csv")
    data.write_text(data.read_text() + "goodland,sherman,2026-02,1.5\n")
    assert main(["run"]) == 0
    newer = state.read_bytes()
    state.write_bytes(older)
    refuse(capsys, state, "an older copy", older.count(b"\n") + 1)
    state.write_bytes(newer)
    assert main(["runs", "list"]) == 0
    state.write_bytes(older)
    os.unlink(f"{state}.ack")
    assert main(["runs", "list"]) == 0
    assert main(["freeze", "--reason", "to see that it can be written to"]) == 0
    assert main(["doctor", "--deep"]) == 0


def test_artifacts_of_a_run_that_an_older_state_does_not_hold_are_held_against_its_receipt(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older = state.read_bytes()
    data = Path("data/rain_gauges.csv")
    data.write_text(data.read_text() + "goodland,sherman,2026-02,1.5\n")
    assert main(["run"]) == 0
    state.write_bytes(older)
    os.unlink(f"{state}.ack")
    capsys.readouterr()
    assert main(["doctor", "--deep"]) == 0
    assert "as the receipt says of a run that this state does not hold" in capsys.readouterr().out
    assert main(["reconcile"]) == 0
    lines = Path(".kfm/artifacts/run.jsonl")
    run_id = json.loads(lines.read_bytes())["receipt"]["run_id"]
    (receipt,) = Path(".kfm/receipts").rglob(f"{run_id}.json")
    rows = Path(".kfm/artifacts/idempotency.json")
    for path, old, new in (
        (lines, b'"SUCCESS"', b'"FAILED"'),
        (lines, b'"dry_run":false', b'"dry_run":true'),
        (rows, b'"done"', b'"noop"'),
        (rows, b'"sha256:', b'"sha256:0'),
        (rows, run_id.encode(), b"0" * len(run_id)),
        (receipt, b'"SUCCESS"', b'"FAILED"'),
    ):
        kept = path.read_bytes()
        assert old in kept
        path.write_bytes(kept.replace(old, new))
        assert main(["doctor", "--deep"]) == main(["reconcile"]) == 3, (path, old)
        path.write_bytes(kept)
    receipt.rename("elsewhere.json")
    assert main(["doctor", "--deep"]) == 3
    Path("elsewhere.json").rename(receipt)
    with Path("kfm.yml").open("a", encoding="utf-8") as settings:
        settings.write("attest: {sign_with: 'file:secret'}\n")
    capsys.readouterr()
    assert main(["doctor", "--deep"]) == 3, "an installation that signs takes no unsigned file for an explanation"
    assert "run.jsonl is altered" in capsys.readouterr().out


def test_a_damaged_object_is_found_by_the_deep_look_and_refused_to_who_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
    assert main(["init"]) == 0
    data = Path("data/rain_gauges.csv")
    rows = "".join(f"far-{n},thomas,2026-01,{n}.5\n" for n in range(6000))
    data.write_text(data.read_text() + rows)
    assert main(["run"]) == 0
    assert main(["doctor", "--deep"]) == 0
    files = [path for path in Path(".kfm/objects/sha256").rglob("*") if path.is_file()]
    assert files, "nothing was large enough to be a file"
    for path in files:
        kept = path.read_bytes()
        path.write_bytes(kept[:100] + bytes([kept[100] ^ 1]) + kept[101:])
        capsys.readouterr()
        assert main(["doctor", "--deep"]) == 65
        assert "damaged" in capsys.readouterr().err
        path.unlink()
        path.mkdir()
        name = f"sha256:{path.parent.name}{path.name}"
        for command in (["doctor", "--deep"], ["cat", name]):
            assert main(command) == 65
            assert f"object {name} is damaged: there is a folder in its place" in capsys.readouterr().err
        path.rmdir()
        path.write_bytes(kept)
    assert main(["doctor", "--deep"]) == 0
    shutil.rmtree(".kfm")


def test_the_deep_check_prints_how_many_rows_it_found(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["--json", "doctor", "--deep"]) == 0
    told = {check["check"]: check["found"] for check in json.loads(capsys.readouterr().out)["checks"]}
    with open_session(load("kfm.yml", {}), mode="write") as session:
        tables = ("runs", "ledger", "receipts", "refs", "objects")
        least = sum(1 for table in tables for _ in session.tables.scan(table))
    assert least > 10 and int(told["state.rows"].removesuffix(" rows intact")) >= least
