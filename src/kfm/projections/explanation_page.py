"""An explanation as one self-contained HTML page: no script, font, image or style is loaded from elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from kfm.projections.explanation import ChainLink, Explanation
from kfm.projections.explanation_pictures import extent_map, graph
from kfm.projections.explanation_sentences import Line

STYLE = """
:root{color-scheme:light dark;--paper:#fcfcfa;--ink:#1d1f21;--soft:#555b61;--line:#c9ced3;--raw:#e8eef5;--made:#e6f2e8;
--far:#f6eddc;--link:#0b5394;--mark:#8a3b12}
@media (prefers-color-scheme:dark){:root{--paper:#16181b;--ink:#eceff1;--soft:#b4bac0;--line:#4a5158;--raw:#1f2c3a;
--made:#1e3324;--far:#3a2f1b;--link:#8ab8ea;--mark:#f0a878}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:1.5rem;background:var(--paper);color:var(--ink);
font:1rem/1.55 system-ui,sans-serif}
h1{font-size:1.6rem;margin:0 0 .25rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .5rem}
p.kind{margin:0;color:var(--soft)}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:1rem 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
ol.told{padding-left:1.4rem}ol.told li{margin:.35rem 0}
code{font:.85em ui-monospace,monospace;color:var(--mark);overflow-wrap:anywhere}
.cites{display:block;color:var(--soft);font-size:.85rem}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.5rem;padding:1rem}
svg{display:block;max-width:none}
.box rect{fill:var(--raw);stroke:var(--line);stroke-width:1.5}.box.harmonised rect{fill:var(--made)}
.box.derived rect{fill:var(--far)}.box.closed rect{stroke:var(--mark);stroke-dasharray:5 3}
.box text{fill:var(--ink);font:13px system-ui,sans-serif}.box .stage{font-size:11px;fill:var(--soft)}
.box .name{font-weight:600}.box .digest{font:11px ui-monospace,monospace}
.arrow{fill:none;stroke:var(--soft);stroke-width:1.5}.tip{fill:var(--soft)}
.sea{fill:none;stroke:var(--line)}.line{stroke:var(--line);fill:none}
.degree{fill:var(--soft);font:11px system-ui,sans-serif}
.extent{fill:var(--link);fill-opacity:.25;stroke:var(--link);stroke-width:2}
table{border-collapse:collapse;width:100%;font-size:.9rem}th,td{text-align:left;padding:.3rem .6rem .3rem 0;
border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
footer{margin-top:2.5rem;color:var(--soft)}
"""
_PARTS = (
    ("How it was produced", ("thing", "run", "input", "output", "removed")),
    ("Where it came from", ("chain",)),
    ("Under which labels it stands", ("governance",)),
    ("What came after", ("published", "last")),
    ("What proves it", ("evidence",)),
)


def page(told: Explanation) -> str:
    """Return an explanation as one HTML page that needs no network and that a screen reader can read."""
    name = told.title or told.thing
    closed = any(link.level != "public" for link in told.chain)
    body = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>How {escape(name)} was produced</title><style>{STYLE}</style></head><body><main>",
        f'<h1>{escape(name)}</h1><p class="kind">{escape(told.kind)} {escape(told.thing)}</p>',
        *_facts(told),
        "<h2>The chain</h2>",
        '<div class="scroll" role="region" aria-label="The chain as a graph" tabindex="0">',
        graph(told.chain, f"The chain of {told.thing}: " + "; ".join(map(_spoken, told.chain[:20]))),
        "</div>",
    ]
    for heading, about in _PARTS:
        found = [line for line in told.lines if line.about in about]
        if found:
            body.append(f'<h2>{heading}</h2><ol class="told">{"".join(map(_line, found))}</ol>')
    if told.extent:
        what = "Extent of what is shown of it, as cells" if closed else "Its extent"
        numbers = ", ".join(f"{number:.4g}" for number in told.extent)
        body.append(f"<h2>Extent</h2><p>{what}: {numbers} (west, south, east, north).</p>")
        body.append(extent_map(told.extent, f"{what}: {numbers}"))
    body += [*_table(told), "</main><footer>Every sentence rests on the digests beside it: ask for the same with "]
    body.append(f"<code>kfm explain {escape(told.thing)} --json</code>.</footer></body></html>\n")
    return "".join(body)


def _facts(told: Explanation) -> Iterator[str]:
    pairs = (
        ("Dataset", told.dataset),
        ("Version", told.version),
        ("Ref", told.ref),
        ("Updater", f"{told.updater_id} {told.updater_version}"),
        ("Trigger", f"{told.trigger_type} ({told.trigger})"),
        ("Run", told.run_id),
        ("Ended", f"{told.made_at}, {told.outcome}"),
        ("Last good run", f"{told.last_good.at}, {told.last_good.outcome}" if told.last_good is not None else "none"),
    )
    yield "<dl>"
    for name, value in pairs:
        if value:
            yield f"<dt>{name}</dt><dd>{escape(value)}</dd>"
    yield "</dl>"


def _line(line: Line) -> str:
    cites = ", ".join(f"<code>{escape(cite)}</code>" for cite in dict.fromkeys(line.cites))
    return f'<li>{escape(line.text)} <span class="cites">{cites}</span></li>'


def _spoken(link: ChainLink) -> str:
    return f"{link.stage} {link.name}"


def _table(told: Explanation) -> Iterator[str]:
    """Return the graph as a table, for readers who do not see it."""
    yield "<h2>The chain, step by step</h2><table><thead><tr>"
    yield "".join(f'<th scope="col">{name}</th>' for name in ("#", "Stage", "What", "Digest", "Made by", "Made of"))
    yield "</tr></thead><tbody>"
    for at, link in enumerate(told.chain):
        made_of = ", ".join(str(place + 1) for place in link.reads)
        who = f"{link.updater}, {link.at}" if link.run_id else "outside"
        cells = (link.stage, link.name, link.digest, who, made_of)
        yield f"<tr><td>{at + 1}</td>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</tbody></table>"
    if told.cut:
        yield f"<p>{told.cut} more runs further up are not told here.</p>"
