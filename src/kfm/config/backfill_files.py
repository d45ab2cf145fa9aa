"""The backfill files of an installation, and the partitions they name.

Partitions are read one by one and never held in memory together: there may be half a million.
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

LINE = 4096  # most bytes of a line in a file of keys


class PartitionsConfig(Record, frozen=True):
    """The partitions of the dataset: a range of times, or keys listed here or in a file."""

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
    to: Annotated[str, Meta(max_length=20, description="the last time, inclusive")] = ""
    keys: Annotated[tuple[Text, ...], Meta(description="the keys")] = ()
    file: Annotated[str, Meta(max_length=4096, description="path of a file with a key on each line")] = ""


class BackfillConfig(Record, frozen=True):
    """One backfill of a file."""

    dataset: Annotated[Text, Meta(description="its name in kfm.yml; its updater reads trigger.partition")]
    partitions: Annotated[PartitionsConfig, Meta(description="the partitions to build")]
    which: Annotated[
        Which,
        Meta(description="needed: missing or stale partitions; missing: only missing ones; all: every partition"),
    ] = "needed"
    downstream: Annotated[
        Downstream,
        Meta(
            description="trigger downstream datasets after each new partition (emit), once at the end "
            "(coalesce), or never (suppress)"
        ),
    ] = "coalesce"
    pool: Annotated[str, Meta(max_length=63, description="a name of `pools`; empty: the pool of the dataset")] = ""


class BackfillFile(Record, frozen=True):
    """A file in the folder of backfills."""

    backfills: Annotated[
        dict[str, BackfillConfig],
        Meta(description="by their names", extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}}),
    ]
    version: Annotated[Literal[1], Meta(description="the version of this format")] = 1


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of a backfill file, for editors."""
    schema = msgspec.json.schema(BackfillFile)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "backfills", **schema}


class Backfill(NamedTuple):
    """A declared backfill, and the document that declares it."""

    id: str
    dataset: str
    said: BackfillConfig
    document: Document
    resolved: Resolved

    @property
    def place(self) -> str:
        return self.document.place(("backfills", self.id))

    def check(self) -> None:
        """Raise BadInput at the first invalid partition."""
        for _ in self.partitions():
            pass

    def partitions(self) -> Iterator[str]:
        """Yield the partition names in the order in which they run, each once. Raise BadInput at the first
        invalid one.
        """
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
                self.document.refuse((*path, n), f"is in line {where} already", "name it once")
            seen[name] = n
            yield name

    def _of_file(self, file: str) -> Iterator[str]:
        """Yield the key of each line. Blank lines and lines that begin with # are skipped."""
        known: set[int] = set()  # hashes instead of names: all names together would be as large as the file
        for count, (line, name) in enumerate(self._lines(file)):
            where = f"{_shown(file)}:{line}"
            if count >= MOST:
                raise BadInput(
                    f"{where}: there are more than {MOST:,} partitions", hint="split it into several backfills"
                )
            mark = hash(name)
            if mark in known:
                first = next((at for at, other in self._lines(file) if other == name), line)
                if first < line:
                    raise BadInput(f"{where}: {printable(name)} is in line {first} already", hint="name it once")
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
                        except BadInput as error:  # not quoted: the named file may be a wrong one
                            what = f"this line is not a valid name of a {self.said.partitions.kind}"
                            raise BadInput(f"{where}: {what}", hint=error.hint) from None
        except OSError as error:
            path = ("backfills", self.id, "partitions", "file")
            self.document.refuse(path, f"cannot be read: {(error.strerror or '').lower()}", "correct the path")


def _shown(path: str) -> str:
    return path if is_printable(path) and len(path) <= 200 else printable(path)


def declared_backfills(resolved: Resolved) -> list[Backfill]:
    """Return every declared backfill, sorted by id. The partitions are not read yet."""
    found: dict[str, Backfill] = {}
    for document, file in _files(resolved):
        for id, said in file.backfills.items():
            _check(document, id, said, resolved, found[id].place if id in found else "")
            found[id] = Backfill(id, names.dataset_id(said.dataset), said, document, resolved)
    return [found[id] for id in sorted(found)]


def one(resolved: Resolved, id: str) -> Backfill:
    known = {each.id: each for each in declared_backfills(resolved)}
    if id not in known:
        close = record_shape.nearest(id, sorted(known))
        hint = f"did you mean {close}?" if close else f"declare it in a file in {resolved.config.backfills}"
        raise BadInput(f"there is no backfill {printable(id)}", hint=hint)
    return known[id]


def files_of(resolved: Resolved) -> list[str]:
    """Return the paths of the backfill files, as messages name them; an empty list if their folder cannot be read."""
    try:
        return [f"{resolved.config.backfills}/{name}" for name in _names(resolved)]
    except BadInput:
        return []


def mistakes_of(resolved: Resolved) -> list[BadInput]:
    """Return every mistake in the backfill files of an installation; of invalid partition keys only the first of each
    backfill."""
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
    """Report the mistakes of one backfill that types cannot express, such as an unknown dataset or pool. `other` is the
    place of a backfill with the same name; empty if there is none."""
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
            "is built as a whole by its outputs in kfm.yml",
            "only an updater that reads trigger.partition can build partitions",
        )
    if other:
        document.refuse(path, f"is declared in {other} already", "give one of the two another name")
    with document:
        check_pool(document, (*path, "pool"), said.pool, resolved.config.pools)
    _check_partitions(document, (*path, "partitions"), said.partitions)


def _check_partitions(document: Document, path: Path, said: PartitionsConfig) -> None:
    if said.kind in TIMES:
        if said.keys or said.file:
            document.refuse(
                (*path, "keys" if said.keys else "file"), "cannot be combined with a range of times", "leave it out"
            )
        if not said.from_ or not said.to:
            document.refuse(path, "needs from and to", f"such as from: {TIMES[said.kind]}")
    elif said.kind in LISTED:
        if said.from_ or said.to:
            document.refuse((*path, "from" if said.from_ else "to"), "is only for times", "leave it out")
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
            f"the backfills folder cannot be read: {(error.strerror or '').lower()}",
            hint="check `backfills` in kfm.yml",
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
            f"{where} cannot be read: {(error.strerror or '').lower()}", hint="check the file and its permissions"
        ) from None
    if len(body) > documents.MAX_BYTES:
        line = body.count(b"\n") + 1
        raise BadInput(
            f"{where}:{line}: the file is larger than {documents.MAX_BYTES >> 20} MiB",
            hint="put the keys into a separate file, and name it with `file`",
        )
    return body
