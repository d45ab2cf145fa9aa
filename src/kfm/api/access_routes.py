"""The route that says who asks."""

from __future__ import annotations

from kfm.api.routes import Answer, ApiRoute, Call, View
from kfm.app.serving.access_answers import Me


def me(view: View, _call: Call) -> Answer:
    return Answer(Me(view.person, view.audience, view.until, view.entries, view.csrf))


ROUTES = (ApiRoute("GET", "/v1/me", "me", "Who asks: the person, the role, and until when", me, Me, tag="access"),)
