"""What Node need not write by hand: records, errors, settings, words and tables, made from the code of Python.

`make schemas` writes them into node/generated; nothing else lies there, and nothing there is written by hand.
"""

from __future__ import annotations

import argparse
import errno
import json
import unicodedata
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal, get_origin

import msgspec
from msgspec import inspect

import kfm
from kfm import errors, fsio
from kfm.cli import DEFAULTS, parser, render
from kfm.config import (
    archive_settings,
    config_file,
    config_loader,
    custodian_settings,
    dataset_settings,
    github_settings,
    graph_settings,
    ledger_settings,
    network_settings,
    notify_settings,
    openlineage_settings,
    pace_settings,
    policy_settings,
    retention_settings,
    runner_settings,
    s3_settings,
    schedule_settings,
    source_settings,
    store_settings,
    webhook_settings,
)
from kfm.model import records, transform_config
from kfm.model.source_formats import KINDS
from kfm.parsing import characters, dates, encodings, patterns
from kfm.projections import file_paths
from kfm.sources import addresses, http
from kfm.store import filesystem_check
from kfm.store.state_tables import VITAL
from kfm.telemetry import log
from kfm.validation import column_rules, findings, json_schema_subset

NOTICE = "// Made by `make schemas` from the code of Python; change that, not this file.\n"
FOLDER = "node/generated"
_BOUNDS = {"min_length": "min", "max_length": "max", "ge": "ge", "gt": "gt", "le": "le", "lt": "lt"}
_PLAIN = {inspect.StrType: "text", inspect.IntType: "integer", inspect.FloatType: "number", inspect.BoolType: "boolean"}
# Of a choice Node looks at the kind of the value, so the order is only for the eye.
_ORDER = (inspect.StrType, inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.StructType)
_MAKERS = "any, boolean, bounded, choice, integer, list, literal, map, nullable, number, record, text, tuple"


def files() -> dict[str, str]:
    """Every generated module by its path, as the code of today makes it."""
    made = {
        "records.mjs": _records(records),
        # What holds another comes after it.
        "settings.mjs": _records(
            *(
                transform_config,
                config_loader,
                network_settings,
                s3_settings,
                pace_settings,
                policy_settings,
                custodian_settings,
                ledger_settings,
                webhook_settings,
                github_settings,
                graph_settings,
                openlineage_settings,
                notify_settings,
                retention_settings,
                runner_settings,
                archive_settings,
                store_settings,
            ),
            *(source_settings, schedule_settings, dataset_settings, config_file),
        ),
        "errors.mjs": _errors(),
        "words.mjs": _words() + _judged(),
        "characters.mjs": _characters() + _dates(),
        "encodings.mjs": _encodings(),
        "patterns.mjs": _patterns(),
        "inspection.mjs": _inspection(),
        "catalogue.mjs": _catalogue(),
    }
    return {f"{FOLDER}/{name}": NOTICE + body for name, body in made.items()}


def _js(value: Any) -> str:
    """A value as JavaScript, each constant of a table on a line of its own."""
    if value is msgspec.NODEFAULT:  # of a field that may be absent
        return "undefined"
    return json.dumps(msgspec.to_builtins(value))


def _constant(name: str, value: Any) -> str:
    shown = _js(value)
    if isinstance(value, dict):
        shown = "{\n" + "".join(f"  {_js(key)}: {_js(item)},\n" for key, item in value.items()) + "}"
    return f"export const {name} = {shown};\n"


# ------------------------------------------------------------------------------------------- records


def _records(*modules: ModuleType) -> str:
    """Every record of these modules as types.mjs makes it, and their lists of words."""
    here = [kind for module in modules for kind in _kinds(module)]
    parts = [f'\nimport {{ {_MAKERS} }} from "../types.mjs";\n']
    if records not in modules:
        parts.append('import { DataContract } from "./records.mjs";\n')
    parts.append("\n")
    for module in modules:
        for name, value in vars(module).items():
            if not name.startswith("_") and name.isupper() and isinstance(value, (tuple, frozenset)):
                listed = sorted(value) if isinstance(value, frozenset) else value
                parts.append(_constant(name, listed))
            elif get_origin(value) is Literal:
                parts.append(f"export const {name} = {_type(inspect.type_info(value))};\n")
    for kind in here:
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        fields = "".join(f"  {_field(one)},\n" for one in info.fields)
        parts.append(f'\nexport const {kind.__name__} = record("{kind.__name__}", {{\n{fields}}});\n')
    return "".join(parts)


