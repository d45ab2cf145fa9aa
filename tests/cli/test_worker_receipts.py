"""Every receipt can be written in the format that workers exchange, and the page maps every field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from kfm import __version__
from kfm.model.records import Status, Zone
from kfm.projections.worker_receipt import DECISIONS, STATUS, ZONES
from tests.cli.conftest import Kfm

PAGE = Path(__file__).parents[2] / "docs/receipts.md"
TEXT = {"type": "string", "minLength": 1}
ITEM = {"kind": {"enum": ["dataset", "file", "uri"]}, "id": TEXT, "checksum": {"type": "string"}}


def strict(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def many(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


SCHEMA = strict(
    run_id=TEXT,
    job_id={"type": "string"},
    job_type=TEXT,
    started_at=TEXT,
    finished_at=TEXT,
    status={"enum": ["succeeded", "failed", "skipped"]},
    inputs=many(strict(**ITEM)),
    outputs=many(strict(**ITEM, zone={"enum": ["Raw", "Work", "Processed", "Published"]})),
    provenance=strict(
        tool_versions={"type": "object", "additionalProperties": TEXT},
        transforms=many(TEXT),
        policy_decisions=many({"type": "string", "pattern": "^(allow|deny|sanitize) "}),
    ),
    errors=many(strict(message=TEXT, stack={"type": "string"})),
)


def test_the_page_has_the_whole_mapping() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", PAGE.read_text(), re.MULTILINE))
    decisions = {json.dumps(word): said for word, said in DECISIONS.items()}
    assert rows == {**STATUS, **ZONES, **decisions}
    assert set(STATUS) == set(get_args(Status)) and set(ZONES) == set(get_args(Zone))


def test_every_kind_of_receipt_is_what_workers_read(started: Kfm) -> None:
    started("run")
    started("run")
    started("freeze", "rain-gauges")
    started("run")
    started("thaw", "rain-gauges")
    started("promote", "rain-gauges")
    Path("data/rain_gauges.csv").unlink()
    assert started("run").code != 0
    seen: dict[str, dict[str, Any]] = {}
    for receipt in started("runs", "receipts", "--json").data:
        told = started("runs", "receipt", receipt["run_id"], "--worker").data
        jsonschema.validate(told, SCHEMA)
        seen.setdefault(f"{receipt['job_type']} {told['status']}", told)
    assert {name.partition(" ")[2] for name in seen} == {"succeeded", "skipped", "failed"}
    promoted = seen["operation.promote succeeded"]
    (output,) = promoted["outputs"]
    assert output["zone"] == "Published" and output["checksum"].startswith("sha256:")
    assert {"kind": "dataset", "id": "kfm://dataset/rain-gauges", "checksum": output["checksum"]} in promoted["inputs"]
    (decision,) = promoted["provenance"]["policy_decisions"]
    assert decision.startswith("allow ")
    assert promoted["provenance"]["tool_versions"]["kfm"] == __version__
    assert seen["operation.freeze succeeded"]["outputs"] == []


def test_what_is_no_receipt_of_a_worker_is_noticed() -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"status": "SUCCESS"}, SCHEMA)
