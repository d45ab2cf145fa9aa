"""The report on what a rollback would do, for the people who decide about it and for auditors. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from kfm.model.canonical import canonical
from kfm.model.records import Decision, Record, RefMove

NOTHING = "nothing"


class StaysBehind(Record, frozen=True):
    """A published dataset that was made of what is taken back, and that the rollback leaves as it is."""

    dataset: str
    version: str


class RollbackReport(Record, frozen=True):
    """What a rollback would do, as its dry run found it."""

    dataset: str
    at: str  # when the dry run ended
    actor: str
    reason: str
    allowed: bool
    refused: list[str]  # why it would be refused; empty if it is allowed
    moves: list[RefMove]
    stays: list[StaysBehind]
    decisions: list[Decision]  # what policy says today, for each version that would be public
    broken_links: int  # links of the catalog that would lead to no file


def as_json(report: RollbackReport) -> str:
    return canonical(report).decode() + "\n"


def as_markdown(report: RollbackReport) -> str:
    return "\n".join(_lines(report)) + "\n"


def as_html(report: RollbackReport) -> str:
    """Return the report as a page without script or anything that is fetched."""
    body: list[str] = []
    table = False
    for line in _lines(report):
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
    title = escape(f"Rollback of {report.dataset}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
        f"<title>{title}</title></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _lines(report: RollbackReport) -> Iterator[str]:
    yield from (f"# Rollback of {report.dataset}", "")
    verdict = "It would be done." if report.allowed else "It would be refused: " + "; ".join(report.refused)
    yield from (f"Dry run of {report.at} by {report.actor}. {verdict}", "")
    if report.reason:
        yield from (f"Reason: {report.reason}", "")
    yield from ("## What would move", "")
    yield from _table(
        ("ref", "from", "to"), [(one.ref, one.before or NOTHING, one.after or NOTHING) for one in report.moves]
    )
    yield from ("## What was made of it and stays", "")
    yield from _table(("dataset", "version"), [(one.dataset, one.version) for one in report.stays])
    yield from ("## What policy says today", "")
    said = [
        (one.subject, "yes" if one.allow else "no", "; ".join(one.reasons) or "-", one.policy_digest)
        for one in report.decisions
    ]
    yield from _table(("version", "allowed", "reasons", "policies"), said)
    yield from ("## Links", "", f"{report.broken_links} links of the catalog would lead to no file.")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        yield from ("Nothing.", "")
        return
    for cells in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""
