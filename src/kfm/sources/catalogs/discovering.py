"""From an address to what is found there: which kind of catalog it is, and the reader of that kind."""

from __future__ import annotations

from kfm.contract.discovery import CatalogKind, Discovery
from kfm.documents.strict_json import decode
from kfm.errors import BadInput
from kfm.sources.catalogs import dcat, listing, stac
from kfm.sources.catalogs.walking import Body, Crawl, Outside, shown


def discovered(outside: Outside, source: str, kind: CatalogKind | None, most_pages: int) -> Discovery:
    """What is there now. None: the first document says which kind it is."""
    crawl = Crawl(outside, source, most_pages)
    names = crawl.folder(source)
    if names is not None:
        if kind not in (None, "listing"):
            raise BadInput(f"{shown(source)} is a folder", hint=f"name the document of the {kind} catalog in it")
        findings, found = listing.read_folder(crawl, source, names), "listing"
    else:
        first = crawl.page(source)
        found = kind or _kind(first, source)
        if found == "listing":
            if not listing.is_listing(first):
                raise BadInput(f"{shown(source)} is no listing of a folder", hint="leave --kind out")
            findings = listing.read_pages(crawl, source, first)
        else:
            value = decode(first.body, shown(source))
            if not isinstance(value, dict):
                raise BadInput(f"{shown(source)} is no document of a catalog", hint="name one of STAC or DCAT")
            read = {"stac": stac.read_static, "stac-api": stac.read_api, "dcat": dcat.read_dcat}[found]
            findings = read(crawl, source, value)
    return Discovery(
        source=source,
        kind=found,  # type: ignore[arg-type]
        findings=findings,
        pages=[crawl.pages[uri] for uri in sorted(crawl.pages)],
        skipped=dict(sorted(crawl.skipped.items())),
    )


def _kind(first: Body, source: str) -> CatalogKind:
    if listing.is_listing(first):
        return "listing"
    value = decode(first.body, shown(source))
    if isinstance(value, dict):
        if stac.is_stac(value):
            return "stac-api" if stac.is_api(value) else "stac"
        if dcat.is_dcat(value):
            return "dcat"
    raise BadInput(
        f"{shown(source)} is no catalog that is known here",
        hint="name a STAC catalog or API, a DCAT catalog or a listing of a folder; --kind says which",
    )
