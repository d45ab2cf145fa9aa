"""Outputs that describe their place and time: in the journal, the manifest and the listing, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kfm.errors import StorageFailed
from kfm.model.canonical import canonical
from kfm.model.manifests import entries, find, listing
from kfm.model.records import ManifestEntry, SourceRef, Step
from kfm.model.updater import Output, Plan, Reader
from tests.engine.site_under_test import Lines, MemorySite

POINT = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [-98.5, 38.25]}, "properties": {}}


class Saying(Lines):
    """A step for each of these outputs."""

    def __init__(self, *outputs: Output) -> None:
        super().__init__()
        self.outputs = outputs

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=f"{n}", key=("k", f"{n}")) for n in range(len(self.outputs))])

    def perform(self, step: Step, read: Reader) -> Output:
        self.performed.append(step.id)
        return self.outputs[int(step.id)]


def told(site: MemorySite) -> list[ManifestEntry]:
    return list(entries(site.world.objects, site.state.refs.at("processed/demo")))


def test_what_an_output_says_is_in_its_entry_and_what_it_does_not_say_is_left_out() -> None:
    site = MemorySite()
    given = Output(
        b"x", "image/tiff", bbox=(-100, 37, -98.5, 40), datetime="2026-01-01T00:00:00Z/..", stac_id="scene-1"
    )
    receipt = site.run(Saying(given, Output.text("plain"), Output.json(POINT, "application/geo+json")))
    assert receipt.status == "SUCCESS", receipt
    first, second, third = told(site)
    assert (first.bbox, first.datetime, first.stac_id) == ((-100, 37, -98.5, 40), "2026-01-01T00:00:00Z/..", "scene-1")
    assert third.bbox == (-98.5, 38.25, -98.5, 38.25) and not third.datetime
    lines = b"".join(listing(site.world.objects, site.state.refs.at("processed/demo"))).splitlines()
    assert [canonical(msgspec.json.decode(line)) for line in lines] == lines
    assert b'"bbox":[-100,37,-98.5,40],"datetime":' in lines[0]
    assert sorted(msgspec.json.decode(lines[1])) == ["digest", "key", "media_type", "size"]
    assert find(site.world.objects, site.state.refs.at("processed/demo"), second.key) == second


def test_the_author_wins_over_the_bytes_and_a_large_document_is_read_as_well() -> None:
    large = {**POINT, "properties": {"text": "x" * 100_000}}
    site = MemorySite()
    boxed = msgspec.structs.replace(Output.json(POINT, "application/geo+json"), bbox=(0, 0, 1, 1))
    site.run(Saying(boxed, Output.json(large, "application/geo+json; charset=utf-8"), Output.json(POINT)))
    assert [entry.bbox for entry in told(site)] == [(0, 0, 1, 1), (-98.5, 38.25, -98.5, 38.25), ()]


def test_it_is_there_after_a_resume_that_performs_nothing_again() -> None:
    outputs = [Output(b"%d" % n, bbox=(n, n, n, n)) for n in range(6)]
    expected = MemorySite()
    expected.run(Saying(*outputs))
    site = MemorySite(threads=1, window=2)
    real: Any = type(site.state).transaction
    left = [4]

    def failing(state: Any, *args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise StorageFailed("the disk is gone")
        return real(state, *args, **options)

    site.state.transaction = failing.__get__(site.state)  # type: ignore[method-assign]
    with pytest.raises(StorageFailed):
        site.run(Saying(*outputs))
    assert left[0] < 0
    (unfinished,) = site.state.runs.unfinished()
    before = [
        position for segment, _ in site.state.journal.segments(unfinished.run_id) for position, _ in segment.described
    ]
    assert before, "some of it was journaled"
    site.begin_again()
    again = Saying(*outputs)
    assert site.run(again).status == "SUCCESS"
    assert len(again.performed) == 6 - len(before)
    assert site.state.refs.at("processed/demo") == expected.state.refs.at("processed/demo")


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"bbox": (1, 2, 3)}, "bbox"),
        ({"bbox": (0, 5, 2, 1)}, "bbox"),
        ({"bbox": (0, 0, 200, 1)}, "bbox"),
        ({"bbox": (0, 0, float("nan"), 1)}, "bbox"),
        ({"bbox": ("0", 0, 1, 1)}, "bbox"),
        ({"bbox": "0,0,1,1"}, "bbox"),
        ({"datetime": "2026-02-30T00:00:00Z"}, "datetime"),
        ({"datetime": "yesterday"}, "datetime"),
        ({"datetime": "../.."}, "datetime"),
        ({"datetime": "2026-02-01T00:00:00Z/2026-01-01T00:00:00Z"}, "datetime"),
        ({"datetime": 7}, "datetime"),
        ({"stac_id": "a\nb"}, "stac_id"),
        ({"stac_id": ""}, "stac_id"),
    ],
)
def test_what_is_said_wrongly_is_refused_by_its_name_and_without_its_value(said: dict[str, Any], wrong: str) -> None:
    site = MemorySite()
    receipt = site.run(Saying(Output(b"x", **said)))
    assert receipt.status == "FAILED" and f"the {wrong} of an Output" in receipt.errors[0].message
    assert "2026-0" not in receipt.errors[0].message.partition(";")[0] and "yesterday" not in receipt.errors[0].message


def test_nothing_of_it_is_in_a_receipt_or_a_log() -> None:
    site = MemorySite()
    receipt = site.run(Saying(Output(b"x", bbox=(-97.125, 37, -97, 38), stac_id="the-grave")))
    assert b"97.125" not in canonical(receipt) and b"the-grave" not in canonical(receipt)
    for table in ("receipts", "telemetry", "ledger", "outbox", "versions", "runs"):
        for _, body in site.state.tables.scan(table):
            assert b"97.125" not in body and b"the-grave" not in body
