"""DCAT 3 as JSON-LD, in the terms and shapes of DCAT-US 3. Pure.

The context is part of every document, so a reader needs no network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kfm.model.canonical import canonical
from kfm.model.public_run import Places, PublicArtifact, PublicColumn, PublicRun, PublicVersion, public_file_id
from kfm.projections import stac
from kfm.projections.vocabulary import OURS, address, entity, instant, interval, licence_iri, name_of, run_uri

PATH = "catalog.jsonld"
MEDIA_TYPE = "application/ld+json"
PARTS = 100  # the parts of a larger version are in its listing
PROFILE = "http://data.resources.gov/ontology/dcat-us#"
_CARE = OURS + "vocabulary/"


def _of(iri: str, kind: str = "@id") -> dict[str, str]:
    return {"@id": iri, "@type": kind}


def _set(iri: str, kind: str = "@id") -> dict[str, str]:
    return {"@id": iri, "@type": kind, "@container": "@set"}


CONTEXT: dict[str, Any] = {
    "@version": 1.1,
    "adms": "http://www.w3.org/ns/adms#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcat-us": "http://data.resources.gov/ontology/dcat-us#",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "gsp": "http://www.opengis.net/ont/geosparql#",
    "odrs": "http://schema.theodi.org/odrs#",
    "org": "http://www.w3.org/ns/org#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "kfm": OURS + "terms/",
    "accessRestriction": _set("dcat-us:accessRestriction"),
    "accessRights": _of("dcterms:accessRights"),
    "accessURL": _of("dcat:accessURL"),
    "agent": _of("prov:agent"),
    "algorithm": _of("spdx:algorithm"),
    "atLocation": _of("prov:atLocation"),
    "attributionText": "odrs:attributionText",
    "bbox": _of("dcat:bbox", "gsp:wktLiteral"),
    "byteSize": _of("dcat:byteSize", "xsd:nonNegativeInteger"),
    "checksum": _of("spdx:checksum"),
    "checksumValue": _of("spdx:checksumValue", "xsd:hexBinary"),
    "conformsTo": _of("dcterms:conformsTo"),
    "contactPoint": _of("dcat:contactPoint"),
    "created": _of("dcterms:created", "xsd:dateTime"),
    "dataset": _set("dcat:dataset"),
    "description": "dcterms:description",
    "distribution": _set("dcat:distribution"),
    "downloadURL": _of("dcat:downloadURL"),
    "endDate": _of("dcat:endDate", "xsd:dateTime"),
    "fn": "vcard:fn",
    "generated": _set("prov:generated"),
    "hadRole": _of("dcat:hadRole"),
    "hasCurrentVersion": _of("dcat:hasCurrentVersion"),
    "hasEmail": _of("vcard:hasEmail"),
    "hasPart": _set("dcterms:hasPart"),
    "hasURL": _of("vcard:hasURL"),
    "hasVersion": _set("dcat:hasVersion"),
    "homepage": _of("foaf:homepage"),
    "identifier": {"@id": "dcterms:identifier", "@container": "@set"},
    "issued": _of("dcterms:issued", "xsd:dateTime"),
    "isVersionOf": _of("dcterms:isVersionOf"),
    "label": "rdfs:label",
    "license": _of("dcterms:license"),
    "mediaType": _of("dcat:mediaType"),
    "modified": _of("dcterms:modified", "xsd:dateTime"),
    "name": "foaf:name",
    "prefLabel": "skos:prefLabel",
    "previousVersion": _of("dcat:previousVersion"),
    "publisher": _of("dcterms:publisher"),
    "qualifiedAttribution": _set("prov:qualifiedAttribution"),
    "restrictionNote": "dcat-us:restrictionNote",
    "restrictionStatus": _of("dcat-us:restrictionStatus"),
    "rights": _of("dcterms:rights"),
    "source": _set("dcterms:source"),
    "specializationOf": _of("prov:specializationOf"),
    "spatial": _set("dcterms:spatial"),
    "startDate": _of("dcat:startDate", "xsd:dateTime"),
    "temporal": _set("dcterms:temporal"),
    "title": "dcterms:title",
    "used": _set("prov:used"),
    "useRestriction": _set("dcat-us:useRestriction"),
    "version": "dcat:version",
    "wasGeneratedBy": _set("prov:wasGeneratedBy"),
}


def catalog(versions: Iterable[PublicVersion], places: Places) -> dict[str, Any]:
    """Return the catalog of the published datasets, each at its current version."""
    return {
        "@context": CONTEXT,
        "@id": "kfm://catalog",
        "@type": "dcat:Catalog",
        "conformsTo": PROFILE,
        "title": places.title,
        "description": places.description,
        "publisher": _publisher(places),
        **_contact(places),
        "dataset": [dataset(version, places) for version in sorted(versions, key=lambda each: each.dataset)],
    }


def dataset(version: PublicVersion, places: Places) -> dict[str, Any]:
    name, run = version.dataset, version.made
    here = f"kfm://dataset/{name}"
    metadata = version.metadata or run.metadata
    return {
        "@id": here,
        "@type": "dcat:Dataset",
        "identifier": [here],
        "title": metadata.get("title") or name,
        "description": metadata.get("description") or metadata.get("title") or name,
        "publisher": _publisher(places),
        **_contact(places),
        "version": version.digest,
        "hasCurrentVersion": entity(here, version.digest),
        **({"previousVersion": entity(here, version.previous)} if version.previous else {}),
        "modified": run.finished_at,
        **({"issued": version.published_at} if version.published_at else {}),
        **_extent(version),
        **_rights(run, metadata),
        "source": sorted({address(each) for each in run.used()}),
        "wasGeneratedBy": [_activity(version)],
        "distribution": _distributions(version, places),
    }


def to_bytes(document: dict[str, Any]) -> bytes:
    return canonical(document) + b"\n"


def _activity(version: PublicVersion) -> dict[str, Any]:
    """Return the run that made a version: its inputs, and the version with its parts."""
    run, here = version.made, f"kfm://dataset/{version.dataset}"
    parts = [{"@id": entity(each.id, each.digest), "@type": "prov:Entity"} for each in version.members]
    made = {"@id": entity(here, version.digest), "@type": "prov:Collection", "isVersionOf": here}
    return {
        "@id": run_uri(run.run_id),
        "@type": "prov:Activity",
        "label": f"{run.op} by {run.updater_id} {run.updater_version}",
        "used": [
            {"@id": entity(address(each), each.checksum), "@type": "prov:Entity", "identifier": [each.id]}
            for each in run.used()
        ],
        "generated": [{**made, **({"hasPart": parts} if parts else {})}],
    }


def _publication(version: PublicVersion, places: Places) -> dict[str, Any]:
    """Return the run that published a version first, with the public files; {} if it was never published."""
    if not version.published_by:
        return {}
    files = [
        {
            "@id": entity(public_file_id(version.dataset, each.path), each.digest),
            "@type": "prov:Entity",
            "specializationOf": entity(each.id, each.digest),
            "atLocation": _public(version, places, each.path),
        }
        for each in version.members
    ]
    run = {
        "@id": run_uri(version.published_by),
        "@type": "prov:Activity",
        "used": [entity(f"kfm://dataset/{version.dataset}", version.digest)],
        **({"generated": files} if files else {}),
    }
    return {"wasGeneratedBy": [run]}


def _public(version: PublicVersion, places: Places, path: str) -> str:
    """Return the address of a file in the public folder of the dataset."""
    whole = f"{places.public}/datasets/{version.dataset}/{path}"
    return whole if "://" in whole else f"./{whole}"


def _publisher(places: Places) -> dict[str, str]:
    return {
        "@id": OURS,
        "@type": "org:Organization",
        "name": places.publisher,
        "prefLabel": places.publisher,
        **({"homepage": places.home} if places.home else {}),
    }


def _contact(places: Places) -> dict[str, Any]:
    """Return whom to ask about the data; {} if the archive names no contact."""
    if not places.contact:
        return {}
    way = {"hasURL": places.contact} if "://" in places.contact else {"hasEmail": f"mailto:{places.contact}"}
    return {"contactPoint": {"@type": "vcard:Kind", "fn": places.publisher, **way}}


def _distributions(version: PublicVersion, places: Places) -> list[dict[str, Any]]:
    """Return the distributions: the listing of all files with their digests, the STAC collection with its items, and
    each file of masked data."""
    name, here = version.dataset, f"kfm://dataset/{version.dataset}"
    found: list[dict[str, Any]] = [
        {
            "@id": entity(here, version.digest) + "/stac",
            "@type": "dcat:Distribution",
            "title": "STAC collection",
            "accessURL": f"./{stac.collection_path(name)}",
            "mediaType": media("application/json"),
            **_restrictions(version.made),
            **_licence(version.metadata or version.made.metadata),
        }
    ]
    if version.listing:
        path = _public(version, places, f"versions/{version.digest[7:23]}.ndjson")
        found.append(
            {
                "@id": entity(here, version.digest) + "/files",
                "@type": "dcat:Distribution",
                "title": "every file of this version, with its digest",
                **_description(version.described),
                "accessURL": path,
                "downloadURL": path,
                **_publication(version, places),
                "mediaType": media("application/x-ndjson"),
                "byteSize": str(version.listing_size),
                "checksum": checksum(version.listing),
                **_restrictions(version.made),
                **_licence(version.metadata or version.made.metadata),
            }
        )
    found += (_file(each, version, places) for each in version.files)
    return found


def columns_of(files: Sequence[PublicArtifact]) -> list[str]:
    """Return the columns of tables in words, each with its units."""
    plain = (name for each in files for name in each.columns)
    return list(dict.fromkeys([*plain, *(in_words(one) for each in files for one in each.table)]))


def in_words(one: PublicColumn) -> str:
    return f"{one.name} ({one.units})" if one.units else one.name


def _description(files: Sequence[PublicArtifact]) -> dict[str, str]:
    """Return what the files hold, in a sentence: columns, variables and rows; {} if nothing was read."""
    columns, bands = columns_of(files), dict.fromkeys(in_words(one) for each in files for one in each.bands)
    counts = [each.rows for each in files if each.rows is not None]
    said = [f"Columns: {', '.join(columns)}."] if columns else []
    said += [f"Variables: {', '.join(bands)}."] if bands else []
    said += [f"{sum(counts)} rows."] if columns and len(counts) == len(files) else []
    return {"description": " ".join(said)} if said else {}


def _file(each: PublicArtifact, version: PublicVersion, places: Places) -> dict[str, Any]:
    """Return a file of masked data as a distribution that readers can download."""
    path = _public(version, places, each.path)
    return {
        "@id": f"{each.id}#{each.digest}",
        "@type": "dcat:Distribution",
        "title": " / ".join(each.key),
        **_description((each,)),
        "accessURL": path,
        "downloadURL": path,
        "mediaType": media(each.media_type),
        "byteSize": str(each.size),
        "checksum": checksum(each.digest),
        **_restrictions(version.made),
        **_licence(version.metadata or version.made.metadata),
    }


def checksum(digest: str) -> dict[str, str]:
    return {  # named by IRI, so that two documents about one file name the same checksum
        "@id": f"urn:{digest}",
        "@type": "spdx:Checksum",
        "algorithm": "http://spdx.org/rdf/terms#checksumAlgorithm_sha256",
        "checksumValue": digest.removeprefix("sha256:"),
    }


def media(media_type: str) -> str:
    return "https://www.iana.org/assignments/media-types/" + media_type.partition(";")[0].strip()


def _licence(metadata: dict[str, Any]) -> dict[str, str]:
    said = str(metadata.get("license") or "")
    return {"license": licence_iri(said)} if said else {}


def _rights(run: PublicRun, metadata: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    credit = metadata.get("attribution")
    if credit:
        found["rights"] = {
            "@id": f"kfm://rights/{name_of(run.dataset)}",
            "@type": "dcterms:RightsStatement",
            "attributionText": credit,
        }
    labels = run.labels
    found["accessRights"] = {
        "@id": f"{_CARE}access/{labels.access if labels else 'open'}",
        "@type": "dcterms:RightsStatement",
    }
    if labels:
        people = [("custodian", who) for who in labels.custodians] + [("authority", who) for who in labels.authorities]
        if people:
            found["qualifiedAttribution"] = [
                {
                    "@type": "prov:Attribution",
                    "hadRole": f"{_CARE}role/{role}",
                    "agent": {"@type": "foaf:Agent", "name": who},
                }
                for role, who in people
            ]
    return found


def _restrictions(run: PublicRun) -> dict[str, Any]:
    """Return CARE and community labels as use restrictions, and the sensitivity level as an access restriction."""
    labels = run.labels
    if labels is None:
        return {}
    coarse = "" if labels.resolution is None else f"No place is shown finer than one H3 cell of {labels.resolution}. "
    until = f"Consent until {labels.expires}." if labels.expires else ""
    access = _restriction("Access", f"sensitivity/{labels.level}", (coarse + until).strip())
    codes = ", ".join(labels.community_labels)
    use = _restriction("Use", f"care/{labels.care}", f"Labels of Local Contexts: {codes}." if codes else "")
    return {"accessRestriction": [access], "useRestriction": [use]}


def _restriction(kind: str, word: str, note: str) -> dict[str, str]:
    found = {"@type": f"dcat-us:{kind}Restriction", "restrictionStatus": _CARE + word}
    return {**found, "restrictionNote": note} if note else found


def _extent(version: PublicVersion) -> dict[str, Any]:
    metadata = version.metadata or version.made.metadata
    box = stac.box_of(version)
    start, end = interval(metadata)
    if start is None and end is None:
        start, end = (instant(text) for text in version.interval)
    found: dict[str, Any] = {}
    if box:
        found["spatial"] = [{"@type": "dcterms:Location", "bbox": _wkt(stac.around(box))}]
    if start or end:
        period = {"@type": "dcterms:PeriodOfTime", "startDate": start, "endDate": end}
        found["temporal"] = [{name: value for name, value in period.items() if value}]
    return found


def _wkt(shape: dict[str, Any]) -> str:
    def ring(points: list[list[float]]) -> str:
        return "((" + ", ".join(f"{x:.12g} {y:.12g}" for x, y in points) + "))"

    if shape["type"] == "Polygon":
        return "POLYGON " + ring(shape["coordinates"][0])
    return "MULTIPOLYGON (" + ", ".join(ring(each[0]) for each in shape["coordinates"]) + ")"
