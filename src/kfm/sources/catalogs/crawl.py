"""Read the documents of one origin within bounds: the crawl ends and stays at its origin, whatever a server answers.

Pages are read only from the origin of the first page, or below its folder. Files that a page names may be elsewhere:
they are recorded and never fetched.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kfm.errors import BadInput, Refused
from kfm.model.names import is_digest
from kfm.model.reports.discovered_datasets import Finding, Offer, Page, named, slug, words
from kfm.model.secret_refs import key_in_clear
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.strict_json import decode
from kfm.sources import scheme_of
from kfm.sources.urls import ParsedUrl, parse

MOST_BYTES = 16 << 20  # largest page
MOST_ALTOGETHER = 256 << 20  # all pages together
MOST_OFFERS = 100_000


class PageBody(NamedTuple):
    """The bytes of one page, with their digest and media type."""

    digest: str
    media_type: str
    body: bytes


class PageFetcher(Protocol):
    """Fetches pages under the installation's rules for sources."""

    def get(self, uri: str) -> PageBody: ...

    def folder(self, uri: str) -> list[str] | None:
        """Return the names in a local folder, subfolders with a final slash; None if `uri` is not a folder."""


class Crawl:
    """Reads the pages of a catalog within limits, and remembers which were read."""

    def __init__(self, outside: PageFetcher, start: str, most_pages: int) -> None:
        self._outside = outside
        self._most = most_pages
        self._read = 0
        self.start = start
        self.pages: dict[str, Page] = {}
        self.skipped: Counter[str] = Counter()

    def page(self, uri: str) -> PageBody:
        """Fetch a page. Each address is read once; a second request for it is a loop and raises Refused."""
        if uri in self.pages:
            raise Refused(f"{shown(uri)} links back to itself", hint="ask the server's operator")
        if len(self.pages) >= self._most:
            raise Refused(
                f"{shown(self.start)} has more than {self._most} pages",
                hint="name a part of it, or raise --pages",
            )
        found = self._outside.get(uri)
        self._read += len(found.body)
        if self._read > MOST_ALTOGETHER:
            raise Refused(
                f"the pages of {shown(self.start)} are larger than {MOST_ALTOGETHER >> 20} MiB together",
                hint="name a part of it",
            )
        self.pages[uri] = Page(uri=uri, digest=found.digest, size=len(found.body))
        return found

    def folder(self, uri: str) -> list[str] | None:
        return self._outside.folder(uri)

    def document(self, uri: str) -> dict[str, Any]:
        value = decode(self.page(uri).body, shown(uri))
        if not isinstance(value, dict):
            raise BadInput(f"{shown(uri)} is not a catalog document", hint="name a STAC, DCAT or listing document")
        return value

    def may_follow(self, uri: str) -> bool:
        """Say whether an address is an unread page of the same origin, or below the same folder; count it as skipped if
        not.
        """
        if uri in self.pages:
            self.skipped["read already"] += 1
            return False
        if not uri or is_remote(uri) != is_remote(self.start):
            self.skipped["elsewhere"] += 1
            return False
        if is_remote(uri) and parse(uri).origin != parse(self.start).origin:
            self.skipped["elsewhere"] += 1
            return False
        return True

    def at(self, base: str, href: object) -> str:
        """Return the address of a link, or "" (counted as skipped) if the crawl does not go there."""
        if not isinstance(href, str) or not href or not is_printable(href):
            self.skipped["no address"] += 1
            return ""
        try:
            found = _resolved(base, href, posixpath.dirname(self.start))
        except BadInput:
            found = ""
        if not found:
            self.skipped["no address of ours"] += 1
        return found

    def offered(self, base: str, href: object) -> str:
        """Return the address of a file, or "" (counted as skipped) if no source could be declared for it."""
        uri = self.at(base, href)
        if uri and key_in_clear(uri):
            self.skipped["holds a key"] += 1
            return ""
        return uri


class Group:
    """A finding that is still being collected from the pages of a catalog."""

    def __init__(self, name: str, page: str) -> None:
        self.name = name
        self.page = page
        self.title = self.description = self.license = self.attribution = ""
        self.bbox: tuple[float, ...] = ()
        self.interval: tuple[str | None, ...] = ()
        self.offers: dict[str, Offer] = {}

    def add(self, name: str, uri: str, media_type: object = "", size: object = None, digest: str = "") -> None:
        plain = slug(name) or "file"
        offer = Offer(
            name=plain,
            uri=uri,
            media_type=media_type if isinstance(media_type, str) and _is_media_type(media_type) else "",
            size=size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 53 else None,
            digest=digest if is_digest(digest) else "",
        )
        known = self.offers.get(plain)
        if known is not None and known.uri == uri:
            if known != offer:
                raise Refused(f"{shown(self.page)} describes one file in two ways", hint="ask the server's operator")
            return
        if known is not None:  # a different file whose name becomes the same slug
            plain = named(f"{plain}-2", uri, self.offers)
            offer = Offer(plain, uri, offer.media_type, offer.size, offer.digest)
        self.offers[plain] = offer


def finish(groups: list[Group], kind: Any, crawl: Crawl) -> list[Finding]:
    """Return the findings sorted by name, with unique names: the same pages give the same findings."""
    if sum(len(group.offers) for group in groups) > MOST_OFFERS:
        raise Refused(f"{shown(crawl.start)} has more than {MOST_OFFERS} files", hint="name a part of it")
    taken: set[str] = set()
    found = []
    for group in sorted((each for each in groups if each.offers), key=lambda each: (slug(each.name), each.page)):
        name = named(group.name, group.page, taken)
        taken.add(name)
        found.append(
            Finding(
                id=name,
                kind=kind,
                page=group.page,
                title=group.title or words(group.name, 200) or name,
                description=group.description,
                license=group.license,
                attribution=group.attribution,
                bbox=group.bbox,
                interval=group.interval,
                offers=[group.offers[each] for each in sorted(group.offers)],
            )
        )
    return found


def is_remote(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def shown(uri: str) -> str:
    """Return an address for messages, without its query, which may hold a key."""
    return parse(uri).shown() if is_remote(uri) else printable(uri, 200)


def address(location: ParsedUrl) -> str:
    return f"{location.scheme}://{location.authority}{location.target}"


def _resolved(base: str, href: str, below: str) -> str:
    """Resolve a link seen at `base`, or return "". A local folder links only below itself; a server never links to this
    machine.
    """
    scheme = scheme_of(href)
    if scheme and scheme not in ("http", "https"):
        return ""
    if scheme:
        return address(parse(href))
    if is_remote(base):
        return address(parse(base).follow(href))
    if href.startswith("/") or "\\" in href or "%" in href or "?" in href:
        return ""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(base), href.partition("#")[0]))
    return path if not below or path.startswith(below + "/") else ""


def _is_media_type(text: str) -> bool:
    kind, slash, rest = text.partition("/")
    return len(text) <= 100 and bool(slash) and text.isascii() and is_printable(text) and bool(kind) and bool(rest)


def number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def box(value: object) -> tuple[float, ...]:
    """Return a bounding box as west, south, east and north; () if it is not on the globe."""
    if not isinstance(value, list) or len(value) not in (4, 6):
        return ()
    numbers = [number(each) for each in value]
    if any(each is None for each in numbers):
        return ()
    flat = [each for each in numbers if each is not None]
    west, south, east, north = flat if len(flat) == 4 else (flat[0], flat[1], flat[3], flat[4])
    on_globe = -180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90
    return (west, south, east, north) if on_globe else ()


Reader = Callable[[Crawl, str, dict[str, Any]], list[Finding]]