def _kinds(module: ModuleType) -> Iterator[type[records.Record]]:
    for kind in vars(module).values():
        if isinstance(kind, type) and issubclass(kind, records.Record) and kind is not records.Record:
            yield from [kind] if kind.__module__ == module.__name__ else []


def _field(one: inspect.Field) -> str:
    if one.required:
        return f"{one.encode_name}: {_type(one.type)}"
    fallback = one.default if one.default_factory is msgspec.NODEFAULT else one.default_factory()
    return f"{one.encode_name}: [{_type(one.type)}, {_js(fallback)}]"


def _type(info: Any) -> str:
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        return _union(info)
    made = _without_bounds(info)
    given = {name: getattr(info, field, None) for field, name in _BOUNDS.items()}
    bounds = {name: value for name, value in given.items() if value is not None}
    return f"bounded({made}, {_js(bounds)})" if bounds else made


def _union(info: inspect.UnionType) -> str:
    rest = [choice for choice in info.types if not isinstance(choice, inspect.NoneType)]
    may_be_null = len(rest) < len(info.types)
    if any(isinstance(choice, inspect.FloatType) for choice in rest):
        # A number may be whole: JavaScript has one kind of them.
        rest = [choice for choice in rest if not isinstance(choice, inspect.IntType)]
    rest.sort(key=lambda choice: _ORDER.index(type(choice)) if type(choice) in _ORDER else len(_ORDER))
    made = _type(rest[0]) if len(rest) == 1 else f"choice({', '.join(map(_type, rest))})"
    return f"nullable({made})" if may_be_null else made


def _without_bounds(info: Any) -> str:
    if isinstance(info, inspect.LiteralType):
        return f"literal({', '.join(map(_js, info.values))})"
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return f"list({_type(info.item_type)})"
    if isinstance(info, inspect.TupleType):
        return f"tuple({', '.join(map(_type, info.item_types))})"
    if isinstance(info, inspect.DictType):
        return f"map({_type(info.value_type)})"
    if isinstance(info, inspect.StructType):
        return f"{info.cls.__name__}.type"
    return "any" if isinstance(info, inspect.AnyType) else _PLAIN[type(info)]


# ------------------------------------------------------------------------- errors, words and tables


def _errors() -> str:
    parts = ['\nimport { KfmError } from "../error_base.mjs";\n\nexport { KfmError };\n']
    open_kinds = [errors.KfmError]
    codes = {errors.KfmError.code: errors.KfmError.exit_code}
    while open_kinds:
        parent = open_kinds.pop(0)
        for kind in parent.__subclasses__():
            if kind.__module__ != errors.__name__:
                continue
            said = f'  static code = "{kind.code}";\n  static exitCode = {kind.exit_code};\n'
            parts.append(f"\nexport class {kind.__name__} extends {parent.__name__} {{\n{said}}}\n")
            open_kinds.append(kind)
            codes[kind.code] = kind.exit_code
    parts += ["\n", _constant("EXIT_CODES", errors.EXIT_CODES), "\n", _constant("EXIT_CODE_OF", codes)]
    return "".join(parts)


def _words() -> str:
    """The commands and flags of both runners, and the answers to --help."""
    scopes = runner_parsers()
    return "\n" + "\n".join(
        _constant(name, value)
        for name, value in {
            "VERSION": kfm.__version__,
            "DEFAULTS": DEFAULTS,
            "KEEPS_CASE": file_paths.KEEPS_CASE,
            "SUFFIXES": file_paths.SUFFIXES,
            "FLAGS": {scope: _flags(one) for scope, one in scopes.items()},
            "COMMANDS": {scope: list(_below(one)) for scope, one in scopes.items() if _below(one)},
            "HELP": {scope: one.format_help() for scope, one in scopes.items()},
        }.items()
    )


def runner_parsers() -> dict[str, parser.Parser]:
    """The parsers of `python -m updater`, by the words before which they stand."""

    def within(above: str, one: parser.Parser) -> dict[str, parser.Parser]:
        found = {above: one}
        for name, child in _below(one).items():
            found |= within(f"{above} {name}".lstrip(), child)
        return found

    return within("", parser.build("", "updater"))


def _below(one: parser.Parser) -> dict[str, parser.Parser]:
    return next((dict(each.choices) for each in one._actions if isinstance(each, argparse._SubParsersAction)), {})


def _flags(one: parser.Parser) -> list[dict[str, object]]:
    """Every flag but -h: its name, how many values it takes, and the value that stands for its absence."""
    found: list[dict[str, object]] = []
    for each in one._actions:
        if each.option_strings and not isinstance(each, argparse._HelpAction):
            (name,) = each.option_strings
            repeated = isinstance(each, argparse._AppendAction)
            takes = "nothing" if each.nargs == 0 else "many" if repeated else "one"
            fallback = DEFAULTS[each.dest] if each.default is argparse.SUPPRESS else each.default
            found.append({"name": name, "takes": takes, "fallback": fallback})
    return found


