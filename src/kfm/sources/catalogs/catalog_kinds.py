"""From an address to what is found there: which kind of catalog it is, and the reader of that kind."""

from __future__ import annotations

from kfm.errors import BadInput
from kfm.model.reports.discovered_datasets import CatalogKind, Discovery
from kfm.parsing.strict_json import decode
from kfm.sources.catalogs import dcat_catalog, folder_index, stac_catalog
from kfm.sources.catalogs.crawl import Body, Crawl, Outside, shown


def discovered(outside: Outside, source: str, kind: CatalogKind | None, most_pages: int) -> Discovery:
    """What is there now. None: the first document says which kind it is."""
    crawl = Crawl(outside, source, most_pages)
    names = crawl.folder(source)
    if names is not None:
        if kind not in (None, "listing"):
            raise BadInput(f"{shown(source)} is a folder", hint=f"name the document of the {kind} catalog in it")
        findings, found = folder_index.read_folder(crawl, source, names), "listing"
    else:
        first = crawl.page(source)
        found = kind or _kind(first, source)
        if found == "listing":
            if not folder_index.is_listing(first):
                raise BadInput(f"{shown(source)} is no listing of a folder", hint="leave --kind out")
            findings = folder_index.read_pages(crawl, source, first)
        else:
            value = decode(first.body, shown(source))
            if not isinstance(value, dict):
                raise BadInput(f"{shown(source)} is no document of a catalog", hint="name one of STAC or DCAT")
            read = {
                "stac": stac_catalog.read_static,
                "stac-api": stac_catalog.read_api,
                "dcat": dcat_catalog.read_dcat,
            }[found]
            findings = read(crawl, source, value)
    return Discovery(
        source=source,
        kind=found,  # type: ignore[arg-type]
        findings=findings,
        pages=[crawl.pages[uri] for uri in sorted(crawl.pages)],
        skipped=dict(sorted(crawl.skipped.items())),
    )


def _kind(first: Body, source: str) -> CatalogKind:
    if folder_index.is_listing(first):
        return "listing"
    value = decode(first.body, shown(source))
    if isinstance(value, dict):
        if stac_catalog.is_stac(value):
            return "stac-api" if stac_catalog.is_api(value) else "stac"
        if dcat_catalog.is_dcat(value):
            return "dcat"
    raise BadInput(
        f"{shown(source)} is no catalog that is known here",
        hint="name a STAC catalog or API, a DCAT catalog or a listing of a folder; --kind says which",
    )
