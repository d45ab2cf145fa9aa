"""`kfm backup --keep`: older backups go once a new one is verified, and nothing goes that another backup names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from kfm.app.backup.backup_place import BackupPlace, lock_for, open_place
from kfm.app.backup.backup_record import digests_of, read_record
from kfm.app.session.exclusive import alone
from kfm.app.session.session import open_session
from tests.app.backup.test_backup import taken
from tests.app.move.carried import kfm, killed_at, places_of, resolved_in, saved
from tests.sampling import everything


@pytest.fixture
def place(scratch: str) -> str:
    return os.path.join(scratch, "backup")


def at(folder: str, place: str) -> BackupPlace:
    return open_place(resolved_in(folder), place)


def check_whole(folder: str, place: str) -> list[str]:
    """Every backup there can be restored; return their names."""
    names = at(folder, place).records.names()
    for name in names:
        answer = kfm(folder, "restore", place, "--at", name, "--verify")
        assert answer.code == 0, (name, answer.err)
    return names


def unnamed(folder: str, place: str) -> set[str]:
    """What lies there and is named by no backup."""
    there = at(folder, place)
    named = set[str]().union(*(digests_of(there, read_record(there, name)) for name in there.records.names()))
    assert named <= there.known()
    return there.known() - named


def test_the_newest_are_kept_and_nothing_else(large: str, place: str) -> None:
    names = [taken(large, place)["backup"] for _ in range(3)]
    answer = kfm(large, "backup", place, "--keep", "2", "--json")
    told = json.loads(answer.out)
    assert answer.code == 0 and told["removed"] == names[:2], answer.err
    assert check_whole(large, place) == [names[2], told["backup"]] and unnamed(large, place) == set()
    answer = kfm(large, "backup", place, "--keep", "1")
    assert "removed 2 older" in answer.err and len(check_whole(large, place)) == 1 and unnamed(large, place) == set()
    assert json.loads(kfm(large, "backup", place, "--keep", "9", "--json").out)["removed"] == []


def test_what_an_interrupted_backup_left_is_removed(large: str, place: str) -> None:
    taken(large, place)
    there = at(large, place)
    there.put([b"x" * 70_000])
    assert unnamed(large, place)
    assert kfm(large, "backup", place, "--keep", "5").code == 0 and unnamed(large, place) == set()


def test_backups_of_another_installation_stay(site: str, large: str, place: str, scratch: str) -> None:
    other = os.path.join(scratch, "other")
    name = taken(large, other)["backup"]
    taken(site, place)
    shutil.copytree(other, place, dirs_exist_ok=True)
    newest = max(at(site, place).records.names())
    if newest == name:  # of two places that were put together, the newest decides whose it is
        assert kfm(site, "backup", place, "--keep", "1").code == 3
        Path(place, "backups", f"{name}.json").rename(Path(scratch, "aside"))
        taken(site, place)
        Path(scratch, "aside").rename(Path(place, "backups", f"{name}.json"))
    answer = kfm(site, "backup", place, "--keep", "1", "--json")
    assert answer.code == 0 and json.loads(answer.out)["removed"], answer.err
    assert len(check_whole(site, place)) == 2 and name in at(site, place).records.names()


def test_nothing_is_removed_unless_the_new_one_is_whole(large: str, place: str) -> None:
    names = [taken(large, place)["backup"] for _ in range(2)]
    files = sorted(path for path in Path(place, "sha256").rglob("*") if path.is_file())
    largest = max(files, key=lambda path: path.stat().st_size)  # an object, which the next backup shares
    body = largest.read_bytes()
    largest.chmod(0o600)
    largest.write_bytes(b"?" + body[1:])
    answer = kfm(large, "backup", place, "--keep", "1")
    assert answer.code == 65 and answer.err.count("\n") == 1 and set(names) < set(at(large, place).records.names())
    largest.write_bytes(body)
    record = Path(place, "backups", f"{names[0]}.json")
    right = record.read_bytes()
    record.write_bytes(right.replace(b'"count":', b'"count": '))
    answer = kfm(large, "backup", place, "--keep", "1")
    assert answer.code == 65 and names[0] in answer.err and len(at(large, place).records.names()) == 4
    record.write_bytes(right)
    assert len(check_whole(large, place)) == 4


def of_records(label: str) -> bool:
    """The new name of a backup's record, and the transactions before each older record goes."""
    return label.startswith(("tables.commit", "fs.replace"))


def test_a_kill_leaves_whole_backups_and_the_same_command_ends_it(large: str, place: str) -> None:
    for _ in range(2):
        taken(large, place)
    words, kept = ("backup", "file:../backup", "--keep", "1"), place + "-kept"
    shutil.copytree(place, kept)

    def as_before() -> None:
        shutil.rmtree(place)
        shutil.copytree(kept, place)

    places = {
        only: places_of(large, *words, only=only) for only in ((of_records, None) if everything else (of_records,))
    }
    as_before()
    left: set[int] = set()
    tried = [(of_records, number) for number in range(1, len(places[of_records]) + 1)][-7:]
    for only, number in tried + [(None, number) for number in range(1, len(places.get(None, ())) + 1, 9)]:
        with saved(large) as copy:
            killed_at(copy, number, *words, only=only)
            left.add(len(check_whole(copy, place)))
            assert kfm(copy, *words).code == 0, (only, number)
            assert len(check_whole(copy, place)) == 1 and unnamed(copy, place) == set()
        as_before()
    assert {2, 3} <= left


def test_two_processes_take_no_backup_at_once(site: str, place: str) -> None:
    with open_session(resolved_in(site)) as session, alone(session, lock_for(at(site, place)), "takes a backup"):
        assert kfm(site, "backup", f"{place}-2").code == 0
        answer = kfm(site, "backup", place, "--keep", "1")
    assert answer.code == 6 and "another process takes a backup" in answer.err and not os.path.exists(place)


@pytest.mark.parametrize("words", [("--keep", "0"), ("--keep", "-1"), ("--keep", "all"), ("--keep", "1", "--list")])
def test_nonsense_is_refused_and_removes_nothing(site: str, place: str, words: tuple[str, ...]) -> None:
    taken(site, place)
    answer = kfm(site, "backup", place, *words)
    assert answer.code in (2, 3) and "Traceback" not in answer.err and len(check_whole(site, place)) == 1
