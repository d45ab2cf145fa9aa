"""Publish, promote, roll back, freeze, crash, in any order, against a small model."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kfm.engine.run import run
from kfm.errors import Frozen
from kfm.model.records import Receipt, Step
from kfm.model.updater import Output, Reader, Updater
from kfm.operations.registry import operations
from kfm.store.memory import MemoryTables
from tests.engine.site_under_test import Lines, MemorySite
from tests.sampling import sampled

HISTORIES = [int(number) for number in os.environ.get("TESTED_HISTORIES", "60,500").split(",")]
BODIES = st.sampled_from([b"one", b"two", b"three", b"four"])
# At which transaction from now on the process dies, and whether that was committed when it did.
Moment = tuple[int, bool]
MOMENTS = st.none() | st.tuples(st.integers(1, 4), st.booleans())
REASONS = st.sampled_from(["it was right", ""])

Count = Callable[..., None]


class Power(BaseException):
    """The process dies."""


class Mortal:
    """Tables whose process dies at a given transaction, and does nothing more until there is another process. To be
    put before a class of tables."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.left = 0  # transactions until it dies; 0: it lives on
        self.committed = False  # is the one at which it dies?
        self.dead = False

    def begin(self, durable: bool = True) -> None:
        if self.dead:
            raise Power
        super().begin(durable)  # type: ignore[misc]

    def commit(self) -> None:
        self.dead = self.left == 1
        self.left = max(0, self.left - 1)
        if self.dead and not self.committed:
            self.rollback()  # type: ignore[attr-defined]
        else:
            super().commit()  # type: ignore[misc]
        if self.dead:
            raise Power

    def die_at(self, moment: Moment | None) -> None:
        self.dead = False
        self.left, self.committed = moment or (0, False)


class InMemory(Mortal, MemoryTables):
    """Such tables in memory."""


class Dying(Lines):
    """Dies in the middle of its only step, once."""

    def __init__(self) -> None:
        super().__init__()
        self.dies = False

    def perform(self, step: Step, read: Reader) -> Output:
        if self.dies:
            self.dies = False
            raise Power
        return super().perform(step, read)


