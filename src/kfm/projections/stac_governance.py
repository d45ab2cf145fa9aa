"""KFM's own STAC extension: the labels of data, and how far places were generalised. Pure.

The schema is defined here, `make schemas` writes it with its examples, and KFM validates catalogs against it.
"""

from __future__ import annotations

from typing import Any

from kfm.model.labels import ACCESS, CARE, COMMUNITY, LEVELS
from kfm.model.public_run import PublicLabels
from kfm.projections.vocabulary import GOVERNANCE


def governance(labels: PublicLabels | None) -> dict[str, Any]:
    """Return the governance properties of an item or collection; {} if no label applies."""
    if labels is None:
        return {}
    community = [{"code": code, "name": COMMUNITY[code][0]} for code in labels.community_labels if code in COMMUNITY]
    said: dict[str, Any] = {
        "kfm:sensitivity": labels.level,
        "kfm:care": labels.care,
        "kfm:access": labels.access,
        "kfm:community_labels": community,
        "kfm:custodians": list(labels.custodians),
        "kfm:authorities": list(labels.authorities),
        "kfm:rules": list(labels.rules),
        "kfm:consent_until": labels.expires,
        "kfm:generalisation": {"grid": "H3", "resolution": labels.resolution} if labels.resolution is not None else {},
    }
    return {name: value for name, value in said.items() if value}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the extension in STAC's style: draft 7, for items and collections."""
    texts = {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}
    fields: dict[str, Any] = {
        "kfm:sensitivity": {"enum": list(LEVELS), "description": "how open it is"},
        "kfm:care": {"enum": list(CARE), "description": "the most closed word of CARE on anything it was made of"},
        "kfm:access": {"enum": list(ACCESS), "description": "the most closed access right, the same way"},
        "kfm:community_labels": {
            "type": "array",
            "minItems": 1,
            "description": "TK and BC labels of Local Contexts",
            "items": {
                "type": "object",
                "required": ["code", "name"],
                "additionalProperties": False,
                "properties": {"code": {"enum": list(COMMUNITY)}, "name": {"type": "string", "minLength": 1}},
            },
        },
        "kfm:custodians": {**texts, "description": "whose keys seal it"},
        "kfm:authorities": {**texts, "description": "who decides about it"},
        "kfm:rules": {**texts, "description": "every reason for which it is not more open"},
        "kfm:consent_until": {
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
            "description": "the last day of the consent that ends first; then it is withdrawn",
        },
        "kfm:generalisation": {
            "type": "object",
            "required": ["grid", "resolution"],
            "additionalProperties": False,
            "description": "no place is shown finer than one cell of this grid",
            "properties": {"grid": {"const": "H3"}, "resolution": {"type": "integer", "minimum": 0, "maximum": 15}},
        },
    }
    needed = {"required": ["kfm:sensitivity", "kfm:care"]}
    coarse = {  # generalised data must state their rules
        "if": {"properties": {"kfm:sensitivity": {"const": "generalised"}}, "required": ["kfm:sensitivity"]},
        "then": {"required": ["kfm:rules"]},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": GOVERNANCE + "#",
        "title": "Governance: CARE, TK and BC labels, generalisation",
        "type": "object",
        "required": ["stac_extensions", "type"],
        "properties": {"stac_extensions": {"type": "array", "contains": {"const": GOVERNANCE}}},
        "oneOf": [
            {
                "required": ["properties"],
                "properties": {
                    "type": {"const": "Feature"},
                    "properties": {"allOf": [{"$ref": "#/definitions/fields"}, needed, coarse]},
                },
            },
            {
                "allOf": [
                    {"properties": {"type": {"const": "Collection"}}},
                    {"$ref": "#/definitions/fields"},
                    needed,
                    coarse,
                ]
            },
        ],
        "definitions": {"fields": {"type": "object", "properties": fields}},
    }


def examples() -> dict[str, dict[str, Any]]:
    """Return an item and a collection that use the extension, by name."""
    labels = PublicLabels(
        level="generalised",
        care="community",
        access="open",
        resolution=6,
        expires="2027-06-30",
        custodians=("example-nation",),
        authorities=("Example Nation, preservation office",),
        community_labels=("TK A", "TK CS"),
        rules=("label.care", "label.community"),
    )
    said = governance(labels)
    shared: dict[str, Any] = {"stac_version": "1.1.0", "stac_extensions": [GOVERNANCE], "links": []}
    return {
        "item": {
            **shared,
            "type": "Feature",
            "id": "sites-2026",
            "geometry": None,
            "properties": {"datetime": "2026-01-01T00:00:00Z", **said},
            "assets": {},
        },
        "collection": {
            **shared,
            "type": "Collection",
            "id": "sites",
            "description": "Places of a community, shown as cells.",
            "license": "other",
            "extent": {
                "spatial": {"bbox": [[-102.05, 36.99, -94.59, 40]]},
                "temporal": {"interval": [["2026-01-01T00:00:00Z", None]]},
            },
            **said,
        },
    }
