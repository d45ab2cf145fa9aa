"""The route of the page where a person makes a key."""

from __future__ import annotations

from kfm.api.console.key_page import key_page
from kfm.api.routes import HTML, Answer, ApiRoute, Call, View
from kfm.api.run_routes import around


def own_key(view: View, _call: Call) -> Answer:
    return Answer(key_page(view.person, around(view)), HTML)


ROUTES = (
    ApiRoute(
        "GET", "/my-key", "keyPage", "The page of the key of this browser", own_key, media=HTML, tag="sign-in",
        for_strangers=True,
    ),
)  # fmt: skip
