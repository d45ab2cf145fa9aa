"""The lineage of a dataset as an SVG from the server: what it was made of to its left, what was made of it to its
right. A column shows its first boxes and counts the others, so that a page stays small however much is known."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kfm.app.serving.lineage_answers import LineageAnswer, LineageNode

WIDE, TALL, GAP, DROP = 190, 50, 46, 18  # width and height of a box, and the gaps between boxes
MOST_IN_COLUMN = 24
MOST_ARROWS = 2000
_LETTERS = 24  # of a name in a box


class _Box(NamedTuple):
    x: float
    y: float


def lineage_picture(told: LineageAnswer) -> str:
    columns: dict[int, list[LineageNode]] = {}
    for node in told.nodes:
        columns.setdefault(node.depth, []).append(node)
    drawn = {depth: found[:MOST_IN_COLUMN] for depth, found in sorted(columns.items())}
    rows = {depth: len(found) + (len(columns[depth]) > len(found)) for depth, found in drawn.items()}
    width = len(drawn) * (WIDE + GAP) - GAP + 4
    height = max(rows.values()) * (TALL + DROP) - DROP + 4
    at: dict[str, _Box] = {}
    body: list[str] = []
    for number, (depth, found) in enumerate(drawn.items()):
        x, y = number * (WIDE + GAP) + 2, (height - rows[depth] * (TALL + DROP) + DROP) / 2
        for node in found:
            at[node.id] = _Box(x, y)
            body.append(_node(node, at[node.id], is_own=node.name == told.dataset and node.kind == "dataset"))
            y += TALL + DROP
        if left := len(columns[depth]) - len(found):
            body.append(f'<a href="#edges">{_box("more", f"and {left:,} more", "", _Box(x, y))}</a>')
    return "".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="group" aria-label="The lineage of {escape(told.dataset)}; '
            f'the table below says the same" viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}">',
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            'orient="auto"><path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
            *_arrows(told, at),
            *body,
            "</svg>",
        )
    )


def _node(node: LineageNode, at: _Box, *, is_own: bool) -> str:
    kind = "raw" if node.kind == "source" else "derived" if is_own else "harmonised"
    box = _box(kind, node.name, node.kind, at)
    return f'<a href="/lineage/{escape(node.name)}">{box}</a>' if node.is_shown and not is_own else box


def _box(kind: str, name: str, word: str, at: _Box) -> str:
    shown = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
    return (
        f'<g class="box {kind}"><title>{escape(name)}</title>'
        f'<rect x="{at.x:.0f}" y="{at.y:.0f}" width="{WIDE}" height="{TALL}" rx="{2 if kind == "raw" else 10}"/>'
        f'<text class="stage" x="{at.x + 12:.0f}" y="{at.y + 18:.0f}">{escape(word)}</text>'
        f'<text class="name" x="{at.x + 12:.0f}" y="{at.y + 37:.0f}">{escape(shown)}</text></g>'
    )


def _arrows(told: LineageAnswer, at: dict[str, _Box]) -> Iterator[str]:
    count = 0
    for each in told.edges:
        one, other = at.get(each.source), at.get(each.target)
        if one is None or other is None:
            continue
        count += 1
        if count > MOST_ARROWS:
            return
        left, above, end = one.x + WIDE, one.y + TALL / 2, other.y + TALL / 2
        bend = max((other.x - left) / 2, 20)
        yield (
            f'<path class="arrow" marker-end="url(#tip)" d="M{left:.0f} {above:.0f} C{left + bend:.0f} {above:.0f} '
            f'{other.x - bend:.0f} {end:.0f} {other.x - 2:.0f} {end:.0f}"/>'
        )
