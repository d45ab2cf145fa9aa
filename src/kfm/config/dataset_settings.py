"""The section `datasets`: what each dataset is, how it is built and from which sources."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kfm.config.pace_settings import FreshnessConfig
from kfm.config.schedule_settings import ScheduleConfig
from kfm.config.setting_values import ID_PATTERN, Text
from kfm.config.source_settings import SourceConfig, check_source
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.labels import Level
from kfm.model.records import DataContract, Record
from kfm.model.transform_config import OutputConfig, check_outputs
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document, Path


class Extent(Record, frozen=True):
    """Where and when the data are, as in STAC."""

    bbox: Annotated[tuple[float, ...], Meta(description="west, south, east, north in degrees")] = ()
    interval: Annotated[tuple[str | None, ...], Meta(description="first and last instant; null: open")] = ()


class DatasetConfig(Record, frozen=True):
    """One dataset: how it is built, what it is, and where it comes from.

    It has an `updater`, or a `job`, or else `outputs` and a `version`. Promotion requires title, license and
    sensitivity.
    """

    updater: Annotated[
        Text | None,
        Meta(
            description="file.py:Class, package.module:Class, or package:NAME of an entry point `kfm.updaters`; "
            "null: `outputs` build it"
        ),
    ] = None
    job: Annotated[
        Text | msgspec.UnsetType,
        Meta(
            description="instead of an updater: a type of job that makes it from other datasets, such as "
            "transform.build_tiles, which `kfm jobs types` lists, or file.py:Class of a JobUpdater; Python only"
        ),
    ] = msgspec.UNSET
    parameters: Annotated[
        dict[str, Any] | msgspec.UnsetType,
        Meta(description="of the job, as docs/reference/jobs.md lists them for each type; Python only"),
    ] = msgspec.UNSET
    version: Annotated[str, Meta(description="a semantic one, such as 1.0.0; change it whenever `outputs` do")] = ""
    outputs: Annotated[
        dict[str, OutputConfig],
        Meta(
            description="by their names, built without code",
            extra_json_schema={"propertyNames": {"pattern": ID_PATTERN}},
        ),
    ] = {}
    title: Annotated[str, Meta(description="for people; `kfm publish` requires it")] = ""
    description: Annotated[str, Meta(description="for people")] = ""
    license: Annotated[
        str, Meta(description="an SPDX expression such as CC-BY-4.0, or LicenseRef-NAME; `kfm publish` requires it")
    ] = ""
    license_text: Annotated[
        Annotated[str, Meta(max_length=100_000)] | msgspec.UnsetType,
        Meta(description="the text of the licence that LicenseRef-NAME stands for"),
    ] = msgspec.UNSET
    sensitivity: Annotated[
        Level | None,
        Meta(description="how open it is; only public data are published as they are; null: undeclared"),
    ] = None
    attribution: Annotated[str, Meta(description="the source to credit")] = ""
    extent: Annotated[Extent | None, Meta(description="where and when")] = None
    sources: Annotated[dict[str, SourceConfig], Meta(description="by the name that `sources.pin()` uses")] = {}
    schedule: Annotated[
        ScheduleConfig | None, Meta(description="when `kfm up` runs it; null: only by schedule files")
    ] = None
    pool: Annotated[
        str, Meta(max_length=63, description="a name of `pools`: each run waits for one of its slots; empty: no pool")
    ] = ""
    freshness: Annotated[
        FreshnessConfig | None,
        Meta(description="how old it may become, as `kfm schedule freshness` reports; null: any age"),
    ] = None
    promote: Annotated[
        Literal["manual", "auto"],
        Meta(description="auto: a run's version is published if every gate agrees; only for plainly public data"),
    ] = "manual"
    review: Annotated[
        Literal["none", "one", "two"] | msgspec.UnsetType,
        Meta(
            description="how many stewards besides the requester approve what is published; under a key list a lower "
            "word takes effect once it is signed; protected data always need two; default: as for the installation"
        ),
    ] = msgspec.UNSET
    publish_retention: Annotated[
        Annotated[int, Meta(ge=-1)] | None,
        Meta(description="how many superseded versions stay public; null: as for the installation"),
    ] = None

    def contracts(self) -> dict[str, DataContract]:
        """Return the data contract of each source, by name."""
        return {name: source.data_contract() for name, source in self.sources.items()}

    def digest(self) -> str:
        """Return the digest of all settings, with defaults and environment; secrets enter as references only."""
        return digest(canonical(self))

    def metadata(self) -> dict[str, Any]:
        """Return the declared metadata of the dataset, such as title and license, without its other settings."""
        said: dict[str, Any] = {
            "title": self.title,
            "description": self.description,
            "license": self.license,
            "license_text": self.license_text or "",
            "sensitivity": self.sensitivity,
            "attribution": self.attribution,
            "extent": self.extent and {"bbox": list(self.extent.bbox), "interval": list(self.extent.interval)},
        }
        return {key: value for key, value in said.items() if value}


def check_dataset(document: Document, path: Path, dataset: DatasetConfig) -> None:
    name = str(path[-1])
    with document:
        try:
            names.check_id(name, "dataset")
        except BadInput as error:
            raise BadInput(f"{document.place(path)}: {error.message}", hint=error.hint, key="datasets") from None
    if name == "global":
        document.refuse(path, "is the name of the freeze flag over all datasets", "choose another name")
    _check_work(document, path, dataset)
    if dataset.extent is not None:
        with document:
            _check_extent(document, (*path, "extent"), dataset.extent)
    for key, source in dataset.sources.items():
        check_source(document, (*path, "sources", key), source)
    if dataset.outputs:
        check_outputs(document, path, dataset.outputs, dataset.contracts())


def _check_work(document: Document, path: Path, dataset: DatasetConfig) -> None:
    """Raise BadInput unless the dataset has either an updater, a job or outputs with a version."""
    if dataset.job:
        from kfm.config.derived_jobs import DerivedJob, check_job  # few installations have one

        others = {name: bool(getattr(dataset, name)) for name in ("updater", "outputs", "version")}
        if ":" in dataset.job:
            _check_updater(document, (*path, "job"), dataset.job)
        check_job(document, path, DerivedJob(dataset.job, dataset.parameters or {}, dataset.sources, others))
        return
    if dataset.parameters is not msgspec.UNSET:
        document.refuse((*path, "parameters"), "have no meaning without a job", "add job: TYPE, or remove them")
    if dataset.updater is None:
        if not dataset.outputs:
            document.refuse(path, "has neither an updater nor outputs", "add updater: file.py:Class, or outputs")
        elif not dataset.version:
            document.refuse(path, "has outputs and no version", 'add a line like version: "1.0.0"')
        if len(dataset.version) > 100 or not is_printable(dataset.version):
            document.refuse((*path, "version"), "is not a short printable text", 'write one like "1.0.0"')
        return
    _check_updater(document, (*path, "updater"), dataset.updater)
    if dataset.outputs:
        document.refuse((*path, "outputs"), "cannot be combined with an updater", "keep one of the two")
    if dataset.version:
        document.refuse((*path, "version"), "cannot be combined with an updater, whose class has its own", "remove it")


def _check_updater(document: Document, path: Path, spec: str) -> None:
    module, _, name = spec.rpartition(":")
    dots = all(map(names.is_identifier, module.split(".")))
    if not names.is_identifier(name) or not is_printable(module) or not (module.endswith(".py") or dots):
        document.refuse(path, "does not name an updater", "write updaters/stations.py:Stations")


def _check_extent(document: Document, path: Path, extent: Extent) -> None:
    box = extent.bbox
    if box:
        if len(box) != 4:
            raise document.mistake((*path, "bbox"), "must hold four numbers", "west, south, east, north")
        west, south, east, north = box
        if not (-180 <= west <= 180 and -180 <= east <= 180 and -90 <= south <= north <= 90):
            document.refuse((*path, "bbox"), "is not on the globe", "west, south, east, north in degrees")
    if extent.interval:
        if len(extent.interval) != 2:
            document.refuse((*path, "interval"), "must hold two instants", "first and last; null for an open end")
        from kfm.clock import parse_instant

        for index, text in enumerate(extent.interval):
            try:
                parse_instant("0" if text is None else text, "")
            except BadInput as error:
                document.refuse((*path, "interval", index), "is not an instant", error.hint)
