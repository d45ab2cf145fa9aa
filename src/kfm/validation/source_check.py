"""Checks a source against its data contract, before anything is planned from it.

The source is read as a stream and judged row by row. Memory does not grow with its size, except for values that must be
unique (see column_rules.py) and for the distinct partitions. A finding in the source is never raised: it is counted,
listed, and quarantines a row or the source. Errors are raised only about the contract (BadInput) or by the stream.

    mode            a value that breaks a rule
    evolve          passes; it is noted
    freeze          quarantines the whole source
    discard-row     quarantines its row
    discard-value   is blanked; it is noted

Findings name the rule and the place, never a value. Quarantined rows go to `hold`, whose store is restricted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

from kfm.errors import BadInput
from kfm.model.records import Column, DataContract, Finding
from kfm.model.source_formats import COLUMNAR, GRIDS, VECTORS
from kfm.model.transform_config import TABULAR

ROWS = TABULAR  # formats that have them

APART = (*COLUMNAR, *GRIDS)  # formats that a foreign library reads, which may crash


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a check. If `held`, nothing of the source may be used, whatever was accepted on the way."""

    rows: int
    held_rows: int  # rows that broke a rule of `freeze` or `discard-row`, or could not be read; all are in `hold`
    held: bool  # the whole source is held
    cause: Finding | None  # of a held source: the first finding that holds it
    changed: bool  # what was given to `accept` is the accepted source; if False, the source is, as it came
    skipped: bool | msgspec.UnsetType = (
        msgspec.UNSET
    )  # changed only in that lines which are no rows are gone; nothing of the table is
    findings: list[Finding]  # at most 200, the gravest kept; by row, then column
    finding_counts: dict[str, int]  # all of them, by rule
    partitions: tuple[str, ...]  # of the rows that passed
    described: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET  # of a grid: where and when it lies, as in STAC


def inspect(
    open_body: Callable[[], BinaryIO],
    contract: DataContract,
    source: str,
    accept: Callable[[bytes], None],
    hold: Callable[[bytes], None],
    before: int = 0,
) -> Inspection:
    """Check the source that `open_body` opens, each time from its first byte, and return the result. `accept` is called
    only if something was discarded: it then gets the whole accepted source in pieces. `hold` gets each quarantined row
    as a line of canonical JSON: row, reasons, data. `before` is the number of rows that passed for the current version;
    0 if it is not known."""
    problems = contract_problems(contract)
    if problems:
        raise BadInput(f"the data contract of {source} cannot be used: {problems[0]}", hint="correct the contract")
    from kfm.validation.findings import Outcome

    out = Outcome(source, hold)
    described: dict[str, Any] = {}
    if contract.format == "csv":
        from kfm.validation.csv import inspect_csv

        inspect_csv(open_body, contract, out, accept)
    elif contract.format in ("json", "ndjson", "geojson", "stac"):
        from kfm.validation.json import inspect_json

        inspect_json(open_body, contract, out, accept)
    elif contract.format == "text":
        from kfm.validation.text_blocks import inspect_text

        inspect_text(open_body, contract, out)
    elif contract.format == "parquet":
        from kfm.validation.parquet import inspect_parquet

        inspect_parquet(open_body, contract, out, accept)
    elif contract.format in GRIDS:
        from kfm.validation.grids import inspect_grid

        described = inspect_grid(open_body, contract, out)
    elif contract.format in VECTORS:
        from kfm.validation.vectors import inspect_vector

        inspect_vector(open_body, contract, out, accept)
    out.finish(contract, before)
    return Inspection(
        rows=out.rows,
        held_rows=out.held_rows,
        held=out.held,
        cause=out.cause(),
        changed=out.changed and not out.held,
        skipped=out.skipped or msgspec.UNSET,
        findings=out.listed(),
        finding_counts=dict(sorted(out.counts.items())),
        partitions=tuple(sorted(out.partitions)),
        described=described or msgspec.UNSET,
    )


def nothing_found(cause: Finding | None = None, described: dict[str, Any] | None = None) -> Inspection:
    """Return the result for a source that could not be read for this cause, or was not checked."""
    return Inspection(
        rows=0,
        held_rows=0,
        held=cause is not None,
        cause=cause,
        changed=False,
        findings=[cause] if cause is not None else [],
        finding_counts={cause.rule: 1} if cause is not None else {},
        partitions=(),
        described=described or msgspec.UNSET,
    )


def contract_problems(contract: DataContract) -> list[str]:
    """Return what makes a contract impossible, unsafe or without effect; empty if it can be used."""
    return [*_format_problems(contract), *_row_problems(contract), *_columns_problems(contract)]


