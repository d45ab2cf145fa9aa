"""Stories: narratives whose sentences cite versions."""

from __future__ import annotations

from kfm.api.console.story_pages import story_list_page, story_page
from kfm.api.endpoints.run_routes import around
from kfm.api.problems import not_found
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.app.serving.story_answers import StoryAnswer, StoryList, story_answer, story_list


def _story(view: View, call: Call) -> StoryAnswer:
    found = story_answer(view.session, view.shelf, call.path["name"], view.entries)
    if found is None:
        raise not_found()
    return found


def stories(view: View, _call: Call) -> Answer:
    return Answer(story_list(view.session, view.shelf, view.entries))


def story(view: View, call: Call) -> Answer:
    return Answer(_story(view, call))


def stories_page(view: View, _call: Call) -> Answer:
    return Answer(story_list_page(story_list(view.session, view.shelf, view.entries), around(view)), HTML)


def one_story_page(view: View, call: Call) -> Answer:
    return Answer(story_page(_story(view, call), around(view)), HTML)


ROUTES = (
    ApiRoute("GET", "/v1/stories", "stories", "The stories that may be shown", stories, StoryList, tag="stories"),
    ApiRoute(
        "GET", "/v1/stories/{name}", "story", "A story, and what became of what it cites", story, StoryAnswer,
        tag="stories",
    ),
    ApiRoute("GET", "/stories", "storiesPage", "The page of all stories", stories_page, media=HTML, tag="pages"),
    ApiRoute("GET", "/stories/{name}", "storyPage", "The page of a story", one_story_page, media=HTML, tag="pages"),
)  # fmt: skip
