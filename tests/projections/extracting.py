"""(run, input, output) out of the bytes of each grammar, with what a reader of that grammar knows and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import prov.model as prov_model
import rdflib

from kfm.model.canonical import canonical
from kfm.model.public_run import Places, PublicRun
from kfm.projections import cloudevents, cypher, mermaid, openlineage, prov, stac

Triples = set[tuple[str, str, str]]
PLACES = Places(public="../public", receipts="../exports")
_PROV = rdflib.Namespace("http://www.w3.org/ns/prov#")
_TERMS = rdflib.Namespace("https://kfm.example/terms/")
_DC = rdflib.Namespace("http://purl.org/dc/terms/")
_DCAT = rdflib.Namespace("http://www.w3.org/ns/dcat#")


def pairs(run: str, inputs: set[str], outputs: set[str]) -> Triples:
    return {(run, each, other) for each in inputs for other in outputs}


def bodies(run: PublicRun) -> dict[str, list[bytes]]:
    """What each grammar says of a run, as it is written."""
    items = [canonical(stac.item(one, run, PLACES)) for one in run.artifacts]
    return {
        "stac": items or ([canonical(stac.moved(run))] if run.ref else []),
        "prov-json": [prov.to_bytes(prov.prov_json(run))],
        "prov-o": [prov.to_bytes(prov.prov_o(run))],
        "openlineage": [canonical(event) for event in openlineage.events(run)],
        "cloudevents": [canonical(cloudevents.event(run))],
        "cypher": [canonical(statement) for statement in cypher.batch([run])],
        "mermaid": [mermaid.chart([run]).encode()],
    }


def from_stac(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for document in map(json.loads, documents):
        sources = {
            f"{link['kfm:id']}#"
            + ("sha256:" + link["file:checksum"][4:] if "file:checksum" in link else link["kfm:checksum"])
            for link in document["links"]
            if link["rel"] in ("via", "derived_from")
        }
        if document["type"] == "Feature":
            said = document["properties"]
            assert document["assets"]["data"]["file:checksum"][:4] == "1220"
            output = f"{said['kfm:id']}#sha256:{document['assets']['data']['file:checksum'][4:]}"
            found |= pairs(said["kfm:run_id"], sources, {output})
        else:
            version = document["version"] if document["version"] != "withdrawn" else ""
            found |= pairs(document["kfm:run_id"], sources, {f"{document['kfm:ref']}#{version}"})
    return found


def from_dcat(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for document in documents:
        graph = rdflib.Graph().parse(data=document, format="json-ld", publicID="file:///catalog/")
        for output, run in graph.subject_objects(_PROV.wasGeneratedBy):
            version = str(graph.value(output, _DCAT.version)).replace("withdrawn", "")
            sources = {
                f"{graph.value(used, _DC.identifier)}#{str(used).rpartition('#')[2]}"
                for used in graph.objects(run, _PROV.used)
            }
            found |= pairs(
                str(run).removeprefix("kfm://run/"), sources, {f"{graph.value(output, _DC.identifier)}#{version}"}
            )
    return found


def from_prov_json(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for document in documents:
        read = prov_model.ProvDocument.deserialize(content=document.decode(), format="json")
        for bundle in read.bundles:
            names = {}
            for one in bundle.get_records(prov_model.ProvEntity):
                said = {str(name): value for name, value in one.extra_attributes}
                if "kfm:id" in said:
                    names[one.identifier] = f"{said['kfm:id']}#{said['kfm:digest']}"
            used: dict[Any, set[str]] = {}
            for each in bundle.get_records(prov_model.ProvUsage):
                activity, entity = each.args[:2]
                used.setdefault(activity, set()).add(names[entity])
            for each in bundle.get_records(prov_model.ProvGeneration):
                entity, activity = each.args[:2]
                run = activity.uri.removeprefix("kfm://run/")
                found |= pairs(run, used.get(activity, set()), {names[entity]})
    return found


def from_prov_o(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for document in documents:
        whole = rdflib.Dataset()
        whole.parse(data=document, format="json-ld")
        for graph in whole.graphs():

            def name(one: Any, graph: Any = graph) -> str:
                return f"{graph.value(one, _DC.identifier)}#{graph.value(one, _TERMS.digest)}"

            for run in graph.subjects(rdflib.RDF.type, _PROV.Activity):
                used = {name(one) for one in graph.objects(run, _PROV.used)}
                made = {name(one) for one in graph.objects(run, _PROV.generated)}
                found |= pairs(str(run).removeprefix("kfm://run/"), used, made)
    return found


def from_openlineage(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for event in map(json.loads, documents):
        names = {
            side: {
                f"{one['facets']['kfm_identity']['id']}#{one['facets']['version']['datasetVersion']}"
                for one in event[side]
            }
            for side in ("inputs", "outputs")
        }
        found |= pairs(event["run"]["runId"], names["inputs"], names["outputs"])
    return found


def from_cloudevents(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for event in map(json.loads, documents):
        names = {
            side: {f"{one['id']}#{one['digest']}" for one in event["data"][side]} for side in ("inputs", "outputs")
        }
        found |= pairs(event["id"], names["inputs"], names["outputs"])
    return found


def from_cypher(documents: list[bytes]) -> Triples:
    rows: dict[str, list[dict[str, Any]]] = {}
    for document in map(json.loads, documents):
        for name, found in document["parameters"].items():
            assert f"${name}" in document["text"]
            rows.setdefault(name, []).extend(found)
    return {
        (row["run"], f"{row['uri']}#{row['hash']}", f"{made['uri']}#{made['hash']}")
        for row in rows.get("used", [])
        for made in rows.get("made", [])
        if made["run"] == row["run"]
    }


def from_mermaid(documents: list[bytes]) -> Triples:
    found: Triples = set()
    for document in documents:
        names: dict[str, str] = {}
        arrows = []
        for line in document.decode().splitlines():
            if match := re.fullmatch(r"  %% (n[0-9]+) is (.*)", line):
                names[match[1]] = re.sub(
                    r"(?:%[0-9A-F]{2})+", lambda codes: bytes.fromhex(codes[0].replace("%", "")).decode(), match[2]
                )
            elif match := re.fullmatch(r"  (n[0-9]+) --> (n[0-9]+)", line):
                arrows.append((match[1], match[2]))
        runs = {box: name.removeprefix("run ") for box, name in names.items() if name.startswith("run ")}
        for box, run in runs.items():
            used = {names[one] for one, other in arrows if other == box}
            made = {names[other] for one, other in arrows if one == box}
            found |= pairs(run, used, made)
    return found


EXTRACT: dict[str, Callable[[list[bytes]], Triples]] = {
    "stac": from_stac,
    "prov-json": from_prov_json,
    "prov-o": from_prov_o,
    "openlineage": from_openlineage,
    "cloudevents": from_cloudevents,
    "cypher": from_cypher,
    "mermaid": from_mermaid,
}


def wanted(run: PublicRun, grammar: str) -> Triples:
    """What a grammar says of a run: everything; STAC has items and moved refs alone."""
    if grammar != "stac":
        return run.triples()
    items = {f"{one.id}#{one.digest}" for one in run.artifacts} or {f"kfm://ref/{run.ref}#{run.version}"}
    return {one for one in run.triples() if one[2] in items}


def said(run: PublicRun) -> dict[str, Triples]:
    """What each grammar says of a run, read from its bytes."""
    return {grammar: EXTRACT[grammar](documents) for grammar, documents in bodies(run).items()}
