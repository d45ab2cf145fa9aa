"""The part of JSON Schema that is checked is checked as the standard says; the rest is refused."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kfm.model.canonical import canonical
from kfm.model.records import DataContract
from kfm.validation.json_schema_subset import schema_check, schema_problems
from tests.sampling import tries
from tests.validation.inspecting import look

_NAMES = st.sampled_from(["a", "b", "c/d", "e~f"])
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from([0.5, 1.0, -2.5]),
        st.sampled_from(["", "a", "ab", "b1"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=6,
)
_KINDS = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_KEYWORDS = {
    "type": st.one_of(_KINDS, st.lists(_KINDS, min_size=1, max_size=3, unique=True)),
    "enum": st.lists(_VALUES, min_size=1, max_size=3),
    "const": _VALUES,
    "required": st.lists(_NAMES, max_size=2, unique=True),
    "minimum": st.integers(-2, 2),
    "maximum": st.sampled_from([-1, 0.5, 2]),
    "exclusiveMinimum": st.integers(-2, 2),
    "exclusiveMaximum": st.integers(-2, 2),
    "minLength": st.integers(0, 2),
    "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2),
    "maxItems": st.integers(0, 2),
    "pattern": st.sampled_from(["a", "^a$", "[0-9]"]),
    "title": st.just("only a note"),
}
_SCHEMAS = st.recursive(
    st.one_of(st.booleans(), st.fixed_dictionaries({}, optional=_KEYWORDS)),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **_KEYWORDS,
            "properties": st.dictionaries(_NAMES, inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
        },
    ),
    max_leaves=4,
)


@example(schema={"type": "integer"}, value=1.0)
@example(schema={"type": "integer"}, value=True)
@example(schema={"enum": [1, False]}, value=True)
@example(schema={"const": [1]}, value=[1.0])
@example(schema={"maxLength": 1}, value="\U0001f600")
@settings(max_examples=tries(500), deadline=None)
@given(schema=_SCHEMAS, value=_VALUES)
def test_a_value_fits_if_and_only_if_the_standard_says_so(schema: Any, value: Any) -> None:
    assert schema_problems(schema) == []
    fits = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (schema_check(schema)(value) == []) is fits


@settings(max_examples=tries(300), deadline=None)
@given(schema=_SCHEMAS, records=st.lists(_VALUES, max_size=4), root=st.sampled_from(["", "a"]), more=_VALUES)
def test_a_list_read_record_by_record_breaks_the_same_schema(
    schema: Any, records: list[Any], root: str, more: Any
) -> None:
    if not isinstance(schema, dict):
        return
    document = {root: records, "b": more} if root else records
    contract = DataContract(format="json", root=root, json_schema=schema)
    inner = schema.get("properties", {}).get(root, schema.get("additionalProperties"))
    if {"enum", "const"} & {*schema, *(inner if isinstance(inner, dict) and root else ())}:
        return  # refused: see the test of contracts
    fits = jsonschema.Draft202012Validator(schema).is_valid(document)
    seen = look(canonical(document), contract)
    assert (not seen.result.findings) is fits
    assert all(finding.rule.startswith("schema.") for finding in seen.result.findings)


def test_a_break_is_placed_by_a_pointer_that_quotes_no_key_of_the_source() -> None:
    schema = {
        "type": "object",
        "required": ["id"],
        "properties": {"a/b": {"items": {"type": "integer"}}},
        "additionalProperties": {"type": "integer"},
    }
    breaks = schema_check(schema)({"a/b": [1, "x"], "secret": "y"})
    assert breaks == [("/id", "required"), ("/a~1b/1", "type"), ("/*", "type")]


def test_a_record_that_breaks_its_schema_is_held_and_the_others_pass() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 0}}}
    seen = look(b'{"n":1}\n{"n":-1}\n{}\n7\n', DataContract(format="ndjson", json_schema=schema))
    assert seen.rules == [(2, "/n", "schema.minimum"), (3, "/n", "schema.required"), (4, "", "schema.type")]
    assert seen.accepted == b'{"n":1}\n'
    assert not seen.result.held


def test_a_schema_of_the_document_holds_the_source_for_what_surrounds_the_list() -> None:
    schema = {"required": ["version"], "properties": {"list": {"type": "array", "minItems": 2, "maxItems": 3}}}
    contract = DataContract(format="json", root="list", json_schema=schema)
    assert not look(b'{"version":1,"list":[1,2]}', contract).result.held
    assert look(b'{"list":[1,2]}', contract).rules == [(0, "/version", "schema.required")]
    assert look(b'{"version":1,"list":[1]}', contract).rules == [(0, "/list", "schema.minItems")]
    assert look(b'{"version":1,"list":[1,2,3,4]}', contract).rules == [(0, "/list", "schema.maxItems")]


def test_a_record_with_a_thousand_errors_reports_twenty() -> None:
    assert len(schema_check({"items": False})([0] * 1000)) == 20


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/x"},
        {"allOf": [{}]},
        {"format": "date"},
        {"multipleOf": 2},
        {"propertyNames": {}},
        {"items": [{}]},
        {"items": {"unevaluatedItems": False}},
        {"properties": {"a": {"if": {}}}},
        {"properties": []},
        {"required": "a"},
        {"enum": []},
        {"enum": [2**60]},
        {"minimum": "1"},
        {"minimum": True},
        {"maxLength": -1},
        {"pattern": "("},
        {"pattern": "(?=a)"},
        {"type": []},
        {"type": "float"},
        {"additionalProperties": 1},
    ],
    ids=str,
)
def test_what_would_pass_unchecked_is_refused(schema: Any) -> None:
    assert schema_problems(schema)
