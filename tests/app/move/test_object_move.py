"""`kfm move` of the objects: every object that the state names, verified at both places."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kfm.app.session.backends import open_objects_at
from kfm.app.session.session import open_session
from kfm.crypto.encryption import MAGIC
from kfm.errors import Refused
from tests.app.move.carried import FILES, STORE, kfm, killed_at, places_of, refusal, resolved_in, saved
from tests.crash.points import boundary
from tests.sampling import everything, sampled


def files_at(house: str, url: str) -> dict[str, bytes]:
    with open_session(resolved_in(house), mode="read") as session:
        objects = open_objects_at(session.resolved, url, session.state)
        return {name: objects.read(name) for name in objects.large()}


def stray(house: str, body: bytes) -> str:
    """A file that the state does not name."""
    with open_session(resolved_in(house)) as session:
        return open_objects_at(session.resolved, FILES, session.state).put_large([body])


def test_objects_moved_there_and_back_are_the_same(large: str) -> None:
    before = files_at(large, FILES)
    assert len(before) > 1
    assert kfm(large, "move", "--to", STORE, "--edit").code == 0
    assert files_at(large, STORE) == before == files_at(large, FILES)
    assert kfm(large, "run").out.count("noop") == 1
    assert kfm(large, "doctor", "--deep").code == 0
    problem = refusal(large, objects=FILES)
    assert isinstance(problem, Refused) and problem.hint.startswith(f"change kfm.yml to `objects: {STORE}`;")
    assert kfm(large, "move", "--to", FILES, "--edit").code == 0
    assert refusal(large) is None and refusal(large, objects=STORE) is not None


def test_what_the_state_does_not_name_stays_behind_unless_all_is_asked_for(large: str) -> None:
    name = stray(large, b"nobody's" * 20_000)
    with saved(large) as copy:
        assert kfm(copy, "move", "--to", STORE, "--all").code == 0
        assert files_at(copy, STORE) == files_at(copy, FILES)
    assert '"left": 1' in kfm(large, "move", "--to", STORE, "--json").out
    moved = files_at(large, STORE)
    assert name not in moved and len(moved) == len(files_at(large, FILES)) - 1
    assert "before" in kfm(large, "move", "--to", STORE).err
    elsewhere = kfm(large, "move", "--to", "file:third")  # kfm.yml still names the old place
    assert elsewhere.code == 3 and "objects are at file:store, and kfm.yml names" in elsewhere.err


def test_all_objects_are_carried_if_an_encrypted_one_may_name_them(large: str) -> None:
    name = stray(large, b"nobody's" * 20_000)
    with open_session(resolved_in(large)) as session, session.state.transaction() as tx:
        tx.objects([("sha256:" + "0" * 64, MAGIC + b"encrypted")])
    assert '"left": 0' in kfm(large, "move", "--to", STORE, "--json").out
    assert name in files_at(large, STORE)


def test_a_damaged_object_is_refused_and_the_old_place_stays(large: str) -> None:
    with open_session(resolved_in(large)) as session:
        objects = open_objects_at(session.resolved, FILES, session.state)
        name = max(objects.large(), key=objects.size)
        path = objects.path(name)
    body = Path(path).read_bytes()
    os.chmod(path, 0o600)
    Path(path).write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    answer = kfm(large, "move", "--to", STORE)
    assert answer.code == 65 and "is damaged" in answer.err
    assert refusal(large) is None and refusal(large, objects=STORE) is not None  # no move was completed
    Path(path).write_bytes(body)
    assert kfm(large, "move", "--to", STORE).code == 0


def test_a_dry_run_of_objects_writes_nothing(large: str) -> None:
    answer = kfm(large, "move", "--to", STORE, "--dry-run", "--json")
    assert answer.code == 0 and f'"objects": {len(files_at(large, FILES))}' in answer.out
    assert not os.path.exists(os.path.join(large, "store"))


@pytest.mark.parametrize("part", sampled(range(8)))
def test_a_move_of_objects_killed_anywhere_is_continued(large: str, part: int) -> None:
    words = ("move", "--to", STORE)
    only = None if everything else boundary
    places = places_of(large, *words, only=only)
    whole = files_at(large, FILES)
    killed = 0
    for at in range(part + 1, len(places) + 1, 8 if everything else 30):
        with saved(large) as copy:
            killed += killed_at(copy, at, *words, only=only)  # threads make one place more or less
            label = f"killed at {at} of {len(places)}, {places[at - 1]}"
            assert (refusal(copy) is None) or (refusal(copy, objects=STORE) is None), label
            assert kfm(copy, *words).code == 0, label
            assert files_at(copy, STORE) == whole, label
            assert refusal(copy) is not None and refusal(copy, objects=STORE) is None, label
    assert killed > 2


def test_an_object_that_only_another_object_names_is_taken(large: str) -> None:
    inner = stray(large, b"inner" * 20_000)
    outer = stray(large, b"x" * 1_048_540 + inner.encode())  # across two pieces of a stream
    with open_session(resolved_in(large)) as session, session.state.transaction():
        session.tables.put("plans", "names-it", outer.encode())
    assert kfm(large, "move", "--to", STORE).code == 0
    assert {inner, outer} <= files_at(large, STORE).keys()
