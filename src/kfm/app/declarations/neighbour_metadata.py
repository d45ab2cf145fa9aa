"""Finds what is said of a file next to it or in it: title, description, licence and attribution.

It reads datapackage.json (Frictionless), collection.json (STAC) and LICENSE in the folder of a file, and members of a
JSON document. Only a licence that SPDX knows counts.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from kfm.errors import BadInput
from kfm.model.licences import nearest_id, problem_of
from kfm.model.reports.discovered_datasets import words
from kfm.parsing.strict_json import decode

LARGEST = 1 << 20
_TEXTS = (
    (re.compile(r"CC0 1\.0|creativecommons\.org/publicdomain/zero/1\.0", re.IGNORECASE), "CC0-1.0"),
    (re.compile(r"creativecommons\.org/licenses/by/4\.0|Attribution 4\.0 International", re.IGNORECASE), "CC-BY-4.0"),
    (re.compile(r"creativecommons\.org/licenses/by-sa/4\.0|ShareAlike 4\.0", re.IGNORECASE), "CC-BY-SA-4.0"),
    (re.compile(r"Open Data Commons Open Database License|ODbL", re.IGNORECASE), "ODbL-1.0"),
    (re.compile(r"Public Domain Dedication and License", re.IGNORECASE), "PDDL-1.0"),
    (re.compile(r"Open Data Commons Attribution", re.IGNORECASE), "ODC-By-1.0"),
    (re.compile(r"Apache License\s+Version 2\.0", re.IGNORECASE), "Apache-2.0"),
    (re.compile(r"\bMIT License\b|Permission is hereby granted, free of charge", re.IGNORECASE), "MIT"),
)
_LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "COPYING")


class Stated(NamedTuple):
    """What is stated about a file, and where the licence is stated. Empty: nothing is."""

    title: str = ""
    description: str = ""
    license: str = ""
    attribution: str = ""
    where: str = ""


def stated_next_to(path: str) -> Stated:
    """Return what the files next to a file or in a folder state about it."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    found = Stated()
    for name in ("datapackage.json", "collection.json"):
        body = _read(os.path.join(folder, name))
        if body:
            found = merged(found, stated_in(body, name))
    for name in _LICENCES:
        body = _read(os.path.join(folder, name))
        if body and not found.license:
            text = body.decode("utf-8", "replace")
            known = next((licence for pattern, licence in _TEXTS if pattern.search(text)), "")
            found = merged(found, Stated(license=known, where=name if known else ""))
    return found


def stated_in(body: bytes, where: str) -> Stated:
    """Return what a JSON document states about itself or about the data next to it."""
    try:
        document = decode(body, where)
    except BadInput:
        return Stated()
    return stated_by(document, where) if isinstance(document, dict) else Stated()


def stated_by(document: dict[str, Any], where: str) -> Stated:
    """Return what the members of a document state."""
    own = document.get("metadata")
    meta = own if isinstance(own, dict) else {}
    properties = document.get("properties") if isinstance(document.get("properties"), dict) else {}
    said = [document.get("license"), meta.get("license"), (properties or {}).get("license")]
    listed = document.get("licenses")
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            said += [one.get("name"), one.get("path")]
    licence = next((known for text in said if isinstance(text, str) and (known := _known(text))), "")
    return Stated(
        title=words(document.get("title") or meta.get("title"), 200),
        description=words(document.get("description") or meta.get("description"), 1000),
        license=licence,
        attribution=words(document.get("attribution"), 300),
        where=where if licence else "",
    )


def merged(one: Stated, other: Stated) -> Stated:
    """Return both; where both say something, the first counts."""
    licence, where = (one.license, one.where) if one.license else (other.license, other.where)
    return Stated(
        one.title or other.title, one.description or other.description, licence, one.attribution or other.attribution,
        where,
    )  # fmt: skip


def _known(text: str) -> str:
    """Return the SPDX id that a text is, up to case and punctuation, or that its address names; a similar name is not
    enough."""
    if len(text) > 200:
        return ""
    if problem_of(text) is None:
        return text
    found = nearest_id(text)
    is_same = re.sub(r"[^a-z0-9]", "", text.lower()) == re.sub(r"[^a-z0-9]", "", found.lower())
    return found if found and (is_same or "://" in text) else ""


def _read(path: str) -> bytes:
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > LARGEST:
            return b""
        with open(path, "rb") as file:
            return file.read(LARGEST)
    except OSError:
        return b""
