"""The objectives of an installation: one OpenSLO v1 document in each file of the folder `slos`.

KFM reads the part of OpenSLO that says what is promised. The values come from KFM's own ledger, so a metric source is
`type: kfm` and names an indicator in place of a query. What KFM would ignore is refused, with its line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kfm.config.config_loader import USUAL_SLOS, Resolved
from kfm.config.setting_values import ID_PATTERN, Text
from kfm.errors import BadInput
from kfm.model import names
from kfm.model.records import Record
from kfm.model.reports.objective import LONGEST_MS, Indicator, Objective
from kfm.parsing import documents, record_shape, yaml_scalars
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document, Path

_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_MOST_S = 100 * 366 * 86_400


class SourceSpec(Record, frozen=True):
    """What of the ledger is looked at."""

    indicator: Annotated[
        Indicator,
        Meta(
            description="success: runs that did not fail; latency: from the request to the end of a run; "
            "rollback_time: the same of rollbacks; freshness: the age of the current version"
        ),
    ]
    dataset: Annotated[str, Meta(max_length=200, description="its name in kfm.yml; empty: all datasets")] = ""


class MetricSource(Record, frozen=True):
    """Where the values come from: KFM itself."""

    spec: Annotated[SourceSpec, Meta(description="what of the ledger is looked at")]
    type: Annotated[Literal["kfm"], Meta(description="kfm: the ledger of this installation")] = "kfm"


class Metric(Record, frozen=True):
    """One metric of an indicator."""

    metric_source: Annotated[MetricSource, Meta(description="where the values come from")] = msgspec.field(
        name="metricSource"
    )


class RatioMetric(Record, frozen=True):
    """Good runs among all runs."""

    total: Annotated[Metric, Meta(description="all runs; of the same indicator and dataset as `good`")]
    good: Annotated[Metric, Meta(description="the good ones")]
    counter: Annotated[bool, Meta(description="true or absent: KFM counts runs itself")] = True


class IndicatorSpec(Record, frozen=True):
    """Exactly one of the two: a ratio for success, a threshold for everything that takes time."""

    ratio: Annotated[RatioMetric | UnsetType, Meta(description="for success")] = msgspec.field(
        default=UNSET, name="ratioMetric"
    )
    threshold: Annotated[Metric | UnsetType, Meta(description="for latency, rollback_time and freshness")] = (
        msgspec.field(default=UNSET, name="thresholdMetric")
    )


class About(Record, frozen=True):
    """The name of a document, and remarks that KFM does not use."""

    name: Annotated[Text, Meta(description="its name in commands, alerts and labels", pattern=ID_PATTERN)]
    title: Annotated[str, Meta(max_length=200, description="its name for people")] = msgspec.field(
        default="", name="displayName"
    )
    labels: Annotated[dict[str, Any], Meta(description="not used")] = {}
    annotations: Annotated[dict[str, Any], Meta(description="not used")] = {}


class IndicatorConfig(Record, frozen=True):
    """The indicator of an objective, inside its document."""

    spec: Annotated[IndicatorSpec, Meta(description="what is measured")]
    about: Annotated[dict[str, Any], Meta(description="not used")] = msgspec.field(default={}, name="metadata")


class WindowConfig(Record, frozen=True):
    """The time over which the budget counts: it ends now."""

    duration: Annotated[str, Meta(max_length=10, description="such as 12h, 7d, 4w or 30d; at most 92d")]
    rolling: Annotated[bool, Meta(description="true: the window ends now")] = msgspec.field(
        default=True, name="isRolling"
    )


class TargetConfig(Record, frozen=True):
    """How much must be good."""

    target: Annotated[float | None, Meta(description="the share that must be good, such as 0.99")] = None
    percent: Annotated[float | None, Meta(description="the same in percent, such as 99")] = msgspec.field(
        default=None, name="targetPercent"
    )
    op: Annotated[Literal["lte", "lt"] | None, Meta(description="of a threshold: lte")] = None
    value: Annotated[float | None, Meta(description="of a threshold: the most that is good, in seconds")] = None
    title: Annotated[str, Meta(max_length=200, description="not used")] = msgspec.field(default="", name="displayName")


class SloSpec(Record, frozen=True):
    """What is promised."""

    indicator: Annotated[IndicatorConfig, Meta(description="what is measured")]
    windows: Annotated[tuple[WindowConfig, ...], Meta(description="one window")] = msgspec.field(name="timeWindow")
    objectives: Annotated[tuple[TargetConfig, ...], Meta(description="one target")]
    service: Annotated[str, Meta(max_length=200, description="not used: the indicator names the dataset")] = ""
    description: Annotated[str, Meta(max_length=4096, description="for people")] = ""
    method: Annotated[
        Literal["Occurrences", "Timeslices"],
        Meta(description="Occurrences: of runs; Timeslices: of freshness, of which time is counted"),
    ] = msgspec.field(default="Occurrences", name="budgetingMethod")
    alerts: Annotated[tuple[Any, ...], Meta(description="empty: `kfm alerts write` makes alerts")] = msgspec.field(
        default=(), name="alertPolicies"
    )


class SloFile(Record, frozen=True):
    """A file in the folder of objectives: one OpenSLO v1 document."""

    api: Annotated[Literal["openslo/v1"], Meta(description="the format")] = msgspec.field(name="apiVersion")
    kind: Annotated[Literal["SLO"], Meta(description="the kind of document")]
    about: Annotated[About, Meta(description="its name")] = msgspec.field(name="metadata")
    spec: Annotated[SloSpec, Meta(description="what is promised")]


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema 2020-12 of a file of objectives, for editors."""
    schema = msgspec.json.schema(SloFile)
    for definition in schema["$defs"].values():
        definition["description"] = " ".join(definition.get("description", "").split())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "slos", **schema}


