"""CSV as it really comes: ragged, quoted, encoded, marked, cut off, endless."""

from __future__ import annotations

import codecs
import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.model.records import Column, DataContract
from kfm.validation import text_blocks as inspect_text
from kfm.validation.text_rows import allow_long_fields
from tests.sampling import sampled, tries
from tests.validation.inspecting import csv_contract, look

LOOSE = csv_contract(Column(name="a", mode="evolve"))
FROZEN = csv_contract(Column(name="a"))


def test_a_clean_source_is_kept_as_it_came() -> None:
    body = b'\xef\xbb\xbfa;b\r\n"1";x\r\n\r\n2;"y;\r\nz"\r\n'
    seen = look(body, csv_contract(Column(name="a", type="integer"), Column(name="b"), delimiter=";"))
    assert (seen.result.rows, seen.result.changed, seen.result.findings) == (2, False, [])
    assert seen.accepted is body


def test_what_passes_is_written_with_plain_line_ends_and_quotes_only_where_needed() -> None:
    body = b'\xef\xbb\xbf"a","b"\r\n"1","x"\r\n\r\n"bad","y"\r\n2,"p, ""q"" \r\n r"\r\n3,"\r"\r\n'
    seen = look(
        body, csv_contract(Column(name="a", type="integer", mode="discard-row"), Column(name="b", mode="evolve"))
    )
    assert seen.accepted == b'a,b\n1,x\n2,"p, ""q"" \r\n r"\n3,"\r"\n'
    assert seen.held == [{"row": 2, "reasons": [{"column": "a", "rule": "type"}], "data": {"a": "bad", "b": "y"}}]


def test_rows_that_passed_before_the_first_discarded_one_are_accepted_too() -> None:
    rows = [f"{n},{'x' * (n % 50)}" for n in range(30_000)]
    bad = 25_000
    body = "\n".join(["a,b", *rows[:bad], "bad,x", *rows[bad:]]).encode()
    seen = look(body, csv_contract(Column(name="a", type="integer", mode="discard-row")))
    assert seen.accepted == "\n".join(["a,b", *rows, ""]).encode()
    assert [row["row"] for row in seen.held] == [bad + 1]


def test_a_ragged_row_is_held_alone_unless_a_column_is_frozen() -> None:
    body = b"a,b\n1,2\n1\n1,2,3\n4,5\n"
    seen = look(body, LOOSE)
    assert seen.rules[1:] == [(2, "", "csv.ragged"), (3, "", "csv.ragged")]
    assert [row["data"] for row in seen.held] == [{"#": ["1"]}, {"#": ["1", "2", "3"]}]
    assert seen.accepted == b"a,b\n1,2\n4,5\n"
    for frozen in (FROZEN, csv_contract(Column(name="a", mode="evolve"), Column(name="b"), other_columns="freeze")):
        assert look(body, frozen).result.held
    unique = csv_contract(Column(name="a", unique=True, mode="evolve"), Column(name="b", mode="evolve"))
    assert [row["row"] for row in look(b"a,b\n1\n2\n", unique).held] == [1, 2]


def test_blank_lines_are_no_rows_but_a_quoted_blank_is_one() -> None:
    seen = look(b'a\n\n1\n\r\n""\n\n', csv_contract(Column(name="a", required=True, mode="discard-row")))
    assert seen.result.rows == 2
    assert [row["row"] for row in seen.held] == [2]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_ending_is_read_wherever_a_block_ends(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[str(n), "x" * (n % 5), f'q"{n}\r\n,'] for n in range(40)]
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end).writerows([["a", "b", "c"], *rows, ["x", "", ""]])
    contract = csv_contract(Column(name="a", type="integer", mode="discard-row"))
    for block in range(1, 40):
        monkeypatch.setattr(inspect_text, "BLOCK", block)
        seen = look(text.getvalue().encode(), contract)
        assert seen.result.rows == 41
        assert list(csv.reader(io.StringIO(seen.accepted.decode(), newline=""))) == [["a", "b", "c"], *rows]