def _catalogue() -> str:
    """The tables that are checked whole whenever a database is opened."""
    return "\n" + _constant("VITAL", VITAL)


def _judged() -> str:
    """What is judged by a list: addresses, file systems, headers, errors of the disk; and the words of a log line."""
    why = {errno.errorcode[number]: said for number, said in fsio._WHY.items()}
    return "\n" + "".join(
        _constant(name, value)
        for name, value in {
            "DENIED_V4": addresses._DENIED_V4,
            "DENIED_V6": addresses._DENIED_V6,
            "OURS": sorted(http._OURS),
            "WEAK": filesystem_check._WEAK,
            "WEAK_OPTIONS": filesystem_check._WEAK_OPTIONS,
            "WHY": why,
            "FIELDS": log.FIELDS,
            "STATUS_WORDS": log.STATUS_WORDS,
            "COLORS": render._WORDS,
        }.items()
    )


def _characters() -> str:
    """The tables of Unicode 14: where what is printable, and what combines, begins and ends by turns, in base 36."""
    shown = [code for code in range(0x80, 0x110000) if characters.is_printable(chr(code))]
    # What 14 has never changes, whichever Unicode this Python knows.
    combining = [code for code in shown if unicodedata.combining(chr(code))]
    tables = {"PRINTABLE": characters.PRINTABLE, "COMBINING": _steps(combining), "SPACE": dates.SPACE}
    return "\n" + "".join(_constant(name, value) for name, value in tables.items())


def _steps(codes: list[int]) -> str:
    edges: list[int] = []
    for code in codes:
        if edges and edges[-1] == code:
            edges[-1] = code + 1
        else:
            edges += [code, code + 1]
    return " ".join(_base36(edge - before) for before, edge in zip([0, *edges], edges, strict=False))


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


def _encodings() -> str:
    """Names of encodings, and what their bytes from 0x80 on mean, where each is one character."""
    upper = bytes(range(0x80, 0x100))
    tables = {
        name: "".join(bytes([byte]).decode(codec, "replace") for byte in upper)
        for name, codec in encodings._CODECS.items()
        if not name.startswith("utf") and name not in ("ascii", "latin-1")
    }
    return "\n" + "\n".join(
        (_constant("KNOWN", encodings.KNOWN), _constant("ALSO", encodings._ALSO), _constant("UPPER", tables))
    )


def _dates() -> str:
    return "".join(
        (
            _constant("MONTHS", [name[:3] for name in dates._MONTHS]),
            _constant("DAYS", dates._DAYS),
            _constant("PARTS", dates._PARTS),
            _constant("TAKEN", dates._TAKEN),
            _constant("DATE", dates._DATE.pattern),
            _constant("MOMENT", dates._MOMENT.pattern),
        )
    )


def _patterns() -> str:
    """How a regular expression is cut up. What is written here means the same in both languages."""
    tables = {
        "TOKEN": patterns._TOKEN.pattern,
        "MEMBER": patterns._MEMBER.pattern,
        "FLAWS": patterns._FLAWS,
        "KINDS": patterns._KINDS,
        "LETTERS": patterns._LETTERS,
        "PLACES": patterns._PLACES,
    }
    limits = {name: getattr(patterns, name) for name in ("MAX_PATTERN", "MAX_NESTED", "MAX_REPEAT", "MAX_SIZE")}
    return "\n" + "".join(_constant(name, value) for name, value in (tables | limits).items())


def _inspection() -> str:
    tables = {
        "MAX_MATCHED": column_rules.MAX_MATCHED,
        "MAX_NUMBER": column_rules.MAX_NUMBER,
        "MAX_DATE": column_rules.MAX_DATE,
        "MAX_UNIQUE": column_rules.MAX_UNIQUE,
        "TRUTHS": sorted(column_rules._TRUTHS),
        "NOUN": column_rules._NOUN,
        "MESSAGES": column_rules._MESSAGES,
        "EFFECT": findings._EFFECT,
        "CONSEQUENCE": findings._CONSEQUENCE,
        "NOTES": sorted(json_schema_subset._NOTES),
        "NUMBERS": json_schema_subset._NUMBERS,
        "SIZES": json_schema_subset._SIZES,
        "KNOWN": sorted(json_schema_subset._KNOWN),
        "KINDS": KINDS,
    }
    return "\n" + "".join(_constant(name, value) for name, value in tables.items())
