"""Maintenance that leaves a record: repairs, compaction, building the catalog, and notifying a sink again.

A repair, a compaction and a build are recorded before the first change, so that a kill leaves no change without a
record. A record holds counts, and names only files that are public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kfm.app.metadata import catalogs, ledger_sinks, pages_sink
from kfm.app.runs.execution import problem_of
from kfm.app.runs.run_control import run_operation
from kfm.errors import Conflict, KfmError
from kfm.model import refs
from kfm.model.canonical import canonical

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Receipt

EVERYTHING = "global"  # the scope of maintenance that is not of one dataset
TURNS = 5  # attempts, because another process may record the same operation at the same time
NAMED = 100  # files that a report names; the others are counted


def record(
    session: Session,
    operation: str,
    changes: Mapping[str, Any],
    *,
    dataset: str = EVERYTHING,
    reason: str = "",
    actor: str = "",
) -> Receipt:
    """Store a report on maintenance, move the ref of the operation to it, and return the receipt. Raises the problem
    if the operation ends with another outcome: then nothing may be changed."""
    for turn in range(TURNS):
        report = {"operation": operation, "previous": session.state.refs.at(refs.maintenance(operation)), **changes}
        params = {"to": session.objects.put(canonical(report))}
        try:
            receipt = run_operation(session, operation, dataset, params, reason=reason, actor=actor)
        except Conflict:
            if turn == TURNS - 1:
                raise
            session.clock.sleep(0.05)
            continue
        if (problem := problem_of(receipt)) is None:
            return receipt
        if not isinstance(problem, Conflict) or turn == TURNS - 1:
            raise problem
    raise AssertionError("the last turn returns or raises")


def record_repair(
    session: Session, found: Iterable[tuple[str, str, str, str]], *, dataset: str = EVERYTHING, **who: str
) -> Receipt:
    """Record that these differences are about to be repaired; each has a place, a dataset, a kind and a path. Public
    files that are missing or altered are named; a foreign file is only counted, because its name may be anything."""
    counts: Counter[tuple[str, str, str]] = Counter()
    files: list[str] = []
    for place, name, what, path in found:
        counts[place, name, what] += 1
        if place == "public" and what != "foreign":
            files.append(path)
    rows = [
        {"place": place, "dataset": name, "what": what, "count": count}
        for (place, name, what), count in sorted(counts.items())
    ]
    report = {"differences": rows, "files": sorted(files)[:NAMED]}
    return record(session, "repair", report, dataset=dataset, **who)


def compact(session: Session, **who: str) -> tuple[int, list[Receipt]]:
    """Move the journals of ended runs into the archive. Return how many runs, and the receipt, if there were any. The
    journal of this operation itself moves with them and is not counted."""
    waiting = session.archive.waiting()
    if not waiting:
        return 0, []
    receipt = record(session, "compact", {"runs": waiting}, **who)
    moved = session.archive.compact()
    return moved - session.archive.has(receipt.run_id), [receipt]


def build_catalog(session: Session, **who: str) -> tuple[dict[str, int], list[Receipt]]:
    """Build the configured catalog and the pages. Return the counts, with the pages that changed under `pages`, and the
    receipt, if a file changed. BadInput if neither is configured."""
    config = session.resolved.config
    if not config.catalog and config.pages:
        pages = pages_sink.build(session)
        receipts = [record(session, "catalog", {"pages": pages}, **who)] if pages else []
        return {"files": 0, "written": 0, "removed": 0, "pages": pages}, receipts
    found = catalogs.differences(session)
    kinds = Counter(each.kind for each in found)
    receipts = [record(session, "catalog", {"files": dict(sorted(kinds.items()))}, **who)] if found else []
    counts = catalogs.build(session)
    changed = {name: counts[name] for name in ("written", "removed")}
    if config.pages:
        changed["pages"] = pages_sink.build(session)
    if not receipts and any(changed.values()):
        receipts = [record(session, "catalog", {"files": changed}, **who)]
    return {**counts, **changed}, receipts


def retry_sink(session: Session, name: str, **who: str) -> tuple[list[KfmError], list[Receipt]]:
    """Notify a sink now. Return its problems, and the receipt, if the sink took something that it did not have."""
    problems, changed = ledger_sinks.retry(session, name)
    return problems, [record(session, "sinks", {"sink": name, "changes": changed}, **who)] if changed else []
