"""Reads a protected file as columns for masking, and the policy and label files about it."""

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
    """Return the key that `env:NAME` or `file:PATH` holds. Relative paths start in the current folder. BadInput if it
    is too short."""
    value = read_reference(reference, env, os.path.abspath)
    if len(value) < SHORTEST:
        raise BadInput(
            f"the key {printable(reference)} is {f'shorter than {SHORTEST} bytes' if value else 'empty'}",
            hint="make one with `openssl rand -hex 32`",
        )
    return Secret(value)


def columns_of(body: bytes, path: str) -> Columns:
    """Return the columns of a table or of features. The file's extension decides the format. BadInput if it has no
    rows."""
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
    """Return the columns of a delimited table. BadInput if two columns share a name."""
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
    """Return the records of a JSON document or of its lines, with each feature flattened."""
    return [flat(one) for one in objects_of(body, where, lines=lines)]


def objects_of(body: bytes, where: str, *, lines: bool) -> list[dict[str, Any]]:
    """Return the objects of a JSON document or of its lines: features and records as they are."""
    if lines:
        numbered = enumerate(body.splitlines(), 1)
        records = [decode(line, f"{where}, line {number}") for number, line in numbered if line.strip()]
    else:
        whole = decode(body, where)
        records = whole.get("features", [whole]) if isinstance(whole, dict) else whole
    if not isinstance(records, list) or not all(isinstance(one, dict) for one in records):
        raise BadInput(f"{where} is no list of records", hint="give a list of objects, or a collection of features")
    return records


def columns_in(records: list[dict[str, Any]]) -> Columns:
    """Return these records as columns; a missing value is None."""
    names = dict.fromkeys(name for one in records for name in one)
    return {name: [one.get(name) for one in records] for name in names}


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return a feature's properties, id and geometry as one record; other records as they are."""
    if record.get("type") != "Feature":
        return record
    own = record.get("properties")
    return {
        **(own if isinstance(own, dict) else {}),
        **{name: record[name] for name in ("id", "geometry") if name in record},
    }
