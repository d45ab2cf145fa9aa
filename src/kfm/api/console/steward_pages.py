"""The pages for the staff: objectives, what waits for a decision, and labels and policies in force."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

import msgspec

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import json_link, pairs, section, state, table
from kfm.projections.pages.page_style import many, time_tag

if TYPE_CHECKING:
    from kfm.app.serving.steward_answers import (
        GovernanceAnswer,
        LabelRow,
        ObjectiveList,
        ObjectiveRow,
        ReviewList,
        ReviewRow,
        WhyNotAnswer,
    )


def objectives_page(found: ObjectiveList, around: Around) -> bytes:
    headers = ("Objective", "Indicator", "Datasets", "Target", "Actual", "Budget left", "Burn", "State")
    empty = "There are no objectives. An objective is an OpenSLO file in the folder <code>slos</code>."
    body = [*table("Objectives", headers, map(_objective, found.objectives), empty), json_link("/v1/objectives")]
    return console_page("Objectives", around, body, "/objectives")


def _objective(row: ObjectiveRow) -> tuple[str, ...]:
    burn = ", ".join(f"{window} {value:.3g}" for window, value in row.burn.items() if value is not None)
    word = "closed" if row.closes else "burnt" if row.is_burnt else "ok"
    until = f" overridden until {time_tag(row.override_until, clock=True)}" if row.override_until else ""
    return (
        escape(row.title or row.name),
        escape(row.indicator),
        escape(", ".join(row.datasets) or "all"),
        f"{row.target * 100:.4g} %",
        "nothing happened" if row.actual is None else f"{row.actual * 100:.4g} %",
        f"{row.budget_left * 100:.3g} %",
        escape(burn),
        state(word) + until,
    )


def review_page(found: ReviewList, around: Around) -> bytes:
    def inside() -> Iterator[str]:
        if not found.items:
            yield '<p class="none">Nothing waits for a decision.</p>'
        for row in found.items:
            yield from section(f"{row.what}: {row.dataset}" if row.dataset else row.what, _item(row), row.id)
        yield json_link("/v1/review")

    lead = f'<p class="lead">{many(len(found.items), "item")} for a person to decide.</p>'
    return console_page("Review", around, list(inside()), "/review", ("review_form.js",), lead)


def _item(row: ReviewRow) -> Iterator[str]:
    yield from pairs(
        (
            ("Id", f"<code>{escape(row.id)}</code>"),
            ("State", state(row.state)),
            ("Since", time_tag(row.since, clock=True)),
            ("Until", time_tag(row.until, clock=True)),
            ("Asked by", escape(row.asked_by)),
            ("Reason", escape(row.reason)),
            ("Missing", "<br>".join(map(escape, row.missing))),
            *(
                (name.capitalize(), f"<code>{escape(value)}</code>")
                for name, value in row.evidence.items()
                if isinstance(value, str)
            ),
        )
    )
    for name, rows in row.evidence.items():
        if isinstance(rows, list | tuple) and rows:
            found = [msgspec.to_builtins(each) for each in rows]
            headers = tuple(found[0]) if isinstance(found[0], dict) else (name,)
            lines = (
                tuple(escape(str(each.get(head, ""))) for head in headers)
                if isinstance(each, dict)
                else (escape(str(each)),)
                for each in found
            )
            yield f"<h3>{escape(name.capitalize())}</h3>"
            yield from table(f"{name} of {row.id}", headers, lines)
    if row.is_withheld:
        yield '<p class="note">The data is not plainly public, so its evidence is not shown here.</p>'
    if row.kind == "order":
        digest = row.evidence.get("request", "")
        yield f'<div data-request="{escape(row.id)}" data-digest="{escape(str(digest))}" role="group" '
        yield f'aria-label="Decide about {escape(row.id)}">'
        yield f"<p>A steward decides with <code>kfm review show {escape(row.id[:12])}</code>; to decide here, this "
        yield "page needs script and a key of this browser.</p></div>"
    if row.kind == "held":
        again = escape(f"/operations?operation=run&dataset={row.dataset}")
        yield f'<p>No row passes by hand. When its source is corrected, <a href="{again}">run {escape(row.dataset)} '
        yield "again</a>: what is good then leaves the quarantine.</p>"


def governance_page(found: GovernanceAnswer, around: Around) -> bytes:
    def inside() -> Iterator[str]:
        headers = ("Dataset", "Level", "CARE", "Access", "Places", "Custodian", "Labels", "Consent until")
        rows = map(_label, found.ending_soon)
        empty = "No consent ends within 90 days."
        yield from section("Consents that end soon", table("Consents that end soon", headers, rows, empty))
        rows = map(_label, found.labels)
        yield from section("Labels by dataset", table("Labels by dataset", headers, rows, "There is no dataset."))
        policies = ((escape(each.what), f"<code>{escape(each.digest)}</code>") for each in found.policies)
        yield from section("Policies in force", table("Policies in force", ("What", "Digest"), policies))
        yield json_link("/v1/governance")

    return console_page("Governance", around, list(inside()), "/governance")


def _label(row: LabelRow) -> tuple[str, ...]:
    left = "" if row.days_left is None else f" ({many(row.days_left, 'day')})" if row.days_left >= 0 else " (ended)"
    return (
        f'<a href="/why-not/{escape(row.dataset)}">{escape(row.dataset)}</a>',
        escape(row.level),
        escape(row.care),
        escape(row.access),
        "" if row.resolution is None else f"H3 cells of resolution {row.resolution}",
        escape(", ".join(row.custodians)),
        escape(", ".join((*row.community_labels, *row.authorities))),
        f"{time_tag(row.consent_until)}{left}" if row.consent_until else "",
    )


def why_not_page(found: WhyNotAnswer, around: Around) -> bytes:
    rows = (
        (escape(each.what), escape(each.why), escape(each.rule), time_tag(each.since, clock=True),
         f"<code>{escape(each.do)}</code>" if each.do else "")
        for each in found.reasons
    )  # fmt: skip
    headers = ("What", "Why", "Rule", "Since", "What to type")
    body = [*table("Reasons", headers, rows, "Nothing is in the way."), json_link(f"/v1/why-not/{found.dataset}")]
    return console_page(f"Why not: {found.dataset}", around, body)
