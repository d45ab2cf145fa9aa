"""Counts of operations, folded from the ledger one entry at a time, and the metrics that show them. Pure.

The counts after an entry depend on the entries up to it and on nothing else, so they may be kept and continued.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.model.records import JOULES_PER_KWH
from kfm.model.reports.energy_method import method_of
from kfm.projections.signals import Histogram, Metric, final_state

if TYPE_CHECKING:
    from kfm.model.records import LedgerEntry, RunTelemetry

BOUNDS_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
OTHER = "other"  # a label in place of a name that is not in the closed list
OUTCOMES = (
    "done", "noop", "unchanged", "merged", "frozen", "held", "denied", "escalated", "cancelled", "failed", "abandoned",
    "superseded",
)  # fmt: skip
BUILDING = ("ingest", "job")  # the operations that build data; all others move refs
BAD = ("failed", "held", "denied", "escalated", "abandoned", "cancelled")
FORM = 2  # of LedgerCounts
_WH_PER_KWH = 1000


class EntryFacts(NamedTuple):
    """Facts about an entry that are looked up only if they count."""

    at_ms: Callable[[], int]  # when it was appended
    is_preview: Callable[[], bool]  # whether it is a run of a branch preview, which says nothing about the installation


class OperationCounts(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The counts of one kind of operation."""

    outcomes: dict[str, int] = {}
    latency_ms: int = 0  # of the last one, since its request
    latency_sum_ms: int = 0
    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))  # latencies
    retries: int = 0  # repeated attempts of steps, and resumed runs
    wal_entries: int = 0  # journals that the ledger names
    care_flags: int = 0  # rules of protection that the ledger names
    escalations: int = 0  # ended because a community must decide
    moves: int = 0  # moved refs
    energy_wh: float | None = None  # None: never measured or estimated
    carbon_g: float | None = None


