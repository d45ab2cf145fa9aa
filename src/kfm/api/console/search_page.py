"""The page of a search, and the search box. Both work without script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import json_link, section, table
from kfm.projections.pages.page_style import many

if TYPE_CHECKING:
    from kfm.app.serving.search_answers import TextSearch


def search_box(query: str = "") -> str:
    """Return a form that asks for words."""
    return (
        '<form role="search" action="/search" method="get" class="search"><label>Search datasets and their text '
        f'<input type="search" name="q" value="{escape(query)}" maxlength="1000" required></label> '
        "<button>Search</button></form>"
    )


def search_page(found: TextSearch, around: Around) -> bytes:
    def inside() -> Iterator[str]:
        if found.query:
            yield from section("Datasets", _datasets(found))
            yield from section("Text", _texts(found))
            yield json_link(f"/v1/search?{urlencode({'q': found.query})}")

    return console_page("Search", around, list(inside()), "/search", lead=search_box(found.query))


def _datasets(found: TextSearch) -> Iterator[str]:
    yield _count(found.matched_datasets, len(found.datasets), "dataset")
    rows = (
        (f'<a href="{escape(one.href)}">{escape(one.title)}</a>', escape(one.description)) for one in found.datasets
    )
    yield from table("Datasets with these words", ("Dataset", "About"), rows, "No dataset has these words.")


def _texts(found: TextSearch) -> Iterator[str]:
    if not found.indexes:
        yield "<p>No search index is published here.</p>"
        return
    yield _count(found.matched_texts, len(found.texts), "text")
    rows = (
        (f'<a href="{escape(one.href)}">{escape(one.dataset)}</a>', f"<code>{escape(one.key)}</code>",
         escape(one.title), escape(one.snippet))
        for one in found.texts
    )  # fmt: skip
    yield from table("Text with these words", ("Dataset", "Key", "Title", "Text"), rows, "No text has these words.")


def _count(matched: int, shown: int, what: str) -> str:
    more = f", of which {shown:,} are shown" if shown < matched else ""
    return f"<p>{many(matched, what)} found{more}.</p>"
