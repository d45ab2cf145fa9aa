"""Tables of the carbon of electricity: what they say, and where they are wrong."""

from __future__ import annotations

import pytest

from kfm.model.reports.energy_method import GridFactor
from kfm.telemetry.grid_factors import HEADER, MOST_BYTES, read_table, shipped_rows

ROW = "US-SPNO,*,435.2,EPA eGRID2022"


def mistakes(*lines: str, header: str = HEADER) -> list[tuple[str, str]]:
    return [
        (str(each.message), str(each.hint)) for each in read_table("\n".join((header, *lines)).encode(), "g.csv")[1]
    ]


def test_the_shipped_table_has_no_mistake_and_names_its_sources() -> None:
    table, found = read_table(shipped_rows(), "grid_factors.csv")
    assert not found and table.regions == ["US", "US-SPNO", "US-SPSO", "world"]
    assert table.factor("US-SPNO", 7) == GridFactor(g_per_kwh=435.2, region="US-SPNO", hour="*", source="EPA eGRID2022")
    assert table.factor("somewhere", 7) is None


def test_the_row_of_an_hour_comes_before_that_of_all_hours() -> None:
    table, found = read_table(f"{HEADER}\r\nx,*,100,a\r\n\r\nx,07,50,b\r\ny,3,1,c\r\n".encode("utf-8-sig"), "g.csv")
    assert not found
    factors = [table.factor("x", hour) for hour in (6, 7)] + [table.factor("y", hour) for hour in (2, 3)]
    assert [None if each is None else each.g_per_kwh for each in factors] == [100, 50, None, 1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("US-SPNO,*,435.2", "the line has 3 cells, not 4"),
        ('US-SPNO,*,435.2,"EPA, 2022"', "the line has 5 cells, not 4"),
        ("US SPNO,*,435.2,EPA", "the region is no name"),
        (",*,435.2,EPA", "the region is no name"),
        ("x" * 41 + ",*,435.2,EPA", "the region is no name"),
        ("US-SPNO,24,435.2,EPA", "the hour is not one of 0 to 23 or *"),
        ("US-SPNO,,435.2,EPA", "the hour is not one of 0 to 23 or *"),
        ("US-SPNO,*,-1,EPA", "g_per_kwh is no number from 0 to 5000"),
        ("US-SPNO,*,5000.1,EPA", "g_per_kwh is no number from 0 to 5000"),
        ("US-SPNO,*,nan,EPA", "g_per_kwh is no number from 0 to 5000"),
        ("US-SPNO,*,1e3,EPA", "g_per_kwh is no number from 0 to 5000"),
        ("US-SPNO,*,\u0664,EPA", "g_per_kwh is no number from 0 to 5000"),
        ("US-SPNO,*,435.2,", "the source is empty or has other characters"),
        ("US-SPNO,*,435.2,a (b)", "the source is empty or has other characters"),
        ("US-SPNO,*,435.2,a; b", "the source is empty or has other characters"),
        ("US-SPNO,*,435.2,a\x1b[31m", "the source is empty or has other characters"),
        ("US-SPNO,*,435.2," + "x" * 81, "the source is empty or has other characters"),
        ("b,00,1,s", "b has two factors for hour 0"),
    ],
)
def test_a_bad_line_is_named_with_its_place_and_a_cure(line: str, said: str) -> None:
    ((message, cure),) = mistakes(ROW.replace("US-SPNO", "a"), "b,0,1,s", line, "c,*,2,s")
    assert message == f"g.csv:4: {said}" and cure


def test_all_bad_lines_are_named() -> None:
    assert [message[:8] for message, _ in mistakes(ROW, "x", ROW.replace("*", "1"), "y")] == ["g.csv:3:", "g.csv:5:"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "g.csv:1: the first line must name the columns"),
        (b"region,hour,source,g_per_kwh\n", "g.csv:1: the first line must name the columns"),
        (HEADER.encode(), "g.csv:1: the table has no factor"),
        (f"{HEADER}\n{ROW}\n".encode() + b"\xff,*,1,x\n", "g.csv:3: the line is not UTF-8"),
        (b"x" * (MOST_BYTES + 1), "g.csv:1: the table is larger than 4 MiB"),
    ],
)
def test_what_is_no_table_is_refused(body: bytes, said: str) -> None:
    ((found,),) = [read_table(body, "g.csv")[1]]
    assert found.message == said and found.hint
