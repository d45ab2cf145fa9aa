"""The lineage of a dataset for one audience: its neighbours first, collapsed by dataset, and more on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.provenance.lineage import Direction, lineage
from kfm.app.provenance.lineage import Point as LineagePoint
from kfm.app.serving.run_reader import find_shown_run
from kfm.app.serving.served_records import Link
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session

MOST = 200  # nodes of an answer
WITHHELD = "kfm://withheld/"


class LineageNode(Record, frozen=True):
    """A dataset or a source."""

    id: str
    kind: str  # dataset or source
    name: str
    is_shown: bool  # it has a page


class LineageEdge(Record, frozen=True):
    """Runs that read one node and made another."""

    source: str  # the id of the node that was read
    target: str
    runs: int


class LineageAnswer(Record, frozen=True):
    """What a dataset was made of, and what was made of it."""

    dataset: str
    version: str
    depth: int
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    is_whole: bool  # nothing lies beyond this depth
    links: tuple[Link, ...]
    ledger_entries: int


def lineage_answer(
    session: Session, seen: Discretion, dataset: str, version: str, depth: int, index: int
) -> LineageAnswer:
    """Return the lineage of a version up to `depth` runs away. What this audience may not see ends a path."""
    own = f"dataset:{dataset}"
    nodes = {own: LineageNode(id=own, kind="dataset", name=dataset, is_shown=True)}
    runs: dict[tuple[str, str], set[str]] = {}
    whole = True
    for direction in ("upstream", "downstream"):
        whole = _walk(session, seen, f"{dataset}@{version}", direction, depth, nodes, runs) and whole
    at = f"/v1/datasets/{dataset}/lineage"
    links = [
        Link(rel="self", href=f"{at}?depth={depth}"),
        Link(rel="alternate", href=f"/lineage/{dataset}", type="text/html", title="the page"),
        Link(rel="focus", href=f"/v1/focus/{dataset}", title="how it was produced"),
    ]
    if not whole:
        links.append(Link(rel="next", href=f"{at}?depth={depth + 1}", title="one run further"))
    edges = (LineageEdge(source=a, target=b, runs=len(found)) for (a, b), found in sorted(runs.items()))
    return LineageAnswer(
        dataset=dataset,
        version=version,
        depth=depth,
        nodes=tuple(nodes.values()),
        edges=tuple(edges),
        is_whole=whole,
        links=tuple(links),
        ledger_entries=index,
    )


def _walk(
    session: Session,
    seen: Discretion,
    text: str,
    direction: Direction,
    depth: int,
    nodes: dict[str, LineageNode],
    runs: dict[tuple[str, str], set[str]],
) -> bool:
    """Add what is reached in one direction. Return whether nothing lies beyond."""
    try:
        found = lineage(session, text, direction, depth)
    except BadInput:
        return True
    reached: set[LineagePoint] = {found.thing}
    open_runs: dict[str, bool | None] = {}
    for step in found.steps:
        if step.of not in reached:
            continue
        if step.run_id not in open_runs:
            run = find_shown_run(session, seen, step.run_id)
            open_runs[step.run_id] = run.is_open if run is not None else None
        is_open = open_runs[step.run_id]
        node = _node(seen, step.to, is_open=bool(is_open)) if is_open is not None else None
        before = _node(seen, step.of, is_open=bool(is_open))
        if node is None or before is None or len(nodes) >= MOST:
            continue
        reached.add(step.to)
        nodes.setdefault(node.id, node)
        edge = (node.id, before.id) if direction == "upstream" else (before.id, node.id)
        if edge[0] != edge[1]:
            runs.setdefault(edge, set()).add(step.run_id)
    return found.whole


def _node(seen: Discretion, point: LineagePoint, *, is_open: bool) -> LineageNode | None:
    """Return the node of a point; None if the audience may not see it."""
    if point.kind == "source":
        if not is_open or point.id.startswith(WITHHELD):
            return None
        return LineageNode(id=f"source:{point.id}", kind="source", name=point.id, is_shown=False)
    dataset = point.id if point.kind == "version" else refs.parse(point.id).dataset
    if not seen.may_name(dataset):
        return None
    shown = seen.shelf.find(dataset) is not None
    return LineageNode(id=f"dataset:{dataset}", kind="dataset", name=dataset, is_shown=shown)