def declared_objectives(resolved: Resolved) -> list[Objective]:
    """Return every declared objective, sorted by name. Raise BadInput at the first mistake."""
    found: dict[str, Objective] = {}
    for name in _names(resolved):
        where = f"{resolved.config.slos}/{name}"
        document = documents.read(_body(resolved, name, where), where, json=name.endswith(".json"))
        objective = _objective(document, resolved, found)
        found[objective.name] = objective
    return [found[name] for name in sorted(found)]


def files_of(resolved: Resolved) -> list[str]:
    """Return the paths of the files, as messages name them; an empty list if their folder cannot be read."""
    try:
        return [f"{resolved.config.slos}/{name}" for name in _names(resolved)]
    except BadInput:
        return []


def mistakes_of(resolved: Resolved) -> Iterator[BadInput]:
    """Yield every mistake in the files of objectives."""
    from kfm.parsing.document_recovery import read_all

    found: dict[str, Objective] = {}
    for name in _names(resolved):
        where = f"{resolved.config.slos}/{name}"
        document = read_all(_body(resolved, name, where), where, json=name.endswith(".json"))
        with document:
            objective = _objective(document, resolved, found)
            if not document.collect():
                found[objective.name] = objective
        yield from document.collect()


def _objective(document: Document, resolved: Resolved, others: dict[str, Objective]) -> Objective:
    if not isinstance(document.value, dict):
        found = yaml_scalars.kind(document.value)
        raise document.mistake((), f"must be a mapping, found {found}", "see `kfm config schema slos`")
    said = record_shape.into(document, SloFile)
    name = said.about.name
    try:
        names.check_id(name, "objective")
    except BadInput as error:
        raise document.mistake(("metadata", "name"), f"is refused: {error.message}", error.hint) from None
    if name in others:
        other = others[name].place
        document.refuse(("metadata", "name"), f"is the name of {other} already", "give one of the two another name")
    if said.spec.alerts:
        path_of_alerts: Path = ("spec", "alertPolicies")
        document.refuse(path_of_alerts, "are not read", "leave them out: `kfm alerts write` makes them")
    source, path = _source(document, said.spec.indicator.spec)
    limit_ms, target = _target(document, said.spec, source.indicator)
    datasets: tuple[str, ...] = ()
    if source.dataset:
        datasets = (_dataset(document, (*path, "dataset"), source.dataset, resolved),)
    is_of_time = source.indicator == "freshness"
    if (said.spec.method == "Timeslices") != is_of_time:
        hint = "write budgetingMethod: Timeslices" if is_of_time else "leave it out, or write Occurrences"
        at: Path = ("spec", "budgetingMethod") if "budgetingMethod" in document.value["spec"] else ("spec",)
        document.refuse(at, f"does not fit {source.indicator}", hint)
    return Objective(
        name=name,
        indicator=source.indicator,
        target=target,
        window_ms=_window(document, said.spec.windows),
        datasets=datasets,
        limit_ms=limit_ms,
        title=said.about.title,
        place=document.place(("metadata", "name")),
    )


