"""The page of what the policies decided about a version, and of what they would decide now."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import commands, json_link, pairs, run_link, section, state, table
from kfm.projections.pages.page_style import time_tag

if TYPE_CHECKING:
    from kfm.app.serving.decision_answers import DecisionAnswer, RecordedDecision, RuleNow


def decision_page(told: DecisionAnswer, around: Around) -> bytes:
    place = "the published version" if told.is_published else "the processed version" if told.is_processed else ""
    lead = f'<p class="lead">About {place or "a version"} of {escape(told.dataset)}</p>'

    def inside() -> Iterator[str]:
        if told.is_withheld:
            yield '<p class="check">The data is not plainly public, so reasons are not shown here.</p>'
        facts = (
            ("Version", f"<code>{escape(told.version)}</code>" if told.version else ""),
            ("Policies in force", f"<code>{escape(told.policies)}</code>"),
            ("Why not", f'<a href="/why-not/{escape(told.dataset)}">what stands in the way of this dataset</a>'),
        )
        yield from section("Facts", pairs(facts))
        yield from section("What was decided", _decided(told))
        if told.is_processed:
            yield from section("What would be decided now", _now(told))
        yield json_link(f"/v1/datasets/{told.dataset}/decisions")

    return console_page(f"Decisions about {told.dataset}", around, list(inside()), lead=lead)


def _decided(told: DecisionAnswer) -> Iterator[str]:
    headers = ("Run", "At", "Gate", "Decision", "Broken rules", "Policies")
    empty = "No receipt of this version has a decision."
    yield from table("What was decided", headers, map(_recorded, told.recorded), empty)


def _now(told: DecisionAnswer) -> Iterator[str]:
    """Yield the rules before Published; those that do not hold come first."""
    if told.command:
        yield "<p>The version has too many files to ask about them here. Type:</p>"
        yield from commands((told.command,))
        return
    headers = ("Gate", "Rule", "Holds", "What it asks", "What to do")
    rows = map(_rule, sorted(told.now, key=lambda each: each.holds == "yes"))
    yield from table("Rules before Published", headers, rows, "The policies do not answer now.")


def _recorded(each: RecordedDecision) -> tuple[str, ...]:
    broken = (escape(one.rule) + (f": {escape(one.reason)}" if one.reason else "") for one in each.broken)
    duties = (escape(one.do) for one in each.obligations)
    return (
        f"{run_link(each.run_id)} {escape(each.op)}",
        time_tag(each.at, clock=True),
        escape(each.gate),
        state("yes" if each.allow else "no"),
        "<br>".join([*broken, *duties, *map(escape, each.warnings)]),
        f'<code title="{escape(each.policy_digest)}">{escape(each.policy_digest[7:19])}</code>',
    )


def _rule(each: RuleNow) -> tuple[str, ...]:
    return escape(each.gate), escape(each.rule), state(each.holds), escape(each.asks), escape(each.remedy)