class LedgerCounts(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """All counts up to one entry of the ledger."""

    index: int = 0  # of that entry
    link: str = ""  # the digest of its stored bytes
    ops: dict[str, OperationCounts] = {}
    states: dict[str, dict[str, int]] = {}  # ended runs by dataset and lifecycle state
    joules: dict[str, float] = {}  # of runs whose energy is known, by method
    grams: dict[str, float] = {}  # of CO2e, where it is known, by the method of the energy
    form: int = 1  # FORM: what is counted; notes of another form are counted again

    def add(
        self,
        entry: LedgerEntry,
        telemetry: RunTelemetry | None,
        facts: EntryFacts | None = None,  # noqa: ARG002
    ) -> None:
        """Count the next entry. Each entry is counted once, in the order of the ledger."""
        state = final_state(entry.outcome, "FAILED" if entry.outcome in BAD else "SUCCESS")
        if state != "queued":
            states = self.states.setdefault(entry.dataset, {})
            states[state] = states.get(state, 0) + 1
        found = self.ops.get(entry.op_type)
        if found is None:
            found = self.ops[entry.op_type] = OperationCounts()
        found.outcomes[entry.outcome] = found.outcomes.get(entry.outcome, 0) + 1
        found.wal_entries += len(entry.wal_ids)
        found.moves += len(entry.moves)
        found.escalations += entry.outcome == "escalated"
        if entry.governed is not msgspec.UNSET:
            found.care_flags += len(entry.governed.findings)
        if telemetry is None:
            return
        found.retries += telemetry.retries + telemetry.wal_replay_count
        found.latency_ms = telemetry.latency_ms
        found.latency_sum_ms += telemetry.latency_ms
        seconds = telemetry.latency_ms / 1000
        found.buckets[next((n for n, bound in enumerate(BOUNDS_S) if seconds <= bound), len(BOUNDS_S))] += 1
        method = method_of(telemetry.energy_method, telemetry.energy_kwh)
        if telemetry.energy_kwh is not None:
            found.energy_wh = (found.energy_wh or 0.0) + telemetry.energy_kwh * _WH_PER_KWH
            joules = telemetry.energy_kwh * JOULES_PER_KWH
            self.joules[method] = self.joules.get(method, 0.0) + joules
        if telemetry.co2e_g is not None:
            found.carbon_g = (found.carbon_g or 0.0) + telemetry.co2e_g
            self.grams[method] = self.grams.get(method, 0.0) + telemetry.co2e_g


def operation_metrics(counts: LedgerCounts, operations: Collection[str]) -> Iterator[Metric | Histogram]:
    """Yield the metrics by operation: the names that the specification of operations gives, and the usual ones of
    Prometheus next to them. `operations` is the closed list of labels. Unknown energy and carbon is left out."""
    by_op: dict[str, OperationCounts] = {name: OperationCounts() for name in operations}
    for name in sorted(counts.ops):
        _merge(by_op.setdefault(name if name in operations else OTHER, OperationCounts()), counts.ops[name])
    rows = sorted(by_op.items())

    def samples(field: str, factor: float = 1.0) -> list[tuple[dict[str, str], float]]:
        found = [(name, getattr(each, field)) for name, each in rows]
        return [({"op": name}, value * factor) for name, value in found if value is not None]

    seen = [(name, each) for name, each in rows if sum(each.buckets)]
    last = [({"op": name}, float(each.latency_ms)) for name, each in seen]
    yield Metric("kfm_ops_latency_ms", "gauge", "time from request to end of the last operation", last)
    yield Metric("kfm_ops_retry_count", "gauge", "repeated attempts and resumed runs so far", samples("retries"))
    yield Metric("kfm_ops_wal_entries", "gauge", "journals that ledger entries name", samples("wal_entries"))
    yield Metric("kfm_ops_care_flags", "gauge", "rules of protection in ledger entries", samples("care_flags"))
    about = "operations that ended because a community must decide"
    yield Metric("kfm_ops_sovereignty_escalations", "gauge", about, samples("escalations"))
    yield Metric("kfm_ops_energy_wh", "gauge", "energy of operations; absent while unknown", samples("energy_wh"))
    yield Metric("kfm_ops_carbon_gco2e", "gauge", "carbon of operations; absent while unknown", samples("carbon_g"))
    yield Metric("kfm_ops_lineage_delta", "gauge", "refs that operations have moved so far", samples("moves"))
    yield Metric("kfm_operations_total", "counter", "ended operations by outcome", _outcomes(rows))
    yield Metric("kfm_operation_retries_total", "counter", "repeated attempts and resumed runs", samples("retries"))
    yield Metric("kfm_operation_moves_total", "counter", "refs that operations moved", samples("moves"))
    energy = samples("energy_wh", 3600.0)
    yield Metric("kfm_operation_energy_joules_total", "counter", "energy of operations; absent while unknown", energy)
    about = "energy of all runs by its method; absent while unknown"
    yield Metric("kfm_energy_joules_total", "counter", about, _by_method(counts.joules))
    about = "carbon of all runs by the method of their energy; absent while unknown"
    yield Metric("kfm_co2e_grams_total", "counter", about, _by_method(counts.grams))
    durations = [({"op": name}, tuple(each.buckets), each.latency_sum_ms / 1000) for name, each in seen]
    yield Histogram("kfm_operation_latency_seconds", "time from request to end of operations", BOUNDS_S, durations)


def _by_method(sums: Mapping[str, float]) -> list[tuple[dict[str, str], float]]:
    return [({"method": method}, value) for method, value in sorted(sums.items())]


def _outcomes(rows: Iterable[tuple[str, OperationCounts]]) -> list[tuple[dict[str, str], float]]:
    """Return the samples of outcomes. `done` and `failed` are there before the first, so that a rate sees it."""
    samples = []
    for name, each in rows:
        found = {"done": 0, "failed": 0}
        for outcome, count in sorted(each.outcomes.items()):
            word = outcome if outcome in OUTCOMES else OTHER
            found[word] = found.get(word, 0) + count
        samples += [({"op": name, "outcome": word}, float(count)) for word, count in sorted(found.items())]
    return samples


def _merge(into: OperationCounts, other: OperationCounts) -> None:
    for outcome, count in other.outcomes.items():
        into.outcomes[outcome] = into.outcomes.get(outcome, 0) + count
    into.latency_ms = other.latency_ms
    into.buckets = [one + two for one, two in zip(into.buckets, other.buckets, strict=True)]
    for field in ("latency_sum_ms", "retries", "wal_entries", "care_flags", "escalations", "moves"):
        setattr(into, field, getattr(into, field) + getattr(other, field))
    for field in ("energy_wh", "carbon_g"):
        values = [value for value in (getattr(into, field), getattr(other, field)) if value is not None]
        setattr(into, field, sum(values) if values else None)


def lifecycle(
    counts: LedgerCounts, now: Mapping[tuple[str, str], int], datasets: Collection[str]
) -> list[tuple[dict[str, str], float]]:
    """Return the samples of runs by dataset and state: ended ones in total, and those of `now`. A name that is not in
    `datasets` is counted as `other`."""
    found: dict[tuple[str, str], int] = {}
    for name, states in counts.states.items():
        label = name if name in datasets else OTHER
        for state, count in states.items():
            found[label, state] = found.get((label, state), 0) + count
    for (name, state), count in now.items():
        label = name if name in datasets else OTHER
        found[label, state] = found.get((label, state), 0) + count
    return [({"dataset": name, "state": state}, float(count)) for (name, state), count in sorted(found.items())]
