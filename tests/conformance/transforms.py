"""What Python makes of a declaration and its sources: the answer to a vector of conformance/transforms.

A case has `sources`: by name the `text` (or `hex`, the bytes) and the `contract`; and `outputs`, as in kfm.yml.
The answer is `made`, the text of each output by its key, or `refused`, the one line a person is told.
"""

from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace
from typing import Any

import msgspec

from kfm.engine.acquire import layout_of
from kfm.engine.step_reader import StepReader
from kfm.errors import KfmError
from kfm.model.keys import digest
from kfm.model.records import DataContract, Record, SourceRef, Trigger
from kfm.model.transform_config import OutputConfig, check_outputs
from kfm.parsing import documents, record_shape
from kfm.updaters.transforms.external_sort import Room
from kfm.updaters.transforms.transform_updater import DeclaredUpdater
from kfm.validation.source_check import inspect

Case = dict[str, Any]


class Declared(Record, frozen=True):
    """What a case declares, as a part of kfm.yml is read."""

    contracts: dict[str, DataContract]
    outputs: dict[str, OutputConfig]


def answer(case: Case, limits: dict[str, int] | None = None) -> Case:
    """What both languages must say, however little room they have."""
    try:
        return {"made": _made(case, limits or {})}
    except KfmError as problem:
        return {"refused": _PLACE.sub("case.json: ", str(problem))}


ASKED = Trigger(kind="manual", updater_id="case", dataset="case")
_PLACE = re.compile(r"^case\.json:1:[0-9]+: ")  # where in a line it stands is the affair of whoever wrote the line


def _made(case: Case, limits: dict[str, int]) -> dict[str, str]:
    contracts = {name: source["contract"] for name, source in case["sources"].items()}
    text = json.dumps({"contracts": contracts, "outputs": case["outputs"]}, ensure_ascii=False)
    document = documents.read(text.encode(), "case.json", json=True)
    declared = record_shape.into(document, Declared)
    check_outputs(document, (), declared.outputs, declared.contracts)
    updater = DeclaredUpdater(
        "case", "1", declared.outputs, declared.contracts, lambda read: Room(read.scratch, **limits)
    )
    stored = {name: body_of(source) for name, source in case["sources"].items()}
    objects = {digest(body): body for body in stored.values()}

    def pin(name: str, partition: tuple[str, ...] = ()) -> SourceRef:
        assert not partition
        return examined(name, stored[name], declared.contracts[name], objects)

    inputs = updater.inputs(ASKED, SimpleNamespace(pin=pin))  # type: ignore[arg-type]
    world: Any = SimpleNamespace(
        objects=SimpleNamespace(open=lambda name: io.BytesIO(objects[name])),
        settings=SimpleNamespace(dry_run=True),
        datasets={},
        scratch=io.BytesIO,
    )
    read = StepReader(world, inputs, None, None)  # type: ignore[arg-type]
    made = {}
    for step in updater.plan(inputs).steps:
        body = updater.perform(step, read).body
        made["/".join(step.key or ())] = (body if isinstance(body, bytes) else b"".join(body)).decode()
    return made


def body_of(source: Case) -> bytes:
    return bytes.fromhex(source["hex"]) if "hex" in source else source["text"].encode()


def examined(name: str, body: bytes, contract: DataContract, objects: dict[str, bytes]) -> SourceRef:
    """The source as a run passes it on: checked against its contract."""
    accepted: list[bytes] = []
    report = inspect(lambda: io.BytesIO(body), contract, name, accepted.append, lambda _held: None)
    if report.held:
        first = report.cause or report.findings[0]
        raise Held(f"source {name} is held: {first.message} ({first.rule}, row {first.row}, column {first.column})")
    passed = b"".join(accepted) if report.changed else body
    objects[digest(passed)] = passed
    ref = SourceRef(uri=name, name=name, content_hash=digest(body), size=len(body), accepted_hash=digest(passed))
    return msgspec.structs.replace(ref, layout=layout_of(contract), partitions=report.partitions)


class Held(KfmError):
    """In short what a run says of a quarantined source."""
