"""Breakers and budgets that processes share: over every kind of state, in races, after kills, and without the state."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kfm.clock import FixedClock
from kfm.errors import BudgetSpent, CircuitOpen, StorageFailed, Unavailable
from kfm.model.retries.retry_records import BreakerState, BudgetState
from kfm.retries import BreakerRules, BudgetRules, LocalBudget, Policy, Retrying, SharedBreaker, SharedBudget
from kfm.retries.circuit import Passed
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState
from tests.retries import racers
from tests.retries.storm import Context, Storm, weather
from tests.retries.worlds import DOWN, Flaky, Naps, state_at
from tests.sampling import everything, sampled, tries
from tests.store.backends import ALL, Backend

STORED = sampled(["sqlite", "jsonl", "postgres"])


@pytest.fixture(params=ALL)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Backend(request.param, tmp_path)


# ------------------------------------------------------------------------------------------ every kind of state


def test_what_one_process_notes_the_next_one_knows(backend: Backend) -> None:
    clock = FixedClock()
    rules = BreakerRules(failures=2, pause_s=30)
    state = StoredState(backend.open(), clock.now_ms)
    breaker, budget = SharedBreaker(state, "it", rules, who="a"), SharedBudget(state, "it", BudgetRules(tokens=2))
    breaker.failed(breaker.admit(), "unavailable")
    budget.take("unavailable")
    state = StoredState(backend.reopen(state.tables), clock.now_ms)
    other = SharedBreaker(state, "it", rules, who="b")
    assert other.failed(other.admit(), "unavailable") is not None
    found = state.breakers.get("it")
    assert found is not None and (found.state, found.failures, found.who) == ("open", 2, "b")
    budget = SharedBudget(state, "it", BudgetRules(tokens=2, per_minute=0))
    budget.take("unavailable")
    with pytest.raises(BudgetSpent):
        budget.take("unavailable")
    state = StoredState(backend.reopen(state.tables), clock.now_ms)
    assert [each.name for each in state.breakers.all()] == [each.name for each in state.budgets.all()] == ["it"]
    left = state.budgets.get("it")
    assert left is not None and (left.tokens, left.granted, left.since_ms) == (0, 2, clock.now_ms())
    clock.advance(30_000)
    last = SharedBreaker(state, "it", rules)
    last.succeeded(last.admit())
    state = StoredState(backend.reopen(state.tables), clock.now_ms)
    assert state.breakers.get("it") is None and next(state.breakers.all(), None) is None
    state.close()


def test_a_transaction_that_fails_changes_no_breaker_and_no_budget(backend: Backend) -> None:
    state = StoredState(backend.open(), FixedClock().now_ms)
    with pytest.raises(ZeroDivisionError), state.transaction() as tx:
        tx.breakers.keep(BreakerState(name="it", state="open", since_ms=1))
        tx.budgets.keep(BudgetState(name="it", tokens=1, at_ms=1))
        assert tx.breakers.get("it") is not None and tx.budgets.get("it") is not None
        raise ZeroDivisionError
    assert state.breakers.get("it") is None and state.budgets.get("it") is None
    state.close()


def test_a_random_history_is_the_same_here_and_in_a_state() -> None:
    """A breaker of this process and one in a state are told the same things, and answer the same."""
    from kfm.retries import LocalBreaker

    for seed in range(tries(200)):
        random, clock = Random(seed), FixedClock()
        rules = BreakerRules(failures=random.randint(1, 3), pause_s=10, longest_s=40, trial_s=5)
        pair: list[Any] = [
            LocalBreaker("it", rules, clock=clock),
            SharedBreaker(StoredState(MemoryTables(), clock.now_ms), "it", rules),
        ]
        under_way: list[list[Passed]] = []
        for _ in range(60):
            clock.advance(random.choice([0, 1000, 5000, 10_000, -3000]))
            act = random.choice(["admit", "admit", "succeeded", "failed", "abandoned"])
            if act == "admit":
                answers = [_admitted(breaker) for breaker in pair]
                assert (answers[0] is None) == (answers[1] is None), seed
                if answers[0] is not None:
                    assert bool(answers[0].trial) == bool(answers[1].trial) and len(under_way) < 99
                    under_way.append(answers)
            elif under_way:
                calls = under_way.pop(random.randrange(len(under_way)))
                ends = zip(pair, calls, strict=True)
                said = [getattr(each, act)(call, *(["x"] if act == "failed" else [])) for each, call in ends]
                assert (said[0] is None) == (said[1] is None), seed


def _admitted(breaker: Any) -> Passed | None:
    try:
        return breaker.admit()  # type: ignore[no-any-return]
    except CircuitOpen:
        return None


# ------------------------------------------------------------------------------------------ races and kills


@pytest.mark.parametrize("kind", STORED)
def test_a_half_open_breaker_lets_exactly_one_of_eight_processes_through(kind: str, tmp_path: Path, count: Any) -> None:
    now = Context.Value("q", 1_000_000)
    state = state_at(tmp_path, lambda: int(now.value), kind)
    breaker = SharedBreaker(state, "it", racers.RULES)
    while breaker.failed(Passed(), "unavailable") is None:
        pass
    rounds = 6
    starts = [Context.Event() for _ in range(rounds)]
    ours, theirs = Context.Pipe(duplex=False)
    racing = [
        Context.Process(target=racers.race, args=(me, str(tmp_path), kind, now, starts, theirs)) for me in range(8)
    ]
    for process in racing:
        process.start()
    now.value += 30_000
    for number, start in enumerate(starts):
        start.set()
        answers = [ours.recv() for _ in range(8 - number)]
        assert [each[0] for each in answers] == [number] * len(answers)
        winners = [me for _, me, won in answers if won]
        assert len(winners) == 1, (number, answers)
        racing[winners[0]].join()
        assert racing[winners[0]].exitcode == -signal.SIGKILL, "the trial was not killed"
        with pytest.raises(CircuitOpen):
            breaker.admit()
        now.value += 20_000  # the trial does not come back: another one is let through
    for process in racing:
        process.join()
    found = state.breakers.get("it")
    assert found is not None and found.state == "half-open"
    last = breaker.admit()
    breaker.succeeded(last)
    assert state.breakers.get("it") is None
    state.close()
    count("processes that raced for a trial", sum(8 - number for number in range(rounds)))


@pytest.mark.parametrize("kind", STORED)
def test_a_budget_survives_the_kill_of_the_process_that_spends_it(kind: str, tmp_path: Path, count: Any) -> None:
    random, granted, kills = Random(3), 0, tries(12)
    for _ in range(kills):
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read)
            racers.spend(str(tmp_path), kind, write)
        os.close(write)
        wanted, seen = random.randint(1, 60), 0
        while seen < wanted:
            seen += len(os.read(read, wanted - seen))
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        while more := len(os.read(read, 1 << 16)):
            seen += more
        os.close(read)
        state = state_at(tmp_path, lambda: 1_000_000, kind)
        left = state.budgets.get("it")
        state.close()
        assert left is not None and left.tokens == racers.TOKENS.tokens - left.granted
        assert left.granted - granted in (seen, seen + 1), "a granted retry was forgotten"
        granted = left.granted
    count("kills of a process that spends a budget", kills)


@pytest.mark.parametrize("kind", STORED)
def test_an_open_breaker_survives_the_kill_of_the_process_that_opened_it(kind: str, tmp_path: Path) -> None:
    process = Context.Process(target=racers.break_it, args=(str(tmp_path), kind))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    state = state_at(tmp_path, lambda: 1_000_001, kind)
    with pytest.raises(CircuitOpen, match=r"open \(unavailable\), until"):
        SharedBreaker(state, "it", racers.RULES).admit()
    state.close()


# ------------------------------------------------------------------------------------------ storms

FULL = Policy(attempts=5, first_s=1, longest_s=60)
HOUR = 3600 if everything else 120


@pytest.mark.parametrize("kind", sampled(["sqlite", "jsonl"]))
def test_in_a_storm_the_attempts_are_at_most_the_calls_and_the_budget(kind: str, tmp_path: Path, count: Any) -> None:
    ratio = 0.1
    budget = BudgetRules(tokens=20, ratio=ratio, per_minute=0)
    callers, think_s = (6, 10.0) if everything else (12, 4.0)
    down = Storm(HOUR, callers, think_s, fails=1, policy=FULL, budget=budget)
    seen = weather(down, tmp_path, kind)
    assert seen.first >= 2000 and seen.succeeded == 0
    assert seen.first < len(seen.attempts) <= seen.first * (1 + ratio)
    assert len(seen.attempts) == seen.first + budget.tokens, "not a token was lost, and none was spent twice"
    naive = weather(down._replace(budget=None, seconds=HOUR // 4), tmp_path / "naive", kind)
    assert len(naive.attempts) > 3 * naive.first, "without a budget the storm is several times as strong"
    count("attempts in a storm of 8 processes", len(seen.attempts) + len(naive.attempts))


def test_retries_of_a_flaky_upstream_are_a_share_of_its_successes(tmp_path: Path) -> None:
    budget = BudgetRules(tokens=20, ratio=0.1, per_minute=0)
    seen = weather(Storm(HOUR, 6, 4, fails=0.5, policy=FULL, budget=budget), tmp_path)
    retries = len(seen.attempts) - seen.first
    assert 20 < retries <= 20 + 0.1 * seen.succeeded and retries <= 0.1 * seen.first + 20


def test_callers_that_failed_together_do_not_return_together(tmp_path: Path) -> None:
    herd = Storm(1, 25, 0, fails=1, policy=FULL)
    spread = weather(herd, tmp_path / "spread")
    at_once = weather(herd._replace(policy=Policy(attempts=5, first_s=1, longest_s=60, jitter=0)), tmp_path / "fixed")
    assert spread.first == at_once.first == 200 and len(spread.attempts) == len(at_once.attempts) == 1000
    assert at_once.fullest(100, after_ms=1) == 200, "without jitter all return at the same instant"
    assert spread.fullest(100, after_ms=1) <= 50


def test_a_breaker_spares_an_upstream_that_is_down(tmp_path: Path) -> None:
    breaker = BreakerRules(failures=10, pause_s=10, longest_s=60, trial_s=5)
    seen = weather(Storm(HOUR, 6, 4, fails=1, policy=FULL, breaker=breaker), tmp_path)
    late = [at for at in seen.attempts if at - 1_000_000 > 20_000]
    assert late and len(late) <= HOUR / 10 + 1 and seen.refused > 5 * len(seen.attempts)


def test_nested_retries_multiply_unless_they_share_a_budget(count: Any) -> None:
    def nested(depth: int, work: Flaky, **guards: Any) -> None:
        how = Retrying(Policy(attempts=3, first_s=0), "it", clock=Naps(), **guards)
        if depth == 1:
            how.call(work)
        else:
            how.call(nested, depth - 1, work, **guards)

    for depth in (1, 2, 3, 4):
        naive, thrifty = Flaky(*[DOWN] * 500), Flaky(*[DOWN] * 500)
        with pytest.raises(Unavailable):
            nested(depth, naive)
        with pytest.raises(Unavailable):
            nested(depth, thrifty, budget=LocalBudget("it", BudgetRules(tokens=4, per_minute=0)))
        assert naive.calls == 3**depth
        assert thrifty.calls == min(3**depth, 1 + 4)
        count("attempts of naive nested retries", naive.calls)


# ------------------------------------------------------------------------------------------ a state that fails


class Broken:
    """A state of which these parts fail, and that notes how often they were asked."""

    def __init__(self, state: StoredState, *parts: str) -> None:
        self._state = state
        self._parts = parts
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in self._parts:
            self.asked.append(name)
            raise StorageFailed("the disk failed")
        return getattr(self._state, name)


@pytest.mark.parametrize("parts", [("breakers",), ("budgets",), ("transaction",), ("breakers", "budgets")])
def test_without_the_state_the_first_attempt_is_made_and_no_second_one(parts: tuple[str, ...]) -> None:
    clock = Naps()
    state: Any = Broken(StoredState(MemoryTables(), clock.now_ms), *parts)
    how = Retrying(
        Policy(attempts=5), "it", breaker=SharedBreaker(state, "it"), budget=SharedBudget(state, "it"), clock=clock
    )
    assert how.call(Flaky()) == "ok"
    work = Flaky(DOWN, DOWN)
    with pytest.raises(BudgetSpent, match="cannot be read or written; check the state"):
        how.call(work)
    assert state.asked and work.calls == 1 and clock.naps == []


def test_a_success_after_failures_stays_one_if_the_state_fails_then() -> None:
    clock = Naps()
    inner = StoredState(MemoryTables(), clock.now_ms)
    SharedBreaker(inner, "it").failed(Passed(), "unavailable")
    state: Any = Broken(inner, "transaction")
    assert Retrying(Policy(), "it", breaker=SharedBreaker(state, "it"), clock=clock).call(Flaky()) == "ok"
    assert state.asked


class Counting:
    """A state that counts its transactions."""

    def __init__(self, state: StoredState) -> None:
        self._state = state
        self.transactions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    @contextmanager
    def transaction(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self.transactions += 1
        with self._state.transaction(*args, **kwargs) as tx:
            yield tx


def test_a_call_that_succeeds_at_once_writes_nothing() -> None:
    clock = Naps()
    state: Any = Counting(StoredState(MemoryTables(), clock.now_ms))
    how = Retrying(Policy(), "it", breaker=SharedBreaker(state, "it"), budget=SharedBudget(state, "it"), clock=clock)
    for _ in range(1000):
        how.call(Flaky())
    assert state.transactions == 0
    how.call(Flaky(DOWN))
    assert state.transactions == 3, "a failure, a token, a success after a failure"


def test_a_spent_budget_is_asked_without_writing() -> None:
    clock = Naps()
    state: Any = Counting(StoredState(MemoryTables(), clock.now_ms))
    budget = SharedBudget(state, "it", BudgetRules(tokens=1, per_minute=0))
    budget.take("x")
    for _ in range(100):
        with pytest.raises(BudgetSpent):
            budget.take("x")
    assert state.transactions == 2, "the token, and when it was found empty"


def test_an_asynchronous_call_asks_the_state_in_a_thread() -> None:
    import asyncio
    import threading

    threads: set[int] = set()
    clock = Naps()

    class Noting(SharedBreaker):
        def admit(self) -> Passed:
            threads.add(threading.get_ident())
            return super().admit()

    state = StoredState(MemoryTables(), clock.now_ms)
    how = Retrying(Policy(first_s=0), "it", breaker=Noting(state, "it"), clock=clock, asleep=clock.asleep)
    work = Flaky(DOWN)

    async def coroutine() -> str:
        return work()

    assert asyncio.run(how.acall(coroutine)) == "ok" and work.calls == 2
    assert threads and threading.get_ident() not in threads
