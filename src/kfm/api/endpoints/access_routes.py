"""The route that says who asks, and the page of the key with which a person signs in a browser."""

from __future__ import annotations

from kfm.api.console.key_page import key_page
from kfm.api.endpoints.run_routes import around
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.app.serving.access_answers import Me


def me(view: View, _call: Call) -> Answer:
    return Answer(Me(view.person, view.audience, view.until, view.entries, view.csrf))


def own_key(view: View, _call: Call) -> Answer:
    return Answer(key_page(view.person, around(view)), HTML)


ROUTES = (
    ApiRoute("GET", "/v1/me", "me", "Who asks: the person, the role, and until when", me, Me, tag="access"),
    ApiRoute(
        "GET", "/my-key", "keyPage", "The page of the key of this browser", own_key, media=HTML, tag="sign-in",
        for_strangers=True,
    ),
)  # fmt: skip
