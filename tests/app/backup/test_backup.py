"""`kfm backup` and `kfm restore`: one moment, every byte, and nothing public before a person has looked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kfm.app.backup.backup_place import lock_for, open_place
from kfm.app.backup.backup_record import LEAST, MOST, chosen, pieces_of, read_record
from kfm.app.move.table_copy import total_of
from kfm.app.session.session import open_session
from kfm.errors import BadInput, Corrupt, Refused
from tests.app.dependencies.conftest import TOPS, UP, declared
from tests.app.move.carried import FILES, HERE, kfm, killed_at, places_of, refusal, resolved_in, saved, sums
from tests.app.move.test_object_move import files_at
from tests.app.move.test_places import files
from tests.crash.points import boundary
from tests.sampling import everything


def new_machine(folder: str, name: str = "elsewhere") -> str:
    """Another folder with the settings of an installation, and nothing else."""
    other = os.path.join(os.path.dirname(folder), name)
    shutil.copytree(folder, other, ignore=shutil.ignore_patterns(".kfm", "public", "store", "backup"))
    return other


def taken(folder: str, place: str) -> dict[str, Any]:
    answer = kfm(folder, "backup", place, "--json")
    assert answer.code == 0, answer.err
    return dict(json.loads(answer.out))


def restored_sums(place: str, folder: str, name: str) -> str:
    return total_of(read_record(open_place(resolved_in(folder), place), name).sums())


@pytest.fixture
def place(scratch: str) -> str:
    return os.path.join(scratch, "backup")


def test_a_backup_restores_on_another_machine_and_is_frozen(site: str, place: str) -> None:
    one = taken(site, place)
    before = files(site, "file:public")
    assert kfm(site, "restore", place, "--verify").code == 0
    other = new_machine(site)
    answer = kfm(other, "restore", place, "--reason", "the disk is lost")
    assert answer.code == 0 and "everything is frozen" in answer.err, answer.err
    assert kfm(other, "run", "rain").out.count("frozen") or "frozen" in kfm(other, "run", "rain").err
    assert files(other, "file:public") == {}, "nothing is public before the thaw"
    receipts = kfm(other, "runs", "receipts", "--json").out
    assert (
        '"operation.restore"' in receipts
        and "the disk is lost" in receipts
        and one["taken"] in kfm(other, "backup", place, "--list").out
    )
    assert kfm(other, "thaw", "--reason", "looked").code == 0
    assert kfm(other, "reconcile", "--repair").code == 0 and kfm(other, "doctor", "--deep").code == 0
    data = {path for path in before if path.endswith((".csv", ".ndjson", "current.json"))}
    after = files(other, "file:public")
    assert data and all(after[path] == before[path] for path in data)


def test_only_what_is_new_is_copied(large: str, place: str) -> None:
    first = taken(large, place)
    assert first["objects"] > 0 and first["new"] > first["objects"]
    second = taken(large, place)
    assert 0 < second["new"] < first["new"] - first["objects"] + 1 and second["objects"] == first["objects"]
    listed = kfm(large, "backup", place, "--list", "--json")
    assert [one["backup"] for one in json.loads(listed.out)] == [first["backup"], second["backup"]]


@pytest.mark.parametrize("state", ["sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl"])
def test_the_restored_rows_and_objects_are_those_of_the_backup(large: str, place: str, state: str) -> None:
    one = taken(large, place)
    other = new_machine(large)
    path = Path(other, "kfm.yml")
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("state:")))
    path.write_text(f"state: {state}\n" + path.read_text())
    verified: list[str] = []
    from kfm.app.backup import restore

    whole = restore.sums_of

    def noted(tables: Any) -> Any:
        found = whole(tables)
        verified.append(total_of(found))
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(restore, "sums_of", noted)
        assert kfm(other, "restore", place).code == 0
    assert verified == [restored_sums(place, large, one["backup"])]
    assert kfm(other, "doctor", "--deep").code == 0
    assert len(files_at(other, FILES)) == one["objects"]


def test_a_backup_holds_one_moment_while_others_write(large: str, place: str) -> None:
    stop, failed = threading.Event(), []

    def write() -> None:
        typed = [sys.executable, "-m", "kfm"]  # a process: what is printed here belongs to the backup
        where = ["fan", "-q", "--reason", "a test", "--config", os.path.join(large, "kfm.yml")]
        while not stop.is_set():
            for word in ("freeze", "thaw"):
                failed.extend([1] * bool(subprocess.run([*typed, word, *where], check=False).returncode))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        names = [taken(large, place)["backup"] for _ in range(3)]
    finally:
        stop.set()
        writer.join()
    ledgers = [read_record(open_place(resolved_in(large), place), name).ledger for name in names]
    assert ledgers == sorted(set(ledgers)) and not failed
    for number, name in enumerate(names):
        other = new_machine(large, f"elsewhere-{number}")
        assert kfm(other, "restore", place, "--at", name).code == 0
        assert kfm(other, "doctor", "--deep").code == 0


def test_a_dataset_that_was_withdrawn_after_the_backup_does_not_come_back(site: str, place: str) -> None:
    taken(site, place)
    version = json.loads(Path(site, "public/datasets/rain/current.json").read_text())["version"]
    assert kfm(site, "rollback", "rain", "--to", "nothing", "--reason", "asked by the community").code == 0
    public = os.path.join(site, "public")
    assert not any(path.endswith(".csv") for path in files(site, "file:public"))
    other = new_machine(site)
    shutil.copytree(public, os.path.join(other, "public"))  # the public disk survived, the state did not
    answer = kfm(other, "restore", place, "--json")
    assert answer.code == 0 and json.loads(answer.out)["withdrawn"] == ["rain"]
    assert kfm(other, "thaw", "--reason", "looked").code == 0
    kfm(other, "run", "rain")
    kfm(other, "reconcile", "--repair")
    assert not any(path.endswith(".csv") for path in files(other, "file:public"))
    assert (
        kfm(other, "publish", "rain", "--to", version, "--reason", "allowed again").code == 0
    )  # by name it comes back
    assert any(path.endswith(".csv") for path in files(other, "file:public"))


def test_a_dataset_that_was_first_published_after_the_backup_leaves_the_catalog(scratch: str, place: str) -> None:
    wells = "{wells: {uri: tops.csv, format: csv, contract: {shrink_limit: 1, columns: [{name: well}]}}}"
    site, more = os.path.join(scratch, "site"), declared("later", wells)
    os.makedirs(site)
    Path(site, "tops.csv").write_text(TOPS)
    Path(site, "kfm.yml").write_text("publish: file:public\ncatalog: file:catalog\ndatasets:\n" + UP + more)
    taken(site, place)
    own = Path(site, "catalog/own")
    own.mkdir(parents=True)
    (own / "collection.json").write_text('{"type": "Collection", "id": "own"}')
    for name in ("tops", "later"):
        assert kfm(site, "run", name).code == kfm(site, "publish", name, "--reason", "new").code == 0
    other = new_machine(site)  # with its catalog
    shutil.copytree(os.path.join(site, "public"), os.path.join(other, "public"))
    assert kfm(other, "restore", place, "--reason", "lost").code == 0
    assert kfm(other, "thaw", "--reason", "looked").code == 0
    found = kfm(other, "reconcile")
    assert found.code != 0 and "catalog" in found.out and "later/collection.json" in found.out
    assert kfm(other, "reconcile", "--repair").code == 0
    assert [path.name for path in Path(other, "catalog").iterdir() if path.is_dir()] == ["own"]
    assert kfm(other, "reconcile").code == 0


def test_a_public_place_as_of_the_backup_stays_as_it_is(site: str, place: str) -> None:
    taken(site, place)
    other = new_machine(site)
    shutil.copytree(os.path.join(site, "public"), os.path.join(other, "public"))
    answer = kfm(other, "restore", place, "--json")
    assert json.loads(answer.out)["withdrawn"] == []


def test_a_restore_replaces_no_state(site: str, place: str) -> None:
    taken(site, place)
    before = sums(site, HERE)
    answer = kfm(site, "restore", place)
    assert answer.code == 3 and "there is a state already" in answer.err and sums(site, HERE) == before


def test_a_place_takes_the_backups_of_one_installation(site: str, large: str, place: str) -> None:
    taken(site, place)
    answer = kfm(large, "backup", place)
    assert answer.code == 3 and "backups of another installation" in answer.err


@pytest.mark.parametrize("inside", ["public/backup", ".kfm/objects/backup"])
def test_a_backup_does_not_lie_among_published_files(site: str, inside: str) -> None:
    answer = kfm(site, "backup", os.path.join(site, inside))
    assert answer.code == 3 and "does not lie in" in answer.err and not os.path.exists(os.path.join(site, inside))


def test_a_damaged_backup_is_refused_and_nothing_is_in_force(large: str, place: str) -> None:
    one = taken(large, place)
    pieces = sorted(path for path in Path(place, "sha256").rglob("*") if path.is_file())
    for number, path in enumerate(pieces[:: max(1, len(pieces) // 6)]):
        body = path.read_bytes()
        os.chmod(path, 0o600)
        path.write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
        other = new_machine(large, f"damaged-{number}")
        for words in (["restore", place, "--verify"], ["restore", place]):
            answer = kfm(other, *words)
            assert answer.code == 65, (answer.err, path)
        assert isinstance(refusal(other), Refused)  # an unfinished restore takes no work
        path.write_bytes(body)
        assert kfm(other, "restore", place).code == 0, "it goes on with an undamaged one"
    record = Path(place, "backups", f"{one['backup']}.json")
    record.write_bytes(record.read_bytes().replace(b'"ledger":', b'"ledger": '))
    assert kfm(large, "restore", place, "--verify").code == 65


def test_a_backup_killed_anywhere_is_none_and_the_next_one_is_whole(large: str, place: str) -> None:
    words, only = ("backup", "file:../backup"), None if everything else boundary
    with saved(large) as copy:
        places = places_of(copy, *words, only=only)
    killed, step = 0, max(1, len(places) // 6)
    for at in range(1, len(places) + 1, 11 if everything else step):
        shutil.rmtree(place, ignore_errors=True)
        with saved(large) as copy:
            killed += killed_at(copy, at, *words, only=only)
            names = open_place(resolved_in(copy), place).records.names()
            for name in names:
                assert kfm(copy, "restore", place, "--at", name, "--verify").code == 0
            assert kfm(copy, *words).code == 0 and kfm(copy, "restore", place, "--verify").code == 0
    assert killed > 3


def test_a_restore_killed_anywhere_is_refused_until_it_is_complete(large: str, place: str) -> None:
    taken(large, place)
    other = new_machine(large)
    words, only = ("restore", place), None if everything else boundary
    places = places_of(other, *words, only=only)
    killed, step = 0, max(1, len(places) // 8)
    for at in range(1, len(places) + 1, 11 if everything else step):
        with saved(other) as copy:
            killed += killed_at(copy, at, *words, only=only)
            if refusal(copy) is None:  # the restore had not begun, or was complete
                with open_session(resolved_in(copy), mode="read") as session:
                    begun = list(session.state.ledger.entries(limit=1))
                    assert not begun or session.state.refs.at("switch/global") == "frozen", places[at - 1]
                    if not begun:
                        continue
            answer = kfm(copy, *words)
            assert answer.code == 0 or "there is a state already" in answer.err, (answer.err, places[at - 1])
            doctor = kfm(copy, "doctor", "--deep")
            assert doctor.code == 0, [line for line in doctor.out.splitlines() if " ok " not in line]
            assert "frozen" in (said := kfm(copy, "run")).out + said.err
    assert killed > 3


def test_a_row_more_changes_few_pieces() -> None:
    rows = [(f"{number:08}", b"x" * 300) for number in range(20_000)]
    before = list(pieces_of(rows))
    after = list(pieces_of(sorted([*rows, ("00010000a", b"new")])))
    assert len(set(after) - set(before)) <= 2 and len(before) > 20
    assert all(LEAST <= len(piece) <= MOST + 1024 for piece in before[:-1])


def test_a_time_chooses_the_newest_backup_of_then(site: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [taken(site, place)["backup"] for _ in range(2)]
    opened = open_place(resolved_in(site), place)
    assert chosen(opened, "") == names[1] and chosen(opened, names[0]) == names[0]
    assert chosen(opened, "2999-01-01") == names[1] and chosen(opened, "2999-01-01T10:00:00Z") == names[1]
    for wrong in ("2001-01-01", "yesterday", "-1", "20"):
        with pytest.raises(BadInput):
            chosen(opened, wrong)


def test_bad_places_are_refused_with_one_line(site: str, scratch: str) -> None:
    empty = os.path.join(scratch, "empty")
    for words in (["restore", empty], ["backup", "postgresql://x@y/z"], ["backup", "s3://"], ["backup", ""]):
        answer = kfm(site, *words)
        assert answer.code in (2, 3) and answer.err.count("\n") == 1 and "Traceback" not in answer.err, (words, answer)


def test_a_newer_backup_is_refused(site: str, place: str) -> None:
    name = taken(site, place)["backup"]
    record = Path(place, "backups", f"{name}.json")
    record.write_text(record.read_text().replace('"backup":1', '"backup":2'))
    with pytest.raises((Refused, Corrupt), match="newer"):
        read_record(open_place(resolved_in(site), place), name)


def test_a_dataset_of_which_nothing_public_is_found_is_named_and_stays_frozen(site: str, place: str) -> None:
    taken(site, place)
    assert kfm(site, "rollback", "rain", "--to", "nothing", "--reason", "asked by the community").code == 0
    other = new_machine(site)
    shutil.copytree(os.path.join(site, "public"), os.path.join(other, "public"))
    path = Path(other, "kfm.yml")
    path.write_text(path.read_text().replace("publish: file:public", "publish: file:pubilc"))
    answer = kfm(other, "restore", place)
    assert answer.code == 0 and "rain: nothing at file:pubilc shows whether it was withdrawn" in answer.err
    assert "the backup was taken while kfm.yml said publish: file:public" in answer.err
    assert "everything is frozen" in answer.err and not os.path.exists(os.path.join(other, "pubilc/datasets/rain"))


def test_the_objects_of_an_installation_are_no_place_for_a_backup(large: str, place: str) -> None:
    other = new_machine(large, "theirs")
    assert kfm(other, "run").code == 0
    objects = os.path.join(other, ".kfm/objects")
    before = sorted(files_at(other, FILES))
    assert before
    answer = kfm(large, "backup", objects, "--keep", "1")
    assert answer.code == 3 and "holds files by digest, and no backup; name an empty place" in answer.err
    assert sorted(files_at(other, FILES)) == before and not os.path.exists(os.path.join(objects, "backups"))


def test_a_backup_that_was_interrupted_goes_on_at_its_place(large: str, place: str) -> None:
    first = taken(large, place)
    for record in Path(place, "backups").glob("*.json"):
        record.unlink()  # as a kill before the record leaves it
    assert taken(large, place)["new"] < first["new"], "what is there is used"


@pytest.mark.parametrize("where", ["catalog/b", "link/b"])
def test_a_backup_does_not_lie_where_readers_look(site: str, where: str) -> None:
    os.symlink(os.path.join(site, "public"), os.path.join(site, "link"))
    path = Path(site, "kfm.yml")
    path.write_text("catalog: file:catalog\n" + path.read_text())
    answer = kfm(site, "backup", os.path.join(site, where))
    assert answer.code == 3 and "a backup does not lie in" in answer.err


def test_two_addresses_of_one_place_have_one_lock(site: str, place: str) -> None:
    resolved = resolved_in(site)
    names = {lock_for(open_place(resolved, url)) for url in (place, f"file:{place}", f"file:{place}/", place + "/.")}
    assert len(names) == 1
