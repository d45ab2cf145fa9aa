"""Runs retry sources and steps by the breakers and budgets of their installation, and people change these by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.runs.run_control import resume_runs, run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.errors import Frozen
from kfm.retries import SharedBreaker, SharedBudget
from kfm.retries.circuit import Passed
from tests.engine.installations import Answer, Installation
from tests.retries.worlds import Naps
from tests.sources.hostile_server import Exchange, ScriptedServer

BODY = b"id,mm\n1,2\n"
CONFIG = """
accept_weak_storage: true
network: {allow: ["127.0.0.1:%d"], retries: %d}
datasets:
  rain:
    version: "1.0.0"
    sensitivity: public
    sources: {rain: {uri: "http://127.0.0.1:%d/rain.csv", format: csv}}
    outputs: {all: {from: rain}}
"""


class Upstream:
    """A server that is down until it is told to be up, and counts what it is asked."""

    def __init__(self) -> None:
        self.is_up = False
        self.asked = 0
        self.on_request: Callable[[], object] = lambda: None

    def __call__(self, exchange: Exchange) -> None:
        self.asked += 1
        self.on_request()
        if self.is_up:
            exchange.answer("200 OK", f"Content-Length: {len(BODY)}", body=BODY)
        else:
            exchange.answer("503 Service Unavailable", "Content-Length: 0")


class Site:
    def __init__(self, folder: Path, upstream: Upstream, port: int, retries: int) -> None:
        self.upstream = upstream
        self.clock = Naps()
        self.name = f"source/127.0.0.1:{port}"
        self.folder = folder
        (folder / "kfm.yml").write_text(CONFIG % (port, retries, port))

    def open(self) -> Session:
        return open_session(config.load(str(self.folder / "kfm.yml"), {}), clock=self.clock)

    def run(self, session: Session) -> str:
        """Run the dataset; return how it ended, and the message of its first error."""
        receipt = run_trigger(session, new_trigger(session, "rain"))
        return receipt.outcome + "".join(f": {each.code}: {each.message}" for each in receipt.errors[:1])

    def kfm(self, *words: str, expect: int = 0) -> Answer:
        return Installation(self.folder).kfm(*words, expect=expect)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    upstream = Upstream()
    with ScriptedServer(upstream) as server:
        yield Site(tmp_path, upstream, server.port, 3)


# ------------------------------------------------------------------------------------------ sources


def test_a_host_that_keeps_failing_is_not_asked_until_a_trial_succeeds(site: Site) -> None:
    with site.open() as session:
        assert site.run(session).startswith("failed: unavailable: ") and site.upstream.asked == 4
        assert site.run(session).startswith("failed: unavailable: ") and site.upstream.asked == 8
        said = site.run(session)
        assert said.startswith("failed: circuit.open: ") and site.upstream.asked == 10
        assert "answers 503; the circuit breaker source/127.0.0.1:" in said
        assert site.run(session).startswith("failed: circuit.open: the circuit breaker") and site.upstream.asked == 10
        site.clock.advance(31_000)
        assert site.run(session).startswith("failed: circuit.open: ") and site.upstream.asked == 11, "one trial"
        assert site.run(session).startswith("failed: circuit.open: ") and site.upstream.asked == 11
        site.clock.advance(61_000)
        site.upstream.is_up = True
        assert site.run(session) == "done" and site.upstream.asked == 12
        assert list(session.state.breakers.all()) == []


def test_a_run_that_succeeds_at_once_leaves_no_breaker_and_no_budget(site: Site) -> None:
    site.upstream.is_up = True
    with site.open() as session:
        assert site.run(session) == "done"
        assert not list(session.state.breakers.all()) and not list(session.state.budgets.all())


def test_the_retries_of_all_runs_share_the_budget_of_the_host(site: Site) -> None:
    with site.open() as session:
        SharedBudget(session.state, site.name)
        from kfm.app.session.retry_guards import SOURCE_BUDGET

        budget = SharedBudget(session.state, site.name, SOURCE_BUDGET, who="another")
        for _ in range(int(SOURCE_BUDGET.tokens) - 1):
            budget.take("unavailable")
        said = site.run(session)
        assert said.startswith("failed: retry.spent: ") and "no retry: the retry budget source/127.0.0.1:" in said
        assert site.upstream.asked == 2, "the first attempt, and the one token that was left"
        site.upstream.is_up = True
        assert site.run(session) == "done", "a call that succeeds needs no token"


def test_a_freeze_ends_the_retries_of_a_source(site: Site) -> None:
    with site.open() as session:

        def freeze() -> None:
            if site.upstream.asked == 2:
                with site.open() as other:
                    run_operation(other, "freeze", "global", {"scope": "global"})

        site.upstream.on_request = freeze
        with pytest.raises(Frozen, match="global is frozen"):
            site.run(session)
        assert site.upstream.asked == 2
        run_operation(session, "thaw", "global", {"scope": "global"})
        site.upstream.is_up = True
        assert site.run(session) == "done"


def test_a_dry_run_changes_no_breaker_and_no_budget(site: Site) -> None:
    with site.open() as session:
        site.run(session)
        before = [*session.state.breakers.all(), *session.state.budgets.all()]
    assert len(before) == 2
    with open_session(config.load(str(site.folder / "kfm.yml"), {}), mode="dry", clock=site.clock) as session:
        asked = site.upstream.asked
        assert site.run(session).startswith("failed") and site.upstream.asked > asked
    with site.open() as session:
        assert [*session.state.breakers.all(), *session.state.budgets.all()] == before


# ------------------------------------------------------------------------------------------ steps

UPDATER = """
import os
from kfm import Output, Plan, Step, Updater
from kfm.errors import Unavailable
class Flaky(Updater):
    id = "flaky"
    version = "1.0.0"
    retries = 3
    backoff_s = 1
    def inputs(self, trigger, sources): return [sources.pin("./rain.csv")]
    def plan(self, inputs): return Plan([Step(id="one", key=("one",)), Step(id="two", key=("two",))])
    def perform(self, step, read):
        with open("attempts", "a") as file: file.write(step.id + " ")
        if step.id == "two" and not os.path.exists("up"): raise Unavailable("nobody answers")
        return Output(step.id.encode(), "text/plain")
