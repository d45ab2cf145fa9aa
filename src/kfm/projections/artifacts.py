"""Paths and contents of the files that KFM exports for people and other programs. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from kfm.model.canonical import canonical
from kfm.model.names import is_file_name
from kfm.model.records import Effect, ManifestEntry, Receipt, RunTelemetry, SourceRef
from kfm.parsing.lazy_regex import pattern

ARTIFACTS = ("run.jsonl", "event_log.jsonl", "idempotency.json", "publisher_trace.jsonl")
_SAFE = pattern(r"[a-z0-9][a-z0-9._-]{0,79}\Z")
_SUFFIX = {
    "text/csv": ".csv",
    "application/json": ".json",
    "application/geo+json": ".geojson",
    "application/x-ndjson": ".ndjson",
    "text/plain": ".txt",
    "application/vnd.apache.parquet": ".parquet",
    "image/tiff": ".tif",
    "application/wmo-GRIB2": ".grib2",
    "application/netcdf": ".nc",
    "application/vnd.zarr+zip": ".zarr.zip",
    "application/geopackage+sqlite3": ".gpkg",
    "application/vnd.flatgeobuf": ".fgb",
    "application/vnd.shp+zip": ".shp.zip",
}


def receipt_path(receipt: Receipt) -> str:
    """Return the path of a receipt. It uses the logical start of the run, so a resume after midnight finds the same
    path.
    """
    year, month, day = receipt.started_at[:10].split("-")
    return f"receipts/{receipt.job_type}/{year}/{month}/{day}/{receipt.run_id}.json"


def checkpoint_path(size: int) -> str:
    """Return the path of the signed ledger head over `size` entries. It is public: it reveals nothing about the
    entries.
    """
    return f"ledger/checkpoints/{size:012d}"


def published_path(dataset: str, version: str, entry: ManifestEntry) -> str:
    """Return where an output is published. No input can choose a path, and no two keys share one: a file name ends in
    the suffix of its media type, a folder name has no dot, and a part that is not a plain name becomes an underscore
    and its digest.
    """
    *folders, name = entry.key
    suffix = _SUFFIX.get(entry.media_type.partition(";")[0].strip(), ".bin")
    parts = [part if "." not in part and _is_plain(part) else _hidden(part) for part in folders]
    parts.append((name if _is_plain(name) else _hidden(name)) + suffix)
    return f"{version_path(dataset, version)}/" + "/".join(parts)


def pointer_path(dataset: str) -> str:
    """Return the path of the file that names the current public version of a dataset."""
    return f"datasets/{dataset}/current.json"


def version_path(dataset: str, version: str) -> str:
    """Return the folder of a published version. Its manifest is next to it, under the same name with a suffix."""
    return f"datasets/{dataset}/versions/{version[7:23]}"


def _is_plain(part: str) -> bool:
    return _SAFE.match(part) is not None and is_file_name(part)


def _hidden(part: str) -> str:
    return "_" + hashlib.sha256(part.encode()).hexdigest()[:32]


def run_lines(runs: Iterable[tuple[Receipt, RunTelemetry | None]]) -> bytes:
    """Build run.jsonl: one line per run with its receipt and telemetry, without the fields that differ
    between runners.
    """
    return b"".join(
        canonical(
            {
                "seq": seq,
                "timestamp": receipt.finished_at,
                "dry_run": receipt.dry_run,
                "receipt": msgspec.to_builtins(receipt),
                "telemetry": _without_tools(telemetry) if telemetry is not None else None,
            }
        )
        + b"\n"
        for seq, (receipt, telemetry) in enumerate(runs, 1)
    )


def _without_tools(telemetry: RunTelemetry) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(telemetry)
    del found["tool_versions"]
    return found


def event_lines(events: Iterable[dict[str, Any]], dry_run: bool) -> bytes:
    """Build event_log.jsonl: one line per event, in order."""
    return b"".join(canonical({**event, "seq": seq, "dry_run": dry_run}) + b"\n" for seq, event in enumerate(events, 1))


def idempotency(runs: Iterable[tuple[Receipt, list[SourceRef]]], dry_run: bool) -> bytes:
    """Build idempotency.json: the idempotency row of every run."""
    rows = [
        {
            "run_id": receipt.run_id,
            "dataset_id": receipt.dataset,
            "idempotency_key": receipt.run_key,
            "input_hash": receipt.input_hash,
            "state": receipt.outcome,
            "timestamp": receipt.finished_at,
            "source_metadata": [
                {"uri": ref.uri, "etag": ref.etag, "last_modified": ref.last_modified, "content_hash": ref.content_hash}
                for ref in inputs
            ]
            or [
                {"uri": item.id, "etag": "", "last_modified": "", "content_hash": item.checksum}
                for item in receipt.inputs
            ],
            "pipeline_version": receipt.updater_version,
        }
        for receipt, inputs in runs
    ]
    return canonical({"dry_run": dry_run, "runs": rows}) + b"\n"


def trace_lines(effects: Iterable[Effect]) -> bytes:
    """Build publisher_trace.jsonl: every change outside KFM that was made, or would be made in a dry run."""
    return b"".join(canonical(effect) + b"\n" for effect in effects)
