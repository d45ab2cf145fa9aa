"""PROV: one bundle per run, as PROV-JSON and as PROV-O in JSON-LD, with the same statements. Pure.

An entity is an item in one state: its id and the digest of its bytes. A run used its inputs and generated its outputs.
Each output derives from all inputs; this follows, so it is not written for every pair. A version is a collection of its
members. A ref at a version is a specialisation of the version, and a collection of the files that were published.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kfm.model.canonical import canonical
from kfm.model.public_run import PublicRun, Thing
from kfm.projections.vocabulary import OURS, agent_uri, entity, iri_of, quoted, run_uri

MEDIA_TYPE = "application/json"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_PROV = "http://www.w3.org/ns/prov#"
_ROLE = "operator"  # of the person or schedule that ordered the run

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
            "qualifiedAssociation", "agent", "hadPlan", "hadMember", "specializationOf", "hadRole",
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
    collections = run.collections()
    for (id, digest), size in _entities(run).items():
        entities[names(_iri(id, digest))] = {
            "kfm:id": id,
            "kfm:digest": digest,
            **({"kfm:size": size} if size is not None else {}),
            **({"prov:type": _typed("prov:Collection")} if (id, digest) in collections else {}),
        }
    if plan:
        entities[plan] = {"prov:type": _typed("prov:Plan")}
    actors: dict[str, Any] = {
        agent: {"prov:type": _typed("prov:SoftwareAgent"), "kfm:version": run.updater_version},
        **{names(iri): {"prov:label": name} for iri, name in _operator(run)},
    }
    for iri, name in _people(run):
        actors[names(iri)] = {"prov:type": _typed("prov:Organization"), "prov:label": name}
    outputs = [names(_iri(*thing)) for thing in run.outputs()]
    bundle: dict[str, Any] = {
        "entity": entities,
        "activity": {
            activity: {"prov:startTime": run.started_at, "prov:endTime": run.finished_at, **_said_of(run, "kfm:")}
        },
        "agent": actors,
        "used": _each("u", ({"prov:activity": activity, "prov:entity": names(iri)} for iri in _used(run))),
        "wasGeneratedBy": _each("g", ({"prov:entity": one, "prov:activity": activity} for one in outputs)),
        "wasAssociatedWith": _each(
            "a",
            [
                {"prov:activity": activity, "prov:agent": agent, **({"prov:plan": plan} if plan else {})},
                *(
                    {"prov:activity": activity, "prov:agent": names(iri), "prov:role": _ROLE}
                    for iri, _ in _operator(run)
                ),
            ],
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
                    "prov:type": _typed("prov:Revision"),
                }
                for new, old in _revisions(run)
            ),
        ),
        "hadMember": _each(
            "m",
            (
                {"prov:collection": names(_iri(*whole)), "prov:entity": names(_iri(*part))}
                for whole, parts in collections.items()
                for part in parts
            ),
        ),
        "specializationOf": _each(
            "s",
            (
                {"prov:specificEntity": names(_iri(*one)), "prov:generalEntity": names(_iri(*other))}
                for one, other in run.specialisations()
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
    given = {_iri(*thing) for thing in run.outputs()}
    ordered = [iri for iri, _ in _operator(run)]
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
            "wasAssociatedWith": [agent, *ordered],
            "qualifiedAssociation": [
                {"@type": "prov:Association", "agent": agent, **({"hadPlan": plan} if plan else {})},
                *({"@type": "prov:Association", "agent": iri, "hadRole": OURS + f"terms/{_ROLE}"} for iri in ordered),
            ],
        },
        {"@id": agent, "@type": ["prov:Agent", "prov:SoftwareAgent"], "kfm:version": run.updater_version},
        *({"@id": iri, "@type": "prov:Agent", "kfm:name": name} for iri, name in _operator(run)),
        *({"@id": iri, "@type": ["prov:Agent", "prov:Organization"], "kfm:name": name} for iri, name in _people(run)),
        *([{"@id": plan, "@type": ["prov:Entity", "prov:Plan"]}] if plan else []),
    ]
    return {
        "@context": CONTEXT,
        "@id": f"kfm://bundle/{run.run_id}",
        "@graph": graph + _described(run, given, people),
    }


def _described(run: PublicRun, given: set[str], people: list[str]) -> list[dict[str, Any]]:
    """Return the nodes of the entities, each with its members, the entity that it specialises and the one that it
    revises."""
    members = {_iri(*whole): [_iri(*part) for part in parts] for whole, parts in run.collections().items()}
    general: dict[str, list[str]] = {}
    for one, other in run.specialisations():
        general.setdefault(_iri(*one), []).append(_iri(*other))
    revisions: dict[str, list[str]] = {}
    for new, old in _revisions(run):
        revisions.setdefault(new, []).append(old)
    found = []
    for id, digest in _entities(run):
        iri = _iri(id, digest)
        found.append(
            {
                "@id": iri,
                "@type": ["prov:Entity", "prov:Collection"] if iri in members else "prov:Entity",
                "identifier": id,
                "digest": digest,
                **({"wasAttributedTo": people} if people and iri in given else {}),
                **({"wasRevisionOf": revisions[iri]} if iri in revisions else {}),
                **({"specializationOf": general[iri]} if iri in general else {}),
                **({"hadMember": members[iri]} if iri in members else {}),
            }
        )
    return found


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


def _iri(id: str, digest: str) -> str:
    return entity(iri_of(id), digest)


def _typed(name: str) -> dict[str, str]:
    return {"$": name, "type": "prov:QUALIFIED_NAME"}


def _entities(run: PublicRun) -> dict[Thing, int | None]:
    """Return each entity once, with its size if it is known."""
    found: dict[Thing, int | None] = {(each.id, each.checksum): each.size for each in run.used()}
    found |= {(artifact.id, artifact.digest): artifact.size for artifact in run.artifacts}
    others = [*run.outputs(), *run.left(), *(part for parts in run.collections().values() for part in parts)]
    others += [thing for pair in run.specialisations() for thing in pair]
    others += [thing for pair in _revised(run) for thing in pair]
    return {**found, **{thing: None for thing in others if thing not in found}}


def _used(run: PublicRun) -> Iterable[str]:
    return dict.fromkeys(_iri(each.id, each.checksum) for each in run.used())


def _revised(run: PublicRun) -> list[tuple[Thing, Thing]]:
    """Return what the run replaced: the version before the one that it made, or the version of a ref that it moved."""
    made = run.made()
    if made is not None:
        return [(made, (made[0], run.before))] if run.before not in ("", run.version) else []
    after = dict(run.reached())
    return [((id, after[id]), (id, before)) for id, before in run.left() if id in after]


def _revisions(run: PublicRun) -> list[tuple[str, str]]:
    return [(_iri(*new), _iri(*old)) for new, old in _revised(run)]


def _invalidated(run: PublicRun) -> list[str]:
    """Return the states of refs that an operation ended. A version stays what it was when another one is made."""
    return [_iri(*thing) for thing in run.left()]


def _operator(run: PublicRun) -> list[tuple[str, str]]:
    """Return who ordered the run, with an IRI; [] if that is withheld."""
    return [(f"kfm://operator/{quoted(run.operator, '')}", run.operator)] if run.operator else []


def _people(run: PublicRun) -> list[tuple[str, str]]:
    """Return the custodians and authorities that the labels of a run name, with their IRIs."""
    if run.labels is None:
        return []
    names = dict.fromkeys([*run.labels.custodians, *run.labels.authorities])
    return [(f"kfm://community/{quoted(name, '')}", name) for name in names]


def _each(letter: str, rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {f"_:{letter}{number}": row for number, row in enumerate(rows, 1)}