def test_a_line_may_not_be_longer_than_the_limit_but_a_source_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_text, "MAX_LINE", 1000)
    monkeypatch.setattr(inspect_text, "BLOCK", 64)
    for end in (b"\n", b"\r\n", b"\r"):
        assert look(b"a,b" + end + (b"x" * 900 + b",y" + end) * 5, LOOSE).result.rows == 5
        assert look(b"a,b" + end + (b"x" * 1100 + b",y" + end) * 5, LOOSE).result.finding_counts["too-long"] == 1


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"", "there is no header"),
        (b"\n\r\n", "there is no header"),
        (b"a,,b\n1,2,3\n", "column 2 of the header has no name"),
        (b"a, \n1,2\n", "column 2 of the header has no name"),
        (b"a,b,a\n1,2,3\n", "columns 1 and 3 of the header have one name"),
        (b"," * 100_000 + b"\n", "column 1 of the header has no name"),
    ],
)
def test_a_header_that_does_not_name_every_column_once_holds_the_source(header: bytes, says: str) -> None:
    seen = look(header, csv_contract())
    assert seen.result.held
    assert says in seen.result.findings[0].message
    assert seen.result.findings[0].rule == "csv.header"


def test_without_a_header_the_contract_names_the_columns() -> None:
    contract = csv_contract(
        Column(name="a", type="integer", mode="discard-row"), Column(name="b", mode="evolve"), header=False
    )
    seen = look(b"1,x\ny,z\n3\n", contract)
    assert seen.result.rows == 3
    assert [row["data"] for row in seen.held] == [{"a": "y", "b": "z"}, {"#": ["3"]}]
    assert seen.accepted == b"1,x\n"
    nothing = look(b"y,z\n", contract)
    assert nothing.result.changed
    assert nothing.accepted == b""
    assert look(b"", contract).result.rows == 0


def test_a_column_that_is_not_there_is_noted_or_holds_the_source() -> None:
    assert look(b"a\n1\n", csv_contract(Column(name="a"), Column(name="z"))).rules == [(0, "z", "column.missing")]
    for mode, held in (("freeze", True), ("discard-row", True), ("evolve", False)):
        column = Column(name="z", required=True, mode=mode)  # type: ignore[arg-type]
        assert look(b"a\n1\n", csv_contract(Column(name="a"), column)).result.held is held


def test_columns_that_the_contract_does_not_name_pass_are_dropped_or_hold_the_source() -> None:
    body = b"a,secret,b\n1,2,3\n"
    columns = (Column(name="b", mode="evolve"), Column(name="a", mode="evolve"))
    evolve = look(body, csv_contract(*columns))
    assert (evolve.result.changed, evolve.rules) == (False, [(0, "", "column.unknown")])
    dropped = look(body, csv_contract(*columns, other_columns="discard-value"))
    assert dropped.accepted == b"a,b\n1,3\n"
    assert dropped.rules == [(0, "secret", "column.unknown")]
    frozen = look(body, csv_contract(*columns, other_columns="freeze"))
    assert frozen.result.held
    assert frozen.rules == [(0, "secret", "column.unknown")]


@pytest.mark.parametrize(
    ("body", "rule", "row"),
    [
        (b'a,b\n1,2\n"1"x,2\n', "csv.quotes", 2),
        (b'a,b\n1,2\n3,"4\n5,6\n', "csv.quotes", 2),
        (b'a,"b\n', "csv.quotes", 0),
        (b"a,b\n1,2\n3,\xff\n", "encoding", 2),
        (b"a,b\n1,2\n3,\xc3", "encoding", 2),
        (b"\xff\xfea\x00", "encoding", 0),
        (b"a,b\n1,2\n3,\x00\n5,6\n", "nul", 2),
        (b"a\x00,b\n1,2\n", "nul", 0),
        (b"a,b\n1,2\n1," + b"x" * ((1 << 22) + 70_000) + b"\n", "too-long", 2),
        (b'a,b\n1,2\n1,"' + b"x\n" * (1 << 22) + b'"\n', "too-long", 2),
        (b'a,b\n1,2\n1,"' + b'x\n","' * (1 << 22) + b'"\n', "too-long", 2),
    ],
    ids=lambda value: str(value)[:24],
)
def test_what_cannot_be_read_on_holds_the_source_and_names_the_row(body: bytes, rule: str, row: int) -> None:
    seen = look(body, LOOSE)
    assert seen.result.held
    assert seen.result.cause is not None
    assert (seen.result.cause.rule, seen.result.cause.row) == (rule, row)


def test_a_quote_inside_an_unquoted_field_is_just_a_quote() -> None:
    assert look(b'a,b\n5" pipe,2\n', LOOSE).result.rows == 1


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "UTF8", "utf-8-sig", "utf-16", "utf-16-le", "utf_16_be", "latin-1", "cp1252", "koi8-r", "cp437"],
)
def test_a_source_is_read_and_written_in_its_own_encoding(encoding: str) -> None:
    word = "Ширина" if encoding == "koi8-r" else "Größe"
    body = f"a,b\r\n1,{word}\r\nx,{word}\r\n".encode(encoding)
    contract = csv_contract(Column(name="a", type="integer", mode="discard-row"), encoding=encoding)
    seen = look(body, contract)
    assert seen.held[0]["data"] == {"a": "x", "b": word}
    assert seen.accepted.decode(encoding) == f"a,b\n1,{word}\n"
    assert look(seen.accepted, contract).result.rows == 1


