"""SVG pictures of an explanation that load nothing: the chain as a graph, the extent as a map. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from kfm.projections.explanation import ChainLink

WIDE, TALL, GAP, DROP = 190, 64, 46, 22  # width and height of a box, and the gaps between boxes
MOST_IN_COLUMN = 24
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)


def graph(links: Sequence[ChainLink], title: str) -> str:
    """Return the graph: boxes in columns from left to right, by their longest path from a raw item, with arrows between
    them.
    """
    columns = _columns(links)
    tallest = max((len(column) for column in columns), default=1)
    width = len(columns) * WIDE + (len(columns) - 1) * GAP + 4
    height = tallest * TALL + (tallest - 1) * DROP + 4
    at: dict[int, tuple[float, float]] = {}
    for number, column in enumerate(columns):
        top = (height - (len(column) * TALL + (len(column) - 1) * DROP)) / 2
        for row, place in enumerate(column):
            at[place] = number * (WIDE + GAP) + 2, top + row * (TALL + DROP)
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}">',
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0 L10 5 L0 10 z"/></marker></defs>',
        *_arrows(links, at),
    ]
    for place, (x, y) in sorted(at.items()):
        link = links[place]
        body.append(
            f'<g class="box {link.stage}{" closed" if link.level != "public" else ""}">'
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDE}" height="{TALL}" rx="{10 if link.run_id else 2}"/>'
            f'<text class="stage" x="{x + 12:.0f}" y="{y + 18:.0f}">{escape(link.stage)}</text>'
            f'<text class="name" x="{x + 12:.0f}" y="{y + 37:.0f}">{escape(_fit(link.name, 24))}</text>'
            f'<text class="digest" x="{x + 12:.0f}" y="{y + 54:.0f}">{escape(link.digest[7:19])}</text></g>'
        )
    return "".join([*body, "</svg>"])


def _columns(links: Sequence[ChainLink]) -> list[list[int]]:
    """Assign boxes to columns by their longest path from a raw item. A column that is too long keeps its
    first boxes.
    """
    depth: list[int] = []
    for link in links:  # its inputs come before it
        depth.append(1 + max((depth[place] for place in link.reads), default=-1))
    columns: list[list[int]] = [[] for _ in range(max(depth, default=0) + 1)]
    for place, deep in enumerate(depth):
        if len(columns[deep]) < MOST_IN_COLUMN:
            columns[deep].append(place)
    return columns


def _arrows(links: Sequence[ChainLink], at: dict[int, tuple[float, float]]) -> Iterator[str]:
    for place, (x, y) in sorted(at.items()):
        for read in links[place].reads:
            if read in at:
                left, above = at[read][0] + WIDE, at[read][1] + TALL / 2
                end, bend = y + TALL / 2, max((x - left) / 2, 20)
                yield (
                    f'<path class="arrow" marker-end="url(#tip)" d="M{left:.0f} {above:.0f} C{left + bend:.0f} '
                    f'{above:.0f} {x - bend:.0f} {end:.0f} {x - 2:.0f} {end:.0f}"/>'
                )


def _fit(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def extent_map(extent: Sequence[float], title: str) -> str:
    """Return a map of the extent with meridians and parallels around it. It has no coastlines, so it needs
    no map data.
    """
    west, south, east, north = extent
    if east < west:  # across the antimeridian
        east += 360
    wide, high = max(east - west, 0.02), max(north - south, 0.02)
    west_, east_ = west - wide * 0.6, east + wide * 0.6
    south_, north_ = max(-90.0, south - high * 0.6), min(90.0, north + high * 0.6)
    narrow = max(0.1, math.cos(math.radians((south + north) / 2)))
    scale = min(360 / ((east_ - west_) * narrow), 260 / (north_ - south_))
    width, height = (east_ - west_) * narrow * scale, (north_ - south_) * scale

    def x(lng: float) -> float:
        return 44 + (lng - west_) * narrow * scale

    def y(lat: float) -> float:
        return 10 + (north_ - lat) * scale

    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {width + 60:.0f} {height + 34:.0f}" width="{width + 60:.0f}" height="{height + 34:.0f}">',
        f'<rect class="sea" x="44" y="10" width="{width:.1f}" height="{height:.1f}"/>',
    ]
    step = next((one for one in _STEPS if max(east_ - west_, north_ - south_) / one <= 8), _STEPS[-1])
    for number in range(math.ceil(west_ / step), math.floor(east_ / step) + 1):
        at, label = x(number * step), f"{(number * step + 180) % 360 - 180:.4g}°"
        body.append(f'<path class="line" d="M{at:.1f} 10 V{height + 10:.1f}"/>')
        body.append(f'<text class="degree" text-anchor="middle" x="{at:.1f}" y="{height + 26:.1f}">{label}</text>')
    for number in range(math.ceil(south_ / step), math.floor(north_ / step) + 1):
        at = y(number * step)
        body.append(f'<path class="line" d="M44 {at:.1f} H{width + 44:.1f}"/>')
        body.append(f'<text class="degree" text-anchor="end" x="40" y="{at + 4:.1f}">{number * step:.4g}°</text>')
    body.append(
        f'<rect class="extent" x="{x(west):.1f}" y="{y(north):.1f}" width="{max(wide * narrow * scale, 3):.1f}" '
        f'height="{max(high * scale, 3):.1f}"/></svg>'
    )
    return "".join(body)
