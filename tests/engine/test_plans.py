"""Plans that changed, plans that were damaged, and plans too large to show."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any

import pytest

from kfm.engine import plan as planning
from kfm.engine.execute import LOOKAHEAD
from kfm.engine.run import run
from kfm.engine.run_journal import SettledPlan
from kfm.engine.step_results import Done, Results
from kfm.errors import Corrupt
from kfm.model.records import Step
from kfm.model.updater import Output, Plan, Reader
from tests.engine.site_under_test import Lines, MemorySite


class Power(BaseException):
    """The process dies."""


class Dying(Lines):
    def perform(self, step: Step, read: Reader) -> Output:
        raise Power


def numbered(count: int) -> Any:
    return lambda _inputs: Plan(Step(id=f"s{n}", key=(f"k{n}",)) for n in range(count))


@pytest.mark.parametrize(("first", "second"), [(3000, 3), (3, 3000), (3000, 2999)])
def test_a_changed_plan_is_called_so_however_large_it_is(
    first: int, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "KEEP_CHUNKS", 2)
    site = MemorySite()
    assert site.run(Lines(numbered(first))).status == "SUCCESS"
    receipt = site.run(Lines(numbered(second)), force=True, reason="again")
    assert receipt.errors[0].code == "plan.changed"
    assert f"it has {second} steps now" in receipt.errors[0].message and "bump" in receipt.errors[0].message


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_journaled_plan_with_a_part_missing_is_damage_and_no_other_code(missing: int) -> None:
    site = MemorySite()
    with pytest.raises(Power):
        site.run(Dying(numbered(2500)))
    (unfinished,) = site.state.runs.unfinished()
    keys = [key for key, _ in site.state.tables.scan("plans")]
    assert len(keys) == 3
    site.state.tables.begin()
    site.state.tables.delete("plans", keys[missing])
    site.state.tables.commit()
    with pytest.raises(Corrupt, match=f"plan of run {unfinished.run_id} is damaged"):
        run(site.context(unfinished.trigger, Lines(numbered(2500)), unfinished))
    assert len(list(site.state.runs.unfinished())) == 1


@pytest.mark.parametrize("verb", ["freeze", "thaw"])
def test_without_a_scope_it_is_the_named_dataset_that_is_frozen_or_thawed(verb: str) -> None:
    """Never everything: a thaw of one dataset must not open what was closed for all."""
    site = MemorySite()
    site.operate("freeze", dataset="global")
    site.operate(verb)
    assert site.state.refs.at("switch/global") == "frozen"
    assert site.state.refs.at("switch/dataset/demo") == ("frozen" if verb == "freeze" else "open")
    site.operate("thaw", dataset="global")
    assert site.state.refs.at("switch/global") == "open"


@pytest.mark.parametrize("steps", [2_500, 70_000])
def test_of_a_journaled_plan_chunks_in_which_all_is_done_are_not_read_again(steps: int) -> None:
    lines = [b'{"plan":1}\n', *(b'{"id":"%d"}\n' % n for n in range(steps))]
    chunks = [b"".join(lines[:1001]), *(b"".join(lines[at : at + 1000]) for at in range(1001, steps + 1, 1000))]
    plan = SettledPlan(plan_hash="", steps=steps, complete=False, has_needs=False, chunks=chunks)
    state = MemorySite().state
    results = Results(steps)
    assert [(at, step.id) for at, step in plan.left(state, results)] == [(n, str(n)) for n in range(steps)]
    done = [*range(1000), *range(1001, 2000), steps - 1]
    results.add([(at, "sha256:" + "0" * 64, 0, "") for at in done])
    assert [at for at, _ in plan.left(state, results)] == list(range(1000, steps))
    results.add([(1000, "sha256:" + "0" * 64, 0, "")])
    assert [at for at, _ in plan.left(state, results)] == list(range(2000, steps))


@pytest.mark.parametrize("steps", [2_000, 70_000])
def test_results_are_the_same_however_they_came(steps: int) -> None:
    chance = random.Random(steps)
    media_types = ("text/csv", "text/plain", "")
    made: list[Done] = [(n, f"sha256:{n:064x}", n * n, media_types[n % 7 % 3 if n > 900 else 0]) for n in range(steps)]
    results = Results(steps)
    left = list(range(0, steps, 100))
    chance.shuffle(left)
    for start in left:
        part = made[start : start + 100 + chance.randrange(3)]  # some of them twice
        if chance.random() < 0.3:
            chance.shuffle(part)
        results.add(part)
        results.add([])
    assert results.done == steps and results.all_done(0, steps)
    assert [results.get(n) for n in range(steps)] == made
    assert results.total_size() == sum(n * n for n in range(steps))


class Repeating(Lines):
    """Gives the same few bytes over and over."""

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(b"%d" % (int(step.id[1:]) % 3), "text/plain")


class Counting(Lines):
    """Gives more different bytes than are remembered, and the first ones again at last: those are there, too."""

    def perform(self, step: Step, read: Reader) -> Output:
        return Output(b"%d" % (int(step.id[1:]) % (2 * LOOKAHEAD + 1)), "text/plain")


@pytest.mark.parametrize(("kind", "distinct", "rows"), [(Repeating, 3, 3), (Counting, 2 * LOOKAHEAD + 1, None)])
def test_the_same_bytes_are_written_once_for_many_steps(
    kind: type[Lines], distinct: int, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = MemorySite()
    written: list[str] = []
    put = site.state.tables.put
    steps = 3 * LOOKAHEAD

    def counted(table: str, key: str, value: bytes) -> None:
        if table == "objects" and len(value) < 8:
            written.append(key)
        put(table, key, value)

    monkeypatch.setattr(site.state.tables, "put", counted)
    assert site.run(kind(numbered(steps))).status == "SUCCESS"
    assert len(set(written)) == distinct and (rows is None or len(written) == rows)
    for n in range(distinct):
        assert site.state.inline_object("sha256:" + sha256(b"%d" % n).hexdigest()) == b"%d" % n
