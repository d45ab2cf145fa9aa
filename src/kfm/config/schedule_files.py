"""Read the schedules of an installation: those of datasets in kfm.yml, and the schedule files.

The values of `cron` and `timezone` are not checked here: a run by hand needs no schedule, and Node has none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from kfm.clock import parse_instant
from kfm.config.config_loader import Resolved
from kfm.config.dataset_settings import DatasetConfig
from kfm.config.pool_settings import check_pool
from kfm.config.schedule_settings import ScheduleConfig
from kfm.config.setting_values import ID_PATTERN, Text
from kfm.config.upstream_datasets import read_by
from kfm.errors import BadInput
from kfm.model import names, refs
from kfm.model.records import Record
from kfm.model.schedules import Schedule, plain_cron
from kfm.parsing import documents, record_shape, yaml_scalars
from kfm.parsing.documents import Document, Path
from kfm.parsing.time_windows import interval


class DeclaredSchedule(ScheduleConfig, frozen=True):
    """One schedule of a file."""

    dataset: Annotated[Text, Meta(description="its name in kfm.yml")] = ""


class ScheduleFile(Record, frozen=True):
    """A file in the folder of schedules."""

    schedules: Annotated[
        dict[str, DeclaredSchedule],
        Meta(description="by their names", extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}}),
    ]
    version: Annotated[Literal[1], Meta(description="the version of this format")] = 1


msgspec.json.Decoder(ScheduleFile)  # prepared here, once: see config_file.py


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of a schedule file, for editors."""
    schema = msgspec.json.schema(ScheduleFile)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "schedules", **schema}


def check_schedule(document: Document, path: Path, said: ScheduleConfig) -> None:
    """Raise BadInput for mistakes that types cannot express."""
    if (said.cadence is not None) + bool(said.cron) + bool(said.after) + (said.on is not None) != 1:
        hint = "write cadence: daily, or cron: '0 6 * * *', or after: [another-dataset], or on: event"
        document.refuse(path, "needs one of cadence, cron, after and on", hint)
    if bool(thresholds(said)) != (said.on == "anomaly"):
        hint = "write on: anomaly with when: {held_share: 0.05}"
        document.refuse((*path, "when") if said.when else path, "has thresholds without on: anomaly, or none", hint)
    if said.of and said.on != "anomaly":
        document.refuse((*path, "of"), "has no meaning without on: anomaly", "remove it, or write after")
    if said.cadence is not None and not _is_time(said.at):
        document.refuse((*path, "at"), "is not a time of the day", "write it like 06:30")
    if said.catch_up == "all" and said.overlap in ("skip", "cancel-older"):
        document.refuse((*path, "overlap"), "would skip instants that catch_up: all requires", "write overlap: queue")
    instants = {}
    for name in ("start", "end"):
        if text := getattr(said, name):
            try:
                instants[name] = parse_instant(text, name)
            except BadInput as error:
                document.refuse((*path, name), "is not an instant", error.hint)
    if len(instants) == 2 and instants["end"] < instants["start"]:
        document.refuse((*path, "end"), "is before its start", "correct one of the two")
    if said.window:
        try:
            interval(said.window, "2026-01-01")
        except BadInput as error:
            document.refuse((*path, "window"), "is not a window", error.hint)


def thresholds(said: ScheduleConfig) -> dict[str, float]:
    """Return the declared thresholds by name."""
    return {} if said.when is None else {k: v for k, v in msgspec.structs.asdict(said.when).items() if v is not None}


def _is_time(text: str) -> bool:
    hour, colon, minute = text.partition(":")
    digits = len(hour) == len(minute) == 2 and (hour + minute).isascii() and (hour + minute).isdigit()
    return bool(colon) and digits and int(hour) < 24 and int(minute) < 60


def schedule_of(id: str, dataset: str, said: ScheduleConfig, place: str) -> Schedule:
    return Schedule(
        id=id,
        dataset=dataset,
        cron=plain_cron(said.cron) or _cron(said),
        timezone=said.timezone,
        overlap=said.overlap or ("queue" if said.catch_up == "all" else "skip"),
        catch_up=said.catch_up,
        jitter_s=said.jitter_s,
        start_ms=parse_instant(said.start, "start") if said.start else None,
        end_ms=parse_instant(said.end, "end") if said.end else None,
        window=said.window,
        pool=said.pool,
        paused=said.paused,
        after=tuple(names.dataset_id(name) for name in said.after),
        on=said.on,
        of=tuple(names.dataset_id(name) for name in said.of),
        when=thresholds(said),
        place=place,
    )


def _cron(said: ScheduleConfig) -> str:
    hour, minute = (int(part) for part in said.at.split(":"))
    if said.cadence is None:
        return ""
    if said.cadence == "real-time":
        return f"*/{said.every_min} * * * *"
    if said.cadence == "static":
        return ""
    days = {"weekly": f"* * {said.day}", "annual": "1 1 *"}.get(said.cadence, "* * *")
    return f"{minute} {hour} {days}"


def declared_schedules(resolved: Resolved) -> list[Schedule]:
    """Return every schedule of an installation, sorted by id: those of datasets, and those of the files."""
    found: dict[str, Schedule] = {}
    for name, dataset in resolved.config.datasets.items():
        if dataset.schedule is not None:
            own: Path = ("datasets", name, "schedule")
            check_schedule(resolved.document, own, dataset.schedule)
            check_pool(resolved.document, (*own, "pool"), dataset.schedule.pool, resolved.config.pools)
            found[name] = schedule_of(name, name, dataset.schedule, resolved.document.place(own))
    for document, file in _files(resolved):
        for id, said in file.schedules.items():
            path: Path = ("schedules", id)
            _check_declared(document, path, said, resolved.config.datasets, found[id].place if id in found else "")
            check_pool(document, (*path, "pool"), said.pool, resolved.config.pools)
            found[id] = schedule_of(id, names.dataset_id(said.dataset), said, document.place(path))
    for name, dataset in resolved.config.datasets.items():
        _follow(resolved, name, dataset, found)
    return [found[id] for id in sorted(found)]


