"""Publish, promote, roll back, freeze, crash, in any order, against a small model."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from kfm.contract.records import Receipt, Step
from kfm.contract.updater import Output, Reader
from kfm.errors import Frozen
from tests.walk.site_under_test import Lines, MemorySite

HISTORIES = int(os.environ.get("KFM_HISTORIES", "500"))
BODIES = st.sampled_from([b"one", b"two", b"three", b"four"])


class Power(BaseException):
    """The process dies."""


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
    """The model: what is processed, what is published, the moves of each, and whether it is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.site = MemorySite()
        self.updater = Dying()
        self.processed = ""
        self.published = ""
        self.moves: list[str] = []  # where published has been, oldest first
        self.frozen = False
        self.kept = 0  # runs a freeze stopped: their triggers wait
        self.receipts = 0
        self.bytes_of: dict[str, bytes] = {}

    @initialize(body=BODIES)
    def start(self, body: bytes) -> None:
        self.site.shelf.body = body

    def done(self, receipt: Receipt) -> Receipt:
        self.receipts += 1
        assert self.site.state.receipt(receipt.run_id) == receipt
        return receipt

    def note_version(self) -> None:
        self.processed = self.site.state.ref("processed/demo")
        assert self.bytes_of.setdefault(self.processed, self.site.shelf.body) == self.site.shelf.body

    @rule(body=BODIES, crash=st.booleans(), force=st.booleans())
    def ingest(self, body: bytes, crash: bool, force: bool) -> None:
        self.site.shelf.body = body
        before = self.processed
        if crash:
            self.updater.dies = True
            try:
                receipt = self.site.run(self.updater, force=force, reason="again")
            except Power:
                assert self.site.state.ref("processed/demo") == before  # nothing half-published
                receipt = self.site.run(self.updater, reason="again")
                assert receipt.outcome in ("done", "unchanged")
            self.updater.dies = False
        else:
            receipt = self.site.run(self.updater, force=force, reason="again")
        self.done(receipt)
        if self.frozen:
            assert receipt.outcome == "frozen" and receipt.status == "SKIPPED"
            assert self.site.state.ref("processed/demo") == before
            self.kept += 1
            return
        self.note_version()
        assert self.site.content("processed/demo") == {"all": body}
        if self.processed == before:
            assert receipt.outcome in ("noop", "unchanged")
            assert not force or receipt.outcome == "unchanged"
        else:
            assert receipt.outcome == "done"

    @rule()
    def promote(self) -> None:
        receipt = self.done(self.site.operate("promote"))
        if self.frozen and self.processed:
            assert receipt.outcome == "frozen"
            self.kept += 1
        elif not self.processed:
            assert receipt.status == "FAILED"
        elif self.published == self.processed:
            assert receipt.outcome in ("noop", "unchanged")
        else:
            assert receipt.outcome == "done"
            self.published = self.processed
            self.moves.append(self.published)

    @rule(back=st.integers(0, 4))
    def roll_back(self, back: int) -> None:
        before = self.published
        named = {}
        if back and self.moves:
            named["to"] = self.moves[back % len(self.moves)]
        receipt = self.done(self.site.operate("rollback", **named))
        target = named.get("to") or (self.moves[-2] if len(self.moves) > 1 else "")
        if not self.moves or not target:
            assert receipt.status == "FAILED"
        elif self.frozen:
            assert receipt.outcome == "frozen"
            self.kept += 1
        elif target == before:
            assert receipt.outcome in ("noop", "unchanged")
        else:
            assert receipt.outcome == "done"
            self.published = target
            self.moves.append(target)
            # A rollback of the rollback restores the very same.
            self.done(self.site.operate("rollback"))
            assert self.site.state.ref("published/demo") == before
            self.done(self.site.operate("rollback"))
            assert self.site.state.ref("published/demo") == target
            self.moves += [before, target]

    @rule(scope=st.sampled_from(["global", "demo"]), thaw=st.booleans())
    def switch(self, scope: str, thaw: bool) -> None:
        self.done(self.site.operate("thaw" if thaw else "freeze", dataset=scope, scope=scope))
        switches = [self.site.state.ref("switch/global"), self.site.state.ref("switch/dataset/demo")]
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
            assert site.state.ref("processed/demo") == before
        self.receipts += 1  # of the freeze
        self.done(site.operate("thaw", dataset="demo", scope="demo"))
        self.done(site.run(self.updater))
        self.note_version()

    @invariant()
    def refs_are_where_the_model_says(self) -> None:
        state = self.site.state
        assert state.ref("processed/demo") == self.processed
        assert state.ref("published/demo") == self.published
        assert [entry.after for entry in state.history("published/demo")] == self.moves
        if self.published:
            assert self.site.content("published/demo") == {"all": self.bytes_of[self.published]}

    @invariant()
    def every_run_left_one_receipt_and_one_link(self) -> None:
        entries = list(self.site.state.ledger())
        assert len(entries) == self.receipts == len({entry.run_id for entry in entries})
        assert len(list(self.site.state.inbox())) == self.kept
        assert not list(self.site.state.open_runs())


def test_any_history_agrees_with_the_model() -> None:
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=14,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=bool(os.environ.get("CI")),
        ),
    )
    print(f"rollback: {HISTORIES} histories, 0 differences")


def test_ingest_rollback_ingest_is_ingest() -> None:
    site = MemorySite()
    updater = Lines()
    site.shelf.body = b"first"
    site.run(updater)
    first = site.state.ref("processed/demo")
    site.shelf.body = b"second"
    site.run(updater)
    second = site.state.ref("processed/demo")
    site.operate("rollback", ref="processed/demo")
    assert site.state.ref("processed/demo") == first
    receipt = site.run(updater)  # the same key is committed, but what it made is no longer live
    assert receipt.outcome == "done"
    assert site.state.ref("processed/demo") == second
    assert site.run(updater).outcome == "noop"
