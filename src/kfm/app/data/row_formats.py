"""The formats in which rows can be had over HTTP, by the media type in which they are stored."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Literal

from kfm.app.data.version_reader import DOCUMENTS, GEOJSON, LINES, PARQUET, TABLES

Form = Literal["csv", "geojson", "ndjson", "parquet"]
FORMS: tuple[Form, ...] = ("csv", "geojson", "ndjson", "parquet")
MEDIA_TYPES: dict[Form, str] = {
    "csv": "text/csv; charset=utf-8",
    "geojson": GEOJSON,
    "ndjson": "application/x-ndjson",
    "parquet": PARQUET,
}


def own_form(kind: str) -> Form | None:
    """Return the form in which data of a media type is stored; None if it is none of these."""
    if kind == GEOJSON:
        return "geojson"
    if kind == PARQUET:
        return "parquet"
    if kind in TABLES:
        return "csv"
    return "ndjson" if kind in LINES | DOCUMENTS else None


def sure_forms(media_types: Iterable[str]) -> tuple[Form, ...]:
    """Return the forms in which rows of these files can be had without a look at them; none if they are of several
    types, or need not have rows, as a JSON document."""
    kinds = {each.partition(";")[0].strip().lower() for each in media_types}
    kind = kinds.pop() if len(kinds) == 1 else ""
    own, has_parquet = own_form(kind), find_spec("pyarrow") is not None
    if own is None or kind == "application/json" or (own == "parquet" and not has_parquet):
        return ()
    sure = {"csv", "ndjson", own, *(["parquet"] if has_parquet and kind in TABLES else [])}
    return tuple(each for each in FORMS if each in sure)
