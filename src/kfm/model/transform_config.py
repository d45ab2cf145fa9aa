"""A refresh described in the configuration alone: which source, which steps, what comes out.

The records are what `kfm.yml` may say; `check_outputs` is what their types alone cannot say. What each
step does, to the byte, is in docs/reference/transforms.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kfm.errors import BadInput
from kfm.model import names
from kfm.model.records import DataContract, Record
from kfm.model.source_formats import COLUMNAR, GRIDS, VECTORS
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document, Path

CastType = Literal["text", "integer", "number", "boolean"]
OutputFormat = Literal["csv", "json", "ndjson", "geojson", "parquet"]
Scalar = str | int | float | bool
Bound = str | int | float
TABULAR = ("csv", "json", "ndjson", "geojson", "stac", *COLUMNAR)  # formats of a source that have rows
GEOMETRIES = (
    "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection",
)  # fmt: skip
VERBS = ("select", "rename", "cast", "filter", "sort", "deduplicate", "join", "mask")
# Of a feature these are its own members; every other column is one of its properties.
FEATURE_MEMBERS = ("id", "geometry", "bbox")
ITEM_MEMBERS = (*FEATURE_MEMBERS, "collection", "links", "assets", "stac_version", "stac_extensions")

_Column = Annotated[str, Meta(min_length=1, max_length=1000)]
_Columns = tuple[_Column, ...]


class ExpectedVariable(Record, frozen=True):
    """A variable of a grid: a band, the messages of one element, an array."""

    name: Annotated[
        _Column, Meta(description="of a band its description, or its number; of GRIB2 its element; in groups a/b")
    ]
    dtype: Annotated[str, Meta(max_length=20, description="as numpy writes it, such as float32 or uint8")] = ""
    units: Annotated[str, Meta(max_length=100, description="as the file writes them, such as K or kg/(m^2)")] = ""
    dimensions: Annotated[
        tuple[str, ...], Meta(description="their names in order; y, x of a band, message, y, x of GRIB2")
    ] = ()
    shape: Annotated[tuple[int, ...], Meta(description="how many values each dimension has")] = ()
    nodata: Annotated[float | None, Meta(description="the value that marks what is not known")] = None
    minimum: Annotated[float | None, Meta(description="of all values but those that are not known")] = None
    maximum: Annotated[float | None, Meta(description="of all values but those that are not known")] = None
    required: Annotated[bool, Meta(description="it must be there")] = False
    mode: Annotated[
        Literal["freeze", "evolve"], Meta(description="what does not fit holds the source, or is noted only")
    ] = "freeze"


class Expected(Record, frozen=True):
    """What is looked at beside the columns."""

    crs: Annotated[
        str, Meta(max_length=100, description="authority and code of the coordinate system, such as EPSG:4326")
    ] = ""
    bbox: Annotated[
        tuple[float, ...],
        Meta(
            description="west, south, east, north in its coordinates: a row with a position outside is held, or a grid"
        ),
    ] = ()
    bands: Annotated[
        Annotated[int, Meta(ge=1)] | msgspec.UnsetType, Meta(description="grids: how many variables there are")
    ] = msgspec.UNSET
    time: Annotated[
        str | msgspec.UnsetType, Meta(description="grids: two moments in UTC with / between, within which all lies")
    ] = msgspec.UNSET
    variables: Annotated[
        tuple[ExpectedVariable, ...] | msgspec.UnsetType, Meta(description="grids: the variables that are checked")
    ] = msgspec.UNSET
    geometry: Annotated[
        tuple[str, ...] | msgspec.UnsetType,
        Meta(description="kinds of geometries, such as [Polygon, MultiPolygon]: a row with another one is held"),
    ] = msgspec.UNSET


class FilterConfig(Record, frozen=True):
    """Keeps the rows of which all that is said here is true."""

    column: Annotated[_Column, Meta(description="the column that is looked at")]
    equals: Annotated[Scalar | None, Meta(description="the value, read as what is written here is")] = None
    not_equals: Annotated[Scalar | None, Meta(description="any other value, and none")] = None
    in_: Annotated[tuple[Scalar, ...], Meta(description="one of these")] = msgspec.field(default=(), name="in")
    above: Annotated[Bound | None, Meta(description="more than this; texts in the order of their characters")] = None
    below: Annotated[Bound | None, Meta(description="less than this")] = None
    at_least: Annotated[Bound | None, Meta(description="this or more")] = None
    at_most: Annotated[Bound | None, Meta(description="this or less")] = None
    matches: Annotated[
        str, Meta(description="the whole text, where * is any text and ? any character; \\* is a star itself")
    ] = ""
    blank: Annotated[bool | None, Meta(description="true: there is no value; false: there is one")] = None


class SortConfig(Record, frozen=True):
    """One column to sort by."""

    column: Annotated[_Column, Meta(description="numbers by size, then texts by their characters; blank ones last")]
    descending: Annotated[bool, Meta(description="the largest first; blank ones last all the same")] = False


class DeduplicateConfig(Record, frozen=True):
    """Leaves one row of all that have the same key."""

    by: Annotated[_Columns, Meta(description="the columns that are the key; a row that has none of it stays")]
    keep: Annotated[Literal["first", "last"], Meta(description="which of the rows stays, in its place")] = "first"


class JoinConfig(Record, frozen=True):
    """Adds columns of another source, looked up by key."""

    source: Annotated[_Column, Meta(description="where to look; its rows are held in memory")]
    on: Annotated[dict[str, str], Meta(description="column of the row: column of that source; texts must be equal")]
    add: Annotated[_Columns, Meta(description="columns of that source that are added to the row")]
    missing: Annotated[
        Literal["keep", "drop", "refuse"],
        Meta(description="a row whose key is not there: keep it with blanks, drop it, or refuse the whole"),
    ] = "keep"


class StepConfig(Record, frozen=True):
    """One step. Exactly one of its keys is given, and `unfit` beside `cast` only."""

    select: Annotated[
        _Columns, Meta(description="only these columns, in this order; of JSON also /a/pointer into a record")
    ] = ()
    rename: Annotated[dict[str, str], Meta(description="old name: new name")] = {}
    cast: Annotated[dict[str, CastType], Meta(description="column: text, integer, number or boolean")] = {}
    unfit: Annotated[
        Literal["refuse", "blank", "drop"] | None,
        Meta(description="beside cast: what happens to a value that does not fit; default: the whole is refused"),
    ] = None
    filter: Annotated[FilterConfig | None, Meta(description="only the rows that fit")] = None
    sort: Annotated[
        tuple[str | SortConfig, ...], Meta(description="by these columns, the first before the second; stable")
    ] = ()
    deduplicate: Annotated[DeduplicateConfig | None, Meta(description="one row of each key")] = None
    join: Annotated[JoinConfig | None, Meta(description="columns of another source, by key")] = None
    mask: Annotated[Any, Meta(description="kept for masking, which this version does not have: it is refused")] = None

    def verbs(self) -> list[str]:
        return [verb for verb in VERBS if getattr(self, verb) not in (None, (), {})]


class OutputConfig(Record, frozen=True):
    """One output: rows of a source, taken through the steps."""

    from_: Annotated[_Column, Meta(description="the source whose rows it is made of")] = msgspec.field(name="from")
    steps: Annotated[tuple[StepConfig, ...], Meta(description="in this order")] = ()
    format: Annotated[OutputFormat | None, Meta(description="default: that of the source; of stac it is json")] = None
    partition_by: Annotated[
        str, Meta(description="an output for each value of this column, which must be the contract's partition_by")
    ] = ""
    window_by: Annotated[
        str,
        Meta(
            description="the column `--window` goes by, which must be the partition_by: its values are days, months, "
            "years or moments, in ISO 8601"
        ),
    ] = ""
    allow_empty: Annotated[
        bool, Meta(description="false: it is held if it had rows in the version before and would have none now")
    ] = False

    def format_from(self, source: str) -> OutputFormat:
        if self.format is not None:
            return self.format
        return "json" if source == "stac" else source  # type: ignore[return-value]


def check_window(dataset: str, outputs: Mapping[str, OutputConfig]) -> None:
    """Refuses a window for a dataset that declares an output without saying which column it goes by."""
    for name in sorted(outputs):
        if not outputs[name].window_by:
            raise BadInput(
                f"--window has no meaning for {dataset}: its output {name} declares no window_by",
                hint="add window_by with a column of time that the output is partitioned by, or leave --window out",
            )


def declaration(value: Any) -> Any:
    """What was declared, as plain values: the same however it was written, and without what was left out."""
    if isinstance(value, Record):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        found = {key: declaration(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, "", [], {}) or item is False}
    if isinstance(value, (list, tuple)):
        return [declaration(item) for item in value]
    return value


def glob_parts(pattern: str) -> list[list[str]] | None:
    """The texts between the stars, each cut at its question marks; None if a backslash stands before anything
    but `*`, `?` and itself."""
    parts = [[""]]
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
            sign = pattern[at : at + 1]
            if not sign or sign not in "*?\\":
                return None
            parts[-1][-1] += sign
        elif sign == "*":
            parts.append([""])
        elif sign == "?":
            parts[-1].append("")
        else:
            parts[-1][-1] += sign
        at += 1
    return parts


def sort_keys(step: StepConfig) -> list[SortConfig]:
    return [SortConfig(column=key) if isinstance(key, str) else key for key in step.sort]


# ------------------------------------------------------------------- what the types alone cannot say


def check_outputs(
    document: Document, path: Path, outputs: Mapping[str, OutputConfig], sources: Mapping[str, DataContract]
) -> None:
    """Refuses what cannot work, at its place in the file."""
    used: set[str] = set()
    for name in sorted(outputs):
        output = outputs[name]
        here: Path = (*path, "outputs", name)
        try:
            names.check_id(name, "output")
        except BadInput as error:
            raise BadInput(f"{document.place(here)}: {error.message}", hint=error.hint, key="outputs") from None
        _Check(document, here, output, sources).all()
        used |= {output.from_, *(step.join.source for step in output.steps if step.join is not None)}
    for name in sorted(sources):
        if name not in used:
            document.refuse(
                (*path, "sources", name), "is used by no output", "name it in `from` or in a join, or remove it"
            )


class _Check:
    """One output. Follows the columns through the steps as far as they are known: from a `select` on, or
    where the contract names the columns of a table without a header."""

    def __init__(
        self, document: Document, path: Path, output: OutputConfig, sources: Mapping[str, DataContract]
    ) -> None:
        self._document = document
        self._path = path
        self._output = output
        self._sources = sources
        self._columns: list[str] | None = None
        self._pointers = False

    def _refuse(self, path: Path, what: str, hint: str = "") -> None:
        self._document.refuse((*self._path, *path), what, hint)

    def _source(self, name: str, path: Path) -> DataContract:
        contract = self._sources.get(name)
        if contract is None:
            known = ", ".join(sorted(self._sources)) or "none"
            self._refuse(path, "names no source of this dataset", f"its sources: {known}")
            raise AssertionError
        if contract.format in GRIDS and path == ("from",):
            return contract
        if contract.format not in TABULAR:
            self._refuse(path, f"names a source of the format {contract.format}, which has no rows",
                         f"give it a format: {', '.join(TABULAR)}")  # fmt: skip
        return contract

    def all(self) -> None:
        output = self._output
        contract = self._source(output.from_, ("from",))
        if contract.format in GRIDS:
            for key in ("steps", "partition_by", "window_by", "format"):
                if getattr(output, key):
                    self._refuse(
                        (key,),
                        f"has no meaning for {contract.format}, which has no rows",
                        "take it out: a grid is published whole",
                    )
            return
        if contract.format == "csv" and not contract.header:
            self._columns = [column.name for column in contract.columns]
        self._pointers = contract.format not in ("csv", *COLUMNAR)
        for number, step in enumerate(output.steps):
            self._step(("steps", number), step)
        if output.partition_by and output.partition_by != contract.partition_by:
            self._refuse(("partition_by",), "is not what the contract of its source partitions by",
                         "name the same column in the contract's partition_by")  # fmt: skip
        if output.window_by and output.window_by != output.partition_by:
            self._refuse(("window_by",), "is not what the output is partitioned by",
                         "name the same column in its partition_by: keys outside of it are carried over")  # fmt: skip
        if any(column.name == output.window_by and column.date_format for column in contract.columns):
            self._refuse(("window_by",), "names a column with a date_format", "only ISO 8601 is read here")
        self._format(contract.format, output.format_from(contract.format))

    def _format(self, source: str, wanted: str) -> None:
        at: Path = ("format",) if self._output.format is not None else ()
        if wanted == "csv" and source != "csv" and self._columns is None:
            self._refuse(at, f"is csv, but nobody says which columns of the {source} it has", "add a select")
        if wanted == "geojson" and source == "csv":
            self._refuse(at, "is geojson, but a csv has no geometry", "use csv, json or ndjson")
        joined = [self._sources[step.join.source].format for step in self._output.steps if step.join is not None]
        if wanted in VECTORS and (self._output.steps or self._output.partition_by):
            self._refuse(at, f"has no format, and steps do not write {wanted}", "say format: parquet, geojson or csv")
        if wanted == "parquet" and not {source, *joined} <= {"csv", *COLUMNAR}:
            self._refuse(at, "is parquet, but the columns of its sources have no types", "make it of csv or parquet")
        if wanted == "geojson" and source == "parquet":
            self._refuse(at, "is geojson, but geometries of parquet are not read as such", "use parquet")
        if wanted == "geojson" and self._columns is not None and "geometry" not in self._columns:
            self._refuse(at, "is geojson, but its columns have no geometry", "add geometry to the select")

    def _step(self, path: Path, step: StepConfig) -> None:
        verbs = step.verbs()
        if step.mask is not None:
            self._refuse((*path, "mask"), "asks for masking, which this version does not have",
                         "leave the column out with a select")  # fmt: skip
        if len(verbs) != 1:
            self._refuse(path, "must be one step" if verbs else "says nothing", f"give one of {', '.join(VERBS[:-1])}")
        if step.unfit is not None and verbs != ["cast"]:
            self._refuse((*path, "unfit"), "has no meaning here", "it stands beside cast")
        getattr(self, "_" + verbs[0])((*path, verbs[0]), step)

    def _known(self, path: Path, columns: list[str] | tuple[str, ...]) -> None:
        """Each once, none empty, and each there, as far as that is known."""
        seen: set[str] = set()
        for column in columns:
            if not column or column in seen:
                self._refuse(path, "names a column twice, or none", "name each column once")
            seen.add(column)
            if self._columns is not None and column not in self._columns and not self._leads(path, column):
                self._refuse(path, f"names the column {printable(column)}, which is not there any more",
                             f"there are: {', '.join(map(printable, self._columns))}")  # fmt: skip

    def _leads(self, path: Path, column: str) -> bool:
        """Whether this is a pointer that a select may follow: only data can tell where it leads."""
        return path[-1] == "select" and self._pointers and column.startswith("/")

    def _select(self, path: Path, step: StepConfig) -> None:
        self._known(path, step.select)
        self._columns = list(step.select)

    def _rename(self, path: Path, step: StepConfig) -> None:
        self._known(path, sorted(step.rename))
        new = [step.rename[name] for name in sorted(step.rename)]
        if "" in new or len(set(new)) < len(new):
            self._refuse(path, "gives two columns one name, or one an empty name", "give each its own")
        if self._columns is not None:
            for name in new:
                if name in self._columns and name not in step.rename:
                    self._taken(path, name)
            self._columns = [step.rename.get(column, column) for column in self._columns]

    def _taken(self, path: Path, name: str) -> None:
        self._refuse(path, f"would give the name {printable(name)} to a second column", "rename one of them")

    def _cast(self, path: Path, step: StepConfig) -> None:
        self._known(path, sorted(step.cast))

    def _filter(self, path: Path, step: StepConfig) -> None:
        said = step.filter
        assert said is not None
        self._known((*path, "column"), [said.column])
        values = [said.equals, said.not_equals, said.above, said.below, said.at_least, said.at_most, *said.in_]
        if not (said.matches or said.blank is not None or any(value is not None for value in values)):
            self._refuse(path, "has no condition", "for example equals, in, at_least or blank")
        if any(isinstance(value, str) and not value.strip() for value in values):
            self._refuse(path, "compares with a blank text", "write blank: true, or blank: false")
        if glob_parts(said.matches) is None:
            self._refuse((*path, "matches"), "ends in a backslash, or has one before another character",
                         r"write \* \? or \\ for the character itself")  # fmt: skip

    def _sort(self, path: Path, step: StepConfig) -> None:
        self._known(path, [key.column for key in sort_keys(step)])

    def _deduplicate(self, path: Path, step: StepConfig) -> None:
        assert step.deduplicate is not None
        if not step.deduplicate.by:
            self._refuse((*path, "by"), "is empty", "name the columns that are the key")
        self._known((*path, "by"), step.deduplicate.by)

    def _join(self, path: Path, step: StepConfig) -> None:
        join = step.join
        assert join is not None
        contract = self._source(join.source, (*path, "source"))
        if not join.on or not join.add:
            self._refuse(path, "has no key, or adds nothing", "give on: {column: column} and add: [column]")
        self._known((*path, "on"), sorted(join.on))
        theirs = [join.on[name] for name in sorted(join.on)]
        if "" in theirs or len(set(theirs)) < len(theirs) or len(set(join.add)) < len(join.add):
            self._refuse(path, "names a column of its source twice, or none", "name each once")
        if contract.format == "csv" and not contract.header:
            there = [column.name for column in contract.columns]
            for column in (*theirs, *join.add):
                if column not in there:
                    self._refuse(path, f"names the column {printable(column)}, which {join.source} has not",
                                 f"there are: {', '.join(map(printable, there))}")  # fmt: skip
        if self._columns is not None:
            for name in join.add:
                if name in self._columns:
                    self._taken((*path, "add"), name)
            self._columns += join.add
