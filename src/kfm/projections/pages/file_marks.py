"""The mark by which KFM recognises the pages and files for programs that it wrote. A file without it belongs to the
archive and stays. Pure."""

from __future__ import annotations

HTML = '<meta name="generator" content="KFM">'
FEED = "<generator>KFM</generator>"
SITEMAP = "<!-- generator: KFM -->"
CITATION = "# generator: KFM"
HEAD = 4096  # bytes in which the mark is
# Pages from before there was a mark.
_OLDER = b"""content="default-src 'none'; style-src 'unsafe-inline'"><title>"""
_MARKS = {
    "index.html": (HTML.encode(), _OLDER),
    "explanation.html": (HTML.encode(), _OLDER),
    "sitemap.xml": (SITEMAP.encode(),),
    "feed.xml": (FEED.encode(),),
    "CITATION.cff": (CITATION.encode(),),
}


def is_marked(path: str, head: bytes) -> bool:
    """Return whether KFM wrote the page or file for programs at a path, given its first bytes. A name that only KFM
    gives needs no mark, and an empty file holds nothing that could be lost."""
    marks = _MARKS.get(path.rpartition("/")[2]) if path.count("/") in (0, 2) else None
    return not head or marks is None or any(mark in head[:HEAD] for mark in marks)


def is_catalog_document(path: str, body: bytes) -> bool:
    """Return whether KFM wrote a document of a catalog, given its content."""
    if path == "catalog.json":
        return b'"./catalog.jsonld"' in body
    return b'"kfm:' in body or "/groups/" in path or "/runs/" in path
