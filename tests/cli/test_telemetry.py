"""The telemetry bundle holds every run, fits its schema, and is at its place."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from kfm import __version__
from kfm.model.json_schemas import generate
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
