"""Rows out of text: whatever way is taken, they are those of the csv module, however the text is cut."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.model.csv_format import Block, line_of, lines_of, parsed
from kfm.model.records import Column, Layout
from kfm.validation import text_blocks as inspect_text
from kfm.validation.column_rules import ColumnCheck
from kfm.validation.text_rows import TableReader
from tests.sampling import tries

TEXT = st.text(st.sampled_from('ab,;"\n\r 1'), max_size=60)


def by_the_module(text: str, delimiter: str) -> tuple[list[list[str]], bool]:
    """All rows that are no blank line, and whether it could be read to its end."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            rows.append(row)
    except csv.Error:
        return [row for row in rows if row], False
    return [row for row in rows if row], True


@settings(max_examples=tries(600), deadline=None)
@given(TEXT, st.sampled_from(",;"), st.integers(1, 3), st.sampled_from((1, 2, 5, 1 << 16)))
def test_rows_are_those_of_the_csv_module(text: str, delimiter: str, width: int, block: int) -> None:
    before, inspect_text.BLOCK = inspect_text.BLOCK, block
    try:
        table = TableReader(io.BytesIO(text.encode()), Layout(delimiter=delimiter))
        rows: list[list[str]] = []
        for batch in table.batches(width):
            if isinstance(batch, Block):
                assert [list(row) for row in zip(*batch.columns, strict=True)] == batch.rows
                assert {len(row) for row in batch.rows} == {width}
                lines = batch.given_lines()
                assert lines is None or lines == [line_of(row) for row in batch.rows]
            rows += batch.rows if isinstance(batch, Block) else batch
    finally:
        inspect_text.BLOCK = before
    wanted, whole = by_the_module(text, delimiter)
    assert (rows, table.flaw is None) == (wanted, whole)


@settings(max_examples=tries(300), deadline=None)
@given(TEXT, st.sampled_from((1, 3, 1 << 16)))
def test_the_header_and_the_rows_after_it_are_all_rows(text: str, block: int) -> None:
    before, inspect_text.BLOCK = inspect_text.BLOCK, block
    try:
        table = TableReader(io.BytesIO(text.encode()), Layout())
        first = table.first()
        rows = [] if first is None else [first]
        for batch in table.batches(2):
            rows += batch.rows if isinstance(batch, Block) else batch
    finally:
        inspect_text.BLOCK = before
    assert rows == by_the_module(text, ",")[0]


@settings(max_examples=tries(300), deadline=None)
@given(st.lists(st.lists(st.text(st.sampled_from('ab,"\n\r ')), min_size=2, max_size=2), min_size=1, max_size=6))
def test_lines_are_read_back_as_the_rows_they_were_made_of(rows: list[list[str]]) -> None:
    lines = lines_of(list(zip(*rows, strict=True)), len(rows))
    assert lines == [line_of(row) for row in rows]
    assert parsed(lines) == rows == Block.of_lines(lines, 2).rows


NUMBERS = st.text(st.sampled_from("0123456789+-. eE_n"), max_size=18) | st.sampled_from(
    ["", "9" * 401, "1e400", "\u0665"]
)


@pytest.mark.parametrize("kind", ["integer", "number"])
@settings(max_examples=tries(400), deadline=None)
@given(values=st.lists(NUMBERS, min_size=1, max_size=6), low=st.none() | st.just(-5.0), high=st.none() | st.just(5.0),
       required=st.booleans(), missing=st.sampled_from([(), ("9",)]))  # fmt: skip
def test_values_that_are_found_fine_together_are_fine_one_by_one(
    kind: str, values: list[str], low: float | None, high: float | None, required: bool, missing: tuple[str, ...]
) -> None:
    column = Column(name="n", type=kind, minimum=low, maximum=high, required=required, missing=missing)  # type: ignore[arg-type]
    check = ColumnCheck(column)
    if check.all_fine(values):
        assert [check.broken_rule(value) for value in values] == [""] * len(values)
    assert {value for value in values if check.broken_rule(value)} <= check.doubtful(values)
