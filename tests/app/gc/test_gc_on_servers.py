"""`kfm gc` where the state is in Postgres and the objects are in a bucket."""

from __future__ import annotations

import os

import pytest

from kfm.app.session.session import open_session
from tests.app.gc.house import LARGE, SMALL
from tests.app.move.carried import kfm, killed_process, resolved_in
from tests.app.move.test_move_to_bucket import bucket as bucket
from tests.app.move.test_move_to_postgres import Server
from tests.servers.seaweed import seaweed as seaweed


@pytest.fixture
def server(large: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The bucket's keys and a schema for this installation. Its state is still a file."""
    return Server(large, monkeypatch)


def put(folder: str, *bodies: bytes) -> list[str]:
    with open_session(resolved_in(folder)) as session:
        return [session.objects.put(body) for body in bodies]


def places(folder: str) -> tuple[set[str], set[str]]:
    """The objects that were not set aside, and those that were."""
    with open_session(resolved_in(folder)) as session:
        kept = {name for name, _ in session.state.inline_objects()} | {name for name, _ in session.objects.in_folders()}
        return kept, {name for name, _ in session.state.aside_objects()}


def aged(folder: str, ms: int) -> None:
    """Let what was set aside look so much older: the time is that of the server."""
    with open_session(resolved_in(folder)) as session, session.state.transaction() as tx:
        for name, aside in list(session.state.aside_objects()):
            if aside.since_ms >= 0:
                tx.set_aside(name, aside._replace(since_ms=aside.since_ms - ms))


@pytest.mark.long
def test_gc_removes_from_postgres_and_a_bucket_and_survives_kills(
    large: str, bucket: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KFM_NOW", raising=False)
    assert kfm(large, "move", "--to", server.url, "--edit").code == 0
    assert kfm(large, "move", "--to", bucket, "--edit").code == 0
    kept = places(large)[0]
    lost = put(large, SMALL, LARGE)
    killed = [killed_process(large, at, "gc") for at in (6, 14, 20)]
    assert kfm(large, "gc").code == 0
    assert set(lost) <= places(large)[1] and any(killed)  # and what a killed gc had written for its report
    with open_session(resolved_in(large)) as session:
        assert [session.objects.read(name) for name in lost] == [SMALL, LARGE]
    assert put(large, LARGE) == lost[1:] and lost[1] in places(large)[0], "a writer writes it again"
    aged(large, 8 * 86_400_000)
    killed = [killed_process(large, at, "gc") for at in (6, 14, 20)]
    for _ in range(2):
        assert kfm(large, "gc").code == 0
        aged(large, 8 * 86_400_000)
    assert kfm(large, "gc").code == 0
    now, aside = places(large)
    assert kept <= now and not set(lost) & (now | aside) and any(killed)
    bad = [line for line in kfm(large, "doctor", "--deep").out.splitlines() if " bad " in line]
    assert all(line.startswith("postgres.") for line in bad), bad  # the server of these tests does not sync
    assert os.path.exists(large)
