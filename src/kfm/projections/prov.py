"""PROV: one bundle per run, as PROV-JSON and as PROV-O in JSON-LD, with the same statements. Pure.

An entity is an item in one state: its id and the digest of its bytes. A run used its inputs and generated its outputs.
Each output derives from all inputs; this follows, so it is not written for every pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfm.model.canonical import canonical
from kfm.model.public_run import PublicRun
from kfm.projections.vocabulary import OURS, address, agent_uri, entity, quoted, run_uri

MEDIA_TYPE = "application/json"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_PROV = "http://www.w3.org/ns/prov#"

CONTEXT: dict[str, Any] = {
    "@version": 1.1,
    "prov": _PROV,
    "xsd": _XSD,
    "kfm": OURS + "terms/",
    "dcterms": "http://purl.org/dc/terms/",
    "identifier": "dcterms:identifier",
    "digest": "kfm:digest",
    "startedAtTime": {"@id": "prov:startedAtTime", "@type": "xsd:dateTime"},
    "endedAtTime": {"@id": "prov:endedAtTime", "@type": "xsd:dateTime"},
    **{
        name: {"@id": f"prov:{name}", "@type": "@id"}
        for name in (
            "used", "generated", "wasAssociatedWith", "wasAttributedTo", "wasRevisionOf", "invalidated",
            "qualifiedAssociation", "agent", "hadPlan",
        )
    },
}  # fmt: skip


def path_of(run: PublicRun) -> str:
    return f"prov/{run.run_id}.json"


def prov_json(run: PublicRun) -> dict[str, Any]:
    """Return the bundle of a run as PROV-JSON."""
    names = _Names()
    activity, agent = names(run_uri(run.run_id)), names(agent_uri(run))
    plan = names(f"kfm://plan/{run.plan_hash}") if run.plan_hash else ""
    entities: dict[str, Any] = {}
    for iri, id, digest, size in _entities(run):
        entities[names(iri)] = {"kfm:id": id, "kfm:digest": digest, **({"kfm:size": size} if size is not None else {})}
    if plan:
        entities[plan] = {"prov:type": {"$": "prov:Plan", "type": "prov:QUALIFIED_NAME"}}
    actors: dict[str, Any] = {
        agent: {
            "prov:type": {"$": "prov:SoftwareAgent", "type": "prov:QUALIFIED_NAME"},
            "kfm:version": run.updater_version,
        }
    }
    for iri, name in _people(run):
        actors[names(iri)] = {
            "prov:type": {"$": "prov:Organization", "type": "prov:QUALIFIED_NAME"},
            "prov:label": name,
        }
    outputs = [names(entity(id, digest)) for id, digest in run.outputs()]
    bundle: dict[str, Any] = {
        "entity": entities,
        "activity": {
            activity: {"prov:startTime": run.started_at, "prov:endTime": run.finished_at, **_said_of(run, "kfm:")}
        },
        "agent": actors,
        "used": _each("u", ({"prov:activity": activity, "prov:entity": names(iri)} for iri in _used(run))),
        "wasGeneratedBy": _each("g", ({"prov:entity": one, "prov:activity": activity} for one in outputs)),
        "wasAssociatedWith": _each(
            "a", [{"prov:activity": activity, "prov:agent": agent, **({"prov:plan": plan} if plan else {})}]
        ),
        "wasAttributedTo": _each(
            "t",
            ({"prov:entity": one, "prov:agent": names(iri)} for one in outputs for iri, _ in _people(run)),
        ),
        "wasDerivedFrom": _each(
            "d",
            (
                {
                    "prov:generatedEntity": names(new),
                    "prov:usedEntity": names(old),
                    "prov:type": {"$": "prov:Revision", "type": "prov:QUALIFIED_NAME"},
                }
                for new, old in _revisions(run)
            ),
        ),
        "wasInvalidatedBy": _each(
            "i", ({"prov:entity": names(iri), "prov:activity": activity} for iri in _invalidated(run))
        ),
    }
    name = names(f"kfm://bundle/{run.run_id}")
    return {"prefix": names.prefixes(), "bundle": {name: {part: said for part, said in bundle.items() if said}}}


def prov_o(run: PublicRun) -> dict[str, Any]:
    """Return the bundle of a run as PROV-O."""
    activity, agent = run_uri(run.run_id), agent_uri(run)
    plan = f"kfm://plan/{run.plan_hash}" if run.plan_hash else ""
    people = [iri for iri, _ in _people(run)]
    revisions: dict[str, list[str]] = {}
    for new, old in _revisions(run):
        revisions.setdefault(new, []).append(old)
    given = {entity(id, digest) for id, digest in run.outputs()}
    graph: list[dict[str, Any]] = [
        {
            "@id": activity,
            "@type": "prov:Activity",
            "startedAtTime": run.started_at,
            "endedAtTime": run.finished_at,
            **_said_of(run, "kfm:"),
            "used": list(_used(run)),
            "generated": sorted(given),
            "invalidated": _invalidated(run),
            "wasAssociatedWith": agent,
            "qualifiedAssociation": {
                "@type": "prov:Association",
                "agent": agent,
                **({"hadPlan": plan} if plan else {}),
            },
        },
        {"@id": agent, "@type": ["prov:Agent", "prov:SoftwareAgent"], "kfm:version": run.updater_version},
        *({"@id": iri, "@type": ["prov:Agent", "prov:Organization"], "kfm:name": name} for iri, name in _people(run)),
        *([{"@id": plan, "@type": ["prov:Entity", "prov:Plan"]}] if plan else []),
    ]
    for iri, id, digest, _ in _entities(run):
        graph.append(
            {
                "@id": iri,
                "@type": "prov:Entity",
                "identifier": id,
                "digest": digest,
                **({"wasAttributedTo": people} if people and iri in given else {}),
                **({"wasRevisionOf": revisions[iri]} if iri in revisions else {}),
            }
        )
    return {"@context": CONTEXT, "@id": f"kfm://bundle/{run.run_id}", "@graph": graph}


def to_bytes(document: dict[str, Any]) -> bytes:
    return canonical(document) + b"\n"


class _Names:
    """Writes IRIs as PROV-JSON does: a prefix per scheme, and the rest."""

    def __init__(self) -> None:
        self._schemes: set[str] = set()

    def __call__(self, iri: str) -> str:
        scheme, mark, rest = iri.partition("://")
        if not mark:
            scheme, _, rest = iri.partition(":")
            self._schemes.add(scheme + ":")
            return f"{scheme}:{rest}"
        self._schemes.add(scheme + "://")
        return f"{scheme}:{rest}"

    def prefixes(self) -> dict[str, str]:
        return {text.partition(":")[0]: text for text in sorted(self._schemes)}


def _said_of(run: PublicRun, prefix: str) -> dict[str, Any]:
    said = {
        "op": run.op,
        "trigger": run.trigger,
        "status": run.status,
        "outcome": run.outcome,
        "dry_run": run.dry_run,
        "wal_id": run.wal_id,
        "ledger_index": run.index,
        "receipt": run.receipt_digest,
        "code": run.code_hash,
        "configuration": run.config_hash,
        "care": run.labels.care if run.labels else "",
        "sensitivity": run.labels.level if run.labels else "",
    }
    return {prefix + name: value for name, value in said.items() if value != ""}


def _entities(run: PublicRun) -> list[tuple[str, str, str, int | None]]:
    """Return each entity once: IRI, id, digest, and size if it is known."""
    sizes = {artifact.id: artifact.size for artifact in run.artifacts}
    found: dict[str, tuple[str, str, str, int | None]] = {}
    for each in run.inputs:
        iri = entity(address(each), each.checksum)
        found.setdefault(iri, (iri, each.id, each.checksum, each.size))
    for id, digest in run.outputs():
        iri = entity(id, digest)
        found.setdefault(iri, (iri, id, digest, sizes.get(id)))
    for iri, id, digest in _before(run):
        found.setdefault(iri, (iri, id, digest, None))
    return list(found.values())


def _used(run: PublicRun) -> Iterable[str]:
    return dict.fromkeys(entity(address(each), each.checksum) for each in run.inputs)


def _before(run: PublicRun) -> list[tuple[str, str, str]]:
    """Return the states of the run's ref before and after the run; [] if the ref did not change."""
    if not run.ref or not run.before or run.before == run.version:
        return []
    id = f"kfm://ref/{run.ref}"
    states = [run.before, run.version] if run.version else [run.before]
    return [(entity(id, digest), id, digest) for digest in states]


def _revisions(run: PublicRun) -> list[tuple[str, str]]:
    before = _before(run)
    return [(before[1][0], before[0][0])] if len(before) == 2 else []


def _invalidated(run: PublicRun) -> list[str]:
    return [iri for iri, _, digest in _before(run) if digest == run.before]


def _people(run: PublicRun) -> list[tuple[str, str]]:
    """Return the custodians and authorities that the labels of a run name, with their IRIs."""
    if run.labels is None:
        return []
    names = dict.fromkeys([*run.labels.custodians, *run.labels.authorities])
    return [(f"kfm://community/{quoted(name, '')}", name) for name in names]


def _each(letter: str, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {f"_:{letter}{number}": row for number, row in enumerate(rows, 1)}
