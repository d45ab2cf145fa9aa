"""The telemetry bundle holds every run, fits its schema, and is at its place."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from kfm import __version__
from kfm.model.json_schemas import exported, generate, schema_of
from tests.cli.conftest import Kfm

# U14: what every event of telemetry must name.
FIELDS = {
    "run_id", "duration_ms", "dataset", "source_id", "trigger", "idempotency_state", "artifact_count", "dry_run",
    "errors",
}  # fmt: skip


def test_every_run_is_in_the_bundle_and_the_bundle_is_what_its_schema_says(started: Kfm) -> None:
    assert started("run").code == 0
    assert started("run").code == 0
    answer = started("runs", "telemetry")
    path = Path.cwd() / answer.out.strip()
    assert path == Path.cwd() / "releases" / __version__ / "updater-telemetry.json"
    bundle = json.loads(path.read_bytes())
    jsonschema.validate(bundle, generate()["telemetry-bundle"])
    assert bundle["by_status"] == {"SUCCESS": 1, "SKIPPED": 1}
    assert [run["idempotency_state"] for run in bundle["runs"]] == ["fresh", "duplicate"]
    assert all(set(run) >= FIELDS for run in bundle["runs"])
    assert started("runs", "telemetry", "--stdout").out.encode() == path.read_bytes() + b"\n"


def test_every_operation_is_in_its_bundle_and_the_bundle_is_what_its_schema_says(started: Kfm) -> None:
    assert started("run").code == 0
    assert started("freeze", "--reason", "canary of a reason").code == 0
    assert started("freeze", "rain-gauges", "--reason", "canary of a reason").code == 0
    assert started("thaw", "--reason", "canary of a reason").code == 0
    answer = started("runs", "telemetry", "--operations")
    path = Path.cwd() / answer.out.strip()
    assert path == Path.cwd() / "releases" / __version__ / "operations-telemetry.json"
    bundle = json.loads(path.read_bytes())
    jsonschema.validate(bundle, schema_of(exported()["telemetry/pipelines-operations-v11"], "telemetry/x"))
    assert [each["op_type"] for each in bundle["operations"]] == ["freeze", "freeze", "thaw"]
    assert bundle["by_outcome"] == {"done": 3} and "canary" not in path.read_text()
    for each in bundle["operations"]:
        assert each["ops_wal_entries"] > 0 and each["ops_latency_ms"] >= 0 and each["ops_retry_count"] == 0
        assert each["lineage_delta"] == 1 and each["ops_broken_links"] == 0
    runs = json.loads((Path.cwd() / started("runs", "telemetry").out.strip()).read_bytes())
    jsonschema.validate(runs, schema_of(exported()["telemetry/reliability/updaters-v1"], "telemetry/y"))
    energy = {run["run_id"]: run["energy_kwh"] for run in runs["runs"]}
    for each in bundle["operations"]:
        known = energy[each["run_id"]]
        assert each["ops_energy_wh"] == (None if known is None else known * 1000)
