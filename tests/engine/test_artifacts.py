"""Every run leaves its artifacts, each line valid and in order, and its telemetry, however it ended."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.run_exports import artifacts_of
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session
from kfm.model import json_schemas
from kfm.model.canonical import canonical
from kfm.model.names import check_path
from kfm.model.records import ManifestEntry
from kfm.parsing.strict_json import decode
from kfm.projections.artifacts import ARTIFACTS
from kfm.projections.file_paths import Twins, case_twins, published_path, receipt_path
from kfm.telemetry.log import MemoryLog
from tests.engine.site_under_test import folder_site, opened
from tests.engine.test_wal import UPDATER
from tests.sampling import tries

PARTS = st.sampled_from(["a", "b", "a.csv", "a.bin", "a.csv.bin", "nul", "aux", "a.txt", "A", "é", "a/b"]) | st.text(
    min_size=1
)
KEYS = st.lists(PARTS.filter(lambda part: part.isprintable()), min_size=1, max_size=3).map(tuple)
FAILING = UPDATER.replace('return Output.text(step.id + read.text("source"))', 'raise RuntimeError("no")')


def artifacts(session: Session, runs: int = 1) -> dict[str, bytes]:
    session.log = log = MemoryLog(session.clock)
    receipts = [run_trigger(session, new_trigger(session, "demo")) for _ in range(runs)]
    return artifacts_of(session, receipts, settle_session(session), log.events)


def lines(body: bytes) -> list[dict[str, object]]:
    found = [decode(line, "artifact") for line in body.splitlines()]
    assert b"".join(canonical(line) + b"\n" for line in found) == body
    return found


@pytest.mark.parametrize("mode", ["write", "dry"])
@pytest.mark.parametrize("updater", [UPDATER, FAILING], ids=["succeeds", "fails"])
def test_the_four_artifacts_are_canonical_valid_and_in_order(tmp_path: Path, mode: str, updater: str) -> None:
    made = artifacts(opened(folder_site(tmp_path, updater, b"a,b\n1,2\n"), mode), runs=2)
    assert tuple(made) == ARTIFACTS
    every = json_schemas.generate()
    for name in ("run.jsonl", "event_log.jsonl", "publisher_trace.jsonl"):
        found = lines(made[name])
        assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
        assert all(line["dry_run"] is (mode == "dry") for line in found)
        stamps = [line["timestamp"] for line in found if "timestamp" in line]
        assert stamps == sorted(stamps)  # type: ignore[type-var]
    for line in lines(made["run.jsonl"]):
        jsonschema.validate(line["receipt"], every["receipt"])
        jsonschema.validate(line["telemetry"], every["run-telemetry"])
    for line in lines(made["publisher_trace.jsonl"]):
        jsonschema.validate(line, every["effect"])
    rows = decode(made["idempotency.json"], "idempotency")["runs"]
    fields = {"run_id", "dataset_id", "idempotency_key", "timestamp", "source_metadata", "pipeline_version"}
    assert len(rows) == 2 and all(fields <= set(row) for row in rows)


def test_telemetry_is_left_by_success_failure_and_skip(tmp_path: Path) -> None:
    session = opened(folder_site(tmp_path / "a", UPDATER, b"a,b\n1,2\n"))
    done, skipped = (
        run_trigger(session, new_trigger(session, "demo")),
        run_trigger(session, new_trigger(session, "demo")),
    )
    broken = opened(folder_site(tmp_path / "b", FAILING, b"a,b\n1,2\n"))
    failed = run_trigger(broken, new_trigger(broken, "demo"))
    for site, receipt, stage in ((session, done, None), (session, skipped, None), (broken, failed, "EXECUTE")):
        telemetry = site.state.ledger.telemetry(receipt.run_id)
        assert telemetry is not None
        assert telemetry.status == receipt.status and telemetry.failure_stage == stage
        assert telemetry.energy_kwh and telemetry.co2e_g is None and telemetry.energy_method.startswith("estimated")
    made = session.state.ledger.telemetry(done.run_id)
    assert made is not None and (made.outputs_count, made.artifact_count, made.inputs_count) == (5, 5, 1)


def test_a_receipt_lies_at_the_path_of_its_logical_start(tmp_path: Path) -> None:
    session = opened(folder_site(tmp_path, UPDATER, b"a,b\n1,2\n"))
    receipt = run_trigger(session, new_trigger(session, "demo"))
    settle_session(session)
    path = receipt_path(receipt)
    assert path == f"receipts/ingest.pull_source/2026/01/01/{receipt.run_id}.json"
    assert (tmp_path / ".kfm" / path).read_bytes() == canonical(receipt)


@pytest.mark.parametrize(
    "part",
    ["..", ".", "a/b", "/etc/passwd", "a\\b", "CON", "x" * 300, "é", "a\x00b", "A", "-rf", ".hidden", "a.", "\u202e"],
)
@pytest.mark.parametrize("twins", [None, frozenset()])
def test_no_key_chooses_where_a_file_goes(part: str, twins: Twins) -> None:
    entry = ManifestEntry(key=(part, part), digest="sha256:" + "0" * 64, size=1, media_type="text/csv")
    path = published_path("demo", "sha256:" + "a" * 64, entry, twins)
    assert path.startswith("datasets/demo/versions/aaaaaaaaaaaaaaaa/") and path.endswith(".csv")
    parts = path.split("/")
    assert len(parts) == 6
    assert all(p.isascii() and not p.startswith((".", "-")) and len(p) <= 100 and "\\" not in p for p in parts)
    assert msgspec.json.encode(path)


@settings(max_examples=tries(300), deadline=None)
@given(
    st.sets(st.tuples(KEYS, st.sampled_from(["text/csv", "", "text/plain", "x/y"])), min_size=2, max_size=8),
    st.booleans(),
)
def test_no_two_keys_share_a_place(keys: set[tuple[tuple[str, ...], str]], keeps_case: bool) -> None:
    entries = dict(keys)
    twins = case_twins(entries) if keeps_case else None
    paths = [
        published_path("demo", "sha256:" + "a" * 64, ManifestEntry(key=key, digest="", size=0, media_type=media), twins)
        for key, media in entries.items()
    ]
    assert len({path.lower() for path in paths}) == len(paths), "a disk may ignore case"
    assert twins is None or case_twins(sorted(entries)) == twins, "in any order"
    folders = {path[:at] for path in paths for at in range(len(path)) if path[at] == "/"}
    assert not folders & set(paths), "a file would have to be a folder too"
    for path in paths:
        check_path(path)
