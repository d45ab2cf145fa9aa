"""A protected file as its steward has it: rows by column, as masking takes them, and the files that speak about it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from kfm.app.authority.label_file import read_bytes
from kfm.errors import BadInput
from kfm.model.labels import Labels, read_labels
from kfm.model.masks import MaskingPolicy, read_policy
from kfm.model.records import Layout
from kfm.model.secret import SHORTEST, Secret
from kfm.parsing import documents
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document
from kfm.parsing.strict_json import decode
from kfm.secret_references import read_reference
from kfm.validation.text_rows import read_table

Columns = dict[str, Sequence[Any]]
FORMATS = {".csv": ",", ".tsv": "\t", ".json": "", ".geojson": "", ".ndjson": "", ".jsonl": ""}


def document_at(path: str) -> Document:
    return documents.read(read_bytes(path), printable(path, 200)[1:-1], json=path.endswith(".json"))


def policy_at(path: str) -> MaskingPolicy:
    return read_policy(document_at(path))


def labels_at(path: str) -> Labels:
    return read_labels(document_at(path))


def secret_at(reference: str, env: Mapping[str, str]) -> Secret:
    """What `env:NAME` or `file:PATH` holds; paths begin in the folder where the command was typed."""
    value = read_reference(reference, env, os.path.abspath)
    if len(value) < SHORTEST:
        raise BadInput(
            f"the key {printable(reference)} is {f'shorter than {SHORTEST} bytes' if value else 'empty'}",
            hint="make one with `openssl rand -hex 32`",
        )
    return Secret(value)


def columns_of(body: bytes, path: str) -> Columns:
    """The columns of a table or of features, by the ending of the file's name; what has no rows is refused."""
    ending = os.path.splitext(path)[1].lower()
    where = printable(path, 200)[1:-1]
    if ending not in FORMATS:
        raise BadInput(
            f"{where} is of a format that masking does not understand",
            hint="it reads csv, tsv, json, ndjson and geojson, by the ending of the name",
        )
    if FORMATS[ending]:
        found = table_of(body.removeprefix(b"\xef\xbb\xbf"), where, Layout(delimiter=FORMATS[ending]))
    else:
        found = columns_in(records_of(body, where, lines=ending in (".ndjson", ".jsonl")))
    if not any(len(column) for column in found.values()):
        raise BadInput(f"{where} has no rows", hint="look at the file")
    return found


def table_of(body: bytes, where: str, layout: Layout) -> Columns:
    import io

    names, blocks = read_table(io.BytesIO(body), layout, where)
    if len(set(names)) != len(names):
        raise BadInput(f"{where} has two columns of one name", hint="name each column once")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for block in blocks:
        for name, column in zip(names, block.columns, strict=True):
            found[name].extend(column)
    return {**found}


def records_of(body: bytes, where: str, *, lines: bool) -> list[dict[str, Any]]:
    """The records of a document, or of its lines; of features what they say, in one."""
    if lines:
        numbered = enumerate(body.splitlines(), 1)
        records = [decode(line, f"{where}, line {number}") for number, line in numbered if line.strip()]
    else:
        whole = decode(body, where)
        records = whole.get("features", [whole]) if isinstance(whole, dict) else whole
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise BadInput(f"{where} is no list of records", hint="give a list of objects, or a collection of features")
    return [_flat(one) for one in records]


def columns_in(records: list[dict[str, Any]]) -> Columns:
    names = dict.fromkeys(name for one in records for name in one)
    return {name: [one.get(name) for one in records] for name in names}


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Of a feature: its properties, its id and its geometry in one."""
    if record.get("type") != "Feature":
        return record
    own = record.get("properties")
    return {
        **(own if isinstance(own, dict) else {}),
        **{name: record[name] for name in ("id", "geometry") if name in record},
    }