"""


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    (tmp_path / "rain.csv").write_bytes(BODY)
    (tmp_path / "flaky.py").write_text(UPDATER)
    (tmp_path / "kfm.yml").write_text(
        "accept_weak_storage: true\nexecute: {threads: 1}\n"
        "datasets: {rain: {updater: 'flaky.py:Flaky', sensitivity: public}}\n"
    )
    monkeypatch.chdir(tmp_path)
    with open_session(config.load(str(tmp_path / "kfm.yml"), {}), clock=Naps()) as session:
        yield session


def attempts() -> list[str]:
    return Path("attempts").read_text().split()


def run(session: Session) -> str:
    receipt = run_trigger(session, new_trigger(session, "rain"))
    return receipt.outcome + "".join(f": {each.code}: {each.message}" for each in receipt.errors[:1])


def test_the_retries_of_steps_take_tokens_of_their_updater(steps: Session) -> None:
    assert run(steps).startswith("failed: unavailable: step 'two': ") and attempts() == ["one", *["two"] * 4]
    budget = steps.state.budgets.get("step/flaky")
    assert budget is not None and budget.granted == 3 and ":" in budget.who


def test_a_closed_budget_grants_a_step_no_retry(steps: Session) -> None:
    from kfm.app.maintenance.retry_control import close_budget, reset_budget

    close_budget(steps, "step/flaky", reason="a storm", actor="ann")
    said = run(steps)
    assert said.startswith("failed: retry.spent: step 'two': ") and "was closed by ann" in said
    assert attempts() == ["one", "two"]
    reset_budget(steps, "step/flaky", reason="over", actor="ann")
    Path("up").touch()
    assert run(steps) == "done"


def test_a_freeze_during_the_wait_stops_a_step_and_the_thaw_goes_on_with_it(steps: Session) -> None:
    clock: Any = steps.clock
    sleep, frozen = clock.sleep, []

    def nap(seconds: float) -> None:
        sleep(seconds)
        if not frozen:
            frozen.append(attempts())
            with open_session(config.load("kfm.yml", {}), clock=FixedClock()) as other:
                run_operation(other, "freeze", "global", {"scope": "global"})

    clock.sleep = nap
    with pytest.raises(Frozen):
        run(steps)
    assert frozen == [["one", "two"]] and attempts() == ["one", "two"], "no attempt began after the freeze"
    run_operation(steps, "thaw", "global", {"scope": "global"})
    Path("up").touch()
    assert [receipt.outcome for receipt in resume_runs(steps)] == ["done"]
    assert attempts() == ["one", "two", "two"], "what was done is not done again"


def test_a_cancelled_run_repeats_no_step(steps: Session) -> None:
    clock: Any = steps.clock
    sleep, cancelled = clock.sleep, []

    def nap(seconds: float) -> None:
        sleep(seconds)
        if not cancelled:
            with open_session(config.load("kfm.yml", {}), clock=FixedClock()) as other:
                cancelled.append(next(iter(other.state.runs.unfinished())).run_id)
                run_operation(other, "freeze", "rain", {"scope": f"run/{cancelled[0]}"}, reason="enough")

    clock.sleep = nap
    assert run(steps).startswith("cancelled: run.cancelled: ") and cancelled
    assert attempts() == ["one", "two"]


# ------------------------------------------------------------------------------------------ by hand


def failing(site: Site) -> None:
    with site.open() as session:
        breaker = SharedBreaker(session.state, site.name, who="a-process")
        while breaker.failed(Passed(), "unavailable") is None:
            pass
        SharedBudget(session.state, site.name).take("unavailable")


def test_breakers_and_budgets_say_state_since_why_and_who(site: Site) -> None:
    assert json.loads(site.kfm("breakers", "--json").out)[0]["state"] == "closed"
    failing(site)
    answer = site.kfm("breakers", "--json", expect=69)
    (row,) = json.loads(answer.out)
    assert (row["breaker"], row["state"], row["why"], row["who"]) == (site.name, "open", "unavailable", "a-process")
    assert row["since"] < row["until"] and row["failures"] == 5
    (row,) = json.loads(site.kfm("budgets", "--json").out)
    assert (row["budget"], row["state"], row["granted"], row["why"]) == (site.name, "granting", 1, "unavailable")
    assert site.name in site.kfm("breakers", expect=69).out and site.name in site.kfm("budgets").out


@pytest.mark.parametrize(
    ("words", "state", "code"),
    [
        (("breakers", "open"), "open", 69), (("breakers", "close"), "closed", 0),
        (("budgets", "close"), "closed", 69), (("budgets", "reset"), "granting", 0),
    ],
)  # fmt: skip
def test_a_change_by_hand_is_an_operation_with_a_receipt_and_a_ledger_entry(
    site: Site, words: tuple[str, str], state: str, code: int
) -> None:
    failing(site)
    what, action = words
    answer = site.kfm(what, action, site.name, "--reason", "the host moves", "--actor", "ann", "--json")
    assert json.loads(answer.out)["state"] == state
    (row,) = json.loads(site.kfm(what, "--json", expect=code).out)
    assert row["state"] == state and (code == 0 or (row["why"], row["who"]) == ("the host moves", "ann"))
    with site.open() as session:
        (entry,) = session.state.ledger.entries()
        assert (entry.op_type, entry.reason) == (what, "the host moves")
        receipt = session.state.ledger.receipt(entry.run_id)
        assert receipt is not None and (receipt.outcome, receipt.actor) == ("done", "ann")
        report = json.loads(session.objects.read(session.state.refs.at(f"maintenance/{what}")))
        assert (report["action"], report["name"]) == (action, site.name)
        assert list(session.state.journal.segments(entry.run_id))


def test_a_breaker_that_a_person_opened_stays_open_until_a_person_closes_it(site: Site) -> None:
    site.upstream.is_up = True
    site.kfm("breakers", "open", site.name, "--reason", "they asked for quiet")
    with site.open() as session:
        site.clock.advance(10 * 365 * 86_400_000)
        assert "until it is closed by hand" in site.run(session) and site.upstream.asked == 0
    site.kfm("breakers", "close", site.name, "--reason", "they are back")
    with site.open() as session:
        assert site.run(session) == "done"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("breakers", "open"), 3, "no breaker is named; one of: source/127.0.0.1"),
        (("breakers", "open", "source/127.0.0.l"), 3, "there is no breaker 'source/127.0.0.l'; one of: source/"),
        (("breakers", "close", "NAME"), 3, "is closed, and has no failures"),
        (("breakers", "shut", "NAME"), 2, "has no open|close 'shut'"),
        (("breakers", "open", "NAME", "--reason", "a\nb"), 3, "--reason must be one line"),
        (("budgets", "reset", "NAME"), 3, "is full; nothing is left to reset"),
        (("budgets", "close", "step/rain"), 3, "there is no budget 'step/rain'; one of: source/"),
        (("budgets", "open", "NAME"), 2, "has no close|reset 'open'"),
    ],
)
def test_a_slip_is_refused_with_the_cure_and_changes_nothing(
    site: Site, words: tuple[str, ...], code: int, said: str
) -> None:
    site.kfm("run", "--dry-run", expect=69)
    with site.open() as session:
        head = session.state.ledger.head()
    answer = site.kfm(*(site.name if word == "NAME" else word for word in words), expect=code)
    assert said in answer.err and answer.err.count("\n") == 1, answer.err
    assert "Traceback" not in answer.err
    with site.open() as session:
        assert session.state.ledger.head() == head
        assert not list(session.state.breakers.all()) and not list(session.state.budgets.all())


def test_a_change_without_a_reason_is_refused(site: Site) -> None:
    answer = Installation(site.folder).kfm("breakers", "open", site.name, env={"KFM_REASON": ""}, expect=3)
    assert "needs a reason" in answer.err and '--reason "why"' in answer.err
