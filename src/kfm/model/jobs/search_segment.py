"""The outputs of an index: segments of documents, and the manifest that says which segments belong together."""

from __future__ import annotations

from kfm.model.records import Record

MANIFEST = "index"  # the key of the manifest; the key of a segment is its source and its number
FORMAT = "kfm.search-index/1"
NO_VECTORS = "full text only"


class SearchDocument(Record, frozen=True, omit_defaults=True):
    """One line of a segment; the lines are sorted by id."""

    id: str
    text: str
    title: str = ""
    vector: str = ""  # 256 signed bytes in base64; empty: full text only


class IndexedSource(Record, frozen=True):
    """A version that was indexed."""

    name: str
    dataset: str
    version: str
    segments: list[int]  # how many documents each of its segments has


class SearchManifest(Record, frozen=True):
    """What an index holds."""

    format: str
    alias: str
    model: str  # of the vectors; `full text only` if there are none
    documents: int
    sources: list[IndexedSource]
