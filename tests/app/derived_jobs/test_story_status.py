"""A story says which of its citations moved, from the state of this moment."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import pytest

from kfm.app.serving.story_status import StoryStatus, story_status
from kfm.app.session.session import open_session
from kfm.config import load
from kfm.errors import BadInput
from kfm.projections.pages.story_html import story_html
from tests.app.derived_jobs.conftest import Run
from tests.app.derived_jobs.test_stories import HEAD, STORY, at, levels, measured, rain, run  # noqa: F401
from tests.cli.conftest import Kfm


def status(dataset: str = "rain-story") -> StoryStatus:
    with open_session(load("kfm.yml", os.environ), mode="read") as session:
        return story_status(session, dataset)


def test_a_new_story_is_not_stale(rain: Kfm, run: Run) -> None:  # noqa: F811
    run("rain-story")
    found = status()
    assert not found.stale and found.why == [] and found.version == at("published/rain-story")
    assert [each.status for each in found.citations] == ["current", "current"]
    assert 'class="stale"' not in story_html(found.story, found.statuses)


def test_a_story_is_stale_once_a_newer_version_is_public_until_it_is_made_again(rain: Kfm, run: Run) -> None:  # noqa: F811
    run("rain-story")
    was = at("published/gauges")
    measured("13")
    run("gauges")
    found, now = status(), at("published/gauges")
    assert found.stale
    assert found.why == [
        f"gauges, version {was[7:19]}: a newer version took its place; version {now[7:19]} is public today"
    ], "two citations of one version are one line"
    page = story_html(found.story, found.statuses)
    assert 'class="stale"' in page and 'class="cite moved"' in page and "superseded" in page
    run("rain-story")
    assert not status().stale


def test_a_story_goes_stale_when_its_version_is_rolled_back(rain: Kfm, run: Run) -> None:  # noqa: F811
    first = at("published/gauges")
    measured("13")
    run("gauges")
    run("rain-story")
    second = at("published/gauges")
    answer = rain("rollback", "gauges", "--reason", "private words")
    assert answer.code == 0 and at("published/gauges") == first
    found = status()
    (why,) = found.why
    assert found.stale and {each.status for each in found.citations} == {"rolled back"}
    assert why.startswith(f"gauges, version {second[7:19]}: it was rolled back at ") and first[7:19] in why
    assert "private words" not in why and "tester" not in why


def test_a_story_says_that_what_it_cites_was_withdrawn(rain: Kfm, run: Run) -> None:  # noqa: F811
    run("rain-story")
    assert rain("rollback", "gauges", "--to", "nothing", "--reason", "private words").code == 0
    found = status()
    assert {each.status for each in found.citations} == {"withdrawn"}
    assert found.why[0].endswith("no version is public today") and "private words" not in found.why[0]


def test_a_story_of_closed_data_is_answered_like_one_that_is_not_there(rain: Kfm, run: Run) -> None:  # noqa: F811
    run("rain-story")
    assert status().citations
    levels("public", "restricted")  # nothing ran since: the answer is that of the labels of this moment
    assert at("published/rain-story")
    messages = set()
    for name in ("rain-story", "none-story", "gauges", "../rain"):
        with pytest.raises(BadInput) as refused:
            status(name)
        messages.add(re.sub(r"'.*?'", "NAME", str(refused.value)))
    assert len(messages) == 1


def test_a_story_that_is_not_published_has_no_status(rain: Kfm, run: Run) -> None:  # noqa: F811
    Path("kfm.yml").write_text((HEAD + STORY).replace("    promote: auto\n", ""))
    run("rain-story")
    assert at("processed/rain-story")
    with pytest.raises(BadInput, match="no public story"):
        status()


def test_a_citation_that_the_caller_does_not_know_counts_as_withdrawn(rain: Kfm, run: Run) -> None:  # noqa: F811
    run("rain-story")
    page = story_html(status().story, {})
    assert 'class="stale"' in page and page.count("withdrawn") == 4


def test_every_cited_sentence_has_its_citation_one_click_away(rain: Kfm, run: Run) -> None:  # noqa: F811
    run("rain-story")
    found = status()
    page = story_html(found.story, found.statuses, lambda cited: f"/datasets/{cited.dataset}?a=1&b=2")
    targets = set(re.findall(r'<li id="([^"]+)"', page))
    links = re.findall(r'class="cite" href="#([^"]+)"', page)
    assert len(links) == 2 and set(links) == targets
    assert page.count('<a href="/datasets/gauges?a=1&amp;b=2">') == 2
    assert story_html(found.story, found.statuses, lambda _: "javascript:alert(1)").count("javascript") == 0
    assert msgspec.json.decode(msgspec.json.encode(found), type=StoryStatus) == found
