"""`kfm lineage graph`: which datasets are derived from which, and whether each is derived from current versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kfm.app.runs.due_schedules import dependencies, schedules_of
from kfm.config.upstream_datasets import above, metadata_of, read_by
from kfm.model import refs
from kfm.model.labels import PUBLISHABLE
from kfm.model.operation_target import REF
from kfm.model.records import DatasetVersion, RefEntry
from kfm.model.reports.dataset_dependencies import STANDS, Asset, AssetGraph, Dependency, Stands
from kfm.projections import dependency_tree

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.schedules import Schedule

LOOKED_AT = 1000  # moves of a ref that are searched for a version


def graph(session: Session, wanted: str = "") -> AssetGraph:
    """Return the graph of all datasets, or of one with everything upstream and downstream of it."""
    schedules = schedules_of(session.resolved)
    upstream = dependencies(session.resolved, schedules)
    names = [name for name in sorted(session.config.datasets) if _belongs(upstream, name, wanted)]
    order = _ordered(names, upstream)
    with session.state.reading():
        current = {name: _current(session, name) for name in order}
        levels = {name: str(metadata_of(session.config.datasets, name).get("sensitivity", "unsaid")) for name in order}
        found: list[Dependency] = []
        assets: list[Asset] = []
        statuses: dict[str, Stands] = {}
        for name in order:
            own = [each for each in _of(session, name, upstream, current, levels) if each.of in current]
            found += own
            statuses[name] = _together(current[name], own, statuses)
            assets.append(_asset(session, name, statuses[name], current[name], levels[name], schedules))
    return AssetGraph(assets=assets, dependencies=found)


def _belongs(upstream: Mapping[str, set[str]], name: str, wanted: str) -> bool:
    return wanted in ("", name) or name in above(upstream, wanted) or wanted in above(upstream, name)


def _ordered(names: list[str], upstream: Mapping[str, set[str]]) -> list[str]:
    """Return the names with each dataset after those it depends on, else by name."""
    done: dict[str, None] = {}
    kept = set(names)
    for name in names:
        path = [name]
        while path:
            missing = sorted(each for each in upstream.get(path[-1], ()) if each in kept and each not in done)
            if missing:
                path.append(missing[0])
            else:
                done[path.pop()] = None
    return list(done)


def _current(session: Session, name: str) -> DatasetVersion | None:
    at = session.state.refs.at(refs.processed(name))
    return session.state.ledger.version(name, at) if at else None


def _together(version: DatasetVersion | None, own: list[Dependency], stands: Mapping[str, Stands]) -> Stands:
    if version is None:
        return "never made"
    worst = STANDS[max((STANDS.index(each.stands) for each in own), default=0)]
    if worst == "current" and any(stands.get(each.of) not in ("current", None) for each in own if each.how == "reads"):
        return "above"
    return worst


def _asset(
    session: Session, name: str, stands: Stands, version: DatasetVersion | None, level: str, schedules: list[Schedule]
) -> Asset:
    declared = session.config.datasets[name]
    when = [each.cron or (f"after {', '.join(each.after)}" if each.after else "static") for each in schedules
            if each.dataset == name]  # fmt: skip
    return Asset(
        dataset=name,
        stands=stands,
        version=version.digest if version is not None and level in PUBLISHABLE else "",
        made_at=version.created_at if version is not None else "",
        level=level,
        when="; ".join(when) or "when asked for",
        outside=sum(1 for source in declared.sources.values() if not source.dataset),
    )


def _of(
    session: Session,
    name: str,
    upstream: Mapping[str, set[str]],
    current: Mapping[str, DatasetVersion | None],
    levels: Mapping[str, str],
) -> Iterator[Dependency]:
    read = set()
    version = current[name]
    run = session.state.runs.get(version.validated_by or version.run_id) if version is not None else None
    made = {(ref.name, ref.uri): ref.content_hash for ref in run.inputs} if run is not None else {}
    for source, other, said in read_by(session.config.datasets[name]):
        read.add(other)
        ref = refs.in_zone(said.zone, other)
        was = made.get((source, REF + ref), "")
        status, since, says = _status(session, ref, other, was, said.version) if version is not None else _never(name)
        may_tell = levels.get(other) in PUBLISHABLE
        yield Dependency(
            of=other,
            to=name,
            how="reads",
            source=source,
            zone=said.zone,
            pinned=said.version,
            made_of=was if may_tell else "",
            now=session.state.refs.at(ref) if may_tell else "",
            stands=status,
            since=since,
            says=says,
        )
    for other in sorted(upstream.get(name, set()) - read):
        yield Dependency(of=other, to=name, how="after")


def _never(name: str) -> tuple[Stands, str, str]:
    return "never made", "", f"{name} was never made"


def _status(session: Session, ref: str, other: str, was: str, pinned: str) -> tuple[Stands, str, str]:
    """Return the status of the version that was read, since when, and a sentence about it."""
    now = pinned or session.state.refs.at(ref)
    left = _left(session, ref, was)
    if not now:
        return "withdrawn", left.ts if left is not None else "", f"{ref} was withdrawn: there is nothing to read"
    if not was:
        return "behind", "", f"it was not made of {other} yet"
    if was != now and left is not None and left.op == "rollback":
        return "rolled back", left.ts, f"the version of {other} it was made of was rolled back"
    if was != now:
        what = f"kfm.yml names another version of {other}" if pinned else f"{other} has a newer version"
        return "behind", left.ts if left is not None else "", what
    public = refs.published(other)
    taken = _left(session, public, was)
    if taken is not None and taken.op == "rollback" and session.state.refs.at(public) != was:
        return "withdrawn", taken.ts, f"the version of {other} it was made of was withdrawn from the public"
    return "current", "", ""


def _left(session: Session, ref: str, version: str) -> RefEntry | None:
    """Return the last move of a ref away from a version; None if there is none."""
    moves = session.state.refs.history(ref, reverse=True, limit=LOOKED_AT)
    return next((move for move in moves if version and move.before == version), None)


def written(found: AssetGraph, form: str) -> str:
    """Return the graph as text, as a Mermaid chart or as an HTML page."""
    return {"text": dependency_tree.as_text, "mermaid": dependency_tree.chart, "html": dependency_tree.page}[form](
        found
    )
