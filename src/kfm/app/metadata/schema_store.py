"""The installed schemas, ours and those of standards, by address. Nothing is fetched."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

import msgspec

from kfm.errors import Corrupt, Unavailable
from kfm.projections import openlineage, stac_governance
from kfm.projections.vocabulary import GOVERNANCE

_FOLDER = os.path.join(os.path.dirname(__file__), "standards")
# It refers to files that none of its releases has at these addresses.
_INCOMPLETE = frozenset({"https://stac-extensions.github.io/storage/v2.0.0/schema.json"})
LACKING = "pip install 'kansas-frontier-matrix[catalog]'"
DCAT_US = "dcat-us-3"  # our name for it: the published parts refer to definitions that they lack


@cache
def _index() -> dict[str, str]:
    found = _read("index.json")
    return {str(address): str(file) for address, file in found.items()}


def _read(name: str) -> Any:
    try:
        with open(os.path.join(_FOLDER, *name.split("/")), "rb") as file:
            return msgspec.json.decode(file.read())
    except (OSError, msgspec.DecodeError):
        raise Corrupt(f"the installed schema {name} cannot be read", hint="install KFM again") from None


@cache
def _ours() -> dict[str, dict[str, Any]]:
    return {GOVERNANCE: stac_governance.schema(), **openlineage.schemas()}


def known(address: str) -> bool:
    """Return whether a usable schema with this address is installed."""
    bare = address.partition("#")[0]
    return (bare in _index() or bare in _ours()) and bare not in _INCOMPLETE


def schema(address: str) -> Any:
    """Return the schema with this address."""
    bare = address.partition("#")[0]
    if bare == DCAT_US:
        return _dcat_us()
    return _ours()[bare] if bare in _ours() else _read(_index()[bare])


def _retrieve(address: str) -> Any:
    if not known(address):
        raise KeyError(address)
    return schema(address)


def is_installed() -> bool:
    """Return whether the library for checks is installed, without loading it."""
    if "jsonschema_rs" in sys.modules:
        return sys.modules["jsonschema_rs"] is not None
    return find_spec("jsonschema_rs") is not None


@cache
def validator(address: str) -> Any:
    """Return the compiled validator of a schema. Its messages never quote values. Unavailable if the library is not
    installed."""
    try:
        import jsonschema_rs
    except ImportError:
        raise Unavailable(
            "catalogs cannot be checked: jsonschema-rs is not installed",
            hint=LACKING,
        ) from None
    dialect = schema(address).get("$schema", "http://json-schema.org/draft-07/schema#")
    whole = _dcat_us() if address == DCAT_US else {"$schema": dialect, "$ref": address}
    return jsonschema_rs.validator_for(whole, validate_formats=True, retriever=_retrieve, mask="the value")


@cache
def _dcat_us() -> dict[str, Any]:
    """Return DCAT-US as one schema. Its parts use `$id` for terms, which would change the base of every reference
    below."""
    names = list(_read("dcat-us-3/jsonschema/dcat_us_3.0.0_schema.json")["definitions"])
    found = {name: _without_ids(_read(f"dcat-us-3/jsonschema/definitions/{name}.json")) for name in names}
    for name in ("bbox", "centroid", "geometry"):  # DCAT-US itself requires WKT here, which is no IRI
        found["Location"]["properties"][name] = {"type": ["null", "object", "string"]}
    missing: dict[str, Any] = {name: {"type": "object"} for name in _referred(found) if name not in found}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$ref": "#/definitions/Catalog",
        "definitions": {**missing, **found},
    }


def _referred(part: Any) -> set[str]:
    """Return the names of the definitions that this part refers to; some of them are not published."""
    if isinstance(part, dict):
        own = part.get("$ref")
        return {own.rpartition("/")[2]} if isinstance(own, str) else set().union(*map(_referred, part.values()))
    return set().union(*map(_referred, part)) if isinstance(part, list) else set()


def _without_ids(part: Any) -> Any:
    """Return this part without ids, and with `iri-reference` for `iri`, because JSON-LD resolves relative ones."""
    if isinstance(part, dict):
        kept = {name: _without_ids(each) for name, each in part.items() if name not in ("$id", "$schema")}
        return {**kept, "format": "iri-reference"} if kept.get("format") == "iri" else kept
    return [_without_ids(each) for each in part] if isinstance(part, list) else part