def _source(document: Document, said: IndicatorSpec) -> tuple[SourceSpec, Path]:
    """Return what is looked at, and where that is written."""
    path: Path = ("spec", "indicator", "spec")
    ratio, threshold = said.ratio, said.threshold
    if isinstance(ratio, UnsetType) == isinstance(threshold, UnsetType):
        raise document.mistake(
            path, "needs one of ratioMetric and thresholdMetric", "write ratioMetric for success, else thresholdMetric"
        )
    if not isinstance(ratio, UnsetType):
        at: Path = (*path, "ratioMetric", "good", "metricSource", "spec")
        source = ratio.good.metric_source.spec
        if source.indicator != "success":
            document.refuse((*at, "indicator"), f"{source.indicator} is no ratio", "write it under thresholdMetric")
        if not ratio.counter:
            document.refuse((*path, "ratioMetric", "counter"), "must be true", "KFM counts runs: leave it out")
        if ratio.total.metric_source.spec != source:
            document.refuse((*path, "ratioMetric", "total"), "is of something else than good", "write the same in both")
        return source, at
    assert not isinstance(threshold, UnsetType)
    at = (*path, "thresholdMetric", "metricSource", "spec")
    source = threshold.metric_source.spec
    if source.indicator == "success":
        document.refuse((*at, "indicator"), "success is no threshold", "write it under ratioMetric")
    return source, at


def _target(document: Document, spec: SloSpec, indicator: Indicator) -> tuple[int, float]:
    """Return the limit in milliseconds, 0 without one, and the target."""
    path: Path = ("spec", "objectives")
    if len(spec.objectives) != 1:
        raise document.mistake(path, "needs one target", "write several targets in several files")
    (said,) = spec.objectives
    if (said.target is None) == (said.percent is None):
        raise document.mistake((*path, 0), "needs target or targetPercent", "write target: 0.99")
    target, key = (said.target, "target") if said.target is not None else ((said.percent or 0) / 100, "targetPercent")
    if target is None or not 0 < target < 1:
        most = "1" if key == "target" else "100"
        raise document.mistake(
            (*path, 0, key), f"must be between 0 and {most}, without both", "a promise of everything has no budget"
        )
    if indicator == "success":
        for key in ("op", "value"):
            if getattr(said, key) is not None:
                document.refuse((*path, 0, key), "has no meaning for success", "remove it")
        return 0, target
    if said.value is None or said.op is None:
        raise document.mistake((*path, 0), "needs op and value", "write op: lte and value: 900, in seconds")
    if not 0 < said.value <= _MOST_S:
        raise document.mistake(
            (*path, 0, "value"), "must be a time in seconds above 0", "write it like 93600 (26 hours)"
        )
    return max(round(said.value * 1000), 1), target


def _window(document: Document, said: tuple[WindowConfig, ...]) -> int:
    path: Path = ("spec", "timeWindow")
    if len(said) != 1:
        raise document.mistake(path, "needs one window", "write one with duration: 30d and isRolling: true")
    if not said[0].rolling:
        document.refuse((*path, 0, "isRolling"), "is a window of the calendar", "write isRolling: true")
    text = said[0].duration
    number, unit = text[:-1], text[-1:]
    right = unit in _UNITS and number.isascii() and number.isdigit() and len(number) < 7 and int(number) > 0
    if not right or int(number) * _UNITS[unit] > LONGEST_MS:
        raise document.mistake(
            (*path, 0, "duration"), "is no window that KFM counts", "write it like 12h, 7d or 30d, at most 92d"
        )
    return int(number) * _UNITS[unit]


def _dataset(document: Document, path: Path, name: str, resolved: Resolved) -> str:
    try:
        if names.dataset_id(name) in resolved.config.datasets:
            return names.dataset_id(name)
    except BadInput:
        pass
    close = record_shape.nearest(name, sorted(resolved.config.datasets))
    hint = f"did you mean {close}?" if close else "name one of kfm.yml, or leave it out for all"
    raise document.mistake(path, "names no dataset of kfm.yml", hint)


def one(objectives: list[Objective], name: str) -> Objective:
    """Return the objective of this name. BadInput if there is none."""
    for objective in objectives:
        if objective.name == name:
            return objective
    close = record_shape.nearest(name, [each.name for each in objectives])
    hint = f"did you mean {close}?" if close else "`kfm slo` lists them"
    raise BadInput(f"there is no objective {printable(name)}", hint=hint)


def _names(resolved: Resolved) -> list[str]:
    try:
        found = os.listdir(resolved.at(resolved.config.slos))
    except FileNotFoundError:
        if resolved.config.slos == USUAL_SLOS:
            return []
        place = resolved.document.place(("slos",))
        raise BadInput(f"{place}: slos names a folder that is not there", hint="make it, or correct the path") from None
    except OSError as error:
        raise BadInput(
            f"the folder of objectives cannot be read: {(error.strerror or '').lower()}",
            hint="check `slos` in kfm.yml",
        ) from None
    return sorted(name for name in found if name.endswith((".yml", ".yaml", ".json")))


def _body(resolved: Resolved, name: str, where: str) -> bytes:
    try:
        with open(os.path.join(resolved.at(resolved.config.slos), name), "rb") as file:
            return file.read(documents.MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(
            f"{where} cannot be read: {(error.strerror or '').lower()}", hint="check the file and its permissions"
        ) from None
