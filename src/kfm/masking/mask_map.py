"""Draws protected points, and the cells that the public would see, as an SVG map. It shows what masking hides.

The file refers to nothing outside itself: no style sheet, font, image or script. A program that opens it makes no
request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kfm.masking.cells import shape_of

WIDTH, MOST_TALL, EDGE = 1000.0, 1400.0, 40.0
_STEPS = (10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
_STYLE = (
    ".paper{fill:#fff}.line{stroke:#ddd;stroke-width:1}.cell{fill:#2b6cb0;fill-opacity:.18;stroke:#2b6cb0}"
    ".point{fill:#c53030}text{font:13px sans-serif;fill:#444}.warning{fill:#c53030;font-weight:bold}"
)
_Point = tuple[float, float]  # longitude and latitude


def picture(points: Sequence[_Point], cells: Iterable[str], title: str) -> str:
    """Return the SVG. `points` are longitude and latitude, `cells` H3 texts. A cell across the antimeridian is drawn in
    its parts."""
    rings = [ring for cell in sorted(set(cells)) for ring in _rings(cell)]
    view = _View([*points, *(corner for ring in rings for corner in ring)])
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{view.height:.0f}">',
        f"<title>{_text(title)}</title><style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH:.0f}" height="{view.height:.0f}"/>',
        *view.lines(),
        *(f'<polygon class="cell" points="{" ".join(view.at(corner) for corner in ring)}"/>' for ring in rings),
        *(f'<circle class="point" cx="{view.x(point):.2f}" cy="{view.y(point):.2f}" r="2.5"/>' for point in points),
        f'<text class="warning" x="{EDGE}" y="20">This picture shows protected places. Do not pass it on.</text>',
        f'<text x="{EDGE}" y="{view.height - 8:.0f}">{_text(title)}: {len(points)} points (red), {len(rings)} cells '
        "(blue); the public sees the cells alone</text>",
        "</svg>\n",
    ]
    return "\n".join(body)


class _View:
    """Maps degrees to drawing coordinates. Meridians are drawn parallel, as far apart as they are in the middle of the
    map."""

    def __init__(self, corners: Sequence[_Point]) -> None:
        lngs, lats = zip(*corners, strict=True) if corners else ((0.0,), (0.0,))
        self.west, self.east = float(min(lngs)) - 0.01, float(max(lngs)) + 0.01
        self.south, self.north = float(min(lats)) - 0.01, float(max(lats)) + 0.01
        self.narrow = max(0.05, math.cos(math.radians((self.south + self.north) / 2)))
        across, down = (self.east - self.west) * self.narrow, self.north - self.south
        self.scale: float = min((WIDTH - 2 * EDGE) / across, (MOST_TALL - 2 * EDGE) / down)
        self.height = down * self.scale + 2 * EDGE

    def x(self, point: _Point) -> float:
        return EDGE + (point[0] - self.west) * self.narrow * self.scale

    def y(self, point: _Point) -> float:
        return EDGE + (self.north - point[1]) * self.scale

    def at(self, point: _Point) -> str:
        return f"{self.x(point):.2f},{self.y(point):.2f}"

    def lines(self) -> Iterator[str]:
        """Yield meridians and parallels, about six of each, with their degrees."""
        wide = max(self.east - self.west, self.north - self.south)
        step = next((one for one in reversed(_STEPS) if wide / one <= 8), _STEPS[0])
        for number in range(math.ceil(self.west / step), math.floor(self.east / step) + 1):
            x = self.x((number * step, 0.0))
            yield f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{EDGE}" y2="{self.height - EDGE:.1f}"/>'
            yield f'<text x="{x:.1f}" y="{EDGE - 4}">{number * step:.6g}°</text>'
        for number in range(math.ceil(self.south / step), math.floor(self.north / step) + 1):
            y = self.y((0.0, number * step))
            yield f'<line class="line" x1="{EDGE}" x2="{WIDTH - EDGE}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text x="2" y="{y:.1f}">{number * step:.6g}°</text>'


def _rings(cell: str) -> list[list[_Point]]:
    shape = msgspec.json.decode(shape_of(int(cell, 16)).geometry)
    parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
    return [[(lng, lat) for lng, lat in part[0][:-1]] for part in parts]


def _text(said: str) -> str:
    return said.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
