"""The lineage of a dataset for one audience: its neighbours first, collapsed by dataset, and more on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kfm.app.provenance.lineage import Direction, Point, neighbours
from kfm.app.serving.served_records import Link
from kfm.model import refs
from kfm.model.records import Record

if TYPE_CHECKING:
    from kfm.app.serving.discretion import Discretion
    from kfm.app.session.session import Session

MOST = 1000  # nodes of an answer
EXAMINED = 2000  # runs in each direction that the audience may see; with those that it may not, ten times as many
WITHHELD = "kfm://withheld/"


class LineageNode(Record, frozen=True):
    """A dataset or a source."""

    id: str
    kind: str  # dataset or source
    name: str
    is_shown: bool  # it has a page
    depth: int  # runs from the dataset; less than 0: it was made of this


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
    limit: int
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    is_whole: bool  # nothing that the caller may see was left out or lies beyond this depth
    is_cut: bool  # nodes within this depth were left out: `limit` asks for more
    links: tuple[Link, ...]
    ledger_entries: int


def lineage_answer(
    session: Session, seen: Discretion, dataset: str, version: str, depth: int, limit: int, index: int
) -> LineageAnswer:
    """Return the lineage of a version up to `depth` runs away, the nearest nodes first, at most `limit` of them. What
    this audience may not see ends a path."""
    walk = _Walk(session, seen, dataset, limit)
    directions: tuple[Direction, ...] = ("upstream", "downstream")
    for direction in directions:
        walk.follow(Point("version", dataset, version), direction, depth)
    at = f"/v1/datasets/{dataset}/lineage"
    links = [
        Link(rel="self", href=f"{at}?depth={depth}&limit={limit}"),
        Link(rel="alternate", href=f"/lineage/{dataset}", type="text/html", title="the page"),
        Link(rel="focus", href=f"/v1/focus/{dataset}", title="how it was produced"),
    ]
    if walk.is_cut:
        more = min(limit * 4, MOST)
        links.append(Link(rel="next", href=f"{at}?depth={depth}&limit={more}", title="more nodes"))
    elif walk.goes_on:
        links.append(Link(rel="next", href=f"{at}?depth={depth + 1}&limit={limit}", title="one run further"))
    edges = (LineageEdge(source=a, target=b, runs=len(found)) for (a, b), found in sorted(walk.runs.items()))
    return LineageAnswer(
        dataset=dataset,
        version=version,
        depth=depth,
        limit=limit,
        nodes=tuple(walk.nodes.values()),
        edges=tuple(edges),
        is_whole=not (walk.is_cut or walk.goes_on),
        is_cut=walk.is_cut,
        links=tuple(links),
        ledger_entries=index,
    )


class _Walk:
    """The nodes that were reached, run by run. It reads no more runs than it needs for its nodes."""

    def __init__(self, session: Session, seen: Discretion, dataset: str, limit: int) -> None:
        self._session = session
        self._seen = seen
        self._limit = limit
        self._read = self._found = 0
        own = LineageNode(id=f"dataset:{dataset}", kind="dataset", name=dataset, is_shown=True, depth=0)
        self.nodes = {own.id: own}
        self.runs: dict[tuple[str, str], set[str]] = {}
        self.is_cut = False  # nodes within the depth were left out
        self.goes_on = False  # something that this audience may see lies beyond the depth

    def follow(self, start: Point, direction: Direction, depth: int) -> None:
        """Add what is reached in one direction, the nearest first."""
        frontier, met = [start], {start}
        self._read = self._found = 0
        for level in range(1, depth + 1):
            following: list[Point] = []
            for point in frontier:
                for run_id, node, to in self._shown(point, direction):
                    if not self._add(point, run_id, node, direction, level):
                        self.is_cut = True
                        return
                    if to not in met:
                        met.add(to)
                        following.append(to)
            frontier = following
        for point in frontier:
            beyond = (to for _, _, to in self._shown(point, direction) if to not in met)
            if next(beyond, None) is not None:
                self.goes_on = True
                return

    def _shown(self, point: Point, direction: Direction) -> Iterator[tuple[str, LineageNode, Point]]:
        """Yield what lies one run away and may be seen: the run, the node, and the thing that the node stands for."""
        for _, run, to in neighbours(self._session, point, direction):
            self._read += 1
            if self._read > 10 * EXAMINED:  # without a word: the answer must not tell that so much is hidden
                return
            node = _node(self._seen, to, is_open=self._seen.is_open(run)) if self._seen.may_show(run) else None
            if node is None:
                continue
            self._found += 1
            if self._found > EXAMINED:
                self.is_cut = True
                return
            yield run.run_id, node, to

    def _add(self, point: Point, run_id: str, node: LineageNode, direction: Direction, level: int) -> bool:
        """Add a node and its edge. False if there is no room for it."""
        if node.id not in self.nodes:
            if len(self.nodes) >= self._limit:
                return False
            self.nodes[node.id] = replace(node, depth=-level if direction == "upstream" else level)
        before = _id_of(point)
        edge = (node.id, before) if direction == "upstream" else (before, node.id)
        if edge[0] != edge[1]:
            self.runs.setdefault(edge, set()).add(run_id)
        return True


def _id_of(point: Point) -> str:
    if point.kind == "source":
        return f"source:{point.id}"
    return f"dataset:{point.id if point.kind == 'version' else refs.parse(point.id).dataset}"


def _node(seen: Discretion, point: Point, *, is_open: bool) -> LineageNode | None:
    """Return the node of a point; None if the audience may not see it."""
    if point.kind == "source":
        if not is_open or point.id.startswith(WITHHELD):
            return None
        return LineageNode(id=_id_of(point), kind="source", name=point.id, is_shown=False, depth=0)
    dataset = point.id if point.kind == "version" else refs.parse(point.id).dataset
    if not seen.may_name(dataset):
        return None
    shown = seen.shelf.find(dataset) is not None
    return LineageNode(id=_id_of(point), kind="dataset", name=dataset, is_shown=shown, depth=0)
