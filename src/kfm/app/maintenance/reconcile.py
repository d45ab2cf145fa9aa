"""`kfm reconcile`: compares storage, public files, catalog, graphs and sinks with the refs, and repairs the
differences.

Repair uses the same code that made the files. It moves no ref.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kfm.app.maintenance.graph_check import compare
from kfm.app.maintenance.graph_check import repair as tell_again
from kfm.app.maintenance.maintenance_records import record_repair
from kfm.app.metadata.catalogs import build
from kfm.app.metadata.ledger_sinks import sink_progress
from kfm.app.runs.settlement import settle_session
from kfm.app.session.protection_files import readable_objects
from kfm.app.session.session import Session
from kfm.app.stewards.evidence import Check, evidence_checks
from kfm.app.stewards.exported_files import export_again, exported_differences
from kfm.app.stewards.public_repair import check_all, published_datasets, repair_all
from kfm.errors import Denied, KfmError
from kfm.model import manifests, refs
from kfm.model.lineage_edges import made_by
from kfm.model.records import Record
from kfm.parsing.characters import printable
from kfm.store.lineage_index import rows_of

Place = Literal["storage", "evidence", "public", "receipts", "checkpoints", "artifacts", "catalog", "graph", "sink"]


class Drift(Record, frozen=True):
    """A difference between the refs and a place that follows them: storage, evidence, exported files, catalog, graph or
    sink."""

    place: Place
    dataset: str
    what: str  # missing | altered | foreign | behind | refused
    about: str  # a path, a digest or the name of a sink


def drifts(session: Session) -> tuple[list[Drift], list[tuple[str, KfmError]]]:
    """Return every difference between the refs and the places that follow them, and the problems of places that could
    not be compared."""
    found = list(_storage(session))
    public, problems = check_all(session, published_datasets(session))
    found += [Drift(place="public", dataset=each.dataset, what=each.kind, about=each.path) for each in public]
    found += [
        Drift(place="evidence", dataset=name, what="altered", about=one.found) for name, one in _evidence(session)
    ]
    try:
        for place, wrong in exported_differences(session).items():
            found += [Drift(place=place, dataset=each.dataset, what=each.kind, about=each.path) for each in wrong]
    except KfmError as problem:
        problems.append(("exported files", problem))
    found += [
        Drift(place="graph", dataset=dataset, what="missing", about=f"an edge of run {row.decode()}")
        for dataset, _, row in _missing_edges(session)
    ]
    if session.config.graph:
        try:
            found += _graph_drifts(session)
        except KfmError as problem:
            problems.append(("graph", problem))
    found += _behind(session)
    return found, problems


def _evidence(session: Session) -> Iterator[tuple[str, Check]]:
    """Yield the statements, lists and receipts that are not as the signed lists and the ledger say."""
    try:
        yield from evidence_checks(session)
    except KfmError as problem:
        yield "", Check(what="ledger", state="bad", found=problem.message)


def _graph_drifts(session: Session) -> Iterator[Drift]:
    """Yield the differences of the Neo4j graph."""
    wrong = compare(session)
    for run_id, (dataset, what) in wrong.runs.items():
        yield Drift(place="graph", dataset=dataset, what=what, about=f"neo4j: run {run_id}")
    for key, what in wrong.datasets.items():
        yield Drift(place="graph", dataset="", what=what, about=f"neo4j: {key}")
    for (uri, hash), what in wrong.assets.items():
        yield Drift(place="graph", dataset="", what=what, about=f"neo4j: {uri} {hash[:19]}".rstrip())
    for name in wrong.foreign.values():
        yield Drift(place="graph", dataset="", what="foreign", about=f"neo4j: {printable(name)}")


def _missing_edges(session: Session) -> Iterator[tuple[str, str, bytes]]:
    """Yield the rows of the embedded graph that receipts imply and that are missing: dataset, key and row."""
    for entry in session.state.ledger.entries():
        receipt = session.state.ledger.receipt(entry.run_id)
        if receipt is None:
            continue  # damage, which `kfm audit verify` reports
        version = session.state.ledger.version(receipt.dataset, made_by(receipt))
        for key, row in rows_of(entry.index, receipt, version.run_id if version is not None else receipt.run_id):
            if session.tables.get("lineage", key) != row:
                yield receipt.dataset, key, row


def _storage(session: Session) -> Iterator[Drift]:
    """Yield versions of refs that have no record, and objects that are missing or altered."""
    for ref, version in session.state.refs.all():
        zone, dataset = refs.parse(ref)
        if zone not in ("processed", "published") or not version:
            continue
        if session.state.ledger.version(dataset, version) is None:
            yield Drift(place="storage", dataset=dataset, what="missing", about=f"record of {version}")
        try:
            for name in manifests.parts(readable_objects(session), version):
                if not session.objects.has(name):
                    yield Drift(place="storage", dataset=dataset, what="missing", about=name)
            for entry in manifests.entries(readable_objects(session), version):
                if not session.objects.has(entry.digest):
                    yield Drift(place="storage", dataset=dataset, what="missing", about=entry.digest)
        except Denied:  # without the custodian's key its parts cannot be listed
            continue
        except KfmError:
            yield Drift(place="storage", dataset=dataset, what="altered", about=version)


def _behind(session: Session) -> Iterator[Drift]:
    for each in sink_progress(session):
        if each.lag > each.waiting:
            yield Drift(place="sink", dataset="", what="behind", about=each.name)
        for message in each.dead:
            yield Drift(place="sink", dataset=message.dataset, what="refused", about=f"{each.name} {message.index}")


def repair(session: Session, **who: str) -> tuple[list[Drift], list[Drift], list[tuple[str, KfmError]]]:
    """Repair what can be rebuilt from the state, and record that before the first change. Return the differences
    before, those after, and the problems. Lost objects are not repaired: they must be restored from a backup."""
    before, _ = drifts(session)
    rebuilt = [each for each in before if each.place not in ("storage", "evidence")]
    if rebuilt:
        record_repair(session, [(each.place, each.dataset, each.what, each.about) for each in rebuilt], **who)
    undrawn = [(key, row) for _, key, row in _missing_edges(session)]
    if undrawn:
        with session.state.transaction():
            session.tables.put_many("lineage", undrawn)
    problems: list[tuple[str, KfmError]] = []
    try:
        settle_session(session, again=True)
    except KfmError as problem:
        if not session.undelivered:
            raise
        problems += session.undelivered or [("", problem)]
    problems += [("", problem) for problem in session.sink_problems]
    problems += repair_all(session, published_datasets(session))[2]
    export_again(session)
    if session.config.catalog:
        try:
            build(session)
        except KfmError as problem:
            problems.append(("catalog", problem))
    if session.config.graph:
        try:
            tell_again(session)
        except KfmError as problem:
            problems.append(("graph", problem))
    after, unseen = drifts(session)
    return before, after, [*problems, *unseen]
