"""The pages of stories. What an author wrote is text everywhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import Around, console_page
from kfm.api.console.parts import dataset_link, section, state, table
from kfm.projections.pages.story_html import story_html

if TYPE_CHECKING:
    from kfm.app.serving.story_answers import StoryAnswer, StoryList


def story_list_page(found: StoryList, around: Around) -> bytes:
    rows = [
        (
            f'<a href="/stories/{escape(one.dataset)}">{escape(one.title)}</a>',
            ", ".join(map(dataset_link, one.cites)),
            state("stale" if one.stale else "current"),
        )
        for one in found.stories
    ]
    body = table("Stories", ("Story", "Rests on", "State"), rows, "No story is published.")
    return console_page("Stories", around, [*body], "/stories")


def story_page(found: StoryAnswer, around: Around) -> bytes:
    addresses = {each.citation: each.href for each in found.citations}
    statuses = {each.citation: each.status for each in found.citations}
    body = [story_html(found.story, statuses, lambda cited: addresses.get(cited, ""))]
    if found.why:
        body += section("What has moved", (f"<p>{escape(line)}</p>" for line in found.why))
    lead = f'<p class="kind"><a href="/focus/{escape(found.dataset)}">How this story was made</a></p>'
    return console_page(found.title, around, body, "/stories", lead=lead)