class Histories(RuleBasedStateMachine):
    """The model: what is processed, published and withdrawn, the moves of each, and whether it is frozen."""

    told: ClassVar[int] = 0  # histories in which anything happened
    crashes: ClassVar[Counter[str]] = Counter()  # that fired, by what was going on and how it was found after

    def __init__(self) -> None:
        super().__init__()
        self.site = self.new_site()
        self.tables: Any = self.site.state.tables
        self.updater = Dying()
        self.processed = ""
        self.published = ""
        self.moves: list[str] = []  # where published has been, oldest first
        self.back = False  # was the last move of published a rollback?
        self.promoted: dict[str, int] = {}  # when each version was promoted last
        self.public: set[str] = set()  # published, or superseded by a promotion
        self.withdrawn: set[str] = set()  # left by a rollback to a version that was promoted before
        self.frozen = False
        self.kept = 0  # runs a freeze stopped: their triggers wait
        self.asked: set[bool] = set()  # of runs, forced or not: those that ask the same share one trigger
        self.receipts = 0
        self.bytes_of: dict[str, bytes] = {}

    @initialize(bodies=st.lists(BODIES, min_size=1, max_size=4, unique=True), published=st.booleans())
    def start(self, bodies: list[bytes], published: bool) -> None:
        """In half of the histories there are published versions: few would have come to a rollback otherwise."""
        for body in bodies:
            self.site.shelf.body = body
            if published:
                self.ingest(body, crash=None, force=False)
                self.promote(named=None, reason="", crash=None)

    def new_site(self) -> MemorySite:
        return MemorySite(InMemory())

    def done(self, receipt: Receipt) -> Receipt:
        self.receipts += 1
        assert self.site.state.ledger.receipt(receipt.run_id) == receipt
        return receipt

    def teardown(self) -> None:
        Histories.told += self.receipts > 0

    def despite(self, moment: Moment | None, updater: Updater, action: Callable[[], Receipt]) -> Receipt:
        """What comes of it, if the process dies at that moment and another takes up what it finds."""
        before = len(list(self.site.state.ledger.entries()))
        self.tables.die_at(moment)
        try:
            return action()
        except Power:
            pass
        finally:
            self.tables.die_at(None)
        self.site.begin_again()
        unfinished = list(self.site.state.runs.unfinished())
        ended = list(self.site.state.ledger.entries())[before:]
        assert len(unfinished) + len(ended) <= 1
        Histories.crashes[f"{updater.op}, {'unfinished' if unfinished else 'ended' if ended else 'not begun'}"] += 1
        if ended:
            receipt = self.site.state.ledger.receipt(ended[0].run_id)
            assert receipt is not None
            return receipt
        self.refs_are_where_the_model_says()  # nothing half-done
        if unfinished:
            return run(self.site.context(unfinished[0].trigger, updater, unfinished[0]))
        return action()

    def operate(
        self, moment: Moment | None, name: str, dataset: str = "demo", reason: str = "", **params: str
    ) -> Receipt:
        updater = operations()[name]()
        return self.done(self.despite(moment, updater, lambda: self.site.operate(name, dataset, reason, **params)))

    def moved(self, version: str, op: str) -> None:
        """Published moved: only a rollback withdraws, and it withdraws all that was promoted after its version."""
        self.published = version
        self.moves.append(version)
        self.back = op == "rollback"
        if not self.back:
            self.promoted[version] = len(self.moves)
        else:
            gone = {each for each in self.public if self.promoted[each] > self.promoted[version]}
            self.public -= gone
            self.withdrawn |= gone
        self.public.add(version)
        self.withdrawn.discard(version)

    def note_version(self) -> None:
        self.processed = self.site.state.refs.at("processed/demo")
        assert self.bytes_of.setdefault(self.processed, self.site.shelf.body) == self.site.shelf.body

    @rule(body=BODIES, crash=st.just("step") | MOMENTS, force=st.booleans())
    def ingest(self, body: bytes, crash: str | Moment | None, force: bool) -> None:
        self.site.shelf.body = body
        before = self.processed
        if isinstance(crash, str):
            self.updater.dies = True
            try:
                receipt = self.site.run(self.updater, force=force, reason="again")
            except Power:
                Histories.crashes["ingest, in a step"] += 1
                assert self.site.state.refs.at("processed/demo") == before  # nothing half-published
                receipt = self.site.run(self.updater, reason="again")
                assert receipt.outcome in ("done", "unchanged")
            self.updater.dies = False
        else:
            receipt = self.despite(
                crash, self.updater, lambda: self.site.run(self.updater, force=force, reason="again")
            )
        self.done(receipt)
        if self.frozen:
            assert receipt.outcome == "frozen" and receipt.status == "SKIPPED"
            assert self.site.state.refs.at("processed/demo") == before
            self.kept += force not in self.asked
            self.asked.add(force)
            return
        self.note_version()
        assert self.site.content("processed/demo") == {"all": body}
        if self.processed == before:
            assert receipt.outcome in ("noop", "unchanged")
            assert not force or receipt.outcome == "unchanged"
        else:
            assert receipt.outcome == "done"

    @rule(named=st.none() | st.integers(0, 4), reason=REASONS, crash=MOMENTS)
    def promote(self, named: int | None, reason: str, crash: Moment | None) -> None:
        """Without a name, as after a run, the processed version is promoted unless it was withdrawn."""
        known = [self.processed, *sorted(self.withdrawn - {self.processed})]
        name = "" if named is None else known[named % len(known)]
        target = name or self.processed
        receipt = self.operate(crash, "promote", reason=reason, **({"to": name} if name else {}))
        if not target or (target in self.withdrawn and not (name and reason)):
            assert receipt.status == "FAILED"
        elif self.frozen:
            assert receipt.outcome == "frozen"
            self.kept += 1
        elif self.published == target:
            assert receipt.outcome in ("noop", "unchanged")
        else:
            assert receipt.outcome == "done"
            self.moved(target, "promote")

    @rule(back=st.integers(0, 4), reason=REASONS, crash=MOMENTS)
    def roll_back(self, back: int, reason: str, crash: Moment | None) -> None:
        before = self.published
        named = {}
        if back and self.moves:
            named["to"] = self.moves[back % len(self.moves)]
        receipt = self.operate(crash, "rollback", reason=reason, **named)
        target = named.get("to") or (self.moves[-2] if len(self.moves) > 1 and not self.back else "")
        if not target or (target in self.withdrawn and not reason):
            assert receipt.status == "FAILED"
        elif self.frozen:
            assert receipt.outcome == "frozen"
            self.kept += 1
        elif target == before:
            assert receipt.outcome in ("noop", "unchanged")
        else:
            assert receipt.outcome == "done"
            self.moved(target, "rollback")
            # The same request again does nothing; the way forward needs the name, and restores the very same.
            if not named:
                assert self.done(self.site.operate("rollback")).outcome == "failed"
                assert self.site.state.refs.at("published/demo") == target
            if self.processed in self.withdrawn:  # no promotion brings it back unless its name is given
                assert self.done(self.site.operate("promote", reason="as ever")).outcome == "failed"
            self.roll_back_to(before)
            self.roll_back_to(target)

    def roll_back_to(self, version: str) -> None:
        """A withdrawn version needs a reason; every other one needs none."""
        if version in self.withdrawn:
            assert self.done(self.site.operate("rollback", to=version)).outcome == "failed"
            assert self.site.state.refs.at("published/demo") == self.published
        reason = "it was right" if version in self.withdrawn else ""
        assert self.done(self.site.operate("rollback", reason=reason, to=version)).outcome == "done"
        assert self.site.state.refs.at("published/demo") == version
        self.moved(version, "rollback")

    @rule(scope=st.sampled_from(["global", "demo"]), thaw=st.booleans(), crash=MOMENTS)
    def switch(self, scope: str, thaw: bool, crash: Moment | None) -> None:
        self.operate(crash, "thaw" if thaw else "freeze", scope, scope=scope)
        switches = [self.site.state.refs.at("switch/global"), self.site.state.refs.at("switch/dataset/demo")]
        self.frozen = "frozen" in switches

    @rule(body=BODIES)
    def freeze_in_the_middle(self, body: bytes) -> None:
        """A freeze that comes while a step runs stops the run before its commit; thawed, it is resumed."""
        if self.frozen:
            return
        site, before = self.site, self.processed
        site.shelf.body = body

        class Freezing(Lines):
            def perform(self, step: Step, read: Reader) -> Output:
                site.operate("freeze", dataset="demo", scope="demo")
                return super().perform(step, read)

        updater = Freezing()
        try:
            receipt = site.run(updater, reason="x", force=True)
            raise AssertionError(f"it was not stopped: {receipt.outcome}")
        except Frozen:
            assert site.state.refs.at("processed/demo") == before
        self.receipts += 1  # of the freeze
        self.done(site.operate("thaw", dataset="demo", scope="demo"))
        self.done(site.run(self.updater))
        self.note_version()

    @invariant()
    def refs_are_where_the_model_says(self) -> None:
        state = self.site.state
        assert state.refs.at("processed/demo") == self.processed
        assert state.refs.at("published/demo") == self.published
        assert [entry.after for entry in state.refs.history("published/demo")] == self.moves
        if self.published:
            assert self.site.content("published/demo") == {"all": self.bytes_of[self.published]}

    @invariant()
    def every_run_left_one_receipt_and_one_link(self) -> None:
        entries = list(self.site.state.ledger.entries())
        assert len(entries) == self.receipts == len({entry.run_id for entry in entries})
        assert len(list(self.site.state.inbox.waiting())) == self.kept
        assert not list(self.site.state.runs.unfinished())