def test_the_wrong_encoding_is_found_at_its_row_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, bad in (
        ("utf-8", b"\xe9"),
        ("ascii", b"\xe9"),
        ("utf-16-le", b"\x00\xd8\x00\x00"),
        ("utf-16-be", b"\xdc\x00"),
        ("cp1252", b"\x81"),
    ):
        good = [f"{n},name {n}".encode(encoding) for n in range(1, 40)]
        feed = "\n".encode(encoding)
        body = feed.join(["a,b".encode(encoding), *good[:30], good[30] + bad, *good[31:]])
        for block in (1, 2, 3, 7, 64, 100_000):
            monkeypatch.setattr(inspect_text, "BLOCK", block)
            seen = look(body, csv_contract(encoding=encoding))
            assert [(f.rule, f.row) for f in seen.result.findings] == [("encoding", 31)], (encoding, block)


@pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 100])
def test_a_mark_does_not_move_the_place_of_a_byte_that_cannot_be_read(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_text, "BLOCK", block)
    for mark, encoding in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        plain = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}[mark]
        bad = b"\xff" if encoding == "utf-8" else "\ud800".encode(plain, "surrogatepass") * 2
        seen = look(mark + "a\n1\n2\n".encode(plain) + bad, csv_contract(Column(name="a"), encoding=encoding))
        assert [(f.rule, f.row) for f in seen.result.findings] == [("encoding", 3)]


def test_utf_16_without_a_mark_is_little_endian_and_is_written_with_one() -> None:
    contract = csv_contract(Column(name="a", type="integer", mode="discard-row"), encoding="utf-16")
    for body in ("a\n1\nx\n".encode("utf-16-le"), codecs.BOM_UTF16_BE + "a\n1\nx\n".encode("utf-16-be")):
        seen = look(body, contract)
        assert seen.accepted == codecs.BOM_UTF16_LE + "a\n1\n".encode("utf-16-le")
    headless = csv_contract(Column(name="a", type="integer", mode="discard-row"), encoding="utf-16", header=False)
    assert look("x\n".encode("utf-16-le"), headless).accepted == codecs.BOM_UTF16_LE


def test_a_mark_is_tolerated_only_at_the_very_beginning() -> None:
    contract = csv_contract(Column(name="a", required=True), other_columns="freeze")
    assert not look(codecs.BOM_UTF8 + b"a\n1\n", contract).result.held
    assert look(codecs.BOM_UTF8 * 2 + b"a\n1\n", contract).result.held


@pytest.mark.parametrize(
    "text", ["9" * 100_000, "1e999", "inf", "-Infinity", "nan", "1_000", "\uff11\uff12", "0x10", "1,5", "--1", "+"]
)
def test_what_python_might_read_as_a_number_is_not_always_one(text: str) -> None:
    for kind in ("integer", "number"):
        column = Column(name="a", type=kind, mode="discard-row")  # type: ignore[arg-type]
        assert look(f'a\n1\n"{text}"\n'.encode(), csv_contract(column)).result.held_rows == 1


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("integer", ["0", "-0", "+7", " 12 ", "007", "9" * 400]),
        ("number", ["1", "-.5", "5.", "+00.000", "1e5", "1E-7", " 2.5 "]),
        ("boolean", ["true", "FALSE", "yEs", "n", "T", "0", "1"]),
        ("date", ["0001-01-01", "9999-12-31", " 2024-02-29 "]),
        ("datetime", ["2024-02-29 23:59", "2024-02-29T23:59:59.123456789+05:30", "2024-02-29T00:00:00Z"]),
    ],
)
def test_each_type_takes_its_common_writings(kind: str, texts: list[str]) -> None:
    body = ("a\n" + "".join(f"{text}\n" for text in texts)).encode()
    assert look(body, csv_contract(Column(name="a", type=kind))).result.findings == []  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["2024-W01-1", "20240101", "2024-1-1", "2024-02-30", "\u0662024-01-01", "2024-01-01T00:00"]
)
def test_a_date_is_a_calendar_date_in_full(text: str) -> None:
    assert look(f"a\n{text}\n".encode(), csv_contract(Column(name="a", type="date"))).result.held


