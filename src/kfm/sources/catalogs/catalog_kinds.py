"""Find out which kind of catalog an address holds, and read it."""

from __future__ import annotations

from kfm.errors import BadInput
from kfm.model.reports.discovered_datasets import CatalogKind, Discovery
from kfm.parsing.strict_json import decode
from kfm.sources.catalogs import dcat_catalog, folder_index, stac_catalog
from kfm.sources.catalogs.crawl import Crawl, PageBody, PageFetcher, shown


def read_catalog(outside: PageFetcher, source: str, kind: CatalogKind | None, most_pages: int) -> Discovery:
    """Read the catalog at `source` and return its findings. With `kind` None, the first document decides the kind."""
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
                raise BadInput(f"{shown(source)} is not a folder listing", hint="leave --kind out")
            findings = folder_index.read_pages(crawl, source, first)
        else:
            value = decode(first.body, shown(source))
            if not isinstance(value, dict):
                raise BadInput(f"{shown(source)} is not a catalog document", hint="name a STAC or DCAT document")
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


def _kind(first: PageBody, source: str) -> CatalogKind:
    if folder_index.is_listing(first):
        return "listing"
    value = decode(first.body, shown(source))
    if isinstance(value, dict):
        if stac_catalog.is_stac(value):
            return "stac-api" if stac_catalog.is_api(value) else "stac"
        if dcat_catalog.is_dcat(value):
            return "dcat"
    raise BadInput(
        f"{shown(source)} is not a catalog that KFM can read",
        hint="name a STAC catalog or API, a DCAT catalog or a folder listing; --kind chooses the reader",
    )
