"""STAC, DCAT and PROV documents for a dataset found in a catalog. Pure: the same finding gives the same bytes at any
time on any machine.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kfm.model.canonical import canonical
from kfm.model.reports.discovered_datasets import Finding, Offer, Page
from kfm.projections import dcat, stac
from kfm.projections.vocabulary import OURS, PRODUCER, is_licence_id, licence_iri, multihash

FOLDER = "pipelines/discovered"
_UP = "../" * (FOLDER.count("/") + 2)  # from the documents of a dataset up to the folder of kfm.yml


def documents(finding: Finding, dataset: str, pages: list[Page]) -> dict[str, bytes]:
    """Return the documents by path below the folder of kfm.yml."""
    page = next((each for each in pages if each.uri == finding.page.partition("#")[0]), None)
    said = {
        "collection.json": _collection(finding, dataset, page),
        "dataset.jsonld": _dataset(finding, dataset),
        "provenance.json": _provenance(finding, dataset, page),
    }
    return {f"{FOLDER}/{dataset}/{name}": _readable(value) for name, value in said.items()}


def _readable(value: dict[str, Any]) -> bytes:
    """Return canonical JSON with one line per value, so that a diff shows exactly the changed values."""
    return msgspec.json.format(canonical(value), indent=2) + b"\n"


def _collection(finding: Finding, dataset: str, page: Page | None) -> dict[str, Any]:
    checked = any(offer.digest or offer.size is not None for offer in finding.offers)
    is_id = bool(finding.license) and is_licence_id(finding.license)
    licence = [] if is_id or not finding.license else [{"rel": "license", "href": licence_iri(finding.license)}]
    via = {"rel": "via", "href": _href(finding.page)}
    return {
        "type": "Collection",
        "stac_version": stac.VERSION,
        "stac_extensions": [stac.FILE] if checked or page else [],
        "id": dataset,
        "title": finding.title,
        "description": finding.description or finding.title,
        "license": finding.license if is_id else "other",
        **({"providers": [{"name": finding.attribution}]} if finding.attribution else {}),
        "extent": {
            "spatial": {"bbox": [list(finding.bbox) or [-180.0, -90.0, 180.0, 90.0]]},
            "temporal": {"interval": [list(finding.interval) or [None, None]]},
        },
        "links": [{**via, **({"file:checksum": multihash(page.digest)} if page else {})}, *licence],
        "assets": {offer.name: _asset(offer) for offer in finding.offers},
    }


def _asset(offer: Offer) -> dict[str, Any]:
    return {
        "href": _href(offer.uri),
        "roles": ["data"],
        **({"type": offer.media_type} if offer.media_type else {}),
        **({"file:size": offer.size} if offer.size is not None else {}),
        **({"file:checksum": multihash(offer.digest)} if offer.digest else {}),
    }


def _dataset(finding: Finding, dataset: str) -> dict[str, Any]:
    """Return a catalog that holds this one dataset, because validators check catalogs."""
    here = f"kfm://dataset/{dataset}"
    publisher = finding.attribution or "unknown"
    licence = {"license": licence_iri(finding.license)} if finding.license else {}
    who = {"@id": f"{here}/publisher", "@type": "org:Organization", "name": publisher, "prefLabel": publisher}
    said = {"title": finding.title, "description": finding.description or finding.title, "publisher": who}
    found = {
        "@id": here,
        "@type": "dcat:Dataset",
        "identifier": [here],
        **said,
        "source": [_href(finding.page)],
        "distribution": [
            {
                "@id": f"{here}/{offer.name}",
                "@type": "dcat:Distribution",
                "title": offer.name,
                "downloadURL": _href(offer.uri),
                **({"mediaType": dcat.media(offer.media_type)} if offer.media_type else {}),
                **({"byteSize": str(offer.size)} if offer.size is not None else {}),
                **({"checksum": dcat.checksum(offer.digest)} if offer.digest else {}),
                **licence,
            }
            for offer in finding.offers
        ],
    }
    return {
        "@context": dcat.CONTEXT,
        "@id": f"{here}/discovered",
        "@type": "dcat:Catalog",
        "conformsTo": dcat.PROFILE,
        **said,
        "dataset": [found],
    }


def _provenance(finding: Finding, dataset: str, page: Page | None) -> dict[str, Any]:
    """Return a PROV-JSON bundle: a discovery generated the declaration and used the document that it read."""
    made, agent = f"dataset:{dataset}", "kfm:discover"
    activity = f"discovery:{dataset}"
    used = f"page:{page.digest[7:]}" if page else "page:folder"
    return {
        "prefix": {
            "kfm": OURS + "terms/",
            "dataset": "kfm://dataset/",
            "discovery": "kfm://discovery/",
            "page": "urn:sha256:",
        },
        "bundle": {
            f"discovery:bundle-{dataset}": {
                "entity": {
                    made: {"prov:label": finding.title},
                    used: {"kfm:id": finding.page, **({"kfm:digest": page.digest} if page else {})},
                },
                "activity": {activity: {"kfm:kind": finding.kind}},
                "agent": {
                    agent: {
                        "prov:type": {"$": "prov:SoftwareAgent", "type": "prov:QUALIFIED_NAME"},
                        "kfm:producer": PRODUCER,
                    }
                },
                "used": {"_:u1": {"prov:activity": activity, "prov:entity": used}},
                "wasGeneratedBy": {"_:g1": {"prov:entity": made, "prov:activity": activity}},
                "wasAssociatedWith": {"_:a1": {"prov:activity": activity, "prov:agent": agent}},
                "wasDerivedFrom": {"_:d1": {"prov:generatedEntity": made, "prov:usedEntity": used}},
            }
        },
    }


def _href(uri: str) -> str:
    return uri if "://" in uri else _UP + uri
