"""Writes the files that protect a table with places: the custodian's key, the masking policy, the label and kfm.yml.

Everything is checked before the first file is written. kfm.yml is written last: until then no file names the new
dataset, so a process that is killed in between has published nothing, and the next call finishes the work. A file that
a steward has changed is never overwritten.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kfm.app.authority.label_file import File, read_bytes
from kfm.app.metadata.schema_store import is_installed
from kfm.app.stewards.column_survey import Survey, survey
from kfm.app.stewards.mask_proposal import RESOLUTION, accuracy_of, extent_of, policy_text, propose
from kfm.app.stewards.protected_tables import columns_of, policy_at, secret_at
from kfm.config.config_loader import Resolved, checked
from kfm.engine.protected.masking_stage import FORMATS as MASKED
from kfm.engine.protected.masking_stage import columns_of as masked_columns
from kfm.errors import BadInput
from kfm.fsio import Fs, failing_as_storage, write_apart
from kfm.model.labels import CARE, COMMUNITY
from kfm.model.licences import problem_of
from kfm.model.masks import SMALLEST_K, MaskingPolicy
from kfm.parsing import documents
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.dates import is_date
from kfm.parsing.record_shape import nearest
from kfm.parsing.yaml_edit import Block, NotEditable, YamlEdit, flow

if TYPE_CHECKING:
    from kfm.config.source_settings import SourceConfig

FORMATS = {".csv": "csv", ".tsv": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".geojson": "geojson"}
SAFE = "../safe"  # next to the installation: a copy of the installation then holds no key
START = "# An installation of kfm; paths start at this folder. `kfm config show` lists every setting.\nkfm: 1\n"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class Wish(msgspec.Struct, frozen=True):
    """What the caller says. An empty field is proposed, or taken from the files that are there."""

    source: str
    dataset: str = ""
    title: str = ""
    license: str = ""
    custodian: str = ""
    authority: str = ""
    care: str = ""
    community_labels: tuple[str, ...] = ()
    resolution: int | None = None
    expires: str = ""
    safe: str = ""
    latitude: str = ""
    longitude: str = ""
    record_id: str = ""
    accuracy: str = ""
    k: int = SMALLEST_K


class Target(NamedTuple):
    """The source that is to be protected. `resolved` is None if there is no installation yet."""

    resolved: Resolved | None
    config: str  # absolute path of kfm.yml
    dataset: str
    name: str
    uri: str
    file: str  # absolute path of the table
    declared: SourceConfig | None

    @property
    def root(self) -> str:
        return os.path.dirname(self.config)


class Written(NamedTuple):
    """One file of the setup. `body` is None if the file stays as it is."""

    path: str  # absolute
    body: bytes | None
    is_new: bool
    mode: int = 0o644


class Setup(NamedTuple):
    """A checked plan: the policy, and all files in the order in which they are written."""

    target: Target
    survey: Survey
    policy: MaskingPolicy
    custodian: str
    mask: str  # absolute path of the masking policy
    files: tuple[Written, ...]


# ---------------------------------------------------------------------------------------------- which source


def find_target(resolved: Resolved | None, here: str, wish: Wish) -> Target:
    """Return the source that is meant: a dataset of kfm.yml, DATASET/SOURCE, or a file. Raise BadInput if there is
    none, or if it cannot be masked."""
    config = resolved.path if resolved is not None else os.path.join(here, "kfm.yml")
    dataset, _, name = wish.source.partition("/")
    if resolved is not None and dataset in resolved.config.datasets:
        return _declared(resolved, config, dataset, name)
    file = os.path.join(here, wish.source)
    if not os.path.isfile(file):
        known = sorted(resolved.config.datasets) if resolved is not None else []
        close = nearest(wish.source, known)
        raise BadInput(
            f"{printable(wish.source)} is no file and no dataset of kfm.yml",
            hint=f"did you mean {close}?" if close else "give the path of a table: kfm protect data/sites.csv",
        )
    uri = os.path.relpath(os.path.realpath(file), os.path.realpath(os.path.dirname(config))).replace(os.sep, "/")
    if uri.startswith("../"):
        raise BadInput(
            f"{printable(wish.source)} is not below the folder of kfm.yml",
            hint=f"move it below {printable(os.path.dirname(config))}",
        )
    if resolved is not None:
        for known_dataset, one in resolved.config.datasets.items():
            for called, source in one.sources.items():
                if source.uri and os.path.realpath(resolved.in_tree(source.uri)) == os.path.realpath(file):
                    return _declared(resolved, config, known_dataset, called)
    stem = os.path.splitext(os.path.basename(file))[0]
    proposed = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:63] or "places"
    chosen = wish.dataset or proposed
    if not _NAME.fullmatch(chosen):
        raise BadInput(f"{printable(chosen)} is no name of a dataset", hint="use small letters, digits and hyphens")
    if resolved is not None and chosen in resolved.config.datasets:
        raise BadInput(f"kfm.yml has a dataset {chosen} of another source", hint="give another name: --dataset NAME")
    return Target(resolved, config, chosen, chosen, uri, file, None)


def _declared(resolved: Resolved, config: str, dataset: str, name: str) -> Target:
    sources = resolved.config.datasets[dataset].sources
    if not name and len(sources) == 1:
        name = next(iter(sources))
    if name not in sources:
        raise BadInput(
            f"dataset {dataset} has no source {printable(name)}" if name else f"dataset {dataset} has several sources",
            hint=f"name one: {', '.join(f'{dataset}/{one}' for one in sources)}",
        )
    source = sources[name]
    file = resolved.in_tree(source.uri) if source.uri else ""
    if not file or source.is_packed or not os.path.isfile(file):
        raise BadInput(
            f"source {name} of dataset {dataset} is no file here, so its columns cannot be looked at",
            hint="save the table below this folder, and give its path",
        )
    return Target(resolved, config, dataset, name, source.uri, file, source)


def table_of(target: Target) -> dict[str, Sequence[Any]]:
    """Return the columns of the table: those of a declared source as a run reads them. Raise BadInput if its format
    cannot be masked."""
    if target.declared is not None:
        contract = target.declared.data_contract()
        if contract.format not in MASKED:
            raise BadInput(
                f"source {target.name} of dataset {target.dataset} has a format that cannot be masked",
                hint=f"set `format:` {', '.join(MASKED)} in kfm.yml",
            )
        return {**masked_columns(io.BytesIO(read_bytes(target.file)), contract, target.name)}
    if os.path.splitext(target.file)[1].lower() not in FORMATS:
        raise BadInput(
            f"{printable(target.uri)} is of a format that cannot be masked",
            hint=f"save it as csv, ndjson or geojson: {', '.join(FORMATS)}",
        )
    found = columns_of(read_bytes(target.file), target.file)
    if len(found) == 1 and {";", "\t", "|"} & set(next(iter(found))):
        raise BadInput(
            f"the columns of {printable(target.uri)} are not separated by commas",
            hint="save it with commas, or with tabs as .tsv",
        )
    return found


# ---------------------------------------------------------------------------------------------- all files


def prepare_setup(target: Target, table: Mapping[str, Sequence[Any]], wish: Wish, env: Mapping[str, str]) -> Setup:
    """Return all files that are to be written, checked together as a run would read them. Raise BadInput, with the
    cure, if something is missing or contradicts what is there."""
    _check(wish)
    seen = survey(
        table, wish.k, latitude=wish.latitude, longitude=wish.longitude, record_id=wish.record_id
    )  # raises before anything is looked at on disk
    mask, policy = _mask(target, seen, wish)
    custodian, key, reference = _custodian(target, wish, env)
    extent = extent_of(table, policy)
    config = _config(target, seen, os.path.relpath(mask.path, target.root), custodian, reference, extent, wish)
    label = _label(target, config.body or read_bytes(target.config), custodian, policy.resolution, wish)
    files = [*key, mask, label, config]
    return Setup(target, seen, policy, custodian, mask.path, tuple(files))


def write_setup(setup: Setup, fs: Fs | None = None) -> None:
    """Write the files, each whole or not at all, in their order."""
    fs = fs or Fs()
    with failing_as_storage("write the files of a protected source"):
        for file in setup.files:
            if file.body is None:
                continue
            folder = os.path.dirname(file.path)
            fs.make_dirs(folder)
            write_apart(fs, f"{file.path}.new", [file.body], mode=file.mode)
            fs.replace(f"{file.path}.new", file.path)
            fs.sync_dir(folder)


def _check(wish: Wish) -> None:
    if wish.care and wish.care not in CARE:
        raise BadInput(f"{printable(wish.care)} is no word for care", hint=f"use one of {', '.join(CARE)}")
    for code in wish.community_labels:
        if code not in COMMUNITY:
            raise BadInput(f"{printable(code)} is no label of Local Contexts", hint="write its code, such as TK CS")
    if wish.license and (problem := problem_of(wish.license)) is not None:
        raise BadInput(problem.what, hint=problem.cure)
    if wish.k < SMALLEST_K:
        raise BadInput(f"{wish.k} records are too few to hide one", hint=f"give --k {SMALLEST_K} or more")
    if wish.expires and not is_date(wish.expires):
        raise BadInput("the end of the consent is not a date", hint="write it as 2031-12-31")
    for name in ("title", "license", "custodian", "authority"):
        if not is_printable(getattr(wish, name)) or len(getattr(wish, name)) > 200:
            raise BadInput(f"the {name} is not one short line", hint="shorten it")


def _mask(target: Target, seen: Survey, wish: Wish) -> tuple[Written, MaskingPolicy]:
    """Return the masking policy: the one that is there, or a proposal."""
    named = target.declared.mask if target.declared is not None else ""
    path = os.path.normpath(os.path.join(target.root, named or f"{target.dataset}-mask.yml"))
    if os.path.lexists(path):
        try:
            policy = policy_at(path)
        except BadInput as problem:
            raise BadInput(f"{problem.message}", hint=f"correct {os.path.basename(path)}, or remove it") from None
        columns = {one.name for one in seen.columns}
        lost = {policy.record_id, policy.location.latitude, policy.location.longitude} - columns - {""}
        if lost:
            raise BadInput(
                f"{os.path.basename(path)} is about column {printable(min(lost))}, which the table does not have",
                hint="correct it, or remove it",
            )
        return Written(path, None, False), policy
    if named:
        raise BadInput(f"the masking policy {printable(named)} is not there", hint="put it back, or remove `mask:`")
    resolution = RESOLUTION if wish.resolution is None else wish.resolution
    policy = propose(
        seen, id=target.dataset, resolution=resolution, accuracy=accuracy_of(wish.accuracy, seen), k=wish.k
    )
    withheld = [one.name for one in seen.columns if one.name not in policy.columns]
    return Written(path, policy_text(policy, withheld), True), policy


def _custodian(target: Target, wish: Wish, env: Mapping[str, str]) -> tuple[str, list[Written], str]:
    """Return the custodian, the file of a key that must be made, and the reference to the key."""
    there = target.resolved.config.custodians if target.resolved is not None else {}
    custodian = known_custodian(target, wish)
    if not custodian:
        raise BadInput("nobody is named whose data it is", hint="name the custodian: --custodian NAME")
    if custodian in there and target.resolved is not None:
        target.resolved.secret(there[custodian].key, env)  # raises if the key is lost: a new one could read nothing
        return custodian, [], there[custodian].key
    if not _NAME.fullmatch(custodian):
        raise BadInput(
            f"{printable(custodian)} is no name of a custodian",
            hint="use small letters, digits and hyphens; --authority takes the full name",
        )
    folder = os.path.normpath(os.path.join(target.root, wish.safe or SAFE))
    if os.path.realpath(folder).startswith(os.path.join(os.path.realpath(target.root), "")):
        raise BadInput(
            f"{printable(wish.safe)} lies in the installation, where a copy of the data would include the key",
            hint="name a folder outside of it: --safe DIR",
        )
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if not (os.path.isdir(above) and os.access(above, os.W_OK)):
        raise BadInput(
            f"no key can be written into {printable(wish.safe or SAFE)}",
            hint="name another folder outside of the installation: --safe DIR",
        )
    path = os.path.join(folder, f"{custodian}.key")
    reference = "file:" + os.path.relpath(path, target.root).replace(os.sep, "/")
    if os.path.lexists(path):
        secret_at(f"file:{path}", env)  # raises if it is no key
        return custodian, [Written(path, None, False)], reference
    return custodian, [Written(path, os.urandom(32).hex().encode(), True, 0o600)], reference


def known_custodian(target: Target, wish: Wish) -> str:
    """Return the custodian that the caller names, or the label, or the only one of kfm.yml; "" if none is known."""
    there = target.resolved.config.custodians if target.resolved is not None else {}
    return wish.custodian or _labelled_custodian(target) or (next(iter(there)) if len(there) == 1 else "")


def _labelled_custodian(target: Target) -> str:
    if target.resolved is None or not target.resolved.config.labels:
        return ""
    file = File(target.resolved)
    found = file.on_source(target.dataset, target.name, target.uri, target.root)
    return next((name for at in found if (name := file.labels.labels[at].custodian)), "")


# ---------------------------------------------------------------------------------------------- the label


def _label(target: Target, body: bytes, custodian: str, resolution: int, wish: Wish) -> Written:
    """Return the file of labels with a label on the source. A label that is there must let cells be published."""
    document = documents.read(body, "kfm.yml", json=False)
    future = Resolved(checked(document), target.config, document)
    file = File(future)
    for at in file.on_source(target.dataset, target.name, target.uri, target.root):
        label, where = file.labels.labels[at], file.at(at).at
        if label.sensitivity != "generalised" or CARE.get(label.care) == "closed":
            raise BadInput(
                f"{where} has a label on it already, of sensitivity {printable(label.sensitivity)} and care "
                f"{printable(label.care)}: under it no cells are published",
                hint=f"change it: `kfm labels set source:{target.uri} --sensitivity generalised --key FILE --reason …`",
            )
        if label.custodian != custodian:
            raise BadInput(
                f"{where} names the custodian {printable(label.custodian)}",
                hint=f"leave out --custodian, or write there: custodian: {custodian}",
            )
        return Written(file.path, None, False)
    fields: dict[str, Any] = {
        "sensitivity": "generalised",
        "care": wish.care or "open",
        "custodian": custodian,
        "authority": wish.authority or custodian,
        "community_labels": list(wish.community_labels),
        "public_resolution": resolution,
        "expires": wish.expires,
    }
    if CARE[fields["care"]] == "closed":
        raise BadInput("nothing of sacred data is published", hint="label it without a mask: sensitivity: closed")
    entry = Block(
        {"of": {"source": target.uri}, **{name: value for name, value in fields.items() if value != "" and value != []}}
    )
    lines = f"under labels: - {flow(entry)}"
    if file.name.endswith(".json"):
        raise _cannot(file.name, lines)
    edit = YamlEdit(file.body, file.name)
    try:
        if not edit.value.get("labels"):
            edit.set(("labels",), [])
        edit.set(("labels", len(file.labels.labels)), entry)
        return Written(file.path, edit.body(), not file.is_there)
    except NotEditable:
        raise _cannot(file.name, lines) from None


def _cannot(where: str, lines: str) -> BadInput:
    return BadInput(
        f"{where} is written in a way that this command does not change; write there yourself, {lines}",
        hint="then call the command again",
    )


# ---------------------------------------------------------------------------------------------- kfm.yml


def _config(
    target: Target, seen: Survey, mask: str, custodian: str, reference: str, extent: dict[str, Any], wish: Wish
) -> Written:
    """Return kfm.yml with the source, its mask, its custodian and the file of labels."""
    is_new = target.resolved is None
    before = START.encode() if is_new else read_bytes(target.config)
    name = os.path.basename(target.config)
    wanted = _wanted(target, seen, mask, custodian, reference, extent, wish)
    lines = "; ".join(f"{'.'.join(map(str, path))}: {flow(value)}" for path, value in wanted)
    if name.endswith(".json"):
        raise _cannot(name, lines)
    edit = YamlEdit(before, name)
    try:
        for path, value in wanted:
            if len(path) > 1 and path[0] not in edit.value:
                edit.set(path[:1], {})
            edit.set(path, value)
        body = edit.body()
    except NotEditable:
        raise _cannot(name, lines) from None
    checked(documents.read(body, name, json=False))
    return Written(target.config, body if is_new or body != before else None, is_new)


def _wanted(
    target: Target, seen: Survey, mask: str, custodian: str, reference: str, extent: dict[str, Any], wish: Wish
) -> list[tuple[tuple[str, ...], Any]]:
    """Return the settings that kfm.yml lacks, by path."""
    found: list[tuple[tuple[str, ...], Any]] = []
    config = target.resolved.config if target.resolved is not None else None
    if config is None:
        found += [(("publish",), "file:public"), (("pages",), True)]
        found += [(("catalog",), "file:catalog")] if is_installed() else []
    if config is None or not config.labels:
        found.append((("labels",), "labels.yml"))
    if config is None or custodian not in config.custodians:
        found.append((("custodians", custodian), {"key": reference}))
    if target.declared is not None:
        if not target.declared.mask:
            found.append((("datasets", target.dataset, "sources", target.name, "mask"), mask))
            if config is not None and config.datasets[target.dataset].sensitivity == "closed":
                # The label on the source now decides: readers get cells, once two stewards have signed.
                found.append((("datasets", target.dataset, "sensitivity"), "public"))
        return found
    source: dict[str, Any] = {"uri": target.uri, "format": FORMATS[os.path.splitext(target.file)[1].lower()]}
    contract: dict[str, Any] = {"columns": _columns(seen)}
    if target.file.lower().endswith(".tsv"):
        contract = {"delimiter": "\t", **contract}
    title = wish.title or f"{target.dataset.replace('-', ' ').capitalize()}, as cells"
    said = {
        "version": "1.0.0",
        "title": title,
        "description": f"{title}. Exact places are withheld; each is shown as one cell of the H3 grid.",
        **({"license": wish.license} if wish.license else {}),
        "sensitivity": "public",
        **({"extent": extent} if extent else {}),
        "sources": Block({target.name: Block({**source, "mask": mask, "contract": Block(contract)})}),
        "outputs": Block({"cells": Block({"from": target.name})}),
    }
    return [*found, (("datasets", target.dataset), Block(said))]


def _columns(seen: Survey) -> list[dict[str, Any]]:
    """Return the contract: every column, the record id as a key, and latitude and longitude on the globe. The bounds
    are those of the globe: closer ones would say where the places are."""
    found = []
    for one in seen.columns:
        if one.holds == "record id":
            found.append({"name": one.name, "required": True, "unique": True})
        elif one.holds in ("latitude", "longitude"):
            most = 90 if one.holds == "latitude" else 180
            found.append({"name": one.name, "type": "number", "minimum": -most, "maximum": most, "mode": "discard-row"})
        elif one.holds != "geometry":
            found.append({"name": one.name})
    return found