@pytest.mark.parametrize("histories", sampled(HISTORIES))
def test_any_history_agrees_with_the_model(histories: int, count: Count) -> None:
    agree_with_the_model(Histories, histories, count)
    assert Histories.crashes["ingest, in a step"]
    for word in ("ingest", "promote", "rollback", "freeze", "thaw", "not begun", "unfinished", "ended"):
        assert any(word in name for name in Histories.crashes), f"{word}: no process died so"


def agree_with_the_model(machine: type[Histories], histories: int, count: Count) -> None:
    Histories.told = 0
    Histories.crashes.clear()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories + histories // 20 + 1,  # in a few nothing happens
            stateful_step_count=14,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=bool(os.environ.get("CI")),
        ),
    )
    told, crashes = Histories.told, Histories.crashes
    print(f"rollback: {told} histories, {crashes.total()} crashes, 0 differences; {dict(sorted(crashes.items()))}")
    assert told >= histories
    count("histories of publishing and rolling back", told)
    count("crashes in them", crashes.total())


def test_ingest_rollback_ingest_is_ingest() -> None:
    site = MemorySite()
    updater = Lines()
    site.shelf.body = b"first"
    site.run(updater)
    first = site.state.refs.at("processed/demo")
    site.shelf.body = b"second"
    site.run(updater)
    second = site.state.refs.at("processed/demo")
    site.operate("rollback", ref="processed/demo")
    assert site.state.refs.at("processed/demo") == first
    receipt = site.run(updater)  # the same key is committed, but what it made is no longer live
    assert receipt.outcome == "done"
    assert site.state.refs.at("processed/demo") == second
    assert site.run(updater).outcome == "noop"
