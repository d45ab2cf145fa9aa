"""The answers about what a version holds: how its sources passed their checks, and which columns its files have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kfm.app.runs.queries import held_sources
from kfm.app.serving.served_records import Link
from kfm.app.session.datasets import dataset_names
from kfm.config.upstream_datasets import read_by
from kfm.model import refs
from kfm.model.jobs.job_settings import REPORT
from kfm.model.public_run import PublicColumn
from kfm.model.records import DataContract, Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.serving.shelf import ShownDataset
    from kfm.app.session.session import Session
    from kfm.delivery.page_content import PageContent
    from kfm.model.records import DatasetVersion

MOST_COLUMNS, MOST_FINDINGS = 1000, 200


class QualityFinding(Record, frozen=True):
    """A rule that rows of a source did not meet. It names the rule, and neither a row nor a value."""

    source: str
    rule: str
    column: str
    rows: int  # of the first findings that were recorded


class QualityAnswer(Record, frozen=True):
    """How the sources of a version passed their data contracts, when it was made or last confirmed. Null: not shown,
    because the data is not plainly public."""

    dataset: str
    version: str
    result: Literal["passed", "quarantined", "unchecked", "not shown"]  # unchecked: no source has a contract
    checked_by: str  # the run that checked them
    sources: int | None
    contracts: int | None  # of these, checked against a contract
    rows: int | None
    quarantined_rows: int | None
    quarantined_now: tuple[QualityFinding, ...]  # what is quarantined of the sources now; shown to the staff alone
    reports: tuple[str, ...]  # datasets that are quality reports about this one
    is_withheld: bool
    links: tuple[Link, ...]
    ledger_entries: int


class SchemaColumn(Record, frozen=True):
    """A column of a table, or a variable of a grid, as the public files have it."""

    name: str
    type: str  # empty: the files do not say
    units: str
    required: bool | None  # by the contract of its source; null: no contract names it, or it is not shown


class SourceContract(Record, frozen=True):
    """The data contract of a source of kfm.yml. Shown to the staff alone."""

    source: str
    contract: DataContract


class SchemaAnswer(Record, frozen=True):
    """The columns of the current version."""

    dataset: str
    version: str
    columns: tuple[SchemaColumn, ...]
    more_columns: int
    geometry: tuple[str, ...]  # types of geometries in the files
    media_types: tuple[str, ...]
    is_whole: bool  # every file was read; else the first ones
    contracts: tuple[SourceContract, ...]
    links: tuple[Link, ...]
    ledger_entries: int


def quality_answer(
    session: Session, seen: Discretion, shown: ShownDataset, version: str, index: int
) -> QualityAnswer | None:
    """Return the quality of a version; None if it may not be shown."""
    made = session.state.ledger.version(shown.dataset, version) if version in shown.standing else None
    if made is None:
        return None
    plain = seen.is_plain(shown.dataset, made)
    said = made.validation if plain else {}
    at = f"/v1/datasets/{shown.dataset}/versions/{version}"
    current = plain and seen.is_staff and version == session.state.refs.at(refs.processed(shown.dataset))
    return QualityAnswer(
        dataset=shown.dataset,
        version=version,
        result=_result(made) if plain else "not shown",
        checked_by=made.validated_by or made.run_id,
        sources=said.get("sources") if plain else None,
        contracts=said.get("contracts") if plain else None,
        rows=said.get("rows") if plain else None,
        quarantined_rows=said.get("held_rows") if plain else None,
        quarantined_now=tuple(_findings(session, shown.dataset))[:MOST_FINDINGS] if current else (),
        reports=tuple(_reports(session, seen, shown.dataset)),
        is_withheld=not plain,
        links=(
            Link(rel="self", href=f"{at}/quality"),
            Link(rel="version", href=at),
            Link(rel="run", href=f"/v1/runs/{made.validated_by or made.run_id}"),
        ),
        ledger_entries=index,
    )


def _result(made: DatasetVersion) -> Literal["passed", "quarantined", "unchecked"]:
    if made.validation.get("held_rows", 0):
        return "quarantined"
    return "passed" if made.validation.get("contracts", 0) else "unchecked"


def _findings(session: Session, dataset: str) -> Iterator[QualityFinding]:
    """Yield what is quarantined now, counted by source, rule and column."""
    for source in held_sources(session, dataset):
        counts: dict[tuple[str, str], int] = {}
        for each in source["findings"]:
            about = str(each.get("rule", "")), str(each.get("column", ""))
            counts[about] = counts.get(about, 0) + 1
        for (rule, column), rows in sorted(counts.items()):
            yield QualityFinding(source=source["source"], rule=rule, column=column, rows=rows)


def _reports(session: Session, seen: Discretion, dataset: str) -> Iterator[str]:
    """Yield the shown datasets that are quality reports about this one."""
    for name in dataset_names(session):
        declared = session.config.datasets[name]
        is_report = declared.job == REPORT and any(other == dataset for _, other, _ in read_by(declared))
        if is_report and seen.shelf.find(name) is not None:
            yield name


# -- columns


def schema_answer(
    session: Session, seen: Discretion, content: PageContent, shown: ShownDataset, index: int
) -> SchemaAnswer:
    """Return the columns of the current version, as its page shows them."""
    version = content.version
    plain = version.made.labels is None and seen.is_plain(shown.dataset)
    contracts = dict(_contracts(session, shown.dataset)) if plain else {}
    required = {column.name: column.required for each in contracts.values() for column in each.columns}
    found = _columns(content)
    files = version.files or version.described
    return SchemaAnswer(
        dataset=shown.dataset,
        version=version.digest,
        columns=tuple(
            SchemaColumn(name=each.name, type=each.type, units=each.units, required=required.get(each.name))
            for each in found[:MOST_COLUMNS]
        ),
        more_columns=max(len(found) - MOST_COLUMNS, 0),
        geometry=tuple(sorted({each.geometry for each in files if each.geometry})),
        media_types=tuple(sorted({each.media_type for each in files})),
        is_whole=len(files) == version.entries,
        contracts=tuple(
            SourceContract(source=name, contract=each) for name, each in (contracts.items() if seen.is_staff else ())
        ),
        links=(
            Link(rel="self", href=f"/v1/datasets/{shown.dataset}/schema"),
            Link(rel="dataset", href=f"/v1/datasets/{shown.dataset}"),
            Link(rel="alternate", href=f"/datasets/{shown.dataset}/#columns", type="text/html", title="the page"),
        ),
        ledger_entries=index,
    )


def _columns(content: PageContent) -> list[PublicColumn]:
    """Return the columns in the files. Where a file does not say the type, it is that of the first rows."""
    files = content.version.files or content.version.described
    sample = content.sample
    looked_at = {each.name: each for each in sample[1].columns} if sample is not None else {}
    found: dict[str, PublicColumn] = {}
    for each in (one for file in files for one in (*file.table, *file.bands)):
        found.setdefault(each.name, each)
    for name in (name for file in files for name in file.columns):
        found.setdefault(name, PublicColumn(name=name))
    return [looked_at.get(name, each) if not each.type else each for name, each in (found or looked_at).items()]


def _contracts(session: Session, dataset: str) -> Iterator[tuple[str, DataContract]]:
    declared = session.config.datasets.get(dataset)
    for name, source in declared.sources.items() if declared is not None else ():
        contract = source.data_contract()
        if contract != DataContract():
            yield name, contract
