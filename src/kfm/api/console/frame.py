"""What every page of the console has around it: one bar with the ways to the other pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from kfm.api.console.static_files import address_of
from kfm.projections.pages.page_style import as_bytes, document

# Address and words of each page that everybody may see.
WAYS = (("/", "Datasets"), ("/stories", "Stories"), ("/runs", "Runs"), ("/ledger", "Ledger"), ("/v1/docs", "API"))
# Of each page that the staff alone may see.
STAFF_WAYS = (
    ("/now", "Now"),
    ("/operations", "Operations"),
    ("/schedules", "Schedules"),
    ("/review", "Review"),
    ("/governance", "Governance"),
    ("/objectives", "Objectives"),
)
# What a page of the console may load: style sheets, modules and answers of this server.
PAGE_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; base-uri 'none'"
)


class Around(NamedTuple):
    """What a page of the console has around it."""

    archive: str  # the title of the archive
    is_staff: bool  # the bar leads to the pages of the staff, too


def bar(title: str, here: str = "", *, is_staff: bool = False) -> str:
    """Return the bar at the top. `here` is the address of the page itself."""
    ways = (*WAYS[:-1], *STAFF_WAYS, WAYS[-1]) if is_staff else WAYS
    links = "".join(f'<a href="{address}"{_current(address, here)}>{escape(words)}</a>' for address, words in ways)
    return (
        '<a class="skip" href="#main">Skip to content</a><header class="bar"><div class="in">'
        f'<a class="archive" href="/">{escape(title)}</a><nav aria-label="Console">{links}</nav></div></header>'
    )


def _current(address: str, here: str) -> str:
    return ' aria-current="page"' if address == here else ""


def page(title: str, archive: str, body: Sequence[str], here: str = "") -> bytes:
    """Return a whole page of the console."""
    inside = [bar(archive, here), '<main id="main">', *body, "</main>"]
    head = f'<link rel="stylesheet" href="{address_of("console.css")}">'
    return as_bytes(document(f"{title} · {archive}", inside, head, PAGE_POLICY))


def console_page(
    title: str, around: Around, body: Sequence[str], here: str = "", modules: Sequence[str] = (), lead: str = ""
) -> bytes:
    """Return a page of the console with its style sheet. `modules` are files of scripts that add to the page; it reads
    well without them. `lead` is HTML below the heading."""
    head = f'<link rel="stylesheet" href="{address_of("console.css")}">'
    head += "".join(f'<script type="module" src="{address_of(name)}"></script>' for name in modules)
    inside = [
        bar(around.archive, here, is_staff=around.is_staff),
        f'<main id="main"><div class="hero"><div class="in"><h1>{escape(title)}</h1>{lead}</div></div>',
        '<div class="in one">',
        *body,
        "</div></main>",
    ]
    return as_bytes(document(f"{title} · {around.archive}", inside, head, PAGE_POLICY))


def framed(body: bytes, dataset: str) -> bytes:
    """Return a public page with the ways of the console in its bar."""
    nav = "".join(f'<a href="{address}">{escape(words)}</a>' for address, words in WAYS[1:])
    if dataset:
        nav += f'<a href="/focus/{escape(dataset)}">How it was produced</a>'
    return body.replace(b"</nav>", nav.encode() + b"</nav>", 1)
