"""Every receipt can be written in the format that workers exchange, and the page maps every field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from kfm import __version__
from kfm.model.outbox_messages import Letter
from kfm.model.records import Receipt, Status, Zone
from kfm.projections.worker_receipt import DECISIONS, SANITIZE, STATUS, ZONES, worker_receipt
from kfm.sinks.receipt_files import ReceiptFiles
from tests.app.governance.test_canaries import Site
from tests.cli.conftest import Kfm
from tests.masking.canaries import hits

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


def shape(value: Any) -> Any:
    """The keys and the kinds of values, without the values."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    return [shape(each) for each in value] if isinstance(value, list) else type(value).__name__


def test_the_page_has_the_whole_mapping() -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", PAGE.read_text(), re.MULTILINE))
    assert rows == {**STATUS, **ZONES}
    assert set(STATUS) == set(get_args(Status)) and set(ZONES) == {*get_args(Zone), "work"}
    words = re.findall(r"^\| it [^|]+ \| `([^`]+)` \|$", PAGE.read_text(), re.MULTILINE)
    assert words == [DECISIONS[False], SANITIZE, DECISIONS[True]]


def test_the_receipt_on_the_page_has_the_shape_of_a_real_one(started: Kfm) -> None:
    page = json.loads(re.search(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)[1])  # type: ignore[index]
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "worker_receipts: .kfm/workers\n")
    started("run")
    real = on_disk()[0]
    jsonschema.validate(page, SCHEMA)
    assert shape(real) == shape(page)
    same = ("job_type", "status")
    assert [real[key] for key in same] == [page[key] for key in same]
    assert [(item["id"], item["kind"], item["zone"]) for item in real["outputs"]] == [
        (item["id"], item["kind"], item["zone"]) for item in page["outputs"]
    ]
    assert real["provenance"]["transforms"] == page["provenance"]["transforms"]


def on_disk(folder: str = ".kfm/workers") -> list[dict[str, Any]]:
    """The worker receipts in a folder, each at the path that its content says."""
    found = []
    for path in sorted(Path(folder).rglob("*.json")):
        told = json.loads(path.read_bytes())
        year, month, day = told["started_at"][:10].split("-")
        assert str(path) == f"{folder}/receipts/{told['job_type']}/{year}/{month}/{day}/{told['run_id']}.json"
        found.append(told)
    return found


def test_every_run_leaves_a_worker_receipt_on_disk_once(started: Kfm) -> None:
    started("run")
    config = Path("kfm.yml")
    config.write_text(config.read_text() + "worker_receipts: .kfm/workers\n")
    started("run")
    started("promote", "rain-gauges")
    Path("data/rain_gauges.csv").unlink()
    assert started("run").code != 0
    told = {each["run_id"]: each for each in on_disk()}
    receipts = started("runs", "receipts", "--json").data
    assert set(told) == {receipt["run_id"] for receipt in receipts}, "those of earlier runs too"
    for each in told.values():
        jsonschema.validate(each, SCHEMA)
        assert each == started("runs", "receipt", each["run_id"], "--worker").data
    assert sorted(each["status"] for each in told.values()) == ["failed", "skipped", "succeeded", "succeeded"]
    zones = {item["zone"] for each in told.values() for item in each["outputs"]}
    assert zones == {"Raw", "Work", "Processed", "Published"}
    before = {path: path.read_bytes() for path in Path(".kfm/workers").rglob("*.json")}
    for path in before:  # sent again, as after a kill
        key = path.relative_to(".kfm/workers").as_posix()
        ReceiptFiles(".kfm/workers").send([Letter(index=1, run_id="r", dataset="d", key=key, body=b"{}")])
    assert {path: path.read_bytes() for path in Path(".kfm/workers").rglob("*") if path.is_file()} == before


def test_the_work_zone_lies_between_the_source_and_the_version(started: Kfm) -> None:
    started("run")
    told = started("runs", "receipt", "last", "--worker").data
    raw, work, held, made = told["outputs"]
    assert [item["zone"] for item in told["outputs"]] == ["Raw", "Work", "Work", "Processed"]
    assert raw["checksum"] == told["inputs"][0]["checksum"] != work["checksum"], "a row of the example is quarantined"
    assert held["id"] == "kfm://ref/quarantine/rain-gauges" and made["id"] == "kfm://dataset/rain-gauges"


def test_the_stack_of_an_error_names_functions_and_no_value(started: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_WORKER_IMAGE", "example.org/kfm@sha256:" + "0" * 64)
    code = Path("updaters/rain_gauges.py")
    text = code.read_text()
    helper = "\n\ndef halved(depth):\n    raise ValueError(f'no half of {depth}')\n"
    code.write_text(text.replace("        rows = ", "        halved('a secret depth')\n        rows = ", 1) + helper)
    assert started("run").code != 0
    told = started("runs", "receipt", "last", "--worker").data
    (error,) = told["errors"]
    lines = error["stack"].splitlines()
    assert [re.sub(r":\d+", "", line) for line in lines] == ["rain_gauges.py in perform", "rain_gauges.py in halved"]
    assert told["provenance"]["tool_versions"]["worker_image"] == "example.org/kfm@sha256:" + "0" * 64


def test_a_yes_to_masked_data_is_called_sanitize_and_names_the_mask(ran: Kfm) -> None:
    """The receipt of a promotion, as one of masked data says it."""
    receipt = msgspec.convert(ran("runs", "receipt", "last", "--json").data, Receipt)
    mask = {"source": "sites", "policy": "society", "version": 1, "digest": "sha256:" + "0" * 64}
    masked = msgspec.structs.replace(receipt, provenance={**receipt.provenance, "masking": [mask]})
    (plain,), (line,) = (worker_receipt(each, None)["provenance"]["policy_decisions"] for each in (receipt, masked))
    assert line == plain.replace("allow", "sanitize", 1) + f" society@{mask['digest']}"


@pytest.mark.long
def test_the_worker_receipts_of_a_protected_installation_say_sanitize_and_no_value(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", 40)
    site.people()
    site.kfm("run", "sites", "vault")
    words: dict[str, set[str]] = {}
    for each in site.kfm("runs", "receipts", "--json").data:
        told = site.kfm("runs", "receipt", each["run_id"], "--worker").data
        jsonschema.validate(told, SCHEMA)
        decisions = told["provenance"]["policy_decisions"]
        words.setdefault(each["dataset"], set()).update(decision.split()[0] for decision in decisions)
        if each["dataset"] == "sites":
            assert all(re.search(r" \S+@sha256:[0-9a-f]{64} .*@sha256:[0-9a-f]{64}$", line) for line in decisions)
    assert words["sites"] == {"sanitize"} and words["vault"] == {"allow"}
    assert hits(bytes(site.terminal), site.canaries) == set()


@pytest.mark.parametrize("folder", ["public/receipts", ".kfm", ".kfm/receipts", "."])
def test_worker_receipts_go_into_a_private_folder_of_their_own(started: Kfm, folder: str) -> None:
    config = Path("kfm.yml")
    config.write_text(config.read_text() + f"worker_receipts: {folder}\n")
    assert "worker_receipts is not a private folder of its own" in started("run").complaint


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
