"""A bounded walk over documents of one origin. Whatever a server answers, it ends, and stays where it began.

Pages are read only from the origin of the first one, or below its folder. Files that a page speaks of may lie
elsewhere: they are noted and never fetched.
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
from kfm.sources.urls import Location, parse

MOST_BYTES = 16 << 20  # of one page
MOST_ALTOGETHER = 256 << 20  # of all of them
MOST_OFFERS = 100_000


class Body(NamedTuple):
    """What lies at an address."""

    digest: str
    media_type: str
    body: bytes


class Outside(Protocol):
    """How pages are fetched: with the rules of the installation for its sources."""

    def get(self, uri: str) -> Body: ...

    def folder(self, uri: str) -> list[str] | None:
        """The names in a folder of this machine, those of folders with a slash at the end; None: it is none."""


class Crawl:
    """What was read so far, and the bounds."""

    def __init__(self, outside: Outside, start: str, most_pages: int) -> None:
        self._outside = outside
        self._most = most_pages
        self._read = 0
        self.start = start
        self.pages: dict[str, Page] = {}
        self.skipped: Counter[str] = Counter()

    def page(self, uri: str) -> Body:
        """Each address is read once: whoever is sent to it a second time goes in a circle."""
        if uri in self.pages:
            raise Refused(f"{shown(uri)} leads in a circle", hint="ask whoever serves it")
        if len(self.pages) >= self._most:
            raise Refused(
                f"{shown(self.start)} has more than {self._most} pages",
                hint="name a part of it, or let more be read with --pages",
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
            raise BadInput(f"{shown(uri)} is no document of a catalog", hint="name a STAC, DCAT or listing document")
        return value

    def may_follow(self, uri: str) -> bool:
        """Is this a page of the same origin, or below the same folder, that nobody read yet?"""
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
        """Where a link leads; empty, and counted, if that is nowhere we would go."""
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
        """Where a file is said to be; empty, and counted, if no source could be declared for it."""
        uri = self.at(base, href)
        if uri and key_in_clear(uri):
            self.skipped["holds a key"] += 1
            return ""
        return uri


class Group:
    """A finding while it is put together."""

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
                raise Refused(f"{shown(self.page)} says two things of one file", hint="ask whoever serves it")
            return
        if known is not None:  # another file, whose name is the same in our letters
            plain = named(f"{plain}-2", uri, self.offers)
            offer = Offer(plain, uri, offer.media_type, offer.size, offer.digest)
        self.offers[plain] = offer


def finish(groups: list[Group], kind: Any, crawl: Crawl) -> list[Finding]:
    """In the order of their names, which are settled here: the same pages give the same findings."""
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
    """For people: without the query, which may hold a key."""
    return parse(uri).shown() if is_remote(uri) else printable(uri, 200)


def address(location: Location) -> str:
    return f"{location.scheme}://{location.authority}{location.target}"


def _resolved(base: str, href: str, below: str) -> str:
    """A link seen at `base`. From a folder of this machine nothing leads to another folder of it, and from a server
    nothing leads to this machine."""
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
    """West, south, east, north; empty if it is not on the globe."""
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
