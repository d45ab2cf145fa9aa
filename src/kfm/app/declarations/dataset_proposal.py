"""Proposes a dataset for kfm.yml from what was seen of its files.

A proposal is checked against the whole of its files before it is shown: a rule that they break is taken out, except
that single odd values stay quarantined. Where signs of sites or people were seen, the proposal is closed, and says
nothing from which a place could be read: no extent and no bounds.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kfm.app.declarations.neighbour_metadata import Stated, merged, stated_next_to
from kfm.app.declarations.sensitivity_signs import Sign, signs
from kfm.app.declarations.source_look import HEAD, LARGEST, Access, Look, files_of, look_at, source_name
from kfm.config.source_settings import SourceConfig
from kfm.engine.isolation.sandbox import inspect_apart
from kfm.errors import BadInput, Refused
from kfm.model.licences import problem_of
from kfm.model.names import check_id
from kfm.model.records import Column
from kfm.model.reports.discovered_datasets import slug
from kfm.model.source_formats import GRIDS
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.yaml_edit import Block, Lines
from kfm.validation.column_profile import RULE, ColumnProfile, as_key, key_of
from kfm.validation.source_check import APART, Inspection, inspect

FORMATS = (
    "csv", "json", "ndjson", "geojson", "stac", "text", "parquet", "geopackage", "shapefile", "flatgeobuf", "geotiff",
    "grib2", "netcdf", "zarr",
)  # fmt: skip
LICENCE_LINE = "license: CC-BY-4.0"
MIRROR = "kfm.updaters.mirror:Mirror"
_TRIES = 3


class Wish(NamedTuple):
    """What the caller says. An empty field is proposed."""

    what: str
    name: str = ""
    title: str = ""
    description: str = ""
    license: str = ""
    format: str = ""
    member: str = ""
    public: bool = False


class Proposal(NamedTuple):
    """A dataset as it would be written."""

    dataset: str
    block: Block
    looks: list[Look]
    signs: list[Sign]
    closed: bool
    license: str
    notes: list[str]  # what the caller should know


def propose(access: Access, wish: Wish) -> Proposal:
    """Return the dataset that kfm.yml would have. Raise BadInput or Refused, with the cure, if there is none."""
    _check(wish)
    files = files_of(access, wish.what, wish.member)
    dataset = _dataset_name(access, wish, [file.uri for file in files])
    looks = [look_at(file, wish.format) for file in files]
    _check_formats(wish, looks)
    stated = _stated(access, wish, looks)
    named = [wish.what.rstrip("/").rpartition("/")[2], dataset, wish.title or stated.title]
    found = list(dict.fromkeys(one for look in looks for one in signs(look.table, named, has_shapes=look.has_shapes)))
    closed = bool(found) and not wish.public
    notes: list[str] = []
    if not closed:
        looks = [_true_of_all(look, notes) for look in looks]
    block = _block(dataset, wish, stated, looks, found, closed=closed)
    for look in looks:
        if not look.whole and look.format not in APART:
            notes.append(f"{look.file.name}: only its first {HEAD:,} bytes were read for types")
    return Proposal(dataset, block, looks, found, closed, block.get("license", ""), notes)


def _check(wish: Wish) -> None:
    if wish.license and (problem := problem_of(wish.license)) is not None:
        raise BadInput(problem.what, hint=problem.cure)
    if wish.format and wish.format not in FORMATS:
        raise BadInput(f"{printable(wish.format)} is no format that KFM reads", hint=f"use {', '.join(FORMATS)}")
    for name in ("title", "description"):
        if not is_printable(getattr(wish, name)) or len(getattr(wish, name)) > 1000:
            raise BadInput(f"--{name} is not one short line", hint="shorten it")


def _dataset_name(access: Access, wish: Wish, uris: list[str]) -> str:
    declared = access.resolved.config.datasets
    for known, dataset in declared.items():
        if not wish.name and any(source.uri in uris for source in dataset.sources.values()):
            raise BadInput(
                f"{printable(wish.what, 200)} is already a source of dataset {known}",
                hint=f"`kfm run {known}` reads it; to declare it once more, give --name NAME",
            )
    last = wish.what.partition("?")[0].rstrip("/").rpartition("/")[2]
    stem = last if os.path.isdir(os.path.join(access.here, wish.what)) else last.partition(".")[0]
    name = wish.name or slug(stem) or "data"
    check_id(name, "dataset")
    if name in declared or name == "global":
        raise BadInput(f"kfm.yml has a dataset {name} already", hint="give another name: --name NAME")
    return name


def _check_formats(wish: Wish, looks: Sequence[Look]) -> None:
    counts: dict[str, int] = {}
    for look in looks:
        counts[look.format] = counts.get(look.format, 0) + 1
    if len(counts) > 1:
        said = ", ".join(f"{many} of {form}" for form, many in sorted(counts.items()))
        raise BadInput(
            f"{printable(wish.what, 200)} holds files of several formats: {said}",
            hint="put the files of one format into a folder of their own, or add each file by itself",
        )
    for look in looks:
        if look.format in GRIDS and look.format != "grib2" and "crs" not in look.expect:
            raise Refused(
                f"{printable(look.file.name)} does not say its coordinate system by a code, which readers need",
                hint="write it into the file, such as EPSG:4326 (`gdal_edit.py -a_srs EPSG:4326 FILE`)",
            )


def _stated(access: Access, wish: Wish, looks: Sequence[Look]) -> Stated:
    found = Stated()
    for look in looks[:1] if len(looks) == 1 else ():
        found = merged(found, look.stated)
    if "://" not in wish.what:
        found = merged(found, stated_next_to(os.path.join(access.here, wish.what)))
    return found


# ---------------------------------------------------------------------------------------------- true of the data


def _true_of_all(look: Look, notes: list[str]) -> Look:
    """Return the look without rules that the whole file breaks. A column of which more than a tenth would be
    quarantined is text."""
    if look.file.size > LARGEST:
        notes.append(
            f"{look.file.name} has more than {LARGEST >> 20} MiB: it was not checked as a whole, and no key and no "
            "bounds are proposed"
        )
        return look._replace(profiles=[one._replace(unique=False) for one in look.profiles])
    for _ in range(_TRIES):
        found = _inspected(look)
        broken = {(one.column, one.rule) for one in found.findings if one.column}
        many = found.held_rows * 10 > max(1, found.rows)
        profiles = [_relaxed(one, {rule for name, rule in broken if name == one.name}, many) for one in look.profiles]
        look = look._replace(rows=max(look.rows, found.rows))
        if profiles == look.profiles:
            break
        look = look._replace(profiles=profiles)
    if found.held and found.cause is not None:
        notes.append(f"{look.file.name}: a run would quarantine it: {found.cause.message}")
    elif found.held_rows:
        notes.append(f"{look.file.name}: {found.held_rows:,} of {found.rows:,} rows would be quarantined")
    return look


def _relaxed(one: ColumnProfile, broken: set[str], many: bool) -> ColumnProfile:
    if not broken or one.column is None:
        return one
    column = one.column
    if broken & {"unique", "required"}:
        one = one._replace(unique=False)
    if broken & {"minimum", "maximum"}:
        column = msgspec.structs.replace(column, minimum=None, maximum=None)
    if "type" in broken and (many or column.mode == "freeze"):
        return one._replace(column=None if column.type == "text" else Column(name=one.name, mode="discard-row"))
    return one._replace(column=column)


def _inspected(look: Look) -> Inspection:
    source = _source(look, closed=False)
    settings = {name: value for name, value in json.loads(json.dumps(source)).items() if name not in ("uri",)}
    settings = {name: value for name, value in settings.items() if name not in look.file.settings}
    contract = msgspec.convert({"uri": "x", **settings}, SourceConfig).data_contract()
    nothing: Any = lambda _: None  # noqa: E731
    if contract.format in APART:
        return inspect_apart(io.BytesIO, look.file.open, contract, look.file.name, nothing, nothing)
    return inspect(look.file.open, contract, look.file.name, nothing, nothing)


# ---------------------------------------------------------------------------------------------- as it is written


def _block(dataset: str, wish: Wish, stated: Stated, looks: list[Look], found: list[Sign], *, closed: bool) -> Block:
    title = wish.title or stated.title or dataset.replace("-", " ").replace("_", " ").capitalize()
    has_rows = all(look.format != "text" for look in looks)
    said: dict[str, Any] = {"version": "1.0.0"} if has_rows else {"updater": MIRROR}
    notes = (
        {"version": "change it whenever `outputs` change"}
        if has_rows
        else {"updater": "it publishes files as they are"}
    )
    said["title"] = title
    if wish.description or stated.description:
        said["description"] = wish.description or stated.description
    if wish.license or stated.license:
        said["license"] = wish.license or stated.license
        if not wish.license:
            notes["license"] = f"as {stated.where} says"
    said["sensitivity"] = "closed" if closed else "public"
    if closed:
        notes["sensitivity"] = "nothing of it is used; `sensitivity: public` opens it as it is"
    elif found:
        notes["sensitivity"] = "the caller of `kfm add` decided so: --public"
    if stated.attribution:
        said["attribution"] = stated.attribution
    extent = {} if closed else _extent(looks)
    if extent:
        said["extent"] = extent
    taken: set[str] = set()
    sources, outputs = {}, {}
    for look in looks:
        name = dataset if len(looks) == 1 else source_name(look.file, taken)
        taken.add(name)
        sources[name] = _source(look, closed=closed)
        outputs[name] = {"from": name}
    said["sources"] = Block(sources)
    if has_rows:
        said["outputs"] = Block(outputs)
    return Block(said, comment=_comment(looks, found, closed=closed), notes=notes)


def _comment(looks: list[Look], found: list[Sign], *, closed: bool) -> str:
    rows = sum(look.rows for look in looks)
    seen = f"{rows:,} row{'s' * (rows != 1)}" if rows else f"{len(looks)} file{'s' * (len(looks) != 1)}"
    lines = [f"Proposed by `kfm add` from {seen}; change what is wrong."]
    lines += [f"{'Closed' if closed else 'Seen'}: {one.why}." for one in found[:10]]
    return "\n".join(lines)


def _extent(looks: list[Look]) -> dict[str, Any]:
    """Return a box around the data, outwards to a tenth of a degree, and the time from its first day on."""
    extent: dict[str, Any] = {}
    boxes = [look.bbox for look in looks]
    if all(boxes) and all(len(box) == 4 and box[0] <= box[2] for box in boxes):
        west, south = (math.floor(min(box[at] for box in boxes) * 10) / 10 for at in (0, 1))
        east, north = (math.ceil(max(box[at] for box in boxes) * 10) / 10 for at in (2, 3))
        extent["bbox"] = [max(west, -180.0), max(south, -90.0), min(east, 180.0), min(north, 90.0)]
    firsts = [first for look in looks if (first := _first_day(look))]
    if firsts:
        extent["interval"] = [f"{min(firsts)}T00:00:00Z", None]
    return extent


def _first_day(look: Look) -> str:
    if look.time:
        return look.time[:10] if look.time[:4].isdigit() else ""
    for one in look.profiles:
        column = one.column
        if column is None or column.type not in ("date", "datetime") or column.date_format or one.odd or not look.whole:
            continue
        days = [str(value).strip()[:10] for value in look.table[one.name] if value and str(value).strip()]
        return min((day for day in days if day[:4].isdigit() and day[:4] != "0000"), default="")
    return ""


def _source(look: Look, *, closed: bool) -> Block:
    said: dict[str, Any] = {"uri": look.file.uri, **look.file.settings, "format": look.format}
    if look.expect and look.format in GRIDS:
        variables = look.expect["variables"]
        rest = {key: value for key, value in look.expect.items() if key != "variables"}
        bound = any("maximum" in one for one in variables)
        notes = {"variables": f"bounds are {RULE}; a grid beyond them is quarantined"} if bound else {}
        said["expect"] = Block({**rest, "variables": Lines([_plain(one) for one in variables])}, notes=notes)
    elif look.expect:
        said["expect"] = look.expect
    if look.format == "text":
        said["media_type"] = "text/plain"
    contract: dict[str, Any] = dict(look.contract)
    notes = {}
    if contract.get("encoding"):
        notes["encoding"] = "guessed, because the text is not UTF-8"
    if look.profiles:
        columns, behind = _columns(look, closed=closed)
        if columns:
            contract["columns"] = Lines(columns, behind)
            if any("maximum" in one for one in columns):
                notes["columns"] = f"bounds are {RULE}; a row beyond them goes to quarantine"
    if look.format in ("json", "ndjson", "geojson") and "columns" not in contract:
        contract["json_schema"] = {"type": "object"}
    if contract:
        said["contract"] = Block(contract, notes=notes)
    return Block(said)


def _columns(look: Look, *, closed: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the columns of a contract, and what is said behind each."""
    key = key_of(look.profiles) if look.whole or not closed else ""  # one that is not closed was checked as a whole
    columns, notes = [], []
    for one in look.profiles:
        if one.column is None and look.contract.get("header", True):
            continue
        column = one.column or Column(name=one.name)
        if closed:
            column = Column(name=one.name)
        if one.name == key:
            column = as_key(column)
        columns.append(_plain(_column(column)))
        said = ["unique, so it identifies a row"] if one.name == key else []
        said += [f"in {one.unit}, by its name"] if one.unit and is_printable(one.unit) and not closed else []
        said += [f"{one.odd:,} value{'s' * (one.odd > 1)} of another type"] if one.odd and not closed else []
        notes.append("; ".join(said))
    return columns, notes


def _column(column: Column) -> dict[str, Any]:
    usual = Column(name="")
    found: dict[str, Any] = {"name": column.name}
    for field in ("type", "required", "unique", "minimum", "maximum", "date_format", "missing"):
        value = getattr(column, field)
        if value != getattr(usual, field):
            found[field] = list(value) if isinstance(value, tuple) else value
    return {**found, "mode": "discard-row"}


def _plain(said: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with whole numbers written without a decimal point."""
    return {
        name: int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value
        for name, value in said.items()
    }
