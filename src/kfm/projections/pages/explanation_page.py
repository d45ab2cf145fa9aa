"""An explanation as one self-contained HTML page: no script, font, image or style is loaded from elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from kfm.projections.explanation import ChainLink, Explanation
from kfm.projections.explanation_sentences import Line
from kfm.projections.pages.explanation_pictures import extent_map, graph
from kfm.projections.pages.page_style import document, short_digest, time_tag

_PARTS = (
    ("How it was produced", ("thing", "run", "input", "output", "removed")),
    ("Where it came from", ("chain",)),
    ("Under which labels it stands", ("governance",)),
    ("What came after", ("published", "last")),
    ("What proves it", ("evidence",)),
)


def page(told: Explanation, top: str = "", home: str = "") -> str:
    """Return an explanation as one HTML page that needs no network and that a screen reader can read. `top` is written
    above it, and `home` is the address of the page of its dataset, where both are published."""
    name = told.title or told.thing
    closed = any(link.level != "public" for link in told.chain)
    about = f'<a href="{escape(home)}">{escape(told.kind)} {escape(told.thing)}</a>' if home else ""
    body = [
        top,
        '<main><div class="hero"><div class="in">',
        f'<p class="kind">How it was produced: {about or escape(f"{told.kind} {told.thing}")}</p>',
        f"<h1>{escape(name)}</h1>",
        '</div></div><div class="in one"><div class="words"><section>',
        *_facts(told),
        "</section><section><h2>The chain</h2>",
        '<div class="scroll picture" role="region" aria-label="The chain as a graph" tabindex="0">',
        graph(told.chain, f"The chain of {told.thing}: " + "; ".join(map(_spoken, told.chain[:20]))),
        "</div></section>",
    ]
    for heading, subjects in _PARTS:
        found = [line for line in told.lines if line.about in subjects]
        if found:
            body.append(f'<section><h2>{heading}</h2><ol class="told">{"".join(map(_line, found))}</ol></section>')
    if told.extent:
        what = "Extent of what is shown of it, as cells" if closed else "Its extent"
        numbers = ", ".join(f"{number:.4g}" for number in told.extent)
        body.append(f"<section><h2>Extent</h2><p>{what}: {numbers} (west, south, east, north).</p>")
        picture = extent_map(told.extent, f"{what}: {numbers}")
        body.append(
            f'<div class="scroll picture" role="region" aria-label="Extent" tabindex="0">{picture}</div></section>'
        )
    body += [*_table(told), "</div></div></main>"]
    body.append(
        '<footer class="end"><div class="in">Every sentence rests on the digests next to it. Request the same with '
    )
    body.append(f"<code>kfm explain {escape(told.thing)} --json</code>.</div></footer>")
    return document(f"How {name} was produced", body)


def _facts(told: Explanation) -> Iterator[str]:
    pairs = (
        ("Dataset", escape(told.dataset)),
        ("Version", short_digest(told.version) if told.version else ""),
        ("Ref", escape(told.ref)),
        ("Updater", escape(f"{told.updater_id} {told.updater_version}")),
        ("Trigger", escape(f"{told.trigger_type} ({told.trigger})")),
        ("Run", escape(told.run_id)),
        ("Ended", f"{time_tag(told.made_at, clock=True)}, {escape(told.outcome)}"),
        ("Last good run", _last_good(told)),
    )
    yield '<dl class="pairs">'
    for name, value in pairs:
        if value:
            yield f"<dt>{name}</dt><dd>{value}</dd>"
    yield "</dl>"


def _last_good(told: Explanation) -> str:
    if told.last_good is None:
        return ""
    return f"{time_tag(told.last_good.at, clock=True)}, {escape(told.last_good.outcome)}"


def _line(line: Line) -> str:
    cites = ", ".join(map(short_digest, dict.fromkeys(line.cites)))
    return f'<li>{escape(line.text)} <span class="cites">{cites}</span></li>'


def _spoken(link: ChainLink) -> str:
    return f"{link.stage} {link.name}"


def _table(told: Explanation) -> Iterator[str]:
    """Return the graph as a table, for readers who do not see it."""
    yield '<section><h2 id="steps">The chain, step by step</h2>'
    yield '<div class="scroll" role="region" aria-labelledby="steps" tabindex="0"><table><thead><tr>'
    yield "".join(f'<th scope="col">{name}</th>' for name in ("#", "Stage", "What", "Digest", "Made by", "Made of"))
    yield "</tr></thead><tbody>"
    for at, link in enumerate(told.chain):
        made_of = ", ".join(str(place + 1) for place in link.reads)
        who = f"{escape(link.updater)}, {time_tag(link.at, clock=True)}" if link.run_id else "outside"
        cells = (escape(link.stage), escape(link.name), short_digest(link.digest), who, made_of)
        yield f"<tr><td>{at + 1}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table></div>"
    if told.cut:
        yield f"<p>{told.cut} more runs further up are not listed here.</p>"
    yield "</section>"
