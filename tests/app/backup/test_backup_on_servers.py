"""`kfm backup` of a state in Postgres into a bucket, and `kfm restore` into another schema."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kfm.app.backup.backup_place import open_place
from kfm.app.backup.backup_record import read_record
from kfm.errors import Refused
from tests.app.backup.test_backup import new_machine, taken
from tests.app.move.carried import FILES, HERE, kfm, killed_process, refusal, resolved_in, sums
from tests.app.move.test_move_to_bucket import bucket as bucket
from tests.app.move.test_move_to_postgres import Server
from tests.app.move.test_object_move import files_at
from tests.servers.seaweed import SECRET
from tests.servers.seaweed import seaweed as seaweed


@pytest.fixture
def server(large: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The bucket's keys and a schema for this installation. Its state is still a file."""
    return Server(large, monkeypatch)


def test_a_state_in_postgres_is_backed_up_into_a_bucket_and_restored(large: str, bucket: str, server: Server) -> None:
    assert kfm(large, "move", "--to", server.url, "--edit").code == 0
    before, place = files_at(large, FILES), f"{bucket}-backup"
    one = taken(large, place)
    assert one["objects"] == len(before) > 0
    record = read_record(open_place(resolved_in(large), place), one["backup"])
    state = sums(large, server.url)  # the leases differ: the backup itself has one
    assert [each for each in record.sums() if each.table != "leases"] == [one for one in state if one.table != "leases"]
    assert {"postgres.password", "s3"} <= {each.partition(".")[0] if "s3" in each else each for each in record.lacks}
    assert taken(large, place)["new"] < one["new"] - len(before) + 1
    other = new_machine(large)
    assert refusal(other) is None or isinstance(refusal(other), Refused)
    server.use(other)
    text = Path(other, "kfm.yml").read_text()
    Path(other, "kfm.yml").write_text(text.replace(f"state: {HERE}", f"state: {server.url}"))
    killed = [killed_process(other, at, "restore", place) for at in (20, 60)]
    answer = kfm(other, "restore", place, "--at", one["backup"], "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["objects"] == len(before) and any(killed)
    assert files_at(other, FILES) == before
    assert "frozen" in (said := kfm(other, "run")).out + said.err
    bad = [line for line in kfm(other, "doctor", "--deep").out.splitlines() if " bad " in line]
    assert all(line.startswith("postgres.") for line in bad), bad  # the server of these tests does not sync


def test_a_record_in_a_bucket_is_not_replaced(large: str, bucket: str) -> None:
    place = f"{bucket}-records"
    name = taken(large, place)["backup"]
    records = open_place(resolved_in(large), place).records
    body = records.read(name)
    records.write(name, body)  # the answer to the first was lost
    with pytest.raises(Refused, match="another backup"):
        records.write(name, body + b" ")
    assert records.read(name) == body
    answer = kfm(large, "backup", place, "--keep", "1", "--json")
    assert json.loads(answer.out)["removed"] == [name] and len(records.names()) == 1, answer.err
    assert kfm(large, "restore", place, "--verify").code == 0


def test_wrong_keys_are_one_line_without_them(large: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_SECRET_KEY", "not-the-key-at-all")
    for words in (["backup", f"{bucket}-x"], ["restore", f"{bucket}-x"], ["restore", f"{bucket}-x", "--verify"]):
        answer = kfm(large, *words)
        assert answer.code not in (0, 70) and answer.err.count("\n") == 1 and "Traceback" not in answer.err, answer
        assert "not-the-key-at-all" not in answer.err and SECRET not in answer.err
    assert os.listdir(large)
