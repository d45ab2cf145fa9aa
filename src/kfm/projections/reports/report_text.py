"""Reports as Markdown, and the same lines as a page without script or anything that is fetched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape


def as_page(title: str, lines: Iterable[str]) -> str:
    """Return lines of Markdown (headings, paragraphs, lists of one level and tables) as HTML."""
    body: list[str] = []
    table = False
    for line in lines:
        cells = [escape(cell.strip().strip("`")) for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if bool(cells) != table:
            body.append("<table>" if cells else "</table>")
            table = bool(cells)
        if cells and not set(line) <= set("|- "):
            body.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        elif line.startswith("# "):
            body.append(f"<h1>{escape(line[2:])}</h1>")
        elif line.startswith("## "):
            body.append(f"<h2>{escape(line[3:])}</h2>")
        elif line and not cells:
            body.append(f"<p>{escape(line.replace('`', ''))}</p>")
    body += ["</table>"] if table else []
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
        f"<title>{escape(title)}</title></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        yield from ("Nothing.", "")
        return
    for cells in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""
