"""Runs by hand, of every kind, and what outside tools need to check documents without a network."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec

import kfm.app
from kfm.model.public_run import (
    PublicArtifact,
    PublicInput,
    PublicLabels,
    PublicMember,
    PublicRun,
    PublicVersion,
    artifact_id,
)
from kfm.model.records import RefMove
from kfm.projections.stac_governance import schema as governance_schema
from kfm.projections.vocabulary import GOVERNANCE

STANDARDS = Path(kfm.app.__file__).parent / "metadata" / "standards"


def sha(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def artifact(*key: str, **given: Any) -> PublicArtifact:
    made: dict[str, Any] = {
        "id": artifact_id("stations", key),
        "key": key,
        "digest": sha("bytes of " + "/".join(key)),
        "size": 120,
        "media_type": "text/csv; charset=utf-8",
        "path": f"versions/0123456789abcdef/{key[0]}.csv",
    }
    return PublicArtifact(**{**made, **given})


ADDRESS = "https://example.org/stations.csv?state=KS#part"
INPUTS = (
    PublicInput(kind="uri", id=ADDRESS, checksum=sha("raw"), name="stations", media_type="text/csv", size=900),
    PublicInput(kind="dataset", id="kfm://dataset/counties", checksum=sha("counties"), size=12),
    PublicInput(kind="uri", id="https://example.org/a b|c", checksum=sha("odd")),
    PublicInput(kind="file", id="data/names of counties.csv", checksum=sha("names")),
)
METADATA = {
    "title": "Stations",
    "description": "Where it is measured.",
    "license": "CC-BY-4.0",
    "attribution": "The Weather Office",
    "extent": {"bbox": [-102.05, 36.99, -94.59, 40], "interval": ["1990-01-01T00:00:00Z", None]},
}


def run(**given: Any) -> PublicRun:
    made: dict[str, Any] = {
        "run_id": "0192f3a0-0000-7000-8000-000000000001",
        "wal_id": "wal-1",
        "index": 1,
        "op": "ingest",
        "job_type": "ingest.pull_source",
        "dataset": "stations",
        "partition": "",
        "updater_id": "stations",
        "updater_version": "1.2.0",
        "trigger": "schedule",
        "status": "SUCCESS",
        "outcome": "done",
        "dry_run": False,
        "started_at": "2026-11-16T10:00:00.000Z",
        "finished_at": "2026-11-16T10:00:07.250Z",
        "correlation_id": "c-1",
        "run_key": sha("key"),
        "plan_hash": sha("plan"),
        "input_hash": sha("inputs"),
        "code_hash": sha("code"),
        "config_hash": sha("config"),
        "receipt_digest": sha("receipt"),
        "inputs": INPUTS,
        "artifacts": (
            artifact("ks", bbox=(-102.0, 37.0, -94.6, 40.0), datetime="2026-11-15T00:00:00Z", stac_id="stations-ks"),
            artifact("ne", datetime="2026-11-01T00:00:00Z/2026-11-15T00:00:00Z"),
            artifact("far", "Ærø ~/x", bbox=(170.0, -20.0, 0.0, -170.0, -10.0, 9.5)),
        ),
        "removed": ("kfm://dataset/stations/ok",),
        "version": sha("version 1"),
        "before": "",
        "ref": "processed/stations",
        "moves": (RefMove(ref="processed/stations", before="", after=sha("version 1")),),
        "rows": 40,
        "held_rows": 1,
        "labels": None,
        "metadata": METADATA,
    }
    return PublicRun(**{**made, **given})


LABELS = PublicLabels(
    level="generalised",
    care="community",
    access="open",
    resolution=6,
    expires="2027-06-30",
    custodians=("kaw-nation",),
    authorities=("Kaw Nation THPO",),
    community_labels=("TK A", "TK CS"),
    rules=("label.care", "label.community"),
)
KEPT = tuple(PublicMember(id=one.id, digest=one.digest, path=one.path) for one in run().artifacts)
RUNS = {
    "ingest": run(),
    "masked": run(run_id="0192f3a0-0000-7000-8000-000000000002", labels=LABELS, rows=None, held_rows=None),
    "promote": run(
        run_id="0192f3a0-0000-7000-8000-000000000003",
        index=2,
        op="promote",
        job_type="operation.promote",
        updater_id="kfm.promote",
        trigger="operation",
        inputs=(
            PublicInput(kind="ref", id="kfm://ref/published/stations", checksum=""),
            PublicInput(kind="dataset", id="kfm://dataset/stations", checksum=sha("version 1")),
        ),
        artifacts=(),
        removed=(),
        ref="published/stations",
        before="",
        moves=(RefMove(ref="published/stations", before="", after=sha("version 1")),),
        kept=KEPT,
        operator="ada",
    ),
    "rollback": run(
        run_id="0192f3a0-0000-7000-8000-000000000004",
        index=3,
        op="rollback",
        job_type="operation.rollback",
        trigger="operation",
        inputs=(
            PublicInput(kind="ref", id="kfm://ref/published/stations", checksum=sha("version 2")),
            PublicInput(kind="dataset", id="kfm://dataset/stations", checksum=sha("version 1")),
        ),
        artifacts=(),
        removed=(),
        ref="published/stations",
        before=sha("version 2"),
        moves=(RefMove(ref="published/stations", before=sha("version 2"), after=sha("version 1")),),
        kept=KEPT,
    ),
    "withdrawal": run(
        run_id="0192f3a0-0000-7000-8000-000000000005",
        index=4,
        op="rollback",
        job_type="operation.rollback",
        trigger="operation",
        inputs=(PublicInput(kind="ref", id="kfm://ref/published/stations", checksum=sha("version 1")),),
        artifacts=(),
        removed=(),
        version="",
        ref="published/stations",
        before=sha("version 1"),
        moves=(RefMove(ref="published/stations", before=sha("version 1"), after=""),),
    ),
    "dry run": run(run_id="0192f3a0-0000-7000-8000-000000000006", dry_run=True),
    "failed": run(
        run_id="0192f3a0-0000-7000-8000-000000000007",
        status="FAILED",
        outcome="failed",
        artifacts=(),
        removed=(),
        version="",
        ref="",
        moves=(),
    ),
    "noop": run(
        run_id="0192f3a0-0000-7000-8000-000000000008",
        status="SKIPPED",
        outcome="noop",
        artifacts=(),
        removed=(),
        version="",
        ref="",
        moves=(),
    ),
}


def version(made: PublicRun, **given: Any) -> PublicVersion:
    said: dict[str, Any] = {
        "dataset": made.dataset,
        "digest": made.version,
        "made": made,
        "entries": len(made.artifacts),
        "size": sum(one.size for one in made.artifacts),
        "published_at": "2026-11-16T11:00:00.000Z",
        "listing": sha("listing"),
        "listing_size": 77,
    }
    return PublicVersion(**{**said, **given})


def schema_files(folder: Path) -> dict[str, str]:
    """Address → file, of every schema that is shipped and of our own."""
    found = {
        address: str(STANDARDS / file) for address, file in json.loads((STANDARDS / "index.json").read_bytes()).items()
    }
    ours = folder / "governance.json"
    ours.write_bytes(msgspec.json.encode(governance_schema()))
    return {**found, GOVERNANCE: str(ours)}
