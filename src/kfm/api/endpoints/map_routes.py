"""The routes of the map of a dataset: what it draws, and its vector tiles."""

from __future__ import annotations

from kfm.api.endpoints.data_routes import shown
from kfm.api.problems import not_found
from kfm.api.routes import Answer, ApiRoute, Call, View
from kfm.app.serving.map_answers import MVT, MapAnswer, is_tile


def dataset_map(view: View, call: Call) -> Answer:
    return Answer(view.maps.answer(view.session, view.shelf, shown(view, call), view.entries))


def tile(view: View, call: Call) -> Answer:
    """Answer with a tile. The one 404 if there is no tile of these numbers, or no dataset that may be shown."""
    at = shown(view, call)
    zoom, column, row = (_number(call.path[name]) for name in ("z", "x", "y"))
    if not is_tile(zoom, column, row):
        raise not_found()
    return Answer(view.maps.tile(view.session, view.shelf, at, zoom, column, row), MVT)


def _number(text: str) -> int:
    """Return a whole number as an address has it; -1 for another text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 and text == str(int(text)) else -1


ROUTES = (
    ApiRoute(
        "GET", "/v1/datasets/{name}/map", "map", "What a map of a dataset draws, and where its tiles are", dataset_map,
        MapAnswer,
    ),
    ApiRoute(
        "GET", "/v1/datasets/{name}/tiles/{z}/{x}/{y}", "mapTile", "A vector tile of the places of a dataset", tile,
        media=MVT,
    ),
)  # fmt: skip
