"""Every mode with every type in every format, and what holds for all of them."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import Column, DataContract
from kfm.validation.column_rules import ColumnCheck
from kfm.validation.source_check import contract_problems, inspect
from tests.sampling import tries
from tests.validation.inspecting import Seen, csv_contract, look

MODES = ("evolve", "freeze", "discard-row", "discard-value")
# type: a value that is one, in text and in JSON, and a value that is none
TYPES: dict[str, tuple[str, Any, str, Any]] = {
    "integer": ("-12", -12, "1.5", 1.5),
    "number": ("1.5e3", 1500, "NaN", "1.5"),
    "boolean": ("Yes", True, "maybe", 1),
    "date": ("2024-02-29", "2024-02-29", "2023-02-29", "2023-02-29"),
    "datetime": ("2024-02-29T12:00:00Z", "2024-02-29 12:00", "2024-02-29", 20240229),
}


def _source(format_: str, name: str, values: list[Any]) -> bytes:
    """Rows with a number and the value, in the format; None is a blank."""
    rows = [{"n": n, name: value} for n, value in enumerate(values, 1)]
    if format_ == "csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["n", name])
        writer.writerows([row["n"], row[name]] for row in rows)
        return text.getvalue().encode()
    if format_ == "ndjson":
        return b"".join(canonical(row) + b"\n" for row in rows)
    if format_ == "json":
        return canonical({"about": "rows", "list": rows})
    features = [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [-98, 38.5]}, "properties": row}
        for row in rows
    ]
    return canonical({"type": "FeatureCollection", "features": features})


def _passed(format_: str, name: str, body: bytes) -> list[tuple[int, Any]]:
    """The row numbers and values in a source written by `_source`, or in what was accepted of it."""
    if format_ == "csv":
        return [(int(row["n"]), row[name]) for row in csv.DictReader(io.StringIO(body.decode()))]
    if format_ == "ndjson":
        rows = [json.loads(line) for line in body.splitlines()]
    elif format_ == "json":
        rows = json.loads(body)["list"]
    else:
        rows = [feature["properties"] for feature in json.loads(body)["features"]]
    return [(row["n"], row[name]) for row in rows]


def _contract(format_: str, column: Column, **more: Any) -> DataContract:
    # The other column is no `freeze`, so that only the column in question can hold the source.
    return DataContract(
        format=format_,  # type: ignore[arg-type]
        columns=(Column(name="n", type="integer", mode="evolve"), column),
        root="list" if format_ == "json" else "",
        **more,
    )


@pytest.mark.parametrize("format_", ["csv", "json", "ndjson", "geojson"])
@pytest.mark.parametrize("kind", list(TYPES))
@pytest.mark.parametrize("mode", MODES)
def test_a_value_of_the_wrong_type_does_what_its_mode_says(format_: str, kind: str, mode: str) -> None:
    text, value, wrong_text, wrong_value = TYPES[kind]
    good, bad = (text, wrong_text) if format_ == "csv" else (value, wrong_value)
    column = Column(name="value", type=kind, mode=mode)  # type: ignore[arg-type]
    seen = look(_source(format_, "value", [good, bad, None, good]), _contract(format_, column))
    blank = "" if format_ == "csv" else None
    held = mode == "freeze"
    assert seen.rules == [(2, "value", "type")]
    assert seen.result.finding_counts == {"type": 1}
    assert (seen.result.rows, seen.result.held, seen.result.held_rows) == (4, held, mode in ("freeze", "discard-row"))
    assert seen.result.findings[0].held is (mode in ("freeze", "discard-row"))
    assert seen.result.changed is (mode in ("discard-row", "discard-value"))
    if mode == "discard-row":
        assert _passed(format_, "value", seen.accepted) == [(1, good), (3, blank), (4, good)]
        assert seen.held[0]["row"] == 2
        assert seen.held[0]["reasons"] == [{"column": "value", "rule": "type"}]
        data = seen.held[0]["data"]
        assert (data["properties"] if format_ == "geojson" else data)["value"] == bad
    elif mode == "discard-value":
        assert _passed(format_, "value", seen.accepted) == [(1, good), (2, blank), (3, blank), (4, good)]
    elif mode == "evolve":
        assert _passed(format_, "value", seen.accepted) == [(1, good), (2, bad), (3, blank), (4, good)]


RULES: list[tuple[dict[str, Any], list[Any], list[Any], str]] = [
    ({"type": "number", "minimum": 0}, ["0", "7"], ["-0.1"], "minimum"),
    ({"type": "integer", "maximum": 10}, ["10", "-7"], ["11", "99999999999"], "maximum"),
    ({"pattern": "[a-z]+"}, ["a", "abc"], ["a1", "abc ", "\nabc", "a" * 10_001], "pattern"),
    ({"values": ("KS", "NE")}, ["KS", "NE"], ["ks", "KS ", "OK"], "values"),
    ({"required": True, "missing": ("NA", "-")}, ["x", "NAN"], ["", "  ", "NA", "-", " NA "], "required"),
    ({"type": "integer", "missing": ("-9999",)}, ["-9999", " -9999 ", "5", ""], ["-9999.5"], "type"),
    ({"type": "date", "date_format": "%m/%d/%Y"}, ["09/30/1937", "9/3/1937"], ["05/125/1957", "1937-09-30"], "type"),
    ({"unique": True}, ["a", "b", "", ""], ["a", "b"], "unique"),
]


@pytest.mark.parametrize(("options", "good", "bad", "rule"), RULES, ids=[rule for *_, rule in RULES])
@pytest.mark.parametrize("format_", ["csv", "ndjson"])
def test_each_rule_holds_the_rows_that_break_it_and_no_other(
    format_: str, options: dict[str, Any], good: list[Any], bad: list[Any], rule: str
) -> None:
    column = Column(name="value", mode="discard-row", **options)
    values = [*good, *bad]
    if format_ == "ndjson":
        values = [_json_value(value, column) for value in values]
    seen = look(_source(format_, "value", values), _contract(format_, column))
    assert seen.result.finding_counts == {rule: len(bad)}
    assert [row["row"] for row in seen.held] == list(range(len(good) + 1, len(values) + 1))
    assert [n for n, _ in _passed(format_, "value", seen.accepted)] == list(range(1, len(good) + 1))


def _json_value(text: str, column: Column) -> Any:
    if column.type not in ("integer", "number") or not text.strip():
        return text
    if text.strip() in column.missing:
        return text
    return float(text) if "." in text else int(text)


def test_only_rows_that_pass_make_another_one_a_duplicate() -> None:
    contract = csv_contract(
        Column(name="id", unique=True, mode="discard-row"), Column(name="n", type="integer", mode="discard-row")
    )
    seen = look(b"id,n\na,x\na,1\na,2\nb,3\n", contract)
    assert seen.rules == [(1, "n", "type"), (3, "id", "unique")]
    assert seen.accepted == b"id,n\na,1\nb,3\n"


def test_a_unique_value_is_known_again_in_a_later_block_however_long_it_is() -> None:
    rows = [f"{n},{'x' * (n % 60)}" for n in range(20_000)]
    contract = csv_contract(Column(name="id", unique=True, mode="discard-row"), Column(name="text", mode="evolve"))
    body = "\n".join(["id,text", *rows, "7,again", "19999,again"]).encode()
    assert [row["row"] for row in look(body, contract).held] == [20_001, 20_002]
    long = csv_contract(Column(name="id", unique=True, mode="discard-row"))
    body = "\n".join(["id", *(f"{n:0100}" for n in range(5_000)), f"{3:0100}"]).encode()
    assert [row["row"] for row in look(body, long).held] == [5_001]


def test_too_few_rows_that_pass_hold_the_source() -> None:
    column = Column(name="n", type="integer", mode="discard-row")
    enough = look(b"n\n1\nx\n2\n", csv_contract(column, min_rows=2))
    assert not enough.result.held
    few = look(b"n\n1\nx\n2\n", csv_contract(column, min_rows=3))
    assert few.result.held
    assert few.result.cause is not None
    assert (few.result.cause.rule, few.result.cause.row) == ("rows.few", 0)


def test_more_held_rows_than_allowed_hold_the_source() -> None:
    column = Column(name="n", type="integer", mode="discard-row")
    assert not look(b"n\nx\ny\n1\n", csv_contract(column, max_held_rows=2)).result.held
    assert look(b"n\nx\ny\n1\n", csv_contract(column, max_held_rows=1)).result.finding_counts == {
        "rows.held": 1,
        "type": 2,
    }


@pytest.mark.parametrize("format_", ["csv", "json", "ndjson", "geojson"])
def test_partitions_are_the_distinct_filled_values_of_the_rows_that_pass(format_: str) -> None:
    column = Column(name="state", missing=("??",), pattern="[A-Z?]+", mode="discard-row")
    values = ["NE", "KS", "", "KS", "bad", "??", "CO"]
    seen = look(_source(format_, "state", values), _contract(format_, column, partition_by="state"))
    assert seen.result.partitions == ("CO", "KS", "NE")


@pytest.mark.parametrize("format_", ["csv", "ndjson"])
def test_a_source_without_the_column_to_partition_by_is_held(format_: str) -> None:
    seen = look(_source(format_, "state", ["KS"]), DataContract(format=format_, partition_by="county"))  # type: ignore[arg-type]
    assert seen.rules == [(0, "county", "column.missing")]
    assert seen.result.held


def test_more_partitions_than_can_be_planned_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kfm.validation.partition_values.MAX_PARTITIONS", 3)
    body = _source("csv", "state", ["a", "b", "c"])
    assert look(body, DataContract(format="csv", partition_by="state")).result.partitions == ("a", "b", "c")
    with pytest.raises(BadInput, match="more than 3 distinct values"):
        look(body + b"4,d\n", DataContract(format="csv", partition_by="state"))


def test_more_unique_values_than_can_be_kept_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kfm.validation.column_rules.MAX_UNIQUE", 3)
    column = Column(name="id", unique=True)
    assert not look(b"id\na\nb\nc\n", csv_contract(column)).result.held
    with pytest.raises(BadInput, match="more than 3 values"):
        look(b"id\na\nb\nc\nd\n", csv_contract(column))


def test_the_finding_that_holds_the_source_is_listed_however_many_notes_there_are() -> None:
    contract = csv_contract(
        Column(name="a", type="integer", mode="evolve"),
        Column(name="b", type="integer", mode="discard-row"),
        Column(name="c", type="integer", mode="freeze"),
    )
    body = b"a,b,c\n" + b"x,1,1\n" * 500 + b"1,x,1\n" * 500 + b"1,1,x\n"
    seen = look(body, contract)
    assert seen.result.finding_counts == {"type": 1001}
    assert len(seen.result.findings) == 200
    assert seen.rules[-1] == (1001, "c", "type")
    assert seen.result.cause == seen.result.findings[-1]
    assert seen.rules[0] == (501, "b", "type"), "rows that are held come before notes"


def test_text_is_held_only_for_bytes_that_its_encoding_lacks() -> None:
    assert not look("Größe\x00\n".encode(), DataContract(format="text")).result.held
    assert not look(b"\xef\xbb\xbfok\n", DataContract(format="text")).result.held
    assert look(b"one\ntwo\n\xff", DataContract(format="text")).rules == [(3, "", "encoding")]
    assert look(b"one\ntwo\xc3", DataContract(format="text")).rules == [(2, "", "encoding")]
    assert not look(b"caf\xe9", DataContract(format="text", encoding="latin-1")).result.held
    assert look("é".encode(), DataContract(format="text", encoding="ascii")).result.held


def test_bytes_are_not_even_opened() -> None:
    def never() -> io.BytesIO:
        raise AssertionError("opened")

    result = inspect(never, DataContract(), "image", never, never)  # type: ignore[arg-type]
    assert (result.rows, result.held, result.changed, result.findings) == (0, False, False, [])


# ---------------------------------------------------------------------------------------- for all sources

_CELLS = st.one_of(
    st.sampled_from(
        ["", " ", "1", "-2", "1.5", "x", "NA", "true", "2024-01-01", "1_0", "٣", "1e999", "nan", "KS", "a,b"]
    ),
    st.text(alphabet='ab1 ,"\n\r;é', max_size=4),
)
_COLUMN_OPTIONS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["text", "integer", "number", "boolean", "date", "datetime"]),
        "mode": st.sampled_from(MODES),
        "required": st.booleans(),
        "unique": st.booleans(),
        "missing": st.sampled_from([(), ("NA",), ("NA", "x")]),
    }
)


def _columns(options: list[dict[str, Any]]) -> tuple[Column, ...]:
    made = []
    for name, option in zip("pqr", options, strict=False):
        if option["mode"] == "discard-value":
            option = {**option, "required": False}
        made.append(Column(name=name, **option))
    return tuple(made)


@settings(max_examples=tries(300), deadline=None)
@given(
    rows=st.lists(st.lists(_CELLS, min_size=3, max_size=3), max_size=12),
    options=st.lists(_COLUMN_OPTIONS, min_size=1, max_size=3),
    other=st.sampled_from(["evolve", "freeze", "discard-value"]),
)
def test_every_row_is_accepted_or_held_and_none_is_both(
    rows: list[list[str]], options: list[dict[str, Any]], other: Any
) -> None:
    columns = _columns(options)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows([["p", "q", "r"], *rows])
    contract = csv_contract(*columns, other_columns=other)
    seen = look(text.getvalue().encode(), contract)
    assert seen.result.rows == len(rows)
    if seen.result.held:
        assert any("freeze" in (c.mode, other) for c in columns)
        return
    kept = list(csv.reader(io.StringIO(seen.accepted.decode(), newline="")))
    names, passed = kept[0], kept[1:]
    assert names == (["p", "q", "r"] if other == "evolve" else [c.name for c in columns])
    held = {row["row"] for row in seen.held}
    assert len(passed) + len(held) == len(rows)
    staying = [row for number, row in enumerate(rows, 1) if number not in held]
    blankable = {c.name for c in columns if c.mode == "discard-value"}
    for before, after in zip(staying, passed, strict=True):
        for name, cell in zip(names, after, strict=True):
            assert cell == before["pqr".index(name)] or (cell == "" and name in blankable)
    for row in seen.held:
        assert [row["data"][name] for name in "pqr"] == rows[row["row"] - 1]
    again = look(seen.accepted, contract)
    assert not again.result.held_rows, "what was accepted is accepted again"
    assert not again.result.changed


@settings(max_examples=tries(300), deadline=None)
@given(
    values=st.lists(_CELLS, min_size=1, max_size=8),
    before=st.lists(st.lists(_CELLS, min_size=1, max_size=4), max_size=3),
    option=_COLUMN_OPTIONS,
)
def test_the_fast_answer_about_many_values_never_overlooks_one(
    values: list[str], before: list[list[str]], option: dict[str, Any]
) -> None:
    column = Column(name="p", **{**option, "unique": False})
    other = msgspec.structs.replace(column, pattern="[a-z0-9-]*", values=())
    for check in (ColumnCheck(column), ColumnCheck(column, 2), ColumnCheck(other)):
        for some in before:  # what it remembers of these may not mislead it
            check.all_fine(some)
        broken = {value for value in values if check.broken_rule(value)}
        if check.all_fine(values):
            assert not broken
        assert broken <= check.doubtful(values)


@pytest.mark.parametrize("remembers", [0, 2, 10])
def test_a_column_remembers_no_more_than_it_may(remembers: int) -> None:
    check = ColumnCheck(Column(name="p", type="date"), remembers)
    for day in range(1, 29):
        assert check.all_fine([f"2026-02-{day:02}", "2026-01-01", "2026-01-02"])
        assert len(check._fine) <= remembers
    assert not check.all_fine(["2026-02-30"])


@settings(max_examples=tries(200), deadline=None)
@given(
    records=st.lists(
        st.dictionaries(
            st.sampled_from("pqrs"),
            st.one_of(
                st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2), _CELLS, st.just([1]), st.just({})
            ),
        ),
        max_size=8,
    ),
    options=st.lists(_COLUMN_OPTIONS, min_size=1, max_size=3),
    other=st.sampled_from(["evolve", "freeze", "discard-value"]),
    format_=st.sampled_from(["json", "ndjson", "geojson"]),
)
def test_every_record_is_accepted_or_held_and_none_is_both(
    records: list[dict[str, Any]], options: list[dict[str, Any]], other: Any, format_: str
) -> None:
    columns = _columns(options)
    contract = DataContract(format=format_, columns=columns, other_columns=other)  # type: ignore[arg-type]
    wrapped: Any = records
    if format_ == "geojson":
        wrapped = [{"type": "Feature", "geometry": None, "properties": record} for record in records]
    body = {
        "json": lambda: canonical(wrapped),
        "ndjson": lambda: b"".join(canonical(record) + b"\n" for record in wrapped),
        "geojson": lambda: canonical({"features": wrapped, "type": "FeatureCollection"}),
    }[format_]()
    seen = look(body, contract)
    assert seen.result.rows == len(records)
    if seen.result.held:
        return
    passed = _records(format_, seen.accepted)
    held = {row["row"] for row in seen.held}
    assert len(passed) + len(held) == len(records)
    staying = [record for number, record in enumerate(records, 1) if number not in held]
    names = {column.name for column in columns}
    for before, after in zip(staying, passed, strict=True):
        kept = {n: v for n, v in before.items() if other == "evolve" or n in names}
        assert set(after) == set(kept)
        assert all(after[name] in (None, kept[name]) for name in kept)
    assert [row["data"] for row in seen.held] == [json.loads(canonical(wrapped[n - 1])) for n in sorted(held)]
    assert not look(seen.accepted, contract).result.held_rows


def _records(format_: str, body: bytes) -> list[dict[str, Any]]:
    if format_ == "ndjson":
        return [json.loads(line) for line in body.splitlines()]
    read = json.loads(body)
    return read if format_ == "json" else [feature["properties"] for feature in read["features"]]


CANARY = "c4n4ry-7f3e"


@pytest.mark.parametrize(
    ("body", "contract"),
    [
        (f"a,b\n{CANARY},1\n{CANARY},2\n", csv_contract(Column(name="a", type="integer"), Column(name="b"))),
        (f"a\n{CANARY}\n{CANARY}\n", csv_contract(Column(name="a", unique=True, mode="discard-row"))),
        (f"a\n{CANARY}\n", csv_contract(Column(name="a", pattern="[0-9]+", mode="discard-value"))),
        (f"a\n{CANARY}\n", csv_contract(Column(name="a", values=("x",), mode="evolve"))),
        (f"a,b\n{CANARY}\n", csv_contract(Column(name="a"))),
        (f'a,b\n"{CANARY}"{CANARY},x\n', csv_contract(Column(name="a"))),
        (f"a\n{CANARY}\0\n", csv_contract(Column(name="a"))),
        (f"{CANARY},{CANARY}\n", csv_contract(Column(name="a"))),
        # No header where one was declared: the first row is data, whatever it is taken for.
        (f"{CANARY},2\n3,4\n", csv_contract(Column(name="a", required=True), other_columns="freeze")),
        (f'{{"{CANARY}": 1}}\n', DataContract(format="ndjson", columns=(Column(name="a"),), other_columns="freeze")),
        (f'{{"a": "{CANARY}"}}\n', DataContract(format="ndjson", columns=(Column(name="a", type="date"),))),
        (f'{{"a": "{CANARY}" "{CANARY}"}}\n', DataContract(format="ndjson")),
        (f'{{"{CANARY}": 1, "{CANARY}": 2}}\n', DataContract(format="ndjson")),
        (f'["{CANARY}"]', DataContract(format="json", columns=(Column(name="a"),))),
        (f'{{"a": "{CANARY}"}}', DataContract(format="json", json_schema={"properties": {"a": {"type": "null"}}})),
        (
            f'{{"a": {{"{CANARY}": "{CANARY}"}}}}',
            DataContract(format="json", json_schema={"properties": {"a": {"additionalProperties": {"type": "null"}}}}),
        ),
        (f'{{"{CANARY}": 1}}', DataContract(format="json", json_schema={"additionalProperties": False})),
        (f'{{"type": "{CANARY}", "features": [{{"type": "{CANARY}"}}]}}', DataContract(format="geojson")),
        (f"{CANARY}\n\udcff", DataContract(format="text")),
    ],
)
def test_no_finding_quotes_a_value_of_the_source(body: str, contract: DataContract) -> None:
    seen = look(body.encode("utf-8", "surrogateescape"), contract)
    assert seen.result.findings, "nothing was found, so nothing was shown"
    assert CANARY not in repr(seen.result)


def test_the_same_source_gives_the_same_result_under_every_hash_seed(tmp_path: Path) -> None:
    script = tmp_path / "once.py"
    script.write_text(
        "import hashlib, io, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.validation.test_inspection import everything\n"
        "print(hashlib.sha256(everything()).hexdigest())\n"
    )
    answers = set()
    for seed in ("0", "1", "2", "77", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
        answers.add(ran.stdout)
    assert len(answers) == 1
    assert len(answers.pop().strip()) == 64


def everything() -> bytes:
    """All that comes out of a few inspections with many findings each, as bytes."""
    told = b""
    columns = (
        Column(name="n", type="integer", mode="discard-row", unique=True),
        Column(name="value", type="number", minimum=0, mode="discard-value"),
    )
    values = [f"{n % 7 - 1}" if n % 5 else "x" for n in range(300)]
    for format_ in ("csv", "json", "ndjson", "geojson"):
        body = _source(format_, "value", values).replace(b'"n":5,', b'"n":4,"more":1,"most":2,')
        contract = DataContract(
            format=format_,  # type: ignore[arg-type]
            columns=columns,
            other_columns="discard-value",
            root="list" if format_ == "json" else "",
            partition_by="value",
        )
        seen: Seen = look(body, contract)
        assert seen.result.findings
        told += msgspec.json.encode(seen.result) + seen.accepted + canonical(seen.held)
    return told


@pytest.mark.parametrize(
    ("contract", "says"),
    [
        (csv_contract(Column(name="a"), Column(name="a")), "column a is named twice"),
        (csv_contract(Column(name=" ")), "column 1 has no name"),
        (csv_contract(Column(name="a", pattern="(")), "not a regular expression"),
        (csv_contract(Column(name="a", pattern="a++")), "a possessive repeat, which is not supported, at character 3"),
        (csv_contract(Column(name="a", minimum=1)), "for integer and number"),
        (csv_contract(Column(name="a", minimum=1, values=("x",))), "for integer and number"),
        (csv_contract(Column(name="a", type="integer", minimum=2, maximum=1)), "above maximum"),
        (csv_contract(Column(name="a", type="number", minimum=float("nan"))), "finite"),
        (csv_contract(Column(name="a", required=True, mode="discard-value")), "cannot be blanked"),
        (csv_contract(Column(name="a", date_format="%Y")), "date_format is for date"),
        (csv_contract(Column(name="a", date_format="%Q", values=("x",))), "date_format is for date"),
        (csv_contract(Column(name="a", type="date", date_format="%Q")), "date_format has a % without"),
        (csv_contract(Column(name="a", type="date", date_format="%Y %Y")), "date_format says the year twice"),
        (csv_contract(Column(name="a", type="datetime", date_format="%Y %Z")), "date_format has a % without"),
        (csv_contract(Column(name="a", type="integer", values=("x",))), "breaks the column's own"),
        (csv_contract(Column(name="a"), other_columns="discard-row"), "cannot be discard-row"),
        (csv_contract(other_columns="freeze"), "no column is named"),
        (csv_contract(Column(name="a"), header=False, partition_by="b"), "partition_by is not one"),
        (csv_contract(Column(name="a"), other_columns="freeze", partition_by="b"), "partition_by is not one"),
        (csv_contract(header=False), "columns must be named"),
        (csv_contract(delimiter=";;"), "one character"),
        (csv_contract(delimiter='"'), "one character"),
        (csv_contract(delimiter="\U0001f600"), "one character"),
        (csv_contract(encoding="klingon"), "encoding is none of these: ascii,"),
        (csv_contract(encoding="unicode_escape"), "encoding is none of these"),
        (csv_contract(encoding="shift_jis"), "encoding is none of these"),
        (csv_contract(encoding="\u212aoi8-r"), "encoding is none of these"),
        (csv_contract(min_rows=-1), "negative"),
        (csv_contract(max_held_rows=-2), "max_held_rows"),
        (csv_contract(json_schema={"type": "object"}), "json_schema has no meaning"),
        (csv_contract(root="a"), "root has no meaning"),
        (DataContract(format="text", columns=(Column(name="a"),)), "columns has no meaning"),
        (DataContract(format="bytes", min_rows=1), "min_rows has no meaning"),
        (DataContract(format="json", encoding="latin-1"), "encoding has no meaning"),
        (DataContract(format="json", json_schema={"anyOf": []}), "keyword anyOf is not supported"),
        (
            DataContract(format="json", json_schema={"properties": {"a": {"format": "date"}}}),
            "properties.a: the keyword",
        ),
        (DataContract(format="json", json_schema={"items": {"$ref": "#"}}), "json_schema.items: the keyword $ref"),
        (DataContract(format="json", json_schema={"type": "text"}), "type does not have the form"),
        (DataContract(format="json", json_schema={"const": 1}), "const of the whole document"),
        (DataContract(format="ndjson", json_schema={"pattern": "a(?!b)"}), "a look-around, which is not supported"),
    ],
)
def test_a_contract_that_cannot_be_kept_is_refused_before_anything_is_read(contract: DataContract, says: str) -> None:
    problems = contract_problems(contract)
    assert any(says in problem for problem in problems), problems

    def never() -> io.BytesIO:
        raise AssertionError("opened")

    with pytest.raises(BadInput, match="the data contract of stations cannot be used"):
        inspect(never, contract, "stations", never, never)  # type: ignore[arg-type]


def test_contracts_in_common_use_have_no_problems() -> None:
    for contract in (
        DataContract(),
        csv_contract(),
        csv_contract(Column(name="a"), partition_by="b"),
        csv_contract(Column(name="a", type="date", date_format="%d %b %Y"), delimiter="\t", encoding="cp1252"),
        csv_contract(Column(name="a", pattern=r"15-\d{3}-\d{5}.*"), header=False),
        DataContract(format="geojson", partition_by="net", min_rows=1),
        DataContract(format="json", root="list", json_schema={"title": "x", "type": "object", "required": ["list"]}),
    ):
        assert contract_problems(contract) == []
