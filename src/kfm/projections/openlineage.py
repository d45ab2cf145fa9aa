"""OpenLineage 2-0-2: the START and the end event of a run, with standard facets and KFM's own. Pure.

A dataset of OpenLineage has a name and a version: so a version is its dataset at a digest, with its processed ref as a
symlink. The `hierarchy` of a member names its dataset, that of a public file the ref that was published.

A dry run has a namespace of its own, so that no reader takes it for a real run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kfm.model.labels import ACCESS, CARE, LEVELS
from kfm.model.public_run import PublicInput, PublicRun, Thing, ref_id
from kfm.projections.vocabulary import PRODUCER, SCHEMAS, address, name_of

SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_FACETS = "https://openlineage.io/spec/facets/"
_OURS = SCHEMAS + "openlineage/1-0-0/"
NAMESPACE, DRY_RUN = "kfm", "kfm.dry-run"
_ENDS = {"SUCCESS": "COMPLETE", "SKIPPED": "COMPLETE", "PARTIAL": "FAIL", "FAILED": "FAIL"}


def events(run: PublicRun) -> list[dict[str, Any]]:
    """Return the START event with the inputs, and the end event with everything the run did."""
    inputs = [_input(each) for each in run.used()]
    outputs = list(_outputs(run))
    start = _event(run, "START", run.started_at, inputs, [])
    return [start, _event(run, _ENDS[run.status], run.finished_at, inputs, outputs)]


def _event(
    run: PublicRun, kind: str, at: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]
) -> dict[str, Any]:
    ended = kind != "START"
    return {
        "eventType": kind,
        "eventTime": at,
        "producer": PRODUCER,
        "schemaURL": SPEC + "#/$defs/RunEvent",
        "run": {"runId": run.run_id, "facets": _run_facets(run, ended)},
        "job": {
            "namespace": DRY_RUN if run.dry_run else NAMESPACE,
            "name": f"{run.updater_id}.{name_of(run.dataset)}",
            "facets": _job_facets(run),
        },
        "inputs": inputs,
        "outputs": outputs,
    }


def _facet(name: str, version: str, /, **said: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{_FACETS}{version}/{name}.json#/$defs/{name}", **said}


def _own(name: str, /, **said: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": f"{_OURS}{name}.json#/$defs/{name}", **said}


def _run_facets(run: PublicRun, ended: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "nominalTime": _facet("NominalTimeRunFacet", "1-0-1", nominalStartTime=run.started_at),
        "processing_engine": _facet(
            "ProcessingEngineRunFacet", "1-1-1", name=run.updater_id, version=run.updater_version
        ),
    }
    if not ended:
        return found
    if run.status in ("FAILED", "PARTIAL"):  # the reason stays in the receipt: a message could hold a value of the data
        text = f"the run ended as {run.status}, {run.outcome}"
        found["errorMessage"] = _facet("ErrorMessageRunFacet", "1-0-1", message=text, programmingLanguage="Python")
    said = {
        "op": run.op,
        "trigger": run.trigger,
        "status": run.status,
        "outcome": run.outcome,
        "dryRun": run.dry_run,
        "walId": run.wal_id,
        "ledgerIndex": run.index,
        "receipt": run.receipt_digest,
        "planHash": run.plan_hash,
        "inputHash": run.input_hash,
        "codeHash": run.code_hash,
        "configHash": run.config_hash,
        "version": run.version,
        "previousVersion": run.before,
        "ref": run.ref,
        "removed": list(run.removed),
        "operator": run.operator,
    }
    found["kfm_run"] = _own("KfmRunFacet", **said)
    return found


def _job_facets(run: PublicRun) -> dict[str, Any]:
    title = run.metadata.get("title") or name_of(run.dataset)
    return {
        "documentation": _facet("DocumentationJobFacet", "1-1-0", description=f"{run.op} of {title}"),
        "jobType": _facet("JobTypeJobFacet", "2-0-4", processingType="BATCH", integration="KFM", jobType=run.job_type),
    }


def _named(id: str) -> dict[str, str]:
    """Return namespace and name: the scheme and host of an address (or KFM's namespace), and the rest."""
    scheme, mark, rest = id.partition("://")
    if not mark or scheme == "kfm":
        return {"namespace": NAMESPACE, "name": rest if mark else id}
    host, _, path = rest.partition("/")
    return {"namespace": f"{scheme}://{host}", "name": path or "/"}


def _input(each: PublicInput) -> dict[str, Any]:
    facets = {
        "version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=each.checksum),
        "dataSource": _facet("DatasourceDatasetFacet", "1-0-1", name=each.name or each.kind, uri=address(each)),
        "kfm_identity": _own("KfmIdentityDatasetFacet", id=each.id, digest=each.checksum),
    }
    found = {**_named(each.id), "facets": facets}
    if each.size is not None:
        found["inputFacets"] = {
            "inputStatistics": _facet("InputStatisticsInputDatasetFacet", "1-0-0", size=each.size, fileCount=1)
        }
    return found


def _outputs(run: PublicRun) -> Iterator[dict[str, Any]]:
    sizes: dict[Thing, int] = {(artifact.id, artifact.digest): artifact.size for artifact in run.artifacts}
    shared = _dataset_facets(run)
    left = {id for id, _ in run.left()}
    above = {part: whole for whole, parts in run.collections().items() for part in parts}
    reached = {id for id, _ in run.reached()}
    gone = [] if run.made_a_version() else [(id, "") for id, _ in run.left() if id not in reached]  # it drops its ref
    files = dict(run.published())
    for thing in (*run.outputs(), *gone):
        id, digest = thing
        was_there = bool(run.before) if run.made_a_version() else id in left
        state = "CREATE" if thing in files else "DROP" if not digest else "ALTER" if was_there else "CREATE"
        facets = {
            **shared,
            "version": _facet("DatasetVersionDatasetFacet", "1-0-1", datasetVersion=digest),
            "lifecycleStateChange": _facet("LifecycleStateChangeDatasetFacet", "1-0-1", lifecycleStateChange=state),
            "kfm_identity": _own("KfmIdentityDatasetFacet", id=id, digest=digest),
            **_place(run, thing, above),
        }
        found: dict[str, Any] = {**_named(id), "facets": facets}
        if thing in sizes:
            found["outputFacets"] = {
                "outputStatistics": _facet(
                    "OutputStatisticsOutputDatasetFacet", "1-0-2", size=sizes[thing], fileCount=1
                )
            }
        yield found


def _place(run: PublicRun, thing: Thing, above: dict[Thing, Thing]) -> dict[str, Any]:
    """Return the facets that connect an output with other datasets: what it is a part of, and its other name."""
    if thing in above:
        whole = above[thing]
        kinds = ("DATASET", "MEMBER") if run.made() == whole else ("REF", "FILE")
        levels = [
            {"type": kind, "name": _named(each[0])["name"]} for kind, each in zip(kinds, (whole, thing), strict=True)
        ]
        return {"hierarchy": _facet("HierarchyDatasetFacet", "1-0-0", hierarchy=levels)}
    if thing != run.made() or not run.ref:
        return {}
    other = [{**_named(ref_id(run.ref)), "type": "REF"}]
    return {"symlinks": _facet("SymlinksDatasetFacet", "1-0-1", identifiers=other)}


def _dataset_facets(run: PublicRun) -> dict[str, Any]:
    found: dict[str, Any] = {}
    text = run.metadata.get("description") or run.metadata.get("title")
    if text:
        found["documentation"] = _facet("DocumentationDatasetFacet", "1-1-0", description=text)
    labels = run.labels
    if labels is None:
        return found
    owners = [{"name": who, "type": "CUSTODIAN"} for who in labels.custodians]
    owners += [{"name": who, "type": "AUTHORITY"} for who in labels.authorities]
    if owners:
        found["ownership"] = _facet("OwnershipDatasetFacet", "1-0-1", owners=owners)
    found["kfm_governance"] = _own(
        "KfmGovernanceDatasetFacet",
        sensitivity=labels.level,
        care=labels.care,
        access=labels.access,
        communityLabels=list(labels.community_labels),
        h3Resolution=labels.resolution,
        consentUntil=labels.expires or None,
        rules=list(labels.rules),
    )
    return found


def schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schemas of KFM's own facets, by address."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    digest = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
    words = ("op", "trigger", "status", "outcome", "walId", "ref", "operator")
    digests = ("receipt", "planHash", "inputHash", "codeHash", "configHash", "version", "previousVersion")
    facets: dict[str, tuple[str, dict[str, Any], list[str]]] = {
        "KfmRunFacet": (
            "RunFacet",
            {
                **dict.fromkeys(words, text),
                **dict.fromkeys(digests, digest),
                "dryRun": {"type": "boolean"},
                "ledgerIndex": {"type": "integer", "minimum": 0},
                "removed": texts,
            },
            ["op", "status", "outcome", "dryRun", "ledgerIndex", "receipt"],
        ),
        "KfmIdentityDatasetFacet": ("DatasetFacet", {"id": text, "digest": text}, ["id", "digest"]),
        "KfmGovernanceDatasetFacet": (
            "DatasetFacet",
            {
                "sensitivity": {"enum": list(LEVELS)},
                "care": {"enum": list(CARE)},
                "access": {"enum": list(ACCESS)},
                "communityLabels": texts,
                "h3Resolution": {"type": ["integer", "null"], "minimum": 0, "maximum": 15},
                "consentUntil": {"type": ["string", "null"]},
                "rules": texts,
            },
            ["sensitivity", "care", "access"],
        ),
    }
    return {
        f"{_OURS}{name}.json": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"{_OURS}{name}.json",
            "$defs": {
                name: {
                    "allOf": [
                        {"$ref": f"{SPEC}#/$defs/{kind}"},
                        {"type": "object", "properties": properties, "required": required},
                    ],
                    "type": "object",
                }
            },
        }
        for name, (kind, properties, required) in facets.items()
    }
