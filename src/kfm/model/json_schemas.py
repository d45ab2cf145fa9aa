"""Generates JSON Schemas of the records for validators and other languages. `make schemas` writes them to schemas/."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kfm.model import labels, masks, records
from kfm.model.jobs import job_records, story_record
from kfm.model.reports import artifact_lines, energy_report, operation_telemetry

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PUBLISHED_AS = {"Classification": "standing", "SinkPosition": "told"}  # a schema keeps its name when its class changes


def generate() -> dict[str, dict[str, Any]]:
    """Return a schema for every record, by its file name: dataset-version for DatasetVersion."""
    return {name: schema_of(kind, name) for name, kind in kinds().items()}


def kinds() -> dict[str, type[records.Record]]:
    """Return every record class by the name of its schema."""
    found = [kind for kind in vars(records).values() if isinstance(kind, type) and issubclass(kind, records.Record)]
    return {_schema_name(kind): kind for kind in found if kind is not records.Record}


def exported() -> dict[str, type[records.Record]]:
    """Return the other records with a schema: those in the artifacts of a run, those with a well-known schema name, and
    those that stewards write."""
    return {
        "run-line": artifact_lines.RunLine,
        "event-line": artifact_lines.EventLine,
        "idempotency": artifact_lines.Idempotency,
        "job-envelope": job_records.JobEnvelope,
        "labels": labels.Labels,
        "masking-policy": masks.MaskingPolicy,
        "story": story_record.Story,
        "telemetry/carbon-v2": energy_report.CarbonUse,
        "telemetry/energy-v2": energy_report.EnergyUse,
        "telemetry/pipelines-operations-v11": operation_telemetry.OperationsBundle,
        "telemetry/pipelines-updater-v11": records.RunTelemetry,
        "telemetry/reliability/updaters-v1": records.TelemetryBundle,
    }


def schema_of(kind: type[msgspec.Struct], name: str) -> dict[str, Any]:
    """Return a self-contained schema: records that it refers to are among its definitions.

    The number in `$id` changes when an instance that was valid no longer is.
    """
    _, components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    definitions = msgspec.json.decode(msgspec.json.encode(components))  # turns a default of () into the [] of JSON
    for definition in definitions.values():
        definition["description"] = " ".join(definition.get("description", "").replace("``", "`").split())
        if not definition["description"]:
            del definition["description"]
    whole = definitions.pop(kind.__name__)
    schema = {"$schema": DIALECT, "$id": f"urn:kfm:schema:{name}:1", **whole}
    return {**schema, "$defs": definitions} if definitions else schema


def _schema_name(kind: type[records.Record]) -> str:
    return _PUBLISHED_AS.get(kind.__name__) or dashed(kind.__name__)


def dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
