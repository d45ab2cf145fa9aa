"""The parameters of the jobs that make a dataset from versions of other datasets: one record for each type of job."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kfm.model.masks import SMALLEST_K
from kfm.model.records import Record

TILES, REPORT, INDEX = "transform.build_tiles", "validate.qa_dataset", "index.build_embeddings"
STORY, CONTEXT = "story.node", "focus.context"
ALIAS = r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$"

_Column = Annotated[str, Meta(min_length=1, max_length=1000)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Zoom = Annotated[int, Meta(ge=0, le=16)]


class JobSettings(Record, frozen=True):
    """The base class of the parameters of a job."""


class TileSettings(JobSettings, frozen=True):
    """How `transform.build_tiles` draws features."""

    layer: Annotated[
        str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,62}$", description="the name of the one layer in the tiles")
    ] = "features"
    min_zoom: Annotated[_Zoom, Meta(description="the zoom at which tiles begin")] = 0
    max_zoom: Annotated[_Zoom, Meta(description="the zoom at which tiles end; a map magnifies these")] = 8
    attributes: Annotated[
        tuple[_Column, ...] | None, Meta(description="the only columns that tiles get; null: every column")
    ] = None
    longitude: Annotated[str, Meta(max_length=1000, description="of a table: the column of degrees east")] = "longitude"
    latitude: Annotated[str, Meta(max_length=1000, description="of a table: the column of degrees north")] = "latitude"
    tile_kib: Annotated[
        Annotated[int, Meta(ge=16, le=65_536)],
        Meta(description="the run is refused if a tile is larger: no feature is left out"),
    ] = 4096


class Range(Record, frozen=True):
    """The numbers that a column may hold."""

    minimum: Annotated[float | None, Meta(description="no value is less")] = None
    maximum: Annotated[float | None, Meta(description="no value is greater")] = None


class Newest(Record, frozen=True):
    """How old the newest row may be."""

    column: Annotated[_Column, Meta(description="a column of dates or instants")]
    days: Annotated[
        Annotated[int, Meta(ge=0, le=36_525)],
        Meta(description="the newest row is at most this many days older than the version"),
    ]


class ReportSettings(JobSettings, frozen=True):
    """The thresholds of `validate.qa_dataset`. A run whose thresholds are missed makes no version."""

    min_rows: Annotated[Annotated[int, Meta(ge=0)], Meta(description="fewer rows miss it")] = 1
    max_null_share: Annotated[
        dict[str, _Share], Meta(description="by column: the largest share of rows without a value")
    ] = {}
    key: Annotated[tuple[_Column, ...], Meta(description="columns that together name a row")] = ()
    max_duplicates: Annotated[
        Annotated[int, Meta(ge=0)], Meta(description="how many rows may repeat the key of another row")
    ] = 0
    ranges: Annotated[dict[str, Range], Meta(description="by column: the numbers that it may hold")] = {}
    max_outside: Annotated[
        Annotated[int, Meta(ge=0)], Meta(description="how many values may lie outside their range")
    ] = 0
    extent: Annotated[
        tuple[float, float, float, float] | None,
        Meta(description="west, south, east and north: every place is inside; null: anywhere"),
    ] = None
    longitude: Annotated[str, Meta(max_length=1000, description="of a table: the column of degrees east")] = "longitude"
    latitude: Annotated[str, Meta(max_length=1000, description="of a table: the column of degrees north")] = "latitude"
    newest: Annotated[Newest | None, Meta(description="how old the newest row may be; null: any age")] = None
    k: Annotated[
        Annotated[int, Meta(ge=SMALLEST_K)], Meta(description="of masked data: smaller counts are left out")
    ] = SMALLEST_K


class IndexSettings(JobSettings, frozen=True):
    """Which text `index.build_embeddings` makes searchable."""

    columns: Annotated[
        tuple[_Column, ...], Meta(description="columns that are searched; none: each entry is one text document")
    ] = ()
    title: Annotated[str, Meta(max_length=1000, description="the column that is shown first; empty: none")] = ""
    id: Annotated[str, Meta(max_length=1000, description="the column that names a row; empty: its number")] = ""
    segments: Annotated[
        Annotated[int, Meta(ge=1, le=256)],
        Meta(description="into how many files the rows of a source are divided, by their names"),
    ] = 1
    alias: Annotated[
        str, Meta(pattern=f"{ALIAS}|^$", description="the name that `kfm search` uses; empty: that of the dataset")
    ] = ""


class StorySettings(JobSettings, frozen=True):
    """How `story.node` reads a story."""

    title: Annotated[str, Meta(max_length=300, description="of the story; empty: its first heading")] = ""
    language: Annotated[
        str,
        Meta(
            max_length=35,
            pattern="^[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*$",
            description="of its text, as a tag of BCP 47 such as en, es-MX or osa",
        ),
    ] = "en"


BY_JOB: dict[str, type[JobSettings]] = {
    TILES: TileSettings,
    REPORT: ReportSettings,
    INDEX: IndexSettings,
    STORY: StorySettings,
}
