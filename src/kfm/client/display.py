"""Display records: lines for a console, a table for a notebook. Foreign text is escaped in both."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from kfm.parsing.characters import escaped

MOST = 20  # most rows displayed; the rest are counted


class Displayable:
    """A record that displays a title and rows, neither of which holds data."""

    __slots__ = ()

    def _title(self) -> str:
        raise NotImplementedError

    def _table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return (), ()

    def __repr__(self) -> str:
        names, rows = self._table()
        return as_text(self._title(), names, rows)

    def _repr_html_(self) -> str:
        names, rows = self._table()
        return as_html(self._title(), names, rows)


def short(digest: str) -> str:
    """Return a digest shortened to 12 hex digits."""
    return digest[: len("sha256:") + 12] if digest.startswith("sha256:") else digest


def _cut(rows: Iterable[Sequence[object]]) -> tuple[list[list[str]], int]:
    told = [[_word(value) for value in row] for row in rows]
    return told[:MOST], max(len(told) - MOST, 0)


def _word(value: object) -> str:
    return "" if value is None else escaped(str(value))


def _compact(names: Sequence[str], rows: Iterable[Sequence[object]]) -> tuple[list[str], list[list[str]], int]:
    """Return names and rows of a table without empty columns, and the number of rows left out."""
    told, more = _cut(rows)
    said = [column for column in range(len(names)) if not column or any(row[column] for row in told)]
    return [names[column] for column in said], [[row[column] for column in said] for row in told], more


def as_text(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    names, told, more = _compact(names, rows)
    lines = [names, *told] if told else []
    widths = [max(len(line[column]) for line in lines) for column in range(len(names))] if lines else []
    text = [escaped(title)]
    for line in lines:
        text.append("  " + "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip())
    return "\n".join([*text, *([f"  … and {more} more"] if more else [])])


def as_html(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    names, told, more = _compact(names, rows)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(word)}</td>" for word in row) + "</tr>" for row in told)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if told else ""
    rest = f"<p>… and {more} more</p>" if more else ""
    return f"<p>{html.escape(escaped(title))}</p>{table}{rest}"


# A notebook has no style sheet of the pages. The names of its classes are ours alone.
_MAP_STYLE = (
    ".kfm-map{display:block;width:100%;max-width:760px;height:auto;border:1px solid #dbe3e8;background:#f4f7f8}"
    ".kfm-map .land{fill:#eef2e9;stroke:#8d9c86;stroke-width:1.2}.kfm-map .grid{fill:none;stroke:#dbe3e8}"
    ".kfm-map text{fill:#4d5c69;font:11px system-ui,sans-serif}"
    ".kfm-map .bar-line{stroke:#15212b;stroke-width:1.5;fill:none}"
    ".kfm-map .dots{fill:none;stroke:#b3420f;stroke-linecap:round;stroke-opacity:.72}"
    ".kfm-map .ways{fill:none;stroke:#b3420f;stroke-width:1.4}"
    ".kfm-map .areas{fill:#b3420f;fill-opacity:.2;stroke:#b3420f}"
    ".kfm-map .d1{fill:#fde3c4}.kfm-map .d2{fill:#f9b97a}.kfm-map .d3{fill:#ee8a3c}.kfm-map .d4{fill:#cb5a12}"
    ".kfm-map .d5{fill:#8a3206}"
)


def inline_map(svg: str) -> str:
    """Return a map of a page with the style that it needs where there is no page around it."""
    start, end, rest = svg.replace('class="map"', 'class="kfm-map"', 1).partition(">")
    return f"{start}{end}<style>{_MAP_STYLE}</style>{rest}"
