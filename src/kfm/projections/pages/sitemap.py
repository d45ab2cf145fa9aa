"""The sitemap of the public folder (sitemaps.org 0.9), for search engines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from kfm.model.public_run import Places
from kfm.projections.pages import file_marks
from kfm.projections.pages.public_addresses import absolute, page_address

MOST = 50_000  # addresses that one sitemap may hold


def sitemap(datasets: Sequence[tuple[str, str]], places: Places) -> bytes | None:
    """Return the sitemap, given the name of each public dataset and when its current version was published; None if
    the archive has no address: a sitemap needs absolute ones."""
    if not places.public_url:
        return None
    newest = max((day for _, day in datasets), default="")
    pages = [(absolute(places, ""), newest), *((page_address(places, name), day) for name, day in datasets)]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        file_marks.SITEMAP,
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
    ]
    for address, day in pages[:MOST]:
        changed = f"<lastmod>{escape(day[:10])}</lastmod>" if day else ""
        lines.append(f"<url><loc>{escape(address)}</loc>{changed}</url>")
    return ("\n".join([*lines, "</urlset>"]) + "\n").encode()
