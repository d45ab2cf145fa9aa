"""A subset of JSON Schema 2020-12 that is checked in full. A keyword outside it is refused, never skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.parsing.patterns import compiled, pattern_flaw
from kfm.validation.column_rules import MAX_MATCHED

MAX_BREAKS = 20  # reported for each record
Break = tuple[str, str]  # JSON pointer, keyword
Check = Callable[[Any, str], Iterator[Break]]

_NOTES = {
    "$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
}  # fmt: skip
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems")
_KNOWN = {
    "type", "enum", "const", "required", "properties", "additionalProperties", "items", "pattern", *_NUMBERS, *_SIZES,
}  # fmt: skip
_TYPES: dict[str, Callable[[Any], bool]] = {
    "null": lambda v: v is None,
    "boolean": lambda v: type(v) is bool,
    "integer": lambda v: type(v) is int or (type(v) is float and v.is_integer()),
    "number": lambda v: type(v) in (int, float),
    "string": lambda v: type(v) is str,
    "array": lambda v: type(v) is list,
    "object": lambda v: type(v) is dict,
}


def schema_problems(schema: Any, place: str = "json_schema") -> list[str]:
    """Return what cannot be checked in a schema, or makes no sense in it."""
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, dict):
        return [f"{place} must be an object, true or false"]
    problems = [
        f"{place}: the keyword {name} is not supported" for name in sorted(map(str, set(schema) - _KNOWN - _NOTES))
    ]
    wrong = [name for name, fits in _SHAPES.items() if name in schema and not fits(schema[name])]
    problems += [f"{place}: {name} does not have the form JSON Schema gives it" for name in wrong]
    if "pattern" in schema and "pattern" not in wrong and (problem := pattern_flaw(schema["pattern"])):
        problems.append(f"{place}: pattern {problem}")
    if isinstance(schema.get("properties"), dict):
        for name, inner in sorted(schema["properties"].items(), key=_name):
            problems += schema_problems(inner, f"{place}.properties.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            problems += schema_problems(schema[name], f"{place}.{name}")
    return problems


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) and value else [value]
    return all(isinstance(name, str) and name in _TYPES for name in names)


def _has_form(value: Any) -> bool:
    try:
        canonical(value)
    except BadInput:
        return False
    return True


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "type": _is_type,
    "enum": lambda v: isinstance(v, list) and bool(v) and _has_form(v),
    "const": _has_form,
    "required": lambda v: isinstance(v, list) and all(isinstance(name, str) for name in v),
    "properties": lambda v: isinstance(v, dict),
    "pattern": lambda v: isinstance(v, str),
    **{name: (lambda v: type(v) in (int, float) and v - v == 0) for name in _NUMBERS},
    **{name: (lambda v: _TYPES["integer"](v) and v >= 0) for name in _SIZES},
}


def schema_check(schema: Any) -> Callable[[Any], list[Break]]:
    """Compile a schema without problems: return a function that returns the places where a value violates it, at most
    twenty."""
    check = _compile(schema)

    def breaks(value: Any) -> list[Break]:
        return [found for found, _ in zip(check(value, ""), range(MAX_BREAKS), strict=False)]

    return breaks


def _compile(schema: Any) -> Check:
    if schema is True or schema == {}:
        return lambda _value, _at: iter(())
    if schema is False:
        return lambda _value, at: iter([(at, "false")])
    simple = list(_simple(schema))
    inner = [part for part in (_object(schema), _array(schema)) if part is not None]

    def check(value: Any, at: str) -> Iterator[Break]:
        for keyword, fits in simple:
            if not fits(value):
                yield at, keyword
        for part in inner:
            yield from part(value, at)

    return check


def _simple(schema: dict[str, Any]) -> Iterator[tuple[str, Callable[[Any], bool]]]:
    """Yield checks of keywords that concern one value only. A value of a type that the keyword is not about passes."""
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        kinds = [_TYPES[name] for name in names]
        yield "type", lambda v: any(fits(v) for fits in kinds)
    for keyword in ("enum", "const"):
        if keyword in schema:
            allowed = {canonical(v) for v in (schema[keyword] if keyword == "enum" else [schema[keyword]])}
            yield keyword, _among(allowed)
    number, string, array = _TYPES["number"], _TYPES["string"], _TYPES["array"]
    for keyword, applies, fits in (
        ("minimum", number, lambda v, bound: v >= bound),
        ("maximum", number, lambda v, bound: v <= bound),
        ("exclusiveMinimum", number, lambda v, bound: v > bound),
        ("exclusiveMaximum", number, lambda v, bound: v < bound),
        ("minLength", string, lambda v, bound: len(v) >= bound),
        ("maxLength", string, lambda v, bound: len(v) <= bound),
        ("minItems", array, lambda v, bound: len(v) >= bound),
        ("maxItems", array, lambda v, bound: len(v) <= bound),
    ):
        if keyword in schema:
            yield keyword, _when(applies, fits, schema[keyword])
    if "pattern" in schema:
        search = compiled(schema["pattern"], whole=False)
        yield "pattern", lambda v: type(v) is not str or (len(v) <= MAX_MATCHED and search(v))


def _among(allowed: set[bytes]) -> Callable[[Any], bool]:
    return lambda v: canonical(v) in allowed


def _when(applies: Callable[[Any], bool], fits: Callable[[Any, Any], bool], bound: Any) -> Callable[[Any], bool]:
    return lambda v: not applies(v) or fits(v, bound)


def _object(schema: dict[str, Any]) -> Check | None:
    required = schema.get("required", [])
    declared = sorted(schema.get("properties", {}).items(), key=_name)  # a fixed order, because JSON objects have none
    properties = {name: (f"/{_escaped(name)}", _compile(inner)) for name, inner in declared}
    rest = schema.get("additionalProperties", True)
    others = _compile(rest)
    if not required and not properties and rest is True:
        return None

    def check(value: Any, at: str) -> Iterator[Break]:
        if type(value) is not dict:
            return
        for name in required:
            if name not in value:
                yield f"{at}/{_escaped(name)}", "required"
        for name, (step, inner) in properties.items():
            if name in value:
                yield from inner(value[name], at + step)
        if rest is not True:
            for name, inside in value.items():
                if name not in properties:
                    if rest is False:
                        yield at, "additionalProperties"  # the source chose the name, so it is not shown
                        break
                    yield from others(inside, f"{at}/*")

    return check


def _array(schema: dict[str, Any]) -> Check | None:
    if schema.get("items", True) is True:
        return None
    inner = _compile(schema["items"])

    def check(value: Any, at: str) -> Iterator[Break]:
        if type(value) is list:
            for position, item in enumerate(value):
                yield from inner(item, f"{at}/{position}")

    return check


def _name(member: tuple[Any, Any]) -> str:
    return str(member[0])


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def split_at_list(schema: dict[str, Any], root: str) -> tuple[Any, Any, tuple[int, int | None]]:
    """Return the schema of a document as three: for the document with its list emptied, for each item, and for the size
    of the list.

    The list is the member `root`, or the document itself. `enum` and `const` on the way to it cannot be split;
    `split_problems` reports that.
    """
    if not root:
        outer, listed = _without_items(schema), schema
        return outer, listed.get("items", True), (listed.get("minItems", 0), listed.get("maxItems"))
    properties = schema.get("properties", {})
    listed = properties.get(root, schema.get("additionalProperties", True))
    if not isinstance(listed, dict):
        return schema, True, (0, None)
    outer = {**schema, "properties": {**properties, root: _without_items(listed)}}
    return outer, listed.get("items", True), (listed.get("minItems", 0), listed.get("maxItems"))


def _without_items(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name not in ("items", "minItems", "maxItems")}


def split_problems(schema: dict[str, Any], root: str) -> list[str]:
    inner = schema.get("properties", {}).get(root, schema.get("additionalProperties")) if root else None
    return [
        f"json_schema: {keyword} of the whole document, or of its list of records, is not supported"
        for keyword in ("enum", "const")
        if keyword in schema or (isinstance(inner, dict) and keyword in inner)
    ]