def _format_problems(contract: DataContract) -> Iterator[str]:
    from kfm.parsing.encodings import is_delimiter
    from kfm.validation.table_preamble import comment_problem
    from kfm.validation.text_blocks import encoding_problem

    kind = contract.format
    given: list[tuple[str, bool, tuple[str, ...]]] = [
        ("columns", bool(contract.columns), ROWS),
        ("other_columns", contract.other_columns != "evolve", ROWS),
        ("partition_by", bool(contract.partition_by), ROWS),
        ("min_rows", bool(contract.min_rows), ROWS),
        ("max_held_rows", contract.max_held_rows != -1, ROWS),
        ("max_held_share", contract.max_held_share != 0.2, ROWS),
        ("allow_empty", contract.allow_empty, ROWS),
        ("shrink_limit", contract.shrink_limit != 0.2, ROWS),
        ("header", not contract.header, ("csv",)),
        ("delimiter", contract.delimiter != ",", ("csv",)),
        ("encoding", contract.encoding != "utf-8", ("csv", "text")),
        ("skip_lines", bool(contract.skip_lines), ("csv",)),
        ("comment", bool(contract.comment), ("csv",)),
        ("skip_after_header", bool(contract.skip_after_header), ("csv",)),
        ("layer", bool(contract.layer), ("geopackage",)),
        ("json_schema", bool(contract.json_schema), ("json", "ndjson", "geojson", "stac")),
        ("root", bool(contract.root), ("json",)),
    ]
    for name, set_, formats in given:
        if set_ and kind not in formats:
            yield f"{name} has no meaning for the format {kind}; it is for {', '.join(formats)}"
    if problem := encoding_problem(contract.encoding):
        yield f"encoding {problem}"
    if kind == "csv":
        if not is_delimiter(contract.delimiter):
            yield "delimiter must be one character, and neither a quote nor a line ending"
        if not contract.header and not contract.columns:
            yield "without a header the columns must be named, in their order"
        if not contract.header and contract.skip_after_header:
            yield "skip_after_header has no meaning without a header; skip_lines has"
        if problem := comment_problem(contract):
            yield f"comment {problem}"
    if kind in ("json", "ndjson", "geojson", "stac") and contract.json_schema:
        from kfm.validation.json_schema_subset import schema_problems, split_problems

        problems = schema_problems(contract.json_schema)
        yield from problems
        if kind == "json" and not problems:
            yield from split_problems(contract.json_schema, contract.root)


def _row_problems(contract: DataContract) -> Iterator[str]:
    if contract.min_rows < 0:
        yield "min_rows cannot be negative"
    if contract.max_held_rows < -1:
        yield "max_held_rows is -1 (no limit), 0 or more"
    for name, share in (("max_held_share", contract.max_held_share), ("shrink_limit", contract.shrink_limit)):
        if not 0 <= share <= 1:
            yield f"{name} is a share: a number from 0 to 1"
    if contract.allow_empty and contract.min_rows > 0:
        yield "allow_empty and min_rows contradict each other; keep one"
    if contract.other_columns == "discard-row":
        yield "other_columns cannot be discard-row, which would hold every row; use freeze or discard-value"
    elif contract.other_columns != "evolve" and not contract.columns:
        yield f"other_columns is {contract.other_columns}, but no column is named that could stay"
    names = {column.name for column in contract.columns}
    open_ended = (
        contract.header and contract.other_columns == "evolve"
    )  # it may be a column that the contract does not name
    if contract.partition_by and names and not open_ended and contract.partition_by not in names:
        yield "partition_by is not one of the columns"


def _columns_problems(contract: DataContract) -> Iterator[str]:
    seen: set[str] = set()
    for position, column in enumerate(contract.columns, 1):
        if not column.name.strip():
            yield f"column {position} has no name"
        elif column.name in seen:
            yield f"column {column.name} is named twice"
        seen.add(column.name)
        for problem in _column_problems(column):
            yield f"column {column.name}: {problem}"


def _column_problems(column: Column) -> Iterator[str]:
    bounds = [bound for bound in (column.minimum, column.maximum) if bound is not None]
    if bounds and column.type not in ("integer", "number"):
        yield f"minimum and maximum are for integer and number, not for {column.type}"
    if any(bound - bound != 0 for bound in bounds):
        yield "minimum and maximum must be finite"
    elif len(bounds) == 2 and bounds[0] > bounds[1]:
        yield "minimum is above maximum"
    if column.required and column.mode == "discard-value":
        yield "a required value cannot be blanked; use discard-row or freeze"
    broken = ""
    if column.pattern:
        from kfm.parsing.patterns import pattern_flaw

        if broken := pattern_flaw(column.pattern):
            yield f"the pattern {broken}"
    if column.date_format:
        if column.type not in ("date", "datetime"):
            yield f"date_format is for date and datetime, not for {column.type}"
        else:
            from kfm.parsing.dates import date_format_problem

            if problem := date_format_problem(column.date_format):
                broken = problem
                yield f"date_format {problem}"
    if column.values and not broken:
        from kfm.validation.column_rules import ColumnCheck

        check = ColumnCheck(msgspec.structs.replace(column, unique=False, required=True))
        if any(check.broken_rule(text) for text in column.values):
            yield "one of the values is blank, or breaks the column's own type, range or pattern"
