"""JSON records as rows: their columns, and which columns occurred.

The columns of a feature are its properties and its own `id`, `geometry` and `bbox`; a STAC item also has `collection`,
`links`, `assets`, `stac_version` and `stac_extensions`. A property with one of these names is the column
`properties.<name>`. The columns of any other record are its members; those of a vector file are its attributes and
`geometry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kfm.model.records import DataContract
from kfm.model.source_formats import COLUMNAR, VECTORS
from kfm.model.transform_config import FEATURE_MEMBERS, ITEM_MEMBERS
from kfm.model.updater import Reader
from kfm.updaters.transforms.transform_errors import no_object

Row = dict[str, Any]


class Members:
    """The names of all columns that occurred in any row."""

    __slots__ = ("any", "names")

    def __init__(self) -> None:
        self.any = False
        self.names: set[str] = set()


def own_members(format_: str) -> tuple[str, ...]:
    """Return the columns that, in this format, are members of the feature itself and not of its properties."""
    if format_ in VECTORS:
        return ("id", "geometry")
    return ITEM_MEMBERS if format_ == "stac" else FEATURE_MEMBERS


class Properties:
    """Maps property names to column names and back, one to one."""

    def __init__(self, format_: str) -> None:
        self.own = own_members(format_)
        self._hidden = re.compile(rf"(?:properties\.)*(?:{'|'.join(self.own)})")

    def column(self, name: str) -> str:
        return "properties." + name if self._hidden.fullmatch(name) else name

    def property(self, column: str) -> str:
        return column.removeprefix("properties.") if self._hidden.fullmatch(column) else column

    def row(self, feature: Row) -> Row:
        properties: Row = feature["properties"] or {}
        row = {self.column(name): value for name, value in properties.items()}
        for name in self.own:
            if name in feature:
                row[name] = feature[name]
        return row


def rows_of(
    read: Reader, output: str, source: str, contract: DataContract, members: Members, *, shapes: bool = False
) -> Iterator[tuple[int, Row]]:
    """Yield each record as a row, with its number in the accepted source. With `shapes`, geometries are parsed;
    otherwise they are passed through."""
    format_ = contract.format
    geographic = format_ in ("geojson", "stac")
    properties = Properties(format_)
    names = members.names
    for number, record in enumerate(_records(read, source, contract, shapes), 1):
        if type(record) is not dict:
            raise no_object(output, source, number)
        row = properties.row(record) if geographic and record.get("type") == "Feature" else record
        if not names.issuperset(row):
            names.update(row)
        members.any = True
        yield number, row


def _records(read: Reader, source: str, contract: DataContract, shapes: bool) -> Iterator[Any]:
    if contract.format in COLUMNAR:
        from kfm.updaters.transforms.parquet_input import Opened

        return Opened(read, source).rows(shapes)
    if contract.format == "ndjson":
        return read.ndjson(source)
    if contract.format == "json":
        return read.records(source, contract.root)
    return read.records(source, "features", alone=contract.format == "stac")
