"""A refresh described only in the configuration: its source, its steps and its outputs.

The records are what `kfm.yml` may contain; `check_outputs` checks what their types cannot express.
docs/reference/transforms.md defines each step byte for byte.
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
# These are members of a GeoJSON feature itself; every other column is one of its properties.
FEATURE_MEMBERS = ("id", "geometry", "bbox")
ITEM_MEMBERS = (*FEATURE_MEMBERS, "collection", "links", "assets", "stac_version", "stac_extensions")

_Column = Annotated[str, Meta(min_length=1, max_length=1000)]
_Columns = tuple[_Column, ...]


class ExpectedVariable(Record, frozen=True):
    """A variable of a grid: a band, the messages of one GRIB2 element, or an array."""

    name: Annotated[
        _Column, Meta(description="a band's description or number; in GRIB2 the element; inside groups a/b")
    ]
    dtype: Annotated[str, Meta(max_length=20, description="as numpy writes it, such as float32 or uint8")] = ""
    units: Annotated[str, Meta(max_length=100, description="as the file writes them, such as K or kg/(m^2)")] = ""
    dimensions: Annotated[
        tuple[str, ...], Meta(description="their names in order: y, x for a band; message, y, x for GRIB2")
    ] = ()
    shape: Annotated[tuple[int, ...], Meta(description="the count of values of each dimension")] = ()
    nodata: Annotated[float | None, Meta(description="the value that marks missing data")] = None
    minimum: Annotated[float | None, Meta(description="of all values that are not missing")] = None
    maximum: Annotated[float | None, Meta(description="of all values that are not missing")] = None
    required: Annotated[bool, Meta(description="the variable must exist")] = False
    mode: Annotated[
        Literal["freeze", "evolve"],
        Meta(description="a variable that does not fit quarantines the source (freeze), or is only noted (evolve)"),
    ] = "freeze"


class Expected(Record, frozen=True):
    """Checks of a source beyond its columns."""

    crs: Annotated[
        str, Meta(max_length=100, description="authority and code of the coordinate system, such as EPSG:4326")
    ] = ""
    bbox: Annotated[
        tuple[float, ...],
        Meta(description="west, south, east, north in its coordinates; a row, or a grid, outside is quarantined"),
    ] = ()
    bands: Annotated[
        Annotated[int, Meta(ge=1)] | msgspec.UnsetType, Meta(description="grids: the count of variables")
    ] = msgspec.UNSET
    time: Annotated[
        str | msgspec.UnsetType,
        Meta(description="grids: two instants in UTC separated by /; all times must lie between them"),
    ] = msgspec.UNSET
    variables: Annotated[
        tuple[ExpectedVariable, ...] | msgspec.UnsetType, Meta(description="grids: the variables that are checked")
    ] = msgspec.UNSET
    geometry: Annotated[
        tuple[str, ...] | msgspec.UnsetType,
        Meta(
            description="kinds of geometries, such as [Polygon, MultiPolygon]; a row with another kind is quarantined"
        ),
    ] = msgspec.UNSET


class FilterConfig(Record, frozen=True):
    """Keeps the rows that meet every condition given here."""

    column: Annotated[_Column, Meta(description="the column that the conditions test")]
    equals: Annotated[Scalar | None, Meta(description="equal to this; the value is read with the type of this one")] = (
        None
    )
    not_equals: Annotated[Scalar | None, Meta(description="any other value, or no value")] = None
    in_: Annotated[tuple[Scalar, ...], Meta(description="one of these")] = msgspec.field(default=(), name="in")
    above: Annotated[Bound | None, Meta(description="more than this; texts compare character by character")] = None
    below: Annotated[Bound | None, Meta(description="less than this")] = None
    at_least: Annotated[Bound | None, Meta(description="this or more")] = None
    at_most: Annotated[Bound | None, Meta(description="this or less")] = None
    matches: Annotated[str, Meta(description="the whole text matches; * is any text, ? any character, \\* a star")] = ""
    blank: Annotated[bool | None, Meta(description="true: no value; false: a value")] = None


class SortConfig(Record, frozen=True):
    """One column to sort by."""

    column: Annotated[_Column, Meta(description="numbers by size, then texts by character, then blanks")]
    descending: Annotated[bool, Meta(description="largest first; blanks are still last")] = False


class DeduplicateConfig(Record, frozen=True):
    """Keeps one row of all rows with the same key."""

    by: Annotated[_Columns, Meta(description="the columns of the key; a row whose key is blank stays")]
    keep: Annotated[Literal["first", "last"], Meta(description="which of the rows stays, at its position")] = "first"


class JoinConfig(Record, frozen=True):
    """Adds columns of another source, looked up by key."""

    source: Annotated[_Column, Meta(description="the source with the columns to add; its rows must fit into memory")]
    on: Annotated[dict[str, str], Meta(description="column of the row: column of that source; the texts must be equal")]
    add: Annotated[_Columns, Meta(description="columns of that source that are added to the row")]
    missing: Annotated[
        Literal["keep", "drop", "refuse"],
        Meta(description="a row whose key is not found: keep it with blanks, drop it, or refuse the whole output"),
    ] = "keep"


class StepConfig(Record, frozen=True):
    """One step: exactly one of its keys, and `unfit` only together with `cast`."""

    select: Annotated[
        _Columns, Meta(description="only these columns, in this order; in JSON also /a/pointer into a record")
    ] = ()
    rename: Annotated[dict[str, str], Meta(description="old name: new name")] = {}
    cast: Annotated[dict[str, CastType], Meta(description="column: text, integer, number or boolean")] = {}
    unfit: Annotated[
        Literal["refuse", "blank", "drop"] | None,
        Meta(description="with cast: what happens to a value that does not fit; default: the output is refused"),
    ] = None
    filter: Annotated[FilterConfig | None, Meta(description="keeps only the rows that meet the conditions")] = None
    sort: Annotated[
        tuple[str | SortConfig, ...],
        Meta(description="by these columns, the first before the second; rows with equal keys keep their order"),
    ] = ()
    deduplicate: Annotated[DeduplicateConfig | None, Meta(description="keeps one row per key")] = None
    join: Annotated[JoinConfig | None, Meta(description="adds columns of another source, by key")] = None
    mask: Annotated[Any, Meta(description="reserved for masking; this version refuses it")] = None

    def verbs(self) -> list[str]:
        return [verb for verb in VERBS if getattr(self, verb) not in (None, (), {})]


class OutputConfig(Record, frozen=True):
    """One output: the rows of a source after the steps."""

    from_: Annotated[_Column, Meta(description="the source of its rows")] = msgspec.field(name="from")
    steps: Annotated[tuple[StepConfig, ...], Meta(description="in this order")] = ()
    format: Annotated[OutputFormat | None, Meta(description="default: the format of the source; json for stac")] = None
    partition_by: Annotated[
        str, Meta(description="one output for each value of this column, which must be the contract's partition_by")
    ] = ""
    window_by: Annotated[
        str,
        Meta(
            description="the column that `--window` filters by, which must be the partition_by; its values are days, "
            "months, years or instants, in ISO 8601"
        ),
    ] = ""
    allow_empty: Annotated[
        bool, Meta(description="false: the run is held if the output had rows in the version before and has none now")
    ] = False

    def format_from(self, source: str) -> OutputFormat:
        if self.format is not None:
            return self.format
        return "json" if source == "stac" else source  # type: ignore[return-value]


def check_window(dataset: str, outputs: Mapping[str, OutputConfig]) -> None:
    """Raise BadInput if `--window` is given for a dataset with an output that declares no window_by."""
    for name in sorted(outputs):
        if not outputs[name].window_by:
            raise BadInput(
                f"--window has no meaning for {dataset}: its output {name} declares no window_by",
                hint="add window_by with a column of time that the output is partitioned by, or leave --window out",
            )


def declaration(value: Any) -> Any:
    """Return a declaration as plain values without defaults: the same however it was written."""
    if isinstance(value, Record):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        found = {key: declaration(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, "", [], {}) or item is False}
    if isinstance(value, (list, tuple)):
        return [declaration(item) for item in value]
    return value


def glob_parts(pattern: str) -> list[list[str]] | None:
    """Return the texts between the stars, each split at its question marks; None if a backslash comes before anything
    but `*`, `?` and a backslash."""
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


# ------------------------------------------------------------------- checks that the types cannot express


def check_outputs(
    document: Document, path: Path, outputs: Mapping[str, OutputConfig], sources: Mapping[str, DataContract]
) -> None:
    """Raise BadInput, with the place in the file, for outputs that cannot work."""
    used: set[str] = set()
    for name in sorted(outputs):
        output = outputs[name]
        here: Path = (*path, "outputs", name)
        with document:
            try:
                names.check_id(name, "output")
            except BadInput as error:
                raise BadInput(f"{document.place(here)}: {error.message}", hint=error.hint, key="outputs") from None
        with document:
            _Check(document, here, output, sources).all()
        used |= {output.from_, *(step.join.source for step in output.steps if step.join is not None)}
    for name in sorted(sources):
        if name not in used:
            document.refuse(
                (*path, "sources", name), "is used by no output", "name it in `from` or in a join, or remove it"
            )


class _Check:
    """Checks one output. It follows the columns through the steps once they are known: after a `select`, or if the
    contract names the columns of a table without a header."""

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
            hint = f"its sources: {known}"
            raise self._document.mistake((*self._path, *path), "names no source of this dataset", hint)
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
                        "remove it: a grid is published whole",
                    )
            return
        if contract.format == "csv" and not contract.header:
            self._columns = [column.name for column in contract.columns]
        self._pointers = contract.format not in ("csv", *COLUMNAR)
        for number, step in enumerate(output.steps):
            self._step(("steps", number), step)
        if output.partition_by and output.partition_by != contract.partition_by:
            self._refuse(("partition_by",), "is not the partition_by of its source's contract",
                         "name the same column in the contract's partition_by")  # fmt: skip
        if output.window_by and output.window_by != output.partition_by:
            self._refuse(("window_by",), "is not the partition_by of the output",
                         "name the same column in partition_by; keys outside the window are carried over")  # fmt: skip
        if any(column.name == output.window_by and column.date_format for column in contract.columns):
            self._refuse(("window_by",), "names a column with a date_format", "only ISO 8601 is read here")
        self._format(contract.format, output.format_from(contract.format))

    def _format(self, source: str, wanted: str) -> None:
        at: Path = ("format",) if self._output.format is not None else ()
        if wanted == "csv" and source != "csv" and self._columns is None:
            self._refuse(at, f"is csv, but no select says which columns of the {source} it has", "add a select")
        if wanted == "geojson" and source == "csv":
            self._refuse(at, "is geojson, but a csv has no geometry", "use csv, json or ndjson")
        joined = [self._sources[step.join.source].format for step in self._output.steps if step.join is not None]
        if wanted in VECTORS and (self._output.steps or self._output.partition_by):
            self._refuse(at, f"has no format, and steps do not write {wanted}", "write format: parquet, geojson or csv")
        if wanted == "parquet" and not {source, *joined} <= {"csv", *COLUMNAR}:
            self._refuse(
                at, "is parquet, but the columns of its sources have no types", "use sources in csv or parquet"
            )
        if wanted == "geojson" and source == "parquet":
            self._refuse(at, "is geojson, but KFM does not read geometries from parquet", "use parquet")
        if wanted == "geojson" and self._columns is not None and "geometry" not in self._columns:
            self._refuse(at, "is geojson, but its columns have no geometry", "add geometry to the select")

    def _step(self, path: Path, step: StepConfig) -> None:
        verbs = step.verbs()
        if step.mask is not None:
            self._refuse((*path, "mask"), "requests masking, which this version does not have",
                         "leave the column out with a select")  # fmt: skip
            return
        if len(verbs) != 1:
            what = "must be one step" if verbs else "is empty"
            self._refuse(path, what, f"give one of {', '.join(VERBS[:-1])}")
            return
        if step.unfit is not None and verbs != ["cast"]:
            self._refuse((*path, "unfit"), "has no meaning here", "use it together with cast")
        getattr(self, "_" + verbs[0])((*path, verbs[0]), step)

    def _known(self, path: Path, columns: list[str] | tuple[str, ...]) -> None:
        """Report a column that is empty, repeated, or (if the columns are known) missing."""
        seen: set[str] = set()
        for column in columns:
            if not column or column in seen:
                self._refuse(path, "names a column twice, or none", "name each column once")
            seen.add(column)
            if self._columns is not None and column not in self._columns and not self._leads(path, column):
                self._refuse(path, f"names the column {printable(column)}, which does not exist at this step",
                             f"its columns: {', '.join(map(printable, self._columns))}")  # fmt: skip

    def _leads(self, path: Path, column: str) -> bool:
        """Return whether a column of a select is a JSON pointer: whether it leads to a value depends on the data."""
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
                    self._refuse(path, f"names the column {printable(column)}, which {join.source} does not have",
                                 f"its columns: {', '.join(map(printable, there))}")  # fmt: skip
        if self._columns is not None:
            for name in join.add:
                if name in self._columns:
                    self._taken((*path, "add"), name)
            self._columns += join.add
