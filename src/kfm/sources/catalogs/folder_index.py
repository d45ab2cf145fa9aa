"""Read folder listings of web servers, and local folders. Each folder is a finding, each file an offer.

Only names inside the listed folder count: no link upward, sideways or to another server, however it is spelled.
"""

from __future__ import annotations

from collections import deque
from html.parser import HTMLParser
from urllib.parse import unquote

from kfm.errors import BadInput
from kfm.model.reports.discovered_datasets import Finding
from kfm.parsing.characters import is_printable
from kfm.sources.catalogs.crawl import Crawl, Group, PageBody, finish, is_remote, shown
from kfm.sources.urls import parse

MEDIA_TYPES = {
    "csv": "text/csv", "geojson": "application/geo+json", "json": "application/json", "ndjson": "application/x-ndjson",
    "pdf": "application/pdf", "tif": "image/tiff", "tiff": "image/tiff", "txt": "text/plain", "xml": "application/xml",
    "zip": "application/zip", "parquet": "application/vnd.apache.parquet", "nc": "application/x-netcdf",
}  # fmt: skip
MOST_LINKS = 50_000


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") if tag == "a" else None
        if href and len(self.found) < MOST_LINKS:
            self.found.append(href)


def is_listing(found: PageBody) -> bool:
    essence = found.media_type.partition(";")[0].strip().lower()
    start = found.body[:1024].lstrip().lower()
    return essence in ("text/html", "application/xhtml+xml") or start.startswith((b"<!doctype html", b"<html"))


def read_pages(crawl: Crawl, uri: str, first: PageBody) -> list[Finding]:
    """Return the findings of a page of links and of the folders below it."""
    groups: list[Group] = []
    waiting: deque[tuple[str, PageBody | None]] = deque([(uri, first)])
    while waiting:
        here, found = waiting.popleft()
        if found is None:
            if not crawl.may_follow(here):
                continue
            found = crawl.page(here)
            if not is_listing(found):
                raise BadInput(f"{shown(here)} is not a folder listing", hint="ask the server's operator")
        folder = _folder(here)
        group = Group(_name(folder), here)
        for name in _names(crawl, folder, found.body):
            if name.endswith("/"):
                waiting.append((folder + name, None))
            else:
                there = crawl.offered(folder, folder + name)
                if there:
                    _add(group, unquote(name), there)
        groups.append(group)
    return finish(groups, "listing", crawl)


def read_folder(crawl: Crawl, uri: str, names: list[str]) -> list[Finding]:
    group = Group(uri.rstrip("/").rpartition("/")[2], uri)
    for name in names:
        if name.endswith("/") or not is_printable(name):
            crawl.skipped["no file"] += 1
        else:
            _add(group, name, f"{uri.rstrip('/')}/{name}")
    return finish([group], "listing", crawl)


def _add(group: Group, name: str, uri: str) -> None:
    stem, dot, suffix = name.rpartition(".")
    group.add(stem if dot and suffix.lower() in MEDIA_TYPES else name, uri, MEDIA_TYPES.get(suffix.lower(), ""))


def _names(crawl: Crawl, folder: str, body: bytes) -> list[str]:
    """Return the names inside the folder as the links spell them; a subfolder ends with a slash."""
    reader = _Links()
    reader.feed(body.decode("utf-8", "replace"))
    found = []
    for href in reader.found:
        if href.startswith(("?", "#")):  # the same list in another order
            continue
        there = crawl.at(folder, href)
        name = there.removeprefix(folder)
        if not there or there == folder or folder.startswith(there):  # a link to the parent folder
            continue
        plain = unquote(name).removesuffix("/")
        inside = there.startswith(folder) and "?" not in name and is_printable(plain)
        if not inside or "/" in plain or "\\" in plain or plain.startswith(".") or not plain:
            crawl.skipped["outside"] += 1
            continue
        found.append(name)
    return sorted(set(found))


def _folder(uri: str) -> str:
    """Return the folder that a page lists. A last part without a dot is a folder whose slash was left out."""
    path = uri.partition("?")[0].partition("#")[0]
    if path.endswith("/"):
        return path
    head, _, last = path.rpartition("/")
    return f"{head}/" if "." in last else f"{path}/"


def _name(folder: str) -> str:
    last = unquote(folder.rstrip("/").rpartition("/")[2])
    return last if not is_remote(folder) or parse(folder).target != "/" else parse(folder).host
