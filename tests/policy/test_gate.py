"""The gate that is decided by the policies opens for exactly what the least checklist opens for, and says the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import Corrupt, Unavailable
from kfm.model.records import DatasetVersion, RefMove
from kfm.policy import promotion_gate
from kfm.policy.decision import Decider, over_http
from kfm.policy.policy_bundle import shipped
from tests.engine.site_under_test import Lines, MemorySite
from tests.policy import checklist
from tests.policy.servers import free_port
from tests.sampling import tries

SHA = "sha256:" + "0" * 64
TEXTS = st.sampled_from(["", " ", "x", "MIT", "public", "restricted", None, 1, True, ["public"]])
COUNTS = st.integers(-1, 3)
HASHES = st.sampled_from(["", SHA, "sha256:x", "sha256:" + "g" * 64])
MARKS = st.sampled_from(["unheld/KS", "unheld/", "restricted/KS", "restricted/"])
METADATA = st.fixed_dictionaries({}, optional=dict.fromkeys(("title", "license", "sensitivity"), TEXTS))
PUBLIC = {"title": "x", "license": "MIT", "sensitivity": "public"}


@pytest.fixture(scope="module")
def made() -> tuple[MemorySite, RefMove]:
    site = MemorySite()
    site.run(Lines())
    return site, RefMove(ref="published/demo", before="", after=site.state.refs.at("processed/demo"))


def both(site: MemorySite, move: RefMove, declared: Any = None, **options: Any) -> tuple[Any, Any]:
    old = checklist.promotion_gate(site.state, site.world.objects, move, declared, **options)
    new = promotion_gate.promotion_gate(site.state, site.world.objects, move, declared, **options)
    assert new.policy_digest == shipped().digest and new.gate == old.gate and new.subject == old.subject
    assert new.allow is old.allow and bool(new.reasons) is not new.allow
    return old, new


class Tampered:
    """A ledger whose version and receipt say other things than they did."""

    def __init__(self, real: Any, version: dict[str, Any], receipt: dict[str, Any] | None) -> None:
        self._real, self._version, self._receipt = real, version, receipt

    def version(self, dataset: str, digest: str) -> DatasetVersion | None:
        found = self._real.version(dataset, digest)
        return None if found is None else msgspec.structs.replace(found, **self._version)

    def receipt(self, run_id: str) -> Any:
        found = self._real.receipt(run_id)
        return None if found is None or self._receipt is None else msgspec.structs.replace(found, **self._receipt)

    def telemetry(self, run_id: str) -> Any:
        return self._real.telemetry(run_id)


class StateOf:
    def __init__(self, site: MemorySite, version: dict[str, Any], receipt: dict[str, Any] | None) -> None:
        self.ledger = Tampered(site.state.ledger, version, receipt)
        self.runs = site.state.runs


VERSIONS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": METADATA | st.just(PUBLIC),
        "validation": st.dictionaries(st.sampled_from(["sources", "contracts"]) | MARKS, COUNTS, max_size=4),
        "plan_hash": HASHES,
        "input_hash": HASHES,
        "updater_version": st.sampled_from(["", "1.0.0"]),
        "digest": st.just(SHA),
    },
)
RECEIPTS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(["SUCCESS", "FAILED", "SKIPPED"]),
        "dry_run": st.booleans(),
        "outputs": st.just([]),
    },
)


@settings(max_examples=tries(300), deadline=None)
@given(version=VERSIONS, receipt=RECEIPTS, declared=st.none() | METADATA | st.just(PUBLIC))
def test_whatever_the_state_says_both_say_the_same(
    made: tuple[MemorySite, RefMove], version: Any, receipt: Any, declared: Any
) -> None:
    site, move = made
    state: Any = StateOf(site, version, receipt)
    old = checklist.promotion_gate(state, site.world.objects, move, declared)
    new = promotion_gate.promotion_gate(state, site.world.objects, move, declared)
    assert new.allow is old.allow
    # Where the sensitivity of today is no word at all, only that is told; what else is wrong with it follows.
    if "metadata: sensitivity is not declared" in new.reasons:
        told = [{text for text in said.reasons if "sensitivity" not in text} for said in (old, new)]
        assert told[0] == told[1]
    else:
        assert sorted(new.reasons) == sorted(old.reasons)


def test_a_complete_version_passes_both(made: tuple[MemorySite, RefMove]) -> None:
    assert both(*made)[1].allow is True
    assert both(*made, PUBLIC, read=False)[1].allow is True


def test_a_version_without_a_run_passes_neither(made: tuple[MemorySite, RefMove]) -> None:
    site, move = made
    old, new = both(site, msgspec.structs.replace(move, after=SHA))
    assert new.reasons == old.reasons


@pytest.mark.parametrize("problem", [Corrupt("object is missing"), Unavailable("later")], ids=repr)
def test_objects_that_cannot_be_read_pass_neither(
    made: tuple[MemorySite, RefMove], problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, move = made
    real = type(site.world.objects).open

    def gone(objects: Any, name: str) -> Any:
        if name == move.after:
            return real(objects, name)
        raise problem

    monkeypatch.setattr(type(site.world.objects), "open", gone)
    old, new = both(site, move)
    assert new.reasons == old.reasons


def test_a_server_that_is_down_lets_nothing_pass(made: tuple[MemorySite, RefMove]) -> None:
    site, move = made
    down: Decider = over_http(f"http://127.0.0.1:{free_port()}")
    decision = promotion_gate.promotion_gate(site.state, site.world.objects, move, decider=down)
    assert decision.allow is False and decision.reasons == ["engine: the policy server does not answer"]
