"""The backfills of an installation: their files, and the partitions that are named in them.

Partitions are read one by one and never held together: there may be half a million of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from kfm.config.config_loader import Resolved
from kfm.config.partition_kinds import LISTED, MOST, TIMES, name_of, times
from kfm.config.pool_settings import check_pool
from kfm.config.setting_values import ID_PATTERN, Text
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.backfill_plan import Downstream, Kind, Which
from kfm.model.records import Record
from kfm.parsing import documents, record_shape, yaml_scalars
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.documents import Document, Path

LINE = 4096  # bytes of a line of a file of keys


class PartitionsConfig(Record, frozen=True):
    """Which parts of the dataset: a range of times, or keys that are listed here or in a file."""

    kind: Annotated[
        Kind,
        Meta(
            description="hour, day, week, month, year: from `from` to `to`; tile (7/29/48), cell (of H3), station, "
            "release, name: the `keys`, or the lines of `file`"
        ),
    ]
    from_: Annotated[str, Meta(max_length=20, description="the first time, such as 2024-01-01")] = msgspec.field(
        default="", name="from"
    )
    to: Annotated[str, Meta(max_length=20, description="the last time; it belongs to the backfill")] = ""
    keys: Annotated[tuple[Text, ...], Meta(description="keys of this kind")] = ()
    file: Annotated[str, Meta(max_length=4096, description="path of a file with a key on each line")] = ""


class BackfillConfig(Record, frozen=True):
    """One backfill of a file."""

    dataset: Annotated[Text, Meta(description="its name in kfm.yml; its updater looks at trigger.partition")]
    partitions: Annotated[PartitionsConfig, Meta(description="which parts of it")]
    which: Annotated[
        Which,
        Meta(description="needed: what is missing or stale; missing: what there is nothing of; all: the others too"),
    ] = "needed"
    downstream: Annotated[
        Downstream,
        Meta(
            description="what comes after the dataset is told of each new partition (emit), once at the end "
            "(coalesce), or not at all (suppress)"
        ),
    ] = "coalesce"
    pool: Annotated[
        str, Meta(max_length=63, description="a name of `pools`, instead of that of the dataset; empty: as it says")
    ] = ""


class BackfillFile(Record, frozen=True):
    """A file below the folder of backfills."""

    backfills: Annotated[
        dict[str, BackfillConfig],
        Meta(description="by their names", extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}}),
    ]
    version: Annotated[Literal[1], Meta(description="the version of this format")] = 1


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a file of backfills, for editors."""
    schema = msgspec.json.schema(BackfillFile)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "backfills", **schema}


class Backfill(NamedTuple):
    """One that is declared, and where."""

    id: str
    dataset: str
    said: BackfillConfig
    document: Document
    resolved: Resolved

    @property
    def place(self) -> str:
        return self.document.place(("backfills", self.id))

    def check(self) -> None:
        """BadInput at the first partition that is none, before anything is made of the others."""
        for _ in self.partitions():
            pass

    def partitions(self) -> Iterator[str]:
        """Their names, in the order in which they are run; each once. BadInput at the first that is none."""
        said, path = self.said.partitions, ("backfills", self.id, "partitions")
        if said.kind in TIMES:
            try:
                yield from times(said.kind, said.from_, said.to)
            except BadInput as error:
                raise BadInput(f"{self.document.place(path)}: {error.message}", hint=error.hint) from None
        elif said.file:
            yield from self._of_file(said.file)
        else:
            yield from self._listed((*path, "keys"))

    def _listed(self, path: Path) -> Iterator[str]:
        seen: dict[str, int] = {}
        for n, key in enumerate(self.said.partitions.keys):
            try:
                name = name_of(self.said.partitions.kind, key)
            except BadInput as error:
                raise BadInput(f"{self.document.place((*path, n))}: {error.message}", hint=error.hint) from None
            if name in seen:
                where = self.document.position((*path, seen[name]))[0]
                self.document.refuse((*path, n), f"stands in line {where} already", "name it once")
            seen[name] = n
            yield name

    def _of_file(self, file: str) -> Iterator[str]:
        """A key a line; blank lines and what begins with # are passed over."""
        known: set[int] = set()  # numbers for names: all of them together would be as large as the file
        for count, (line, name) in enumerate(self._lines(file)):
            where = f"{_shown(file)}:{line}"
            if count >= MOST:
                raise BadInput(f"{where}: there are more than {MOST:,} partitions", hint="make several backfills of it")
            mark = hash(name)
            if mark in known:
                first = next((at for at, other in self._lines(file) if other == name), line)
                if first < line:
                    raise BadInput(f"{where}: {printable(name)} stands in line {first} already", hint="name it once")
            known.add(mark)
            yield name

    def _lines(self, file: str) -> Iterator[tuple[int, str]]:
        try:
            with open(self.resolved.at(file), "rb") as opened:
                for line, body in enumerate(iter(lambda: opened.readline(LINE), b""), 1):
                    where = f"{_shown(file)}:{line}"
                    if len(body) == LINE:
                        raise BadInput(f"{where}: the line is too long", hint="write one key on each line")
                    try:
                        key = body.decode("utf-8").removeprefix("\ufeff").strip()
                    except UnicodeDecodeError:
                        raise BadInput(f"{where}: is not UTF-8", hint="save the file as UTF-8") from None
                    if key and not key.startswith("#"):
                        try:
                            yield line, name_of(self.said.partitions.kind, key)
                        except BadInput as error:  # not quoted: the file that is named may be another one
                            what = f"this line is not a valid name of a {self.said.partitions.kind}"
                            raise BadInput(f"{where}: {what}", hint=error.hint) from None
        except OSError as error:
            path = ("backfills", self.id, "partitions", "file")
            self.document.refuse(path, f"cannot be read: {(error.strerror or '').lower()}", "correct the path")