def files_of(resolved: Resolved) -> list[str]:
    """Return the paths of the schedule files, as messages name them; an empty list if their folder cannot be read."""
    try:
        return [f"{resolved.config.schedules}/{name}" for name in _names(resolved.at(resolved.config.schedules))]
    except BadInput:
        return []


def mistakes_of(resolved: Resolved) -> tuple[list[BadInput], list[Schedule]]:
    """Return every mistake in the schedules of an installation, and the schedules without a mistake. From then on the
    document of the configuration collects mistakes instead of raising them."""
    from kfm.parsing.document_recovery import read_all

    found: list[Schedule] = []
    datasets, places = resolved.config.datasets, dict[str, str]()

    def check_one(document: Document, path: Path, said: ScheduleConfig, id: str, dataset: str) -> None:
        before = len(document.collect())
        with document:
            if isinstance(said, DeclaredSchedule):
                _check_declared(document, path, said, datasets, places.get(id, ""))
            else:
                check_schedule(document, path, said)
        with document:
            check_pool(document, (*path, "pool"), said.pool, resolved.config.pools)
        places[id] = document.place(path)
        if len(document.collect()) == before:
            found.append(schedule_of(id, names.dataset_id(dataset), said, places[id]))

    mistakes = resolved.document.collect()
    for name, dataset in datasets.items():
        if dataset.schedule is not None:
            check_one(resolved.document, ("datasets", name, "schedule"), dataset.schedule, name, name)
    mistakes = list(mistakes)
    try:
        files = _names(resolved.at(resolved.config.schedules))
    except BadInput as problem:
        return [*mistakes, problem], found
    for name in files:
        where = f"{resolved.config.schedules}/{name}"
        try:
            body = _body(os.path.join(resolved.at(resolved.config.schedules), name), where)
        except BadInput as problem:
            mistakes.append(problem)
            continue
        document = read_all(body, where, json=name.endswith(".json"))
        with document:
            for id, said in _as_file(document).schedules.items():
                check_one(document, ("schedules", id), said, id, said.dataset)
        mistakes += document.collect()
    return mistakes, found


def _follow(resolved: Resolved, name: str, dataset: DatasetConfig, found: dict[str, Schedule]) -> None:
    """Add a schedule for a dataset that reads other datasets and has none of its own: it runs when they have new
    versions."""
    read = {(other, refs.in_zone(said.zone, other)) for _, other, said in read_by(dataset) if not said.version}
    others = tuple(sorted({other for other, _ in read}))
    own = [each for each in found.values() if each.dataset == name]
    for each in own:
        if each.after and set(each.after) <= set(others):
            found[each.id] = replace(each, reads=tuple(sorted(ref for other, ref in read if other in each.after)))
    if read and not own:
        id = name if name not in found else f"{name}.reads"
        place = resolved.document.place(("datasets", name, "sources"))
        reads = tuple(sorted(ref for _, ref in read))
        found[id] = Schedule(id=id, dataset=name, cron="", after=others, reads=reads, implied=True, place=place)


def _check_declared(
    document: Document, path: Path, said: DeclaredSchedule, datasets: Mapping[str, Any], other: str
) -> None:
    """Report the mistakes of one schedule of a schedule file. `other` is the place of a schedule with the same name;
    empty if there is none."""
    try:
        names.check_id(str(path[-1]), "schedule")
        known = names.dataset_id(said.dataset) in datasets
    except BadInput as error:
        raise document.mistake(path, f"is refused: {error.message}", error.hint) from None
    if not known:
        close = record_shape.nearest(said.dataset, sorted(datasets))
        hint = f"did you mean {close}?" if close else "name one of kfm.yml"
        document.refuse((*path, "dataset"), "names no dataset of kfm.yml", hint)
    if other:
        document.refuse(path, f"is declared in {other} already", "give one of the two another name")
    check_schedule(document, path, said)


def stamp(resolved: Resolved) -> list[tuple[str, int, int, int]]:
    """Return names, times and sizes of the schedule files. The value changes if a file is written, added or removed."""
    folder = resolved.at(resolved.config.schedules)
    found = []
    for name in _names(folder):
        try:
            seen = os.stat(os.path.join(folder, name))
        except OSError:
            found.append((name, 0, 0, 0))
        else:
            found.append((name, seen.st_mtime_ns, seen.st_size, seen.st_ino))
    return found


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith((".yml", ".yaml", ".json")))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(
            f"the schedules folder cannot be read: {(error.strerror or '').lower()}",
            hint="check `schedules` in kfm.yml",
        ) from None


def _files(resolved: Resolved) -> Iterator[tuple[Document, ScheduleFile]]:
    folder = resolved.at(resolved.config.schedules)
    for name in _names(folder):
        where = f"{resolved.config.schedules}/{name}"
        document = documents.read(_body(os.path.join(folder, name), where), where, json=name.endswith(".json"))
        yield document, _as_file(document)


def _as_file(document: Document) -> ScheduleFile:
    if not isinstance(document.value, dict):
        found = yaml_scalars.kind(document.value)
        raise document.mistake((), f"must be a mapping, found {found}", "see `kfm config schema schedules`")
    return record_shape.into(document, ScheduleFile)


def _body(path: str, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(documents.MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(
            f"{where} cannot be read: {(error.strerror or '').lower()}", hint="check the file and its permissions"
        ) from None