@pytest.mark.parametrize("text", ["2024-01-01", "2024-01-01T24:00", "2024-01-01T1:00", "2024-01-01T00:00+24:00"])
def test_a_datetime_has_its_time_in_full(text: str) -> None:
    assert look(f"a\n{text}\n".encode(), csv_contract(Column(name="a", type="datetime"))).result.held


def test_a_field_longer_than_the_csv_module_likes_is_read() -> None:
    before = csv.field_size_limit()
    try:
        csv.field_size_limit(131_072)
        body = b"a\n" + b"x" * 1_000_000 + b"\n"
        assert look(body, LOOSE).result.rows == 1
        allow_long_fields()
        assert len(next(csv.reader([body[2:].decode()]))[0]) == 1_000_000
    finally:
        csv.field_size_limit(max(before, inspect_text.MAX_LINE))


@settings(max_examples=tries(300), deadline=None)
@given(body=st.one_of(st.binary(max_size=60), st.text(alphabet='a,b1"\n\r\0 ', max_size=60).map(str.encode)))
def test_any_bytes_at_all_give_an_answer(body: bytes) -> None:
    for contract in (LOOSE, FROZEN, csv_contract(Column(name="a", type="integer", mode="discard-row"), header=False)):
        seen = look(body, contract)
        if not seen.result.held:
            assert not look(seen.accepted, contract).result.held_rows


MEASURE = """
import io, sys
from kfm.model.records import Column, DataContract
from kfm.validation.source_check import inspect

class Endless(io.RawIOBase):
    # `piece` over and over, never held as a whole
    def __init__(self, head, piece, times, tail):
        self.queue, self.piece, self.times, self.tail = [head] * bool(head), piece, times, tail
    def read(self, size=-1):
        if not self.queue:
            if self.times > 0:
                self.times -= 1
                self.queue.append(self.piece)
            elif self.tail:
                self.queue.append(self.tail)
                self.tail = b""
            else:
                return b""
        part = self.queue.pop(0)
        if len(part) > size:
            self.queue.insert(0, part[size:])
        return part[:size]

SOURCES = {
    "csv": (b"n,v\\n", b"1,2.5\\nx,3\\n" * 4000, b""),
    "ndjson": (b"", b'{"n":1,"v":2.5}\\n{"n":"x","v":3}\\n' * 1000, b""),
    "geojson": (
        b'{"type":"FeatureCollection","features":[{"type":"Feature","geometry":null,"properties":null}',
        b',{"type":"Feature","geometry":{"type":"Point","coordinates":[1,2]},"properties":{"n":"x"}}' * 500,
        b"]}",
    ),
}
head, piece, tail = SOURCES[sys.argv[1]]
times = int(sys.argv[2])
column = Column(name="n", type="integer", mode="discard-row")
contract = DataContract(format=sys.argv[1], columns=(column,), max_held_share=1)
result = inspect(lambda: Endless(head, piece, times, tail), contract, "s", lambda b: None, lambda b: None)
assert not result.held and result.held_rows, result
with open("/proc/self/status") as status:  # ru_maxrss would count what the process held that started this one
    print(result.rows, next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


@pytest.mark.parametrize("format_", sampled(["csv", "ndjson", "geojson"]))
def test_memory_does_not_grow_with_the_source(format_: str, tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell how much memory a process held")
    script = tmp_path / "measure.py"
    script.write_text(MEASURE)

    def measured(times: int) -> tuple[int, int]:
        command = [sys.executable, str(script), format_, str(times)]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        rows, kib = map(int, ran.stdout.split())
        return rows, kib

    few_rows, little = measured(2)
    many_rows, much = measured(40)
    assert many_rows > 15 * few_rows
    assert much < little + 4096, f"{little} KiB for {few_rows} rows, {much} KiB for {many_rows}"


def test_the_stream_is_closed_whatever_happens() -> None:
    opened: list[io.BytesIO] = []

    def open_body(body: bytes) -> Any:
        opened.append(io.BytesIO(body))
        return opened[-1]

    from kfm.validation.source_check import inspect

    for body in (b"a\n" + b"1\n" * 100_000 + b"x\n", b'{"a":1}\n{"a":"x"}\n', b"a\n\xff", b""):
        for format_ in ("csv", "text", "ndjson", "json"):
            columns = (Column(name="a", type="integer", mode="discard-row"),) if format_ != "text" else ()
            contract = DataContract(format=format_, columns=columns)  # type: ignore[arg-type]
            inspect(lambda body=body: open_body(body), contract, "s", len, len)  # type: ignore[misc, arg-type]
    assert len(opened) > 16, "nothing was read a second time"
    assert all(stream.closed for stream in opened)
