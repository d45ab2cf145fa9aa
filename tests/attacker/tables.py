"""Synthetic protected tables, each in three versions. They are made so that a careless product would leak.

Rows and ids of a source follow the latitude, lengths of withheld texts follow the place, and one column that no policy
lists is filled only in the east. Places are uniform in their cells, so every half of a cell is right for half of them.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from typing import NamedTuple

import h3

Point = tuple[float, float]  # latitude, longitude
KINDS = ("village", "camp", "mound", "quarry")
FORMATS = ("csv", "ndjson", "geojson")
COLUMNS = ("site", "lat", "lon", "kind", "age", "dug", "remarks", "owner")


class Site(NamedTuple):
    id: str
    point: Point
    digits: int  # decimals in which the source writes the place
    kind: str
    age: int
    dug: str

    def written(self) -> dict[str, str]:
        lat, lon = (f"{value:.{self.digits}f}" for value in self.point)
        north = self.point[0] > h3.cell_to_latlng(h3.latlng_to_cell(*self.point, 6))[0]
        return {
            "site": self.id,
            "lat": lat,
            "lon": lon,
            "kind": self.kind,
            "age": str(self.age),
            "dug": self.dug,
            "remarks": f"near {lat} {lon}" + (", on the upper terrace of the creek" if north else ""),
            "owner": "a family" if self.point[1] > h3.cell_to_latlng(h3.latlng_to_cell(*self.point, 6))[1] else "",
        }


class Table(NamedTuple):
    name: str
    format: str
    resolution: int
    versions: tuple[tuple[Site, ...], ...]

    @property
    def places(self) -> dict[str, Point]:
        """The place of every site, as the last version that has it says."""
        return {site.id: site.point for version in self.versions for site in version}

    def body(self, version: int) -> str:
        rows = [site.written() for site in sorted(self.versions[version], key=lambda site: site.point)]
        if self.format == "csv":
            return (
                "\n".join([",".join(COLUMNS), *(",".join(quoted(row[name]) for name in COLUMNS) for row in rows)])
                + "\n"
            )
        if self.format == "ndjson":
            return "".join(json.dumps(row) + "\n" for row in rows)
        return json.dumps({"type": "FeatureCollection", "features": [feature(row) for row in rows]})

    def mask(self) -> str:
        """The masking policy, as a steward writes it."""
        where = "geometry: true" if self.format == "geojson" else "latitude: lat, longitude: lon"
        return (
            f'id: {self.name}\nversion: "1"\nnamespace: {self.name}\nrecord_id: site\nresolution: {self.resolution}\n'
            f"location: {{{where}, accuracy: {{all: {{name: point, metres: 10}}}}}}\n"
            "columns:\n  kind: {kind: code, values: [village, camp, mound]}\n  age: {kind: number, step: 50}\n"
            "  dug: {kind: date, to: decade, name: excavated}\n  remarks: {kind: text}\n"
        )


def quoted(text: str) -> str:
    return f'"{text}"' if "," in text else text


def feature(row: dict[str, str]) -> dict[str, object]:
    own = {name: value for name, value in row.items() if name not in ("lat", "lon")}
    point = {"type": "Point", "coordinates": [float(row["lon"]), float(row["lat"])]}
    return {"type": "Feature", "geometry": point, "properties": own}


def table(seed: int) -> Table:
    """A table of some 15 sites in a few cells. The second version has one site more, a site measured again in its cell
    and one measured again beyond the edge of its cell; the third has another site more and one less. Finer cells are in
    the east: a fine cell around a place that another table shows in a coarse one is denied."""
    rng = random.Random(f"table {seed}")
    resolution, digits, west = ((6, 6, -101.8), (7, 3, -98.4))[seed // 10 % 2]
    points: list[Point] = []
    while len(points) < 16:
        at = rng.uniform(37.2, 39.8), rng.uniform(west, west + 3.2)
        cell = h3.latlng_to_cell(*at, resolution)
        points += [within(rng, cell, digits) for _ in range(rng.choice((1, 1, 2, 3)))]
    points.sort()
    sites = [
        Site(
            f"14{'ABCDEFGHKL'[seed % 10]}{'OTWX'[seed // 10 % 4]}{100 * (seed // 40) + number}",
            point,
            digits,
            rng.choice(KINDS),
            rng.randrange(200, 9000),
            f"19{rng.randrange(20, 99)}-0{rng.randrange(1, 10)}-1{rng.randrange(10)}",
        )
        for number, point in enumerate(points, 101)
    ]
    order = rng.sample(range(len(sites)), len(sites))
    late, later, gone, again, beyond = (sites[at] for at in order[:5])
    measured = again._replace(point=near(rng, again.point, resolution), digits=6)
    before, after = edge(rng, h3.latlng_to_cell(*beyond.point, resolution), resolution)
    first = [beyond._replace(point=before, digits=6) if site == beyond else site for site in sites]
    first = [site for site in first if site not in (late, later)]
    moved = {again.id: measured, beyond.id: beyond._replace(point=after, digits=6)}
    second = [moved.get(site.id, site) for site in [*first, late]]
    third = [site for site in [*second, later] if site != gone]
    return Table(f"sites{seed}", FORMATS[seed % 3], resolution, (tuple(first), tuple(second), tuple(third)))


def within(rng: random.Random, cell: str, digits: int) -> Point:
    """A place in the cell, all equally likely, with as many decimals as the source writes."""
    lats, lons = zip(*h3.cell_to_boundary(cell), strict=True)
    while True:
        point = round(rng.uniform(min(lats), max(lats)), digits), round(rng.uniform(min(lons), max(lons)), digits)
        if h3.latlng_to_cell(*point, h3.get_resolution(cell)) == cell:
            return point


def near(rng: random.Random, point: Point, resolution: int) -> Point:
    """A place some metres away in the same cell."""
    while True:
        other = round(point[0] + rng.uniform(-1e-4, 1e-4), 6), round(point[1] + rng.uniform(-1e-4, 1e-4), 6)
        if h3.latlng_to_cell(*other, resolution) == h3.latlng_to_cell(*point, resolution):
            return other


def edge(rng: random.Random, cell: str, resolution: int, away_by: float = 15e-5) -> tuple[Point, Point]:
    """Two places, each so many degrees from an edge: the first in the cell, the second in a neighbour."""
    centre, angle = h3.cell_to_latlng(cell), rng.uniform(0, 2 * math.pi)

    def away(degrees: float) -> Point:
        return round(centre[0] + math.cos(angle) * degrees, 6), round(centre[1] + math.sin(angle) * degrees, 6)

    inside, outside = 0.0, 1.0
    while outside - inside > 2e-6:
        middle = (inside + outside) / 2
        if h3.latlng_to_cell(*away(middle), resolution) == cell:
            inside = middle
        else:
            outside = middle
    before, after = away(inside - away_by), away(outside + away_by)
    assert h3.latlng_to_cell(*before, resolution) == cell != h3.latlng_to_cell(*after, resolution)
    return before, after


def tables(seeds: Iterable[int]) -> list[Table]:
    return [table(seed) for seed in seeds]
