"""Parts that several pages of the console are made of. All text that they are given is HTML already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from urllib.parse import urlencode

from kfm.projections.pages.page_style import short_digest

GOOD = frozenset({"SUCCESS", "DONE", "done", "ok", "open", "good"})
BAD = frozenset({"FAILED", "failed", "late", "denied", "abandoned", "cancelled", "burnt", "closed"})


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[str]], empty: str = "") -> Iterator[str]:
    """Yield a table that scrolls on its own, or the text `empty` if it has no row."""
    body = ["".join(("<tr>", *(f"<td>{cell}</td>" for cell in row), "</tr>")) for row in rows]
    if not body:
        yield f'<p class="none">{empty}</p>' if empty else ""
        return
    yield f'<div class="scroll" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
    yield f'<caption class="unseen">{escape(caption)}</caption><thead><tr>'
    yield from (f'<th scope="col">{escape(each)}</th>' for each in headers)
    yield "</tr></thead><tbody>"
    yield from body
    yield "</tbody></table></div>"


def pairs(found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield names with their values. One without a value is left out."""
    yield '<dl class="pairs">'
    yield from (f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in found if value)
    yield "</dl>"


def section(heading: str, inside: Iterable[str], name: str = "") -> Iterator[str]:
    at = f' id="{escape(name)}"' if name else ""
    yield f"<section{at}><h2>{escape(heading)}</h2>"
    yield from inside
    yield "</section>"


def state(word: str) -> str:
    """Return a status. Its color repeats what its word says."""
    kind = "good" if word in GOOD else "bad" if word in BAD else "plain"
    return f'<span class="state {kind}">{escape(word)}</span>' if word else ""


def run_link(run_id: str, words: str = "") -> str:
    return f'<a href="/runs/{escape(run_id)}">{escape(words or run_id[:8])}</a>' if run_id else ""


def dataset_link(dataset: str, *, is_shown: bool = True) -> str:
    if not is_shown or not dataset:
        return escape(dataset)
    return f'<a href="/datasets/{escape(dataset)}/">{escape(dataset)}</a>'


def version_link(dataset: str, version: str) -> str:
    if not version:
        return ""
    return f'<a href="/versions/{escape(dataset)}/{escape(version)}">{short_digest(version)}</a>'


def more(address: str, query: dict[str, object], words: str = "Older ones") -> str:
    """Return the link to the next page."""
    given = {name: str(value) for name, value in query.items() if value not in ("", 0)}
    return f'<p class="more"><a href="{escape(address)}?{escape(urlencode(given))}">{escape(words)}</a></p>'


def json_link(address: str) -> str:
    return f'<p class="note">The same as data: <a href="{escape(address)}"><code>{escape(address)}</code></a></p>'


def commands(lines: Iterable[str]) -> Iterator[str]:
    yield from (f"<pre><code>{escape(line)}</code></pre>" for line in lines)
