"""Two checks of a promotion that the policies permit: are the new catalog documents valid, and is the lineage of the
version complete and free of cycles? Any doubt denies the promotion."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import msgspec

from kfm.app.metadata.schema_store import is_installed
from kfm.app.session.session import Session
from kfm.clock import rfc3339
from kfm.config.config_loader import Resolved
from kfm.delivery.public_runs import entry_of
from kfm.errors import Corrupt, KfmError, Unavailable
from kfm.model import refs
from kfm.model.lineage_edges import made_by, used_by, version_named
from kfm.model.records import Decision, LedgerEntry, RefEntry, RefMove

MOST = 5  # faults of each kind that are reported
# What each rule requires: of every version, and if the installation has a catalog.
GRAPH = {
    "graph.broken": "the lineage graph agrees with the receipts of everything it was made of",
    "graph.circle": "no version was made of itself, directly or through others",
    "graph.orphan": "every version it was made of has a record",
}
CATALOG = {
    "catalog.links": "every link in its catalog documents leads to a file",
    "catalog.schema": "its catalog documents are valid by the schemas they name",
    "catalog.unchecked": "its catalog documents can be checked here",
}

Version = tuple[str, str]  # dataset and digest


class Fault(NamedTuple):
    """A broken rule, and the reason."""

    rule: str
    reason: str


def checked_decision(
    session: Session, decision: Decision, move: RefMove, now_ms: int, fixes: str | None = None
) -> Decision:
    """Return the decision unchanged, or denied with the faults that were found. `fixes` are the hotfixes that would be
    applied then; None: those of now."""
    found = faults(session, move, now_ms, fixes)
    if not found:
        return decision
    return msgspec.structs.replace(
        decision, allow=False, rules=[each.rule for each in found], reasons=[each.reason for each in found]
    )


def faults(session: Session, move: RefMove, now_ms: int, fixes: str | None = None) -> list[Fault]:
    """Return the first few faults of each kind that speak against the move."""
    dataset = refs.parse(move.ref).dataset
    found = list(islice(_graph(session, (dataset, move.after)), MOST))
    if is_gated(session.resolved):
        found += islice(_catalog(session, move, now_ms, fixes), MOST)
    return found


def rules_required(session: Session) -> dict[str, str]:
    """Return the rules of lineage and catalog that a promotion in this installation must meet, with what each
    requires."""
    return {**CATALOG, **GRAPH} if is_gated(session.resolved) else GRAPH


def is_gated(resolved: Resolved) -> bool:
    """Say whether the catalog is checked before a promotion. A catalog that is written by default is not if the library
    for checks is missing: nothing could be promoted."""
    return bool(resolved.config.catalog) and (is_installed() or resolved.origins["catalog"] != "default")


# -- the catalog


def _catalog(session: Session, move: RefMove, now_ms: int, fixes: str | None) -> Iterator[Fault]:
    try:
        yield from _documents(session, move, now_ms, fixes)
    except Unavailable as problem:
        yield Fault("catalog.unchecked", f"catalog: {problem.message}; {problem.hint}")
    except KfmError as problem:
        yield Fault("catalog.schema", f"catalog: its documents cannot be made: {problem.code}")
    except Exception as problem:  # an author's metadata may raise anything, and the message may quote it
        yield Fault("catalog.schema", f"catalog: its documents cannot be made ({type(problem).__name__})")


def _documents(session: Session, move: RefMove, now_ms: int, fixes: str | None) -> Iterator[Fault]:
    """Yield the faults of each document that the move would write: violations of its schemas, and links to missing
    files."""
    from kfm.app.metadata.catalog_validation import check, inside
    from kfm.app.metadata.catalogs import predicted_changes

    dataset = refs.parse(move.ref).dataset
    moves = list(session.state.refs.history(move.ref))
    if not moves or moves[-1].after != move.after:
        moves.append(_as_if(move, len(moves) + 1, now_ms))
    changes, whole = predicted_changes(session, dataset, moves, fixes)
    there: set[str] = set()
    gone: set[str] = set()
    leads: dict[str, str] = {}
    for path, body in changes:
        if body is None:
            gone.add(path)
            continue
        there.add(path)
        if path.endswith(".html"):  # for readers, and made from the same content
            continue
        document = msgspec.json.decode(body)
        for problem in check(document)[1]:
            yield Fault("catalog.schema", f"catalog: {path}{problem.place}: {problem.reason}")
        for _, href in inside(document):
            leads.setdefault(_joined(path, href), path)
    for target, path in leads.items():
        mine = target.startswith(f"{dataset}/")
        if target in gone or (whole and mine and target not in there):
            yield Fault("catalog.links", f"catalog: a link of {path} would lead to no file")


def _as_if(move: RefMove, number: int, now_ms: int) -> RefEntry:
    return RefEntry(
        ref=move.ref, n=number, before=move.before, after=move.after, run_id="", op="promote", actor="", reason="",
        ts=rfc3339(now_ms),
    )  # fmt: skip


def _joined(path: str, href: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(path), href.partition("#")[0]))


# -- the graph


def _graph(session: Session, start: Version) -> Iterator[Fault]:
    """Follow everything that a version was made of, back to outside sources, and yield the faults. Each version is
    visited once."""
    way: list[tuple[Version, Iterator[Version | Fault]]] = [(start, _made_of(session, start))]
    on_the_way, met = {start}, {start}
    while way:
        one = next(way[-1][1], None)
        if one is None:
            on_the_way.discard(way.pop()[0])
        elif isinstance(one, Fault):
            yield one
        elif one in on_the_way:
            names = " → ".join(dict.fromkeys(each for (each, _), _ in way))
            yield Fault("graph.circle", f"graph: a version of {one[0]} was made of itself, by way of {names}")
        elif one not in met:
            met.add(one)
            on_the_way.add(one)
            way.append((one, _made_of(session, one)))


def _made_of(session: Session, version: Version) -> Iterator[Version | Fault]:
    """Yield the versions that every maker of this version read, and the faults where the graph contradicts the
    receipts."""
    dataset, digest = version
    state = session.state
    if state.ledger.version(dataset, digest) is None:
        yield Fault("graph.orphan", f"graph: a version of {dataset} that was read has no record")
        return
    for run_id in state.lineage.makers(dataset, digest):
        receipt = state.ledger.receipt(run_id)
        if receipt is None or made_by(receipt) != digest:
            yield Fault("graph.broken", f"graph: run {run_id} is listed as a maker, but its receipt disagrees")
            continue
        entry = _entry(session, run_id)
        for address, checksum in used_by(receipt):
            key = f"used/{address}#{checksum}@{entry.index if entry else 0:012d}"
            if entry is None or state.tables.get("lineage", key) != run_id.encode():
                yield Fault("graph.broken", f"graph: an edge of run {run_id} is missing")
            read = version_named(address, checksum)
            if read is not None and checksum and read != version:  # an input that did not exist was not read
                yield read


def _entry(session: Session, run_id: str) -> LedgerEntry | None:
    try:
        return entry_of(session.state, run_id)
    except Corrupt:
        return None
