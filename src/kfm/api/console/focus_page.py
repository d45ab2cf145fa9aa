"""The page of Focus Mode: how a layer was produced, from what, under which labels, and what proves it."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import page
from kfm.projections.pages.explanation_pictures import graph
from kfm.projections.pages.page_style import short_digest, time_tag

if TYPE_CHECKING:
    from kfm.app.serving.served_records import Evidence, FocusContext, FocusSentence

_PARTS = (
    ("What happened", ("thing", "run", "input", "output", "removed")),
    ("Where it came from", ("chain",)),
    ("Under which labels it stands", ("governance",)),
    ("What came after", ("published", "last")),
    ("What proves it", ("evidence",)),
)


def focus_page(told: FocusContext, archive: str) -> bytes:
    name = told.title or told.dataset
    body = [
        '<div class="hero"><div class="in">',
        f'<p class="kind">Focus Mode: <a href="/datasets/{escape(told.dataset)}/">{escape(told.thing)}</a></p>',
        f"<h1>How {escape(name)} was produced</h1></div></div>",
        '<div class="in two"><div><section><h2>How this layer was produced</h2>',
        *_pairs(_produced(told)),
        '</section><section><h2>The chain</h2><div class="scroll picture" role="region" aria-label="The chain as a '
        'graph" tabindex="0">',
        graph(told.chain, f"The chain of {told.thing}: " + "; ".join(f"{s.stage} {s.name}" for s in told.chain[:20])),
        "</div></section>",
    ]
    for heading, subjects in _PARTS:
        found = [line for line in told.sentences if line.about in subjects]
        if found:
            body.append(f'<section><h2>{heading}</h2><ol class="told">{"".join(map(_sentence, found))}</ol></section>')
    body += ["</div><aside>", *_aside(told), "</aside></div>"]
    return page(f"How {name} was produced", archive, body)


def _produced(told: FocusContext) -> Iterator[tuple[str, str]]:
    made = told.produced
    yield "Updater", escape(f"{made.updater} {made.updater_version}")
    yield "Trigger", escape(f"{made.trigger_type} ({made.trigger})")
    yield "Version", short_digest(told.version)
    yield "Run", f'<a href="/runs/{escape(made.run_id)}">{escape(made.run_id)}</a>'
    yield "Ended", f"{time_tag(made.made_at, clock=True)}, {escape(made.outcome)}"
    if made.last_good_at:
        yield "Last successful run", time_tag(made.last_good_at, clock=True)


def _aside(told: FocusContext) -> Iterator[str]:
    said = told.governance
    yield "<section><h2>Governance</h2>"
    yield from _pairs(
        (
            ("Level", escape(said.level)),
            ("CARE", escape(said.care)),
            ("Places", "exact" if said.resolution is None else f"only as H3 cells, resolution {said.resolution}"),
            ("Labels", escape(", ".join(f"{each.name} ({each.code})" for each in said.labels))),
            ("Authority", escape(", ".join(said.owners))),
            ("Custodian", escape(", ".join(said.custodians))),
            ("Source", escape(told.owner)),
            ("Consent until", escape(said.expires)),
        )
    )
    yield "</section><section><h2>Telemetry</h2>"
    cost = told.telemetry
    if cost is None:
        yield '<p class="none">It is not shown: the data have labels, or the run recorded none.</p>'
    else:
        energy, carbon = cost.energy_kwh, cost.co2e_g
        yield from _pairs(
            (
                ("Duration", "" if cost.duration_ms is None else f"{cost.duration_ms / 1000:.2f} s"),
                ("Energy", "" if energy is None else f"{energy * 1000:.3g} Wh"),
                ("Carbon", "" if carbon is None else f"{carbon:.3g} g CO2e"),
                ("Method", escape(cost.energy_method)),
            )
        )
    yield "</section><section><h2>Explain it again</h2><p>These commands rebuild this page from the journal, the plan "
    yield "and the lineage:</p>"
    yield from (f'<pre tabindex="0"><code>{escape(each)}</code></pre>' for each in told.explain_again)
    yield "</section>"


def _pairs(pairs: object) -> Iterator[str]:
    yield '<dl class="pairs">'
    yield from (f"<dt>{name}</dt><dd>{value}</dd>" for name, value in pairs if value)  # type: ignore[attr-defined]
    yield "</dl>"


def _sentence(line: FocusSentence) -> str:
    cites = ", ".join(map(_cite, line.evidence))
    return f'<li>{escape(line.text)} <span class="cites">{cites}</span></li>'


def _cite(one: Evidence) -> str:
    words = f"{escape(one.what)} {short_digest(one.digest)}"
    return f'<a href="{escape(page_of(one.href))}">{words}</a>' if one.href else words


def page_of(address: str) -> str:
    """Return the page that shows the record at an address of the API; the address itself if there is none."""
    parts = address.split("/")
    if address.startswith("/v1/runs/"):
        return address.removeprefix("/v1")
    if address.startswith("/v1/datasets/") and len(parts) == 6 and parts[4] == "versions":
        return f"/versions/{parts[3]}/{parts[5]}"
    return address
