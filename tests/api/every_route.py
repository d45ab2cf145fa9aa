"""Requests to every route of the table, with names that exist and names that do not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode

from kfm.api.route_table import ROUTES
from tests.api.serving_site import is_endless

TILE = {"z": ["0"], "x": ["0"], "y": ["0"]}
PARTS = re.compile(r"\{(\w+)(?::path)?\}")
# Queries that make an answer filter, sort, page or fail.
QUERIES: tuple[Mapping[str, str], ...] = (
    {},
    {"limit": "1"},
    {"limit": "0"},
    {"after": "a"},
    {"bbox": "-103,36,-94,41", "limit": "1000"},
    {"bbox": "-98.5,38.1,-98.4,38.2"},
    {"sortby": "-datetime", "fields": "id,properties"},
    {"datetime": "1900-01-01T00:00:00Z/.."},
    {"filter": '{"op":"=","args":[{"property":"kfm:run_id"},"x"]}', "filter-lang": "cql2-json"},
    {"nonsense": "1"},
)


def paths(values: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield method and path of every route, for each combination of the values of its parts. A part without values
    takes those of `name`, and the number of a tile is 0."""
    values = {**TILE, **values}
    for route in ROUTES:
        if is_endless(route):
            continue
        names = PARTS.findall(route.path)
        for chosen in itertools.product(*(values.get(name, values["name"]) for name in names)):
            path = route.path
            for name, value in zip(names, chosen, strict=True):
                path = re.sub(rf"\{{{name}(:path)?\}}", lambda _, said=value: quote(said, safe="/:@"), path)
            yield route.method, path


def requests(values: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield the paths with each of the queries."""
    for method, path in paths(values):
        for query in QUERIES:
            yield method, f"{path}?{urlencode(query)}" if query else path
