"""The registry of job types: what each is for, what starts it, what it takes and gives, and its typed parameters.

KFM's own types are listed here. An installed package adds its own by an entry point of the group `kfm.jobs` that names
a JobType.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kfm.errors import BadInput, KfmError
from kfm.model.jobs.job_envelope import LifecycleZone
from kfm.model.jobs.job_settings import (
    INDEX,
    REPORT,
    STORY,
    TILES,
    IndexSettings,
    ReportSettings,
    StorySettings,
    TileSettings,
)
from kfm.model.labels import Level
from kfm.model.records import Record
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.updaters.jobs.job_loader import UPDATERS

GROUP = "kfm.jobs"  # of entry points


class JobParameters(Record, frozen=True, kw_only=True):
    """The parameters that every job has."""

    target_zone: Annotated[
        LifecycleZone, Meta(description="Published: the run is followed by a promotion, with all its gates")
    ] = "Processed"
    policy_label: Annotated[Level | None, Meta(description="how open the result may be; null: as its dataset")] = None
    dataset: Annotated[
        str, Meta(max_length=80, description="the dataset that the job makes; empty: the only one its inputs lead to")
    ] = ""


class WindowParameters(JobParameters, frozen=True, kw_only=True):
    """The parameters of a job that may run for some days of a dataset."""

    window: Annotated[str, Meta(max_length=100, description="first and last day: 2026-01-01/2026-01-31")] = ""
    force: Annotated[bool, Meta(description="run again although nothing changed")] = False


class PartitionParameters(JobParameters, frozen=True, kw_only=True):
    """The parameters of a job that runs one partition of a dataset."""

    partition: Annotated[str, Meta(max_length=128, description="a name such as a day, a tile or a station")]
    force: Annotated[bool, Meta(description="run again although nothing changed")] = False


class JobType(msgspec.Struct, frozen=True, kw_only=True):
    """One type of job. A job is a run of a dataset: of the dataset that it names, or, if the type is `derived`, of a
    dataset that says `job: NAME` in kfm.yml and reads the dataset that the job names."""

    name: str
    purpose: str
    triggers: str
    inputs: str
    outputs: str
    parameters: type[JobParameters] = JobParameters
    zones: tuple[LifecycleZone, ...] = ("Processed", "Published")  # that it may be asked to write
    derived: bool = False
    # Of a derived type: `package.module:Class` of the updater that `job:` in kfm.yml stands for, and the record of
    # `parameters:` there.
    updater: str = ""
    settings: type[Record] | None = None


OWN = (
    JobType(
        name="ingest.pull_source",
        purpose="fetch, check and commit a dataset from its sources",
        triggers="schedule, source change, webhook, by hand",
        inputs="the declaration of the dataset in kfm.yml",
        outputs="a version in Processed, with its raw sources and receipt",
        parameters=WindowParameters,
    ),
    JobType(
        name="backfill.partition",
        purpose="build one partition of a dataset",
        triggers="by hand; `kfm backfill` plans and runs its own",
        inputs="the declaration of the dataset in kfm.yml",
        outputs="the partition in a new version in Processed, with its receipt",
        parameters=PartitionParameters,
    ),
    JobType(
        name=REPORT,
        purpose="count the rows of a dataset and compare them with thresholds",
        triggers="each new version of the dataset that it reads, schedule, by hand",
        inputs="a version of one dataset",
        outputs="`report`: counts, shares and checks as JSON; a missed threshold holds the run",
        derived=True,
        updater=UPDATERS[REPORT],
        settings=ReportSettings,
    ),
    JobType(
        name=TILES,
        purpose="draw the features of a dataset as map tiles",
        triggers="each published version of the dataset that it reads (`zone: published`), schedule, by hand",
        inputs="a version of one dataset with places",
        outputs="`tiles`: one PMTiles file; `metadata`: what a map must know about it",
        derived=True,
        updater=UPDATERS[TILES],
        settings=TileSettings,
    ),
    JobType(
        name=INDEX,
        purpose="make the public text of datasets searchable, with vectors if the extra `search` is installed",
        triggers="each published version of a dataset that it reads, schedule, by hand",
        inputs="published versions of datasets",
        outputs="segments of documents as JSON lines; `index`: which segments belong together",
        derived=True,
        updater=UPDATERS[INDEX],
        settings=IndexSettings,
    ),
    JobType(
        name=STORY,
        purpose="check and publish a narrative in Markdown whose sentences cite datasets; needs the extra `stories`",
        triggers="each published version of a dataset that it cites, a change of its text, schedule, by hand",
        inputs="a Markdown file, and published versions of datasets",
        outputs="`story`: its text and citations as a record without markup; `text`: the same as Markdown",
        derived=True,
        updater=UPDATERS[STORY],
        settings=StorySettings,
    ),
)


@cache
def job_types() -> Mapping[str, JobType]:
    """Return every job type by name: those of KFM, and those of installed packages. BadInput for one that cannot be
    loaded."""
    found = {each.name: each for each in OWN}
    for entry in _entries():
        found.setdefault(entry.name, _installed(entry))
    return dict(sorted(found.items()))


def _entries() -> list[Any]:
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda entry: entry.name)


def _installed(entry: Any) -> JobType:
    """Return the job type of an entry point."""
    from kfm.errors import place_of

    module, _, name = entry.value.partition(":")
    try:
        found = getattr(import_module(module), name, None)
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:
        what = f"job type {printable(entry.name)} cannot be loaded: {type(problem).__name__} at {place_of(problem)}"
        raise BadInput(what, hint="repair its package, or remove it") from problem
    if not isinstance(found, JobType) or found.name != entry.name:
        what = f"{printable(entry.value)} is not the JobType {printable(entry.name)}"
        raise BadInput(what, hint=f"let the entry point of the group {GROUP} name a JobType of that name")
    return found


def job_type(name: str) -> JobType:
    """Return the job type of this name. BadInput if there is none."""
    known = job_types()
    if name not in known:
        close = nearest(name, list(known))
        hint = f"did you mean {close}?" if close else "see `kfm jobs types`"
        raise BadInput(f"no job type is called {printable(name)}", hint=hint)
    return known[name]


def parameter_rows(kind: JobType) -> list[dict[str, Any]]:
    """Return the parameters of a type as rows for people: name, type, whether it is required, and what it means."""
    schema = msgspec.json.schema(kind.parameters)
    described = next(iter(schema["$defs"].values()))
    required = described.get("required", [])
    return [
        {
            "name": name,
            "type": _type_of(said),
            "required": name in required,
            "default": said.get("default"),
            "about": said.get("description", ""),
        }
        for name, said in described["properties"].items()
    ]


def _type_of(said: Mapping[str, Any]) -> str:
    if "enum" in said:
        return " | ".join("null" if each is None else str(each) for each in said["enum"])
    if "anyOf" in said:
        return " | ".join(_type_of(each) for each in said["anyOf"])
    return str(said.get("type", "any"))


def given_parameters(kind: JobType, given: list[str]) -> dict[str, Any]:
    """Return parameters that were typed as NAME=VALUE. A value is JSON where its type is not text. BadInput for one
    without a name, and for an unknown name."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind.parameters)}
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals or name not in fields:
            close = nearest(name, list(fields))
            hint = f"did you mean {close}?" if close else f"there are: {', '.join(fields)}"
            hint = "write NAME=VALUE" if name in fields else hint
            raise BadInput(f"{kind.name} has no parameter {printable(each)}", hint=hint)
        try:
            found[name] = msgspec.convert(text, fields[name], strict=False)
        except msgspec.ValidationError:
            try:
                found[name] = msgspec.json.decode(text)
            except msgspec.DecodeError:
                found[name] = text  # refused later, with the type that belongs there
    return found
