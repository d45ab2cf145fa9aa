"""The schema files follow the records, and accept and refuse the same instances."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, ValidationError  # type: ignore[import-untyped]
from msgspec import inspect

from kfm.model.canonical import canonical
from kfm.model.json_schemas import exported, generate, kinds, schema_of
from kfm.model.records import Record, Trigger
from kfm.parsing.strict_json import decode
from tests.node.sites import command, declared

FOLDER = Path(__file__).resolve().parents[2] / "schemas"
KINDS = kinds()
SCHEMAS = generate()


def instance(info: inspect.Type, full: bool) -> Any:
    """A plain value of a type: with every field and one item in each list, or with no more than it must have."""
    match info:
        case inspect.Metadata():
            return instance(info.type, full)
        case inspect.StructType():
            fields = [f for f in info.fields if full or f.required]
            return {field.encode_name: instance(field.type, full) for field in fields}
        case inspect.LiteralType():
            return info.values[0]
        case inspect.UnionType():
            return instance(info.types[0], full)
        case inspect.TupleType():
            return [instance(item, full) for item in info.item_types]
        case inspect.ListType() | inspect.VarTupleType():
            return [instance(info.item_type, full)] if full else []
        case inspect.DictType():
            return {"some-key": instance(info.value_type, full)} if full else {}
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 1.5
        case inspect.NoneType():
            return None
        case inspect.AnyType():
            return {"any": [1, "thing", None]}
    raise AssertionError(f"make an instance of {info}")


def misfits(info: inspect.Type) -> Iterator[Any]:
    """Values that a field of this type must not take."""
    if isinstance(info, inspect.Metadata):
        info = info.type
    allowed = [type(part) for part in info.types] if isinstance(info, inspect.UnionType) else [type(info)]
    others: dict[type, Any] = {
        inspect.StrType: "no such word", inspect.IntType: 7, inspect.FloatType: 1.5, inspect.BoolType: True,
        inspect.NoneType: None, inspect.ListType: [None], inspect.DictType: {"a": [{}]},
    }  # fmt: skip
    same: dict[type, set[type]] = {
        inspect.LiteralType: set(),  # no literal says that
        inspect.FloatType: {inspect.FloatType, inspect.IntType},
        inspect.VarTupleType: set(),  # no list here holds a null
        inspect.TupleType: set(),
        inspect.ListType: set(),
        inspect.StructType: set(),
        inspect.DictType: {inspect.DictType},
    }
    taken = {other for kind in allowed for other in same.get(kind, {kind})}
    if inspect.AnyType not in allowed:
        yield from (value for other, value in others.items() if other not in taken)


@pytest.mark.parametrize("name", KINDS)
def test_every_schema_is_one(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:kfm:schema:{name}:1"
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    for part in (schema, *schema.get("$defs", {}).values()):
        assert part["additionalProperties"] is False


def test_every_record_has_a_schema() -> None:
    def below(kind: type[Record]) -> Iterator[type[Record]]:
        for child in kind.__subclasses__():
            if child.__module__ == "kfm.model.records":
                yield child
                yield from below(child)

    assert set(KINDS.values()) == set(below(Record))
    assert len(KINDS) > 20
    assert {"receipt", "dataset-version", "wal-record", "source-ref"} <= KINDS.keys()


@pytest.mark.parametrize("full", [True, False], ids=["full", "least"])
@pytest.mark.parametrize("name", KINDS)
def test_an_instance_is_valid_for_its_record_and_for_its_schema(name: str, full: bool) -> None:
    value = instance(inspect.type_info(KINDS[name]), full)
    record = msgspec.convert(value, KINDS[name], strict=True)
    check = Draft202012Validator(SCHEMAS[name])
    check.validate(value)
    written = decode(canonical(record), name)
    check.validate(written)
    if full:
        assert written == value


@pytest.mark.parametrize("name", KINDS)
def test_an_extra_field_is_refused_at_every_depth(name: str) -> None:
    check = Draft202012Validator(SCHEMAS[name])
    for value in _each_with_an_extra_field(inspect.type_info(KINDS[name])):
        assert not check.is_valid(value)
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, KINDS[name], strict=True)


def _each_with_an_extra_field(info: inspect.Type) -> Iterator[Any]:
    if isinstance(info, inspect.StructType):
        whole = instance(info, full=True)
        yield {**whole, "unheard-of": 1}
        for field in info.fields:
            for inner in _each_with_an_extra_field(field.type):
                yield {**whole, field.encode_name: inner}
    elif isinstance(info, inspect.ListType | inspect.VarTupleType):
        for inner in _each_with_an_extra_field(info.item_type):
            yield [inner]
    elif isinstance(info, inspect.UnionType):
        for part in info.types:
            yield from _each_with_an_extra_field(part)


@pytest.mark.parametrize("name", KINDS)
def test_a_field_of_another_type_or_a_missing_one_is_refused(name: str) -> None:
    check = Draft202012Validator(SCHEMAS[name])
    info = inspect.type_info(KINDS[name])
    assert isinstance(info, inspect.StructType)
    whole = instance(info, full=True)
    wrong = [{**whole, field.encode_name: value} for field in info.fields for value in misfits(field.type)]
    short = [{k: v for k, v in whole.items() if k != field.encode_name} for field in info.fields if field.required]
    assert wrong
    for value in wrong + short:
        assert not check.is_valid(value), value
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(value, KINDS[name], strict=True)


def test_a_record_without_a_docstring_has_no_description() -> None:
    class Bare(msgspec.Struct, forbid_unknown_fields=True):
        a: int

    schema = schema_of(Bare, "bare")
    assert "description" not in schema
    assert schema["$id"] == "urn:kfm:schema:bare:1"
    assert "description" in schema_of(Trigger, "trigger")


def test_the_files_are_what_the_records_give() -> None:
    """`make docs` compares every byte of the folder; here it is enough that the records are all in it, and current."""
    for name, schema in SCHEMAS.items():
        assert decode((FOLDER / f"{name}.json").read_bytes(), name) == schema, "run `make schemas`"


@pytest.mark.parametrize("runner", ["python", "node"])
@pytest.mark.parametrize("dry", [False, True])
def test_every_line_of_every_artifact_is_what_its_schema_says(tmp_path: Path, runner: str, dry: bool) -> None:
    """Of runs that end well, have nothing to do, are held, and of a source that is not there."""
    names = ("wells", "held", "gone")
    (tmp_path / "kfm.yml").write_text(declared(*names))
    (tmp_path / "wells.csv").write_text("id,mm\n1,2\n")
    (tmp_path / "held.csv").write_text("id,mm\n1,x\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith("KFM_")}
    words = [*command(runner, "run"), *(["--dry-run"] if dry else []), "--artifacts", "artifacts"]
    validators = {name: Draft202012Validator(schema_of(kind, name)) for name, kind in {**KINDS, **exported()}.items()}
    seen = 0
    for _ in range(2):
        subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, timeout=120, check=False)
        for file, schema in (
            ("run.jsonl", "run-line"),
            ("event_log.jsonl", "event-line"),
            ("publisher_trace.jsonl", "effect"),
        ):
            for line in (tmp_path / "artifacts" / file).read_text().splitlines():
                validators[schema].validate(json.loads(line))
                seen += 1
                if schema == "run-line" and json.loads(line)["telemetry"] is not None:
                    validators["telemetry/pipelines-updater-v11"].validate(json.loads(line)["telemetry"])
        rows = json.loads((tmp_path / "artifacts" / "idempotency.json").read_text())
        validators["idempotency"].validate(rows)
        assert len(rows["runs"]) == 3
    assert seen > 12
    with pytest.raises(ValidationError):
        validators["event-line"].validate({"event": "run.started"})
    with pytest.raises(ValidationError):
        validators["idempotency"].validate({**rows, "more": 1})


def test_what_is_exported_has_its_schema_in_the_folder() -> None:
    for name, kind in exported().items():
        assert decode((FOLDER / f"{name}.json").read_bytes(), name) == schema_of(kind, name)