def _shown(path: str) -> str:
    return path if is_printable(path) and len(path) <= 200 else printable(path)


def declared(resolved: Resolved) -> list[Backfill]:
    """Every backfill of an installation, by id. Its partitions are not looked at yet."""
    found: dict[str, Backfill] = {}
    for document, file in _files(resolved):
        for id, said in file.backfills.items():
            _check(document, id, said, resolved, found[id].place if id in found else "")
            found[id] = Backfill(id, names.dataset_id(said.dataset), said, document, resolved)
    return [found[id] for id in sorted(found)]


def one(resolved: Resolved, id: str) -> Backfill:
    known = {each.id: each for each in declared(resolved)}
    if id not in known:
        close = record_shape.nearest(id, sorted(known))
        hint = f"did you mean {close}?" if close else f"declare it in a file in {resolved.config.backfills}"
        raise BadInput(f"no backfill is declared as {printable(id)}", hint=hint)
    return known[id]


def files_of(resolved: Resolved) -> list[str]:
    """The files of backfills, as messages name them; none where the folder cannot be read."""
    try:
        return [f"{resolved.config.backfills}/{name}" for name in _names(resolved)]
    except BadInput:
        return []


def mistakes_of(resolved: Resolved) -> list[BadInput]:
    """Every mistake of the backfills of an installation; of the keys of one backfill the first."""
    from kfm.parsing.document_recovery import read_all

    places: dict[str, str] = {}
    try:
        files = _names(resolved)
    except BadInput as problem:
        return [problem]
    mistakes: list[BadInput] = []
    for name in files:
        where = f"{resolved.config.backfills}/{name}"
        try:
            body = _body(os.path.join(resolved.at(resolved.config.backfills), name), where)
        except BadInput as problem:
            mistakes.append(problem)
            continue
        document = read_all(body, where, json=name.endswith(".json"))
        with document:
            for id, said in _as_file(document).backfills.items():
                before = len(document.collect())
                with document:
                    _check(document, id, said, resolved, places.get(id, ""))
                places[id] = document.place(("backfills", id))
                with document:
                    if len(document.collect()) == before:
                        Backfill(id, names.dataset_id(said.dataset), said, document, resolved).check()
        mistakes += document.collect()
    return mistakes


def _check(document: Document, id: str, said: BackfillConfig, resolved: Resolved, other: str) -> None:
    """What the types alone cannot say. `other` is the place of a backfill of the same name, if there is one."""
    path: Path = ("backfills", id)
    try:
        names.check_id(id, "backfill")
        known = names.dataset_id(said.dataset) in resolved.config.datasets
    except BadInput as error:
        raise document.mistake(path, f"is refused: {error.message}", error.hint) from None
    if not known:
        close = record_shape.nearest(said.dataset, sorted(resolved.config.datasets))
        hint = f"did you mean {close}?" if close else "name one of kfm.yml"
        document.refuse((*path, "dataset"), "names no dataset of kfm.yml", hint)
    elif resolved.config.datasets[names.dataset_id(said.dataset)].updater is None:
        document.refuse(
            (*path, "dataset"),
            "is declared in kfm.yml and made whole",
            "partitions are for updaters that look at trigger.partition",
        )
    if other:
        document.refuse(path, f"is declared in {other} already", "give one of the two another name")
    with document:
        check_pool(document, (*path, "pool"), said.pool, resolved.config.pools)
    _check_partitions(document, (*path, "partitions"), said.partitions)


def _check_partitions(document: Document, path: Path, said: PartitionsConfig) -> None:
    if said.kind in TIMES:
        if said.keys or said.file:
            document.refuse((*path, "keys" if said.keys else "file"), "goes with no range of times", "leave it out")
        if not said.from_ or not said.to:
            document.refuse(path, "needs from and to", f"such as from: {TIMES[said.kind]}")
    elif said.kind in LISTED:
        if said.from_ or said.to:
            document.refuse((*path, "from" if said.from_ else "to"), "goes only with times", "leave it out")
        if bool(said.keys) == bool(said.file):
            document.refuse(path, "needs either keys or file", "list the keys, or name a file with one on each line")


def _names(resolved: Resolved) -> list[str]:
    folder = resolved.at(resolved.config.backfills)
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith((".yml", ".yaml", ".json")))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(
            f"the folder of backfills cannot be read: {(error.strerror or '').lower()}",
            hint="look at `backfills` in kfm.yml",
        ) from None


def _files(resolved: Resolved) -> Iterator[tuple[Document, BackfillFile]]:
    folder = resolved.at(resolved.config.backfills)
    for name in _names(resolved):
        where = f"{resolved.config.backfills}/{name}"
        document = documents.read(_body(os.path.join(folder, name), where), where, json=name.endswith(".json"))
        yield document, _as_file(document)


def _as_file(document: Document) -> BackfillFile:
    if not isinstance(document.value, dict):
        found = yaml_scalars.kind(document.value)
        raise document.mistake((), f"must be a mapping, found {found}", "see `kfm config schema backfills`")
    return record_shape.into(document, BackfillFile)


def _body(path: str, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            body = file.read(documents.MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(
            f"{where} cannot be read: {(error.strerror or '').lower()}", hint="look at the file and its permissions"
        ) from None
    if len(body) > documents.MAX_BYTES:
        line = body.count(b"\n") + 1
        raise BadInput(
            f"{where}:{line}: more than {documents.MAX_BYTES >> 20} MiB end here",
            hint="a declaration is small: put the keys into a file of their own, and name it with `file`",
        )
    return body
