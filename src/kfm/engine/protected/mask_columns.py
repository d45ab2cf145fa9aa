"""Compares a masking policy with the table it is for. A misspelt column would leave every row without its place, and
the state without the places by which copies of the table are recognised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kfm.errors import Refused
from kfm.masking.public_record import PublicRecord
from kfm.model.masks import MaskingPolicy
from kfm.parsing.characters import printable

RULE = "mask.columns"


def check_columns(
    policy: MaskingPolicy, table: Mapping[str, Sequence[Any]], name: str, *, has_header: bool = True
) -> None:
    """Raise Refused if the policy names a column that the source does not have. The error names no column of the
    source, because the first line of a table without a header is data. A table without rows is not compared. If no
    header names all columns, a published column may be missing in every row."""
    if not any(table.values()):
        return
    for field, column in _named(policy, has_header):
        if column not in table:
            raise Refused(
                f"the masking policy {policy.id} says {field}: {printable(column)}, and source {name} has no such "
                "column",
                hint="write it there as the first line of the source has it, with the same capitals",
                rule=RULE,
            )


def _named(policy: MaskingPolicy, has_header: bool) -> Iterator[tuple[str, str]]:
    yield "record_id", policy.record_id
    for field in ("latitude", "longitude"):
        if column := getattr(policy.location, field):
            yield field, column
    if policy.location.accuracy.column:
        yield "accuracy.column", policy.location.accuracy.column
    if has_header:
        yield from (("columns", column) for column in policy.columns)


def check_places(records: Sequence[PublicRecord], policy: MaskingPolicy, name: str) -> None:
    """Raise Refused if no record has a cell: then the columns of the policy are not those of the places."""
    if not records or any(record.cell for record in records):
        return
    where = "the geometry" if policy.location.geometry else "latitude and longitude"
    raise Refused(
        f"no record of source {name} has a place that the masking policy {policy.id} understands",
        hint=f"look at {where} in the policy, are they exchanged? and at the values under accuracy.classes",
        rule="mask.places",
    )
