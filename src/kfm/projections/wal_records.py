"""The write-ahead log as single records, and their export. A stored segment holds several of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any

from kfm import DISTRIBUTION
from kfm.errors import BadInput, Unavailable
from kfm.model.canonical import canonical
from kfm.model.outbox_messages import Completion, PendingRun
from kfm.model.records import Phase, Run, Segment, Step, StepStatus, WalRecord

FORMATS = ("json", "avro", "parquet")


class _Names:
    """The ids of steps by position. Those after the last one that was wanted are not read."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = iter(steps)
        self._read: list[str] = []

    def __getitem__(self, position: int) -> str:
        if position >= len(self._read):
            self._read.extend(step.id for step in islice(self._steps, position + 1 - len(self._read)))
        return self._read[position]


def wal_records(
    run: Run, steps: Iterable[Step], segments: Iterable[Segment], sinks: PendingRun | Completion | None = None
) -> Iterator[WalRecord]:
    """Yield the write-ahead log of a run as records, in the order they became durable. `seq` counts from 1 without a
    gap. `sinks` says which sinks must follow the run, or have followed it.

    LINEAGE is PENDING for each sink from the commit on, and DONE for the run when the last one has followed."""
    names = _Names(steps)
    seq = 0
    expected: list[str] = []  # the sinks that must follow the run

    def fact(phase: Phase, step_id: str, status: StepStatus, ts: str, payload: dict[str, Any]) -> WalRecord:
        nonlocal seq
        seq += 1
        return WalRecord(
            wal_id=run.run_id,
            seq=seq,
            phase=phase,
            step_id=step_id,
            updater_id=run.updater_id,
            updater_version=run.updater_version,
            input_hash=run.input_hash,
            payload=payload,
            status=status,
            ts=ts,
        )

    for segment in segments:
        ts = segment.ts
        if "PLAN" in segment.phases:
            yield fact("PLAN", "", "DONE", ts, segment.payload)
        made_here = {position for position, *_ in segment.done}
        again = [each for each in segment.failed if each[0] in made_here]  # failed, tried again and then done
        for position, code in again:
            yield fact("EXECUTE", names[position], "FAILED", ts, {"code": code})
        for position, digest, size, media_type in segment.done:
            made = {"digest": digest, "size": size, "media_type": media_type}
            yield fact("EXECUTE", names[position], "DONE", ts, made)
        for position, code in segment.failed:
            if position in made_here:
                continue
            yield fact("EXECUTE", names[position], "FAILED", ts, {"code": code})
        for first, end in segment.intent:
            for position in range(first, end):
                yield fact("EXECUTE", names[position], "IN_PROGRESS", ts, {"plan_hash": segment.plan_hash})
        for phase in segment.then:
            yield fact(phase, "", "IN_PROGRESS", ts, {"plan_hash": segment.plan_hash})
        if "UPSERT" in segment.phases:
            expected = segment.payload.get("sinks", [])
            payload = {name: each for name, each in segment.payload.items() if name != "sinks"}
            yield fact("UPSERT", "", "DONE", ts, payload)
        if "LINEAGE" in segment.phases:
            for sink in expected:
                yield fact("LINEAGE", sink, "PENDING", ts, {})
            if not expected:
                yield fact("LINEAGE", "", "DONE", ts, {})
        if "ended" in segment.payload:
            yield fact("PLAN", "", "FAILED", ts, segment.payload["ended"])
    if sinks is None:
        return
    for each in sinks.followed:
        yield fact("LINEAGE", each.sink, "DONE", each.at, {})
    if isinstance(sinks, Completion):
        for sink in sinks.removed:
            yield fact("LINEAGE", sink, "FAILED", sinks.completed_at, {"code": "removed"})
        yield fact("LINEAGE", "", "DONE", sinks.completed_at, {"receipt": sinks.receipt})


def export(records: Iterable[WalRecord], form: str, out: IO[bytes]) -> int:
    """Write the records in one of FORMATS and return their number. In Avro and Parquet `payload` is canonical JSON
    text.
    """
    if form == "json":
        count = 0
        for record in records:
            out.write(canonical(record) + b"\n")
            count += 1
        return count
    if form not in FORMATS:
        raise BadInput(f"the log cannot be exported as {form!r}", hint="choose json, avro or parquet")
    rows = [_row(record) for record in records]
    try:
        if form == "avro":
            import fastavro

            fastavro.writer(out, _AVRO, rows, codec="deflate", sync_marker=bytes(16))
        else:
            import pyarrow
            import pyarrow.parquet

            fields = [(f["name"], pyarrow.int64() if f["type"] == "long" else pyarrow.string()) for f in _FIELDS]
            table = pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(fields))
            pyarrow.parquet.write_table(table, out)
    except ModuleNotFoundError as problem:
        raise Unavailable(
            f"exporting as {form} needs a library that is not installed", hint=f"pip install '{DISTRIBUTION}[export]'"
        ) from problem
    return len(rows)


_FIELDS = [
    {"name": name, "type": "long" if name == "seq" else "string"}
    for name in (
        "wal_id", "seq", "phase", "step_id", "updater_id", "updater_version", "input_hash", "payload", "status", "ts",
    )
]  # fmt: skip
_AVRO = {"type": "record", "name": "WalRecord", "namespace": "org.kfm", "fields": _FIELDS}


def _row(record: WalRecord) -> dict[str, Any]:
    row = {field["name"]: getattr(record, field["name"]) for field in _FIELDS}
    row["payload"] = canonical(record.payload).decode()
    return row
