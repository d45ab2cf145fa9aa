"""Datasets and their upstream datasets as a text tree, a Mermaid flowchart and a self-contained HTML page. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from kfm.model.reports.dataset_dependencies import Asset, AssetGraph, Dependency
from kfm.projections.explanation import ChainLink
from kfm.projections.mermaid import safe
from kfm.projections.pages.explanation_pictures import MOST_IN_COLUMN, graph
from kfm.projections.pages.page_style import document

_WORDS = {
    "current": "current",
    "above": "something above it is not up to date",
    "behind": "behind",
    "rolled back": "made of what was rolled back",
    "withdrawn": "made of what was withdrawn",
    "never made": "never made",
}


_UNDER = {"": "", "├─ ": "│  ", "└─ ": "   "}


def as_text(found: AssetGraph) -> str:
    """Return the dependencies of datasets as a tree, from upstream to downstream. A dataset that appears again is only
    named."""
    below: dict[str, list[Dependency]] = {}
    made: dict[str, list[Dependency]] = {}
    for each in found.dependencies:
        below.setdefault(each.of, []).append(each)
        made.setdefault(each.to, []).append(each)
    assets = {each.dataset: each for each in found.assets}
    told: set[str] = set()
    lines: list[str] = []

    waiting = [(asset.dataset, "", "", "") for asset in reversed(found.assets) if asset.dataset not in made]
    while waiting:
        name, prefix, branch, how = waiting.pop()
        again = name in told
        told.add(name)
        lines.append(f"{prefix}{branch}{name}{how}" + ("  (as above)" if again else f"  {_said(assets[name])}"))
        if again:
            continue
        under = prefix + _UNDER[branch]
        lines += [f"{under}   ! {each.says}" for each in made.get(name, ()) if each.says]
        rest = sorted(below.get(name, ()), key=lambda each: (each.to, each.source))
        last = len(rest) - 1
        branches = [
            (each.to, under, "└─ " if number == last else "├─ ", "" if each.how == "reads" else " (after)")
            for number, each in enumerate(rest)
        ]
        waiting += reversed(branches)
    return "\n".join(lines) + "\n" if lines else "there are no datasets\n"


def _said(asset: Asset) -> str:
    version = f"{asset.version[:19]}, " if asset.version else ""
    level = f", {asset.level}" if asset.level != "public" else ""
    return f"{version}{_WORDS[asset.stands]}{level}; {asset.when}"


def chart(found: AssetGraph) -> str:
    """Return a flowchart: a box per dataset, a solid arrow to each dataset that reads it, a dotted one if it only runs
    after it.
    """
    ids = {each.dataset: f"n{number}" for number, each in enumerate(found.assets)}
    lines = ["flowchart LR"]
    for each in found.assets:
        mark = each.version[7:19] or ("never made" if each.stands == "never made" else each.level)
        lines.append(f'  {ids[each.dataset]}["{safe(f"{each.dataset}<br/>{mark}")}"]')
        if each.stands != "current":
            lines.append(f"  class {ids[each.dataset]} stale")
    for link in found.dependencies:
        arrow = "-->" if link.how == "reads" else "-.->"
        lines.append(f"  {ids[link.of]} {arrow} {ids[link.to]}")
    lines.append("  classDef stale stroke-dasharray: 5 3")
    return "\n".join(lines) + "\n"


def page(found: AssetGraph) -> str:
    """Return the dependencies of datasets as one HTML page that needs no network and that a screen reader can read."""
    spoken = "; ".join(f"{each.to} {each.how} {each.of}" for each in found.dependencies[:20])
    body = [
        '<main><div class="hero"><div class="in">',
        f'<p class="kind">{len(found.assets)} datasets, {len(found.dependencies)} dependencies</p>',
        '<h1>Datasets</h1></div></div><div class="in two"><div><section><h2>What is made of what</h2>',
        '<div class="scroll picture" role="region" aria-label="The datasets as a graph" tabindex="0">',
        graph(_links(found), "What is made of what: " + (spoken or "nothing is made of anything else")),
        f'</div><p class="note">At most {MOST_IN_COLUMN} are drawn below each other; all are in the tables.</p>',
        "</section>",
        *_table("Datasets", ("Dataset", "Stands", "Version", "Made", "Openness", "When"), _assets(found)),
        *_table("Dependencies", ("Dataset", "How", "Of", "Stands", "What to know", "Since"), _dependencies(found)),
        '</div></div></main><footer class="end"><div class="in">Request the same with ',
        "<code>kfm lineage graph --json</code>.</div></footer>",
    ]
    return document("Datasets and what they are made of", body)


def _links(found: AssetGraph) -> list[ChainLink]:
    """Return the datasets as links of a chain, which the drawing function takes."""
    places = {each.dataset: number for number, each in enumerate(found.assets)}
    reads: dict[str, set[int]] = {}
    for each in found.dependencies:
        reads.setdefault(each.to, set()).add(places[each.of])
    return [
        ChainLink(
            stage="derived" if reads.get(each.dataset) else "harmonised",
            id=each.dataset,
            digest=each.version,
            name=each.dataset,
            dataset=each.dataset,
            run_id="made" if each.made_at else "",
            updater="",
            at=each.made_at,
            level="public" if each.stands == "current" else each.stands,
            reads=tuple(sorted(reads.get(each.dataset, ()))),
        )
        for each in found.assets
    ]


def _assets(found: AssetGraph) -> Iterator[tuple[str, ...]]:
    for each in found.assets:
        yield each.dataset, _WORDS[each.stands], each.version, each.made_at, each.level, each.when


def _dependencies(found: AssetGraph) -> Iterator[tuple[str, ...]]:
    for each in found.dependencies:
        how = f"reads {each.zone} as {each.source}" if each.how == "reads" else "comes after"
        yield each.to, how, each.of, _WORDS[each.stands], each.says, each.since


def _table(title: str, names: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Iterator[str]:
    about = title.lower()
    yield f'<section><h2 id="{about}">{title}</h2><div class="scroll" role="region" aria-labelledby="{about}" '
    yield 'tabindex="0"><table><thead><tr>'
    yield "".join(f'<th scope="col">{name}</th>' for name in names)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div></section>"
