"""Readers of exported lineage, one for each grammar. They know the standards, and share no code with KFM.

Each returns who read and who made what. A thing is written ADDRESS#DIGEST.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import prov.model
import rdflib

_PROV = rdflib.Namespace("http://www.w3.org/ns/prov#")
_DC = rdflib.Namespace("http://purl.org/dc/terms/")
Pairs = set[tuple[str, str]]


class Read(NamedTuple):
    """What a reader found: (run, thing) for everything read, and for everything made."""

    read: Pairs
    made: Pairs

    def back(self, thing: str) -> set[str]:
        """All runs and things that this thing came from."""
        return _closure(thing, [{(made, run) for run, made in self.made}, self.read])

    def forth(self, thing: str) -> set[str]:
        """All runs and things that this thing went into."""
        return _closure(thing, [{(read, run) for run, read in self.read}, self.made])


def _closure(start: str, edges: Iterable[Pairs]) -> set[str]:
    after: dict[str, set[str]] = {}
    for one, other in (pair for pairs in edges for pair in pairs):
        after.setdefault(one, set()).add(other)
    found, waiting = {start}, [start]
    while waiting:
        more = after.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found - {start}


def openlineage(text: str) -> Read:
    found = Read(set(), set())
    for event in map(json.loads, text.splitlines()):
        for side, pairs in (("inputs", found.read), ("outputs", found.made)):
            for one in event[side]:
                name = f"{one['namespace']}://{one['name']}#{one['facets']['version']['datasetVersion']}"
                pairs.add((event["run"]["runId"], name))
    return found


def cloudevents(text: str) -> Read:
    found = Read(set(), set())
    for event in map(json.loads, text.splitlines()):
        for side, pairs in (("inputs", found.read), ("outputs", found.made)):
            pairs |= {(event["id"], f"{one['id']}#{one['digest']}") for one in event["data"][side]}
    return found


def prov_json(text: str) -> Read:
    found = Read(set(), set())
    for bundle in prov.model.ProvDocument.deserialize(content=text, format="json").bundles:
        for usage in bundle.get_records(prov.model.ProvUsage):
            found.read.add((usage.args[0].uri, usage.args[1].uri))
        for generation in bundle.get_records(prov.model.ProvGeneration):
            found.made.add((generation.args[1].uri, generation.args[0].uri))
    return found


def prov_o(text: str) -> Read:
    whole = rdflib.Graph()
    for line in text.splitlines():
        bundle = rdflib.Dataset()
        bundle.parse(data=line, format="json-ld")
        for one, what, other, _ in bundle.quads():
            whole.add((one, what, other))
    return _triples(whole)


def dcat(catalog: Path) -> Read:
    """Where a public file has an address, it is named by it."""
    graph = rdflib.Graph().parse(catalog / "catalog.jsonld", format="json-ld", publicID=catalog.as_uri() + "/")
    return _triples(graph)


def _triples(graph: rdflib.Graph) -> Read:
    read = {(str(one), str(other)) for one, other in graph.subject_objects(_PROV.used)}
    made = {(str(one), str(other)) for one, other in graph.subject_objects(_PROV.generated)}
    return Read(read, made | {(str(other), str(one)) for one, other in graph.subject_objects(_PROV.wasGeneratedBy)})


def stac(catalog: Path) -> Read:
    """A collection is a version. Its items are its members; their assets are the public files."""
    found = Read(set(), set())
    for path in catalog.glob("*/collection.json"):
        collection = json.loads(path.read_text())
        version = f"{collection['kfm:dataset']}#{collection['version']}"
        found.made.add((collection["kfm:run_id"], version))
        found.read.add((collection["kfm:published_by"], version))
        found.read.update((collection["kfm:run_id"], source) for source in _sources(collection))
        for link in collection["links"]:
            if link["rel"] != "item":
                continue
            item = json.loads((path.parent / link["href"]).read_text())
            asset = item["assets"]["data"]
            digest = "sha256:" + asset["file:checksum"][4:]
            place = (path.parent / link["href"]).parent / asset["href"]
            found.made.add((item["properties"]["kfm:run_id"], f"{item['properties']['kfm:id']}#{digest}"))
            found.made.add((collection["kfm:published_by"], f"{place.resolve().as_uri()}#{digest}"))
            found.read.update((item["properties"]["kfm:run_id"], source) for source in _sources(item))
    return found


def _sources(document: dict[str, Any]) -> Iterable[str]:
    for link in document["links"]:
        if link["rel"] in ("via", "derived_from"):
            yield f"{link['kfm:id']}#sha256:{link['file:checksum'][4:]}"


def mermaid(text: str) -> Read:
    names = dict(re.findall(r"^  %% (n[0-9]+) is (.*)$", text, re.MULTILINE))
    found = Read(set(), set())
    for one, other in re.findall(r"^  (n[0-9]+) --> (n[0-9]+)$", text, re.MULTILINE):
        if names[one].startswith("run "):
            found.made.add((names[one], names[other]))
        else:
            found.read.add((names[other], names[one]))
    return found


EXPORTED: dict[str, Callable[[str], Read]] = {
    "openlineage": openlineage,
    "prov": prov_json,
    "prov-o": prov_o,
    "cloudevents": cloudevents,
    "mermaid": mermaid,
}
CATALOGUED: dict[str, Callable[[Path], Read]] = {"dcat": dcat, "stac": stac}
