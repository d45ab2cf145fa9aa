"""A source with many partitions is read once, by every engine, and each step gets its own rows."""

from __future__ import annotations

import io
import json
import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kfm.engine.step_reader import StepReader
from kfm.model.keys import digest
from kfm.model.records import DataContract, Layout, SourceRef, Step
from kfm.model.transform_config import OutputConfig
from kfm.parsing import arrow
from kfm.updaters.transforms import csv_arrow
from kfm.updaters.transforms.partition_spool import PartitionSpool
from kfm.updaters.transforms.transform_updater import DeclaredUpdater

KEYS, ROWS = 120, 3
TABLE = [{"id": 1000 + n, "key": f"k{(n * 7) % KEYS:03d}", "text": f'a "{n}", b'} for n in range(KEYS * ROWS)]
SORTED = [{"sort": [{"column": "id", "descending": True}]}]


def csv_of(rows: list[dict[str, Any]], *, odd: bool) -> bytes:
    if not odd:
        return b"id,key,text\n" + b"".join(f"{row['id']},{row['key']},x\n".encode() for row in rows)
    doubled = [(row["id"], row["key"], row["text"].replace('"', '""')) for row in rows]
    return b"id,key,text\n" + b"".join(f'{id_},{key},"{text}"\n'.encode() for id_, key, text in doubled)


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    into = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), into)
    return into.getvalue()


def ndjson_of(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


ENGINES: dict[str, tuple[str, bytes, str, list[dict[str, Any]]]] = {
    "a table": ("csv", csv_of(TABLE, odd=True), "csv", []),
    "a table with steps": ("csv", csv_of(TABLE, odd=True), "csv", SORTED),
    "a table as JSON": ("csv", csv_of(TABLE, odd=True), "ndjson", []),
    "a large plain table": ("csv", csv_of(TABLE, odd=False), "csv", SORTED),
    "records": ("ndjson", ndjson_of(TABLE), "ndjson", []),
    "columns": ("parquet", parquet_of(TABLE), "parquet", []),
    "columns as a table": ("parquet", parquet_of(TABLE), "csv", [{"select": ["id", "key"]}]),
}


class Counted(io.BytesIO):
    """A body that counts the bytes that are read from it."""

    def __init__(self, body: bytes, count: list[int]) -> None:
        super().__init__(body)
        self._count = count

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._count[0] += len(found)
        return found

    def __next__(self) -> bytes:
        found = super().__next__()
        self._count[0] += len(found)
        return found


def made(format_: str, body: bytes, wanted: str, steps: list[dict[str, Any]], keys: list[str]) -> tuple[Any, int]:
    """Return the output of each partition, and how many bytes of the source were read for all of them."""
    count = [0]
    declared = {"from": "rows", "partition_by": "key", "steps": steps, "format": wanted}
    output = msgspec.convert(declared, OutputConfig)
    updater = DeclaredUpdater("case", "1.0.0", {"out": output}, {"rows": DataContract(format=format_)})
    source = SourceRef(uri="rows", name="rows", content_hash=digest(body), size=len(body), layout=Layout())
    world: Any = SimpleNamespace(
        objects=SimpleNamespace(open=lambda _name: Counted(body, count)),
        settings=SimpleNamespace(dry_run=True), datasets={}, scratch=io.BytesIO,
    )  # fmt: skip
    read = StepReader(world, [source], None, None)  # type: ignore[arg-type]
    found = {}
    for key in keys:
        step = Step(id=key, key=("out", key), params={"output": "out", "partition": key})
        answer = updater.perform(step, read).body
        found[key] = answer if isinstance(answer, bytes) else b"".join(answer)
    return found, count[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_partitions_read_their_source_no_more_than_a_few_do(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_arrow, "LEAST", 0)
    monkeypatch.setattr(arrow, "BATCH", 50)
    format_, body, wanted, steps = ENGINES[engine]
    keys = sorted({row["key"] for row in TABLE})
    many, read = made(format_, body, wanted, steps, keys)
    alone, least = made(format_, body, wanted, steps, keys[:1])
    assert read == least <= 3 * len(body)
    assert many[keys[0]] == alone[keys[0]]


@pytest.mark.parametrize("engine", ENGINES)
def test_each_partition_has_its_own_rows_in_the_order_of_the_source(engine: str) -> None:
    format_, body, wanted, steps = ENGINES[engine]
    keys = sorted({row["key"] for row in TABLE})
    found, _ = made(format_, body, wanted, steps, keys)
    order = sorted(TABLE, key=lambda row: -row["id"] if steps == SORTED else row["id"])
    for key in keys:
        ids = [row["id"] for row in order if row["key"] == key]
        assert _ids(found[key], wanted) == ids


def _ids(body: bytes, format_: str) -> list[int]:
    if format_ == "csv":
        return [int(line.split(b",")[0]) for line in body.splitlines()[1:]]
    if format_ == "ndjson":
        return [int(json.loads(line)["id"]) for line in body.splitlines()]
    import pyarrow.parquet as pq

    return [int(value) for value in pq.read_table(io.BytesIO(body)).column("id").to_pylist()]


def test_rows_that_do_not_fit_into_memory_are_grouped_on_disk() -> None:
    files: list[io.BytesIO] = []

    def scratch() -> io.BytesIO:
        files.append(io.BytesIO())
        return files[-1]

    spool, chance = PartitionSpool(scratch, budget=4000), random.Random(7)
    wanted: dict[str, list[tuple[int, str]]] = {}
    for number in range(500):
        key = f"k{chance.randrange(40)}"
        spool.add([key], [number], [f"row {number}"], 10)
        wanted.setdefault(key, []).append((number, f"row {number}"))
    spool.close()
    assert len(files) == 2, "the rows were written in several runs and merged"
    for key, rows in wanted.items():
        assert [pair for some in spool.of(key) for pair in zip(*some, strict=True)] == rows
    assert list(spool.of("another")) == []
