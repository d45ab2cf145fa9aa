"""What every page of the console has around it: one bar with the ways to the other pages."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from kfm.projections.pages.page_style import as_bytes, document

# Address and words of each page that everybody may see.
WAYS = (("/", "Datasets"), ("/stories", "Stories"), ("/runs", "Runs"), ("/ledger", "Ledger"), ("/v1/docs", "API"))
MARK = b'<header class="bar">'


def bar(title: str, here: str = "") -> str:
    """Return the bar at the top. `here` is the address of the page itself."""
    links = "".join(f'<a href="{address}"{_current(address, here)}>{escape(words)}</a>' for address, words in WAYS)
    return (
        '<a class="skip" href="#main">Skip to content</a><header class="bar"><div class="in">'
        f'<a class="archive" href="/">{escape(title)}</a><nav aria-label="Console">{links}</nav></div></header>'
    )


def _current(address: str, here: str) -> str:
    return ' aria-current="page"' if address == here else ""


def page(title: str, archive: str, body: Sequence[str], here: str = "") -> bytes:
    """Return a whole page of the console."""
    inside = [bar(archive, here), '<main id="main">', *body, "</main>"]
    return as_bytes(document(f"{title} · {archive}", inside))


def framed(body: bytes, dataset: str) -> bytes:
    """Return a public page with the ways of the console in its bar."""
    nav = "".join(f'<a href="{address}">{escape(words)}</a>' for address, words in WAYS[1:])
    if dataset:
        nav += f'<a href="/focus/{escape(dataset)}">How it was produced</a>'
    return body.replace(b"</nav>", nav.encode() + b"</nav>", 1)
