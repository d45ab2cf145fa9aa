"""What became of a version is told by the moves since its last promotion as by the whole history."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from kfm.app.authority.withdrawals import public_moves, withdrawing_move
from kfm.app.provenance.present_labels import ended_by
from kfm.model import refs
from kfm.model.records import RefMove
from kfm.projections.live_versions import last_move, withdrawn_versions
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState

REF = refs.published("d")
VERSIONS = [f"sha256:{n:064x}" for n in range(6)]


def moved(state: StoredState, n: int, after: str, op: str, *, edge: bool = True) -> None:
    """Move the published ref, as a run does that leaves an edge in the lineage graph."""
    with state.transaction() as tx:
        move = RefMove(ref=REF, before=state.refs.at(REF), after=after)
        tx.refs.move(move, run_id=f"run-{n}", op=op, actor="a", reason="", ts=f"2026-01-01T00:00:{n:02d}Z")
        if edge and after:
            state.tables.put("lineage", f"used/kfm://dataset/d#{after}@{n:012d}", f"run-{n}".encode())


def history(seed: int, *, early: int = 0) -> StoredState:
    """Random moves; the first `early` ones left no edges, as those of early formats."""
    r = random.Random(seed)
    state = StoredState(MemoryTables(), lambda: 0)
    for n in range(r.randrange(14)):
        at, kind = state.refs.at(REF), r.random()
        known = [move.after for move in state.refs.history(REF) if move.after and move.after != at]
        if kind < 0.2 and at:
            moved(state, n, "", r.choice(("rollback", "withdraw")))
        elif kind < 0.5 and known:
            moved(state, n, r.choice(known), "rollback", edge=n >= early)
        else:
            moved(state, n, r.choice([each for each in VERSIONS[:-1] if each != at]), "promote", edge=n >= early)
    return state


@pytest.mark.parametrize("early", [0, 3, 99])
def test_the_moves_since_its_last_promotion_tell_all_of_a_version(early: int) -> None:
    found = 0
    for seed in range(150):
        state = history(seed, early=early)
        session: Any = SimpleNamespace(state=state)
        whole = list(state.refs.history(REF))
        for version in VERSIONS:
            moves = public_moves(session, "d", version)
            taken_back = withdrawn_versions(whole).get(version)
            assert withdrawing_move(session, "d", version) == taken_back
            assert last_move(moves, version) == last_move(whole, version)
            assert ended_by(moves, version) == ended_by(whole, version)
            assert not moves or moves[-1] == whole[-1]
            found += taken_back is not None
    assert found > 50, "hardly anything was withdrawn"


def test_of_a_version_that_was_never_public_no_move_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    state = StoredState(MemoryTables(), lambda: 0)
    for n in range(50):
        moved(state, n, VERSIONS[n % 2], "promote")
    read: list[str] = []
    scan = state.tables.scan
    monkeypatch.setattr(
        state.tables, "scan", lambda table, *a, **k: (read.append(table) or row for row in scan(table, *a, **k))
    )
    session: Any = SimpleNamespace(state=state)
    assert public_moves(session, "d", VERSIONS[-1]) == []
    assert read.count("history") == 1
    read.clear()
    assert [move.n for move in public_moves(session, "d", VERSIONS[1])] == [50]
    assert [move.n for move in public_moves(session, "d", VERSIONS[0])] == [49, 50]
    assert read.count("history") == 3
