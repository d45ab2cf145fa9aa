"""A call that may succeed later is repeated: as a function, a block or a decorator, synchronous or not, alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from kfm.clock import FixedClock
from kfm.errors import BadInput, Broken, BudgetSpent, CircuitOpen, Conflict, Frozen, Refused, Unavailable
from kfm.retries import (
    AttemptEvent,
    BreakerRules,
    BudgetRules,
    Counters,
    LocalBreaker,
    LocalBudget,
    Policy,
    Retrying,
    current_attempt,
    retry,
    retry_after_s,
)
from kfm.retries.http_status import status_of
from tests.retries.worlds import DOWN, Flaky, Naps, breakers, budgets

STILL = {"jitter": 0}


def retrying(clock: Naps, policy: Policy | None = None, **more: Any) -> Retrying:
    return Retrying(policy or Policy(attempts=4, first_s=1, jitter=0), "it", clock=clock, asleep=clock.asleep, **more)


# ------------------------------------------------------------------------------------------ the patterns


def by_function(how: Retrying, work: Flaky) -> str:
    return how.call(work, 1, b=2)


def by_decorator(how: Retrying, work: Flaky) -> str:
    @retry(how.policy, clock=how.clock, chance=how.chance, breaker=how.breaker, budget=how.budget, stop=how.halt)
    def decorated() -> str:
        return work()

    return decorated()


def by_block(how: Retrying, work: Flaky) -> str:
    for attempt in how:
        with attempt:
            found = work()
    return found


def by_coroutine(how: Retrying, work: Flaky) -> str:
    async def coroutine() -> str:
        await asyncio.sleep(0)
        return work()

    return asyncio.run(how.acall(coroutine))


def by_async_decorator(how: Retrying, work: Flaky) -> str:
    asleep = how._asleep
    more: dict[str, Any] = {"breaker": how.breaker, "budget": how.budget, "stop": how.halt, "asleep": asleep}

    @retry(how.policy, clock=how.clock, chance=how.chance, **more)
    async def decorated() -> str:
        return work()

    return asyncio.run(decorated())


def by_async_block(how: Retrying, work: Flaky) -> str:
    async def whole() -> str:
        async for attempt in how:
            with attempt:
                found = work()
        return found

    return asyncio.run(whole())


PATTERNS = (by_function, by_decorator, by_block, by_coroutine, by_async_decorator, by_async_block)
each_pattern = pytest.mark.parametrize("pattern", PATTERNS)


@each_pattern
def test_a_call_that_succeeds_later_gives_its_result(pattern: Any) -> None:
    clock, work = Naps(), Flaky(DOWN, ConnectionError(), TimeoutError())
    assert pattern(retrying(clock), work) == "ok"
    assert work.calls == 4 and clock.naps == [1, 2, 4]


@each_pattern
def test_a_call_that_succeeds_at_once_does_not_wait(pattern: Any) -> None:
    clock, work = Naps(), Flaky()
    assert pattern(retrying(clock), work) == "ok" and work.calls == 1 and clock.naps == []


@each_pattern
def test_after_the_last_attempt_the_own_exception_is_raised(pattern: Any) -> None:
    last = ConnectionResetError("the last one")
    clock, work = Naps(), Flaky(DOWN, DOWN, DOWN, last)
    with pytest.raises(ConnectionResetError) as caught:
        pattern(retrying(clock), work)
    assert caught.value is last and work.calls == 4


@each_pattern
def test_what_will_not_pass_is_raised_at_once(pattern: Any) -> None:
    for problem in (ValueError("x"), Refused("no"), Broken("disk"), Conflict("moved"), KeyboardInterrupt()):
        clock, work = Naps(), Flaky(problem)
        with pytest.raises(type(problem)):
            pattern(retrying(clock), work)
        assert work.calls == 1 and clock.naps == []


@each_pattern
def test_no_attempt_begins_after_the_deadline(pattern: Any) -> None:
    clock, work = Naps(), Flaky(*[DOWN] * 9)
    with pytest.raises(Unavailable, match="nobody answers"):
        pattern(retrying(clock, Policy(attempts=0, first_s=1, jitter=0, deadline_s=7)), work)
    assert clock.naps == [1, 2], "the next attempt would begin after exactly seven seconds"


@each_pattern
def test_a_freeze_stops_the_attempts(pattern: Any) -> None:
    clock, work, flag = Naps(), Flaky(*[DOWN] * 9), []

    def stop() -> Frozen | None:
        if clock.naps == [1, 2]:  # it comes during the second wait
            flag.append(work.calls)
        return Frozen("all is frozen") if flag else None

    with pytest.raises(Frozen):
        pattern(retrying(clock, stop=stop), work)
    assert flag and work.calls == 2, "the attempt after that wait did not begin"


@each_pattern
def test_a_spent_budget_fails_at_once_and_says_so(pattern: Any) -> None:
    rules = BudgetRules(tokens=2, ratio=0, per_minute=0)
    clock, work = Naps(), Flaky(*[DOWN] * 9)
    budget = LocalBudget("feeds", rules, clock=clock)
    with pytest.raises(BudgetSpent, match=r"nobody answers; no retry: the retry budget feeds has been used up"):
        pattern(retrying(clock, Policy(attempts=0, first_s=1), budget=budget), work)
    assert work.calls == 3
    with pytest.raises(BudgetSpent):
        pattern(retrying(clock, budget=budget), work)
    assert work.calls == 4, "the first attempt of another call is made"


@each_pattern
def test_an_open_breaker_makes_no_call(pattern: Any) -> None:
    clock, work = Naps(), Flaky(*[DOWN] * 9)
    breaker = LocalBreaker("feeds", BreakerRules(failures=3, pause_s=30), clock=clock)
    with pytest.raises(CircuitOpen, match=r"nobody answers; the circuit breaker feeds is open \(unavailable\), until"):
        pattern(retrying(clock, Policy(attempts=0, first_s=1, jitter=0), breaker=breaker), work)
    assert work.calls == 3 and clock.naps == [1, 2], "it does not wait for an attempt that will not be made"
    with pytest.raises(CircuitOpen):
        pattern(retrying(clock, breaker=breaker), work)
    assert work.calls == 3
    clock.advance(30_000)
    work.problems.clear()
    assert pattern(retrying(clock, breaker=breaker), work) == "ok" and breaker.state is None


@each_pattern
def test_the_idempotency_key_is_the_same_in_all_attempts_and_another_in_each_call(pattern: Any) -> None:
    clock, keys, random = Naps(), [], Random(7)

    class Keyed(Flaky):
        def __call__(self, *args: Any, **kwargs: Any) -> str:
            attempt = current_attempt()
            assert attempt is not None and attempt.number == self.calls + 1 and attempt.of == 4
            keys.append(attempt.key)
            return super().__call__(*args, **kwargs)

    for _ in range(2):
        pattern(retrying(clock, chance=random.random), Keyed(DOWN, DOWN))
    assert len(keys) == 6 and len(set(keys[:3])) == len(set(keys[3:])) == 1 and keys[0] != keys[3]
    assert len(keys[0]) == 32 and current_attempt() is None


@each_pattern
def test_a_retry_around_a_retry_does_not_undo_a_budget_or_a_breaker(pattern: Any) -> None:
    clock = Naps()
    for refusal in (BudgetSpent("no token"), CircuitOpen("open")):
        work = Flaky(refusal, refusal)
        with pytest.raises(type(refusal)):
            pattern(retrying(clock), work)
        assert work.calls == 1


def test_a_key_may_be_given_or_made() -> None:
    for key in ("order-7", lambda: "order-7"):
        how = Retrying(Policy(), "it", key=key, clock=Naps())
        assert how.call(lambda: current_attempt().key) == "order-7"  # type: ignore[union-attr]


def test_a_block_that_is_left_early_ends_the_loop() -> None:
    clock = Naps()
    for attempt in retrying(clock):
        with attempt:
            break
    times = [attempt.number for attempt in retrying(clock)]
    assert times == [1], "a body that never enters the block is not repeated for ever"


def test_an_attempt_knows_how_much_time_is_left() -> None:
    clock, left = Naps(), []

    def work() -> None:
        attempt = current_attempt()
        assert attempt is not None
        left.append(attempt.left_s)
        clock.advance(500)
        raise DOWN

    with pytest.raises(Unavailable):
        retrying(clock, Policy(attempts=3, first_s=1, jitter=0, deadline_s=9)).call(work)
    assert left == [9, 7.5, 5]


def test_generators_and_missing_parentheses_are_refused_with_the_cure() -> None:
    with pytest.raises(BadInput, match="generator, which cannot be retried; retry the function"):
        retry(attempts=2)(lambda: (yield))
    with pytest.raises(BadInput, match=r"write @retry\(\) above it"):
        retry(Flaky())  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="@retry knows no attempt; one of: attempts"):
        retry(attempt=3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": -1}, {"attempts": True}, {"attempts": 1.5}, {"first_s": -1}, {"first_s": float("nan")},
        {"longest_s": float("inf")}, {"deadline_s": -1}, {"factor": 0.5}, {"jitter": 2}, {"on": ValueError},
        {"on": (KeyboardInterrupt,)}, {"never": ("x",)}, {"statuses": frozenset({42})},
    ],
)  # fmt: skip
def test_a_policy_of_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"{next(iter(wrong))} of a retry policy is wrong; give "):
        Policy(**wrong)


@pytest.mark.parametrize("wrong", [{"failures": 0}, {"pause_s": 0}, {"trial_s": float("nan")}])
def test_a_breaker_of_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        BreakerRules(**wrong)


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"ratio": 1.5}, {"per_minute": -1}, {"tokens": True}])
def test_a_budget_of_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        BudgetRules(**wrong)


# ------------------------------------------------------------------------------------------ the arithmetic


def test_the_longest_wait_doubles_up_to_its_limit_and_never_overflows() -> None:
    policy = Policy(first_s=0.5, longest_s=60)
    assert [policy.longest_wait_s(n) for n in (1, 2, 3, 7, 8, 9, 5000)] == [0.5, 1, 2, 32, 60, 60, 60]
    assert Policy(first_s=0).longest_wait_s(10**6) == 0 or Policy(first_s=0).longest_wait_s(10**6) == 60


def test_full_jitter_spreads_waits_evenly_from_nothing_to_the_longest() -> None:
    random, policy = Random(1), Policy(first_s=8)
    tenths = [0] * 10
    for _ in range(10_000):
        tenths[int(policy.wait_s(1, random.random()) / 0.8)] += 1
    assert min(tenths) > 850 and max(tenths) < 1150


def test_what_the_other_side_asks_for_is_a_floor_and_still_spread() -> None:
    random, policy = Random(1), Policy(first_s=8)
    waits = [policy.wait_s(1, random.random(), 30) for _ in range(1000)]
    assert min(waits) >= 30 and max(waits) <= 38 and len({round(wait) for wait in waits}) == 9


IMF = "Sun, 06 Nov 1994 08:49:37 GMT"
AT = 784_111_777_000  # that instant, in milliseconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7), (" 7 ", 7), ("0", 0), ("999999999999", 3600), ("-1", None), ("1.5", None), ("", None),
        ("\u0667", None),
        (IMF, 60), ("Sunday, 06-Nov-94 08:49:37 GMT", 60), ("Sun Nov  6 08:49:37 1994", 60),
        ("Sun, 06 Nov 1994 09:49:37 GMT", 3600), ("Sun, 06 Nov 1994 23:49:37 GMT", 3600),
        ("Sun, 06 Nov 1990 08:49:37 GMT", 0), ("Sun, 31 Feb 1994 08:49:37 GMT", None), ("soon", None),
        ("Sunday, 06-Nov-99 08:49:37 GMT", 3600), ("Sunday, 06-Nov-59 08:49:37 GMT", 0), ("x" * 100, None),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_and_as_a_date(text: str, seconds: int | None) -> None:
    assert retry_after_s(text, AT - 60_000) == seconds


class Answered(Exception):
    def __init__(self, status: int, headers: Any = None) -> None:
        super().__init__()
        self.response = SimpleNamespace(status_code=status, headers=headers)


@pytest.mark.parametrize(("status", "times"), [(503, 4), (429, 4), (408, 4), (404, 1), (501, 1), (400, 1), (301, 1)])
def test_the_status_of_an_answer_decides(status: int, times: int) -> None:
    clock, work = Naps(), Flaky(*[Answered(status)] * 4)
    with pytest.raises(Answered):
        retrying(clock).call(work)
    assert work.calls == times


def test_the_wait_that_an_answer_asks_for_is_kept() -> None:
    clock = Naps()
    headers = ({"Retry-After": "7"}, {"retry-after": "9"}, {"Retry-After": "nonsense"})
    retrying(clock).call(Flaky(*[Answered(503, each) for each in headers]))
    assert clock.naps == [7, 9, 4]
    clock.naps.clear()
    retrying(clock).call(Flaky(Unavailable("busy", retry_after_s=11)))
    assert clock.naps == [11]


def test_real_clients_show_their_status() -> None:
    import urllib.error
    from email.message import Message

    headers = Message()
    headers["Retry-After"] = "5"
    problem = urllib.error.HTTPError("u", 503, "down", headers, None)
    assert status_of(problem) == 503 and status_of(OSError(11, "errno is no status")) is None
    clock = Naps()
    assert retrying(clock).call(Flaky(problem)) == "ok" and clock.naps == [5]


# ------------------------------------------------------------------------------------------ breakers and budgets


def test_a_breaker_opens_tries_and_closes() -> None:
    clock = FixedClock(0)
    rules = BreakerRules(failures=2, pause_s=10, longest_s=15, trial_s=5)
    for breaker in breakers(rules, clock):
        late = breaker.admit()
        assert breaker.failed(breaker.admit(), "unavailable") is None
        breaker.succeeded(breaker.admit())  # failures in a row are counted
        breaker.failed(breaker.admit(), "unavailable")
        assert breaker.failed(breaker.admit(), "unavailable") is not None
        for pause in (10_000, 15_000, 15_000):  # longer each time, up to its limit
            with pytest.raises(CircuitOpen):
                breaker.admit()
            clock.advance(pause - 1)
            with pytest.raises(CircuitOpen):
                breaker.admit()
            clock.advance(1)
            trial = breaker.admit()
            with pytest.raises(CircuitOpen, match="half-open"):
                breaker.admit()
            breaker.succeeded(late)  # calls that began before it opened do not decide
            breaker.failed(late, "unavailable")
            with pytest.raises(CircuitOpen, match="half-open"):
                breaker.admit()
            breaker.failed(trial, "unavailable")
        clock.advance(15_000)
        trial = breaker.admit()
        clock.advance(5_000)  # the first trial does not come back
        second = breaker.admit()
        assert second.trial and second != trial
        breaker.succeeded(trial)
        with pytest.raises(CircuitOpen):
            breaker.admit()
        breaker.abandoned(second)
        third = breaker.admit()
        breaker.succeeded(third)
        assert not breaker.admit().trial and not breaker.admit().noted


def test_a_clock_that_is_set_back_closes_no_way_for_long() -> None:
    clock = FixedClock(10_000_000)
    for breaker in breakers(BreakerRules(failures=1, pause_s=10), clock):
        breaker.failed(breaker.admit(), "unavailable")
        clock.advance(-5_000_000)
        assert breaker.admit().trial
        clock.advance(5_000_000)


def test_a_budget_grants_its_tokens_and_is_filled_by_successes_and_time() -> None:
    clock = FixedClock(0)
    for budget in budgets(BudgetRules(tokens=3, ratio=0.5, per_minute=1), clock):
        for _ in range(3):
            budget.take("unavailable")
        for _ in range(2):
            with pytest.raises(BudgetSpent):
                budget.take("unavailable")
        budget.give_back()
        with pytest.raises(BudgetSpent):
            budget.take("unavailable")
        budget.give_back()
        budget.take("unavailable")
        clock.advance(60_000)
        budget.take("unavailable")
        with pytest.raises(BudgetSpent):
            budget.take("unavailable")
        clock.advance(-60_000)  # set back
        with pytest.raises(BudgetSpent):
            budget.take("unavailable")
        clock.advance(3_600_000)
        for _ in range(100):
            budget.give_back()
        for _ in range(3):
            budget.take("unavailable")
        with pytest.raises(BudgetSpent):
            budget.take("unavailable")  # it never holds more than its tokens


def test_ten_tenths_of_a_token_are_a_token() -> None:
    clock = FixedClock(0)
    for budget in budgets(BudgetRules(tokens=1, ratio=0.1, per_minute=0), clock):
        budget.take("unavailable")
        with pytest.raises(BudgetSpent):
            budget.take("unavailable")
        for _ in range(10):
            budget.give_back()
        budget.take("unavailable")


def test_an_answer_that_will_not_change_closes_a_half_open_breaker() -> None:
    clock = Naps()
    breaker = LocalBreaker("it", BreakerRules(failures=1, pause_s=10), clock=clock)
    breaker.failed(breaker.admit(), "unavailable")
    clock.advance(10_000)
    with pytest.raises(Refused):
        retrying(clock, breaker=breaker).call(Flaky(Refused("gone")))
    assert breaker.state is None, "the other side answers"


def test_an_interrupted_trial_lets_the_next_caller_through_at_once() -> None:
    clock = Naps()
    for breaker in breakers(BreakerRules(failures=1, pause_s=10), clock):
        breaker.failed(breaker.admit(), "unavailable")
        clock.advance(10_000)
        with pytest.raises(KeyboardInterrupt):
            retrying(clock, breaker=breaker).call(Flaky(KeyboardInterrupt()))
        assert retrying(clock, breaker=breaker).call(Flaky()) == "ok"


# ------------------------------------------------------------------------------------------ what is told


def test_every_attempt_is_told_once_and_without_a_value() -> None:
    clock, events = Naps(), []
    counters = Counters(events.append)
    retrying(clock, observe=counters).call(Flaky(DOWN, DOWN), "an argument")
    with pytest.raises(ValueError, match="of the data"):
        retrying(clock, observe=counters).call(Flaky(ValueError("of the data")))
    assert [(each.attempt, each.outcome, each.why, each.wait_s, each.code) for each in events] == [
        (1, "retried", "passing", 1, "unavailable"),
        (2, "retried", "passing", 2, "unavailable"),
        (3, "succeeded", "", 0, ""),
        (1, "failed", "not-passing", 0, "ValueError"),
    ]
    assert [each.elapsed_s for each in events] == [0, 1, 3, 0]
    assert counters.of("it") == {"retried": 2, "succeeded": 1, "failed": 1}
    told = [value for each in events for value in each._replace(problem=None)]
    assert not any("argument" in str(value) or "of the data" in str(value) for value in told)


def test_an_observer_that_raises_changes_nothing() -> None:
    def observe(_event: AttemptEvent) -> None:
        raise RuntimeError

    assert retrying(Naps(), observe=observe).call(Flaky(DOWN)) == "ok"


def test_it_is_usable_without_the_rest() -> None:
    code = (
        "import sys; from kfm.retries import retry, LocalBreaker, LocalBudget\n"
        "@retry(attempts=2, breaker=LocalBreaker('b'), budget=LocalBudget('c'))\n"
        "def one(): return 1\n"
        "assert one() == 1\n"
        "rooms = {name.split('.')[1] for name in sys.modules if name.startswith('kfm.')}\n"
        "assert rooms <= {'clock', 'errors', 'model', 'parsing', 'retries'}, rooms\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
