"""The citation file of a dataset: Citation File Format 1.2.0, which GitHub, Zenodo and Zotero read. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kfm.model.public_run import Places, PublicVersion
from kfm.projections.pages import file_marks
from kfm.projections.pages.public_addresses import page_address
from kfm.projections.vocabulary import is_licence_id, licence_iri

# Licences of data and code that the format knows; others are named by their address.
_KNOWN = frozenset(
    [
        "CC0-1.0",
        "CC-BY-4.0",
        "CC-BY-3.0",
        "CC-BY-SA-4.0",
        "CC-BY-SA-3.0",
        "CC-BY-NC-4.0",
        "CC-BY-ND-4.0",
        "CC-BY-NC-SA-4.0",
        "CC-BY-NC-ND-4.0",
        "ODbL-1.0",
        "ODC-By-1.0",
        "PDDL-1.0",
        "MIT",
        "Apache-2.0",
        "BSD-3-Clause",
        "BSD-2-Clause",
        "Unlicense",
    ]
)


def citation(version: PublicVersion, places: Places) -> bytes:
    """Return how to cite the current version of a dataset."""
    return "".join(f"{line}\n" for line in _lines(version, places)).encode("utf-8", "replace")


def _lines(version: PublicVersion, places: Places) -> Iterator[str]:
    metadata = version.metadata or version.made.metadata
    title = str(metadata.get("title") or version.dataset)
    yield file_marks.CITATION
    yield "cff-version: 1.2.0"
    yield "message: If you use this dataset, please cite it as below."
    yield "type: dataset"
    yield f"title: {_quoted(title)}"
    if description := str(metadata.get("description") or ""):
        yield f"abstract: {_quoted(description)}"
    yield "authors:"
    yield f"  - name: {_quoted(str(metadata.get('attribution') or '') or places.publisher)}"
    if places.contact and "://" not in places.contact:
        yield "contact:"
        yield f"  - name: {_quoted(places.publisher)}"
        yield f"    email: {_quoted(places.contact)}"
    yield f"version: {_quoted(version.digest[7:19])}"
    if version.published_at:
        yield f'date-released: "{version.published_at[:10]}"'
    yield from _licence(str(metadata.get("license") or ""))
    if page := page_address(places, version.dataset):
        yield f"url: {_quoted(page)}"
    yield "identifiers:"
    yield "  - type: other"
    yield f"    value: {_quoted(f'kfm://dataset/{version.dataset}@{version.digest}')}"
    yield "    description: the digest of this version"


def _licence(said: str) -> Iterator[str]:
    if said in _KNOWN:
        yield f"license: {said}"
    elif is_licence_id(said) or said.startswith("https://"):
        yield f"license-url: {_quoted(said if said.startswith('https://') else licence_iri(said))}"


def _quoted(text: Any) -> str:
    """Return a text in double quotes, as JSON and YAML both read it, on one line."""
    return msgspec.json.encode(" ".join(str(text).split()).encode("utf-8", "replace").decode()).decode()
