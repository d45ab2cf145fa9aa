"""What item search costs: `python bench/items.py [ITEMS]` (default: 1,000,000).

Items of 20 datasets lie in clusters over the earth and over ten years; some cross the date line. Boxes are a degree
wide, twenty, or most of the earth, or lie over the date line; intervals are a month, a year, or none. A page has 100
items. Times are those of the processor, so that other work does not count.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kfm.model.canonical import canonical
from kfm.model.search.item_query import FIELDS, IndexedItem, ItemQuery, with_position
from kfm.parsing.cql2 import parse_filter
from kfm.store.search.item_index import ItemIndex

DATASETS = 20
BEGIN, DAY = 1_420_070_400_000, 86_400_000  # 2015-01-01
TEN_YEARS = 3652 * DAY
Box = tuple[float, float, float, float]


def items(r: random.Random, dataset: str, count: int) -> Iterator[IndexedItem]:
    centres = [(r.uniform(-180, 180), r.uniform(-80, 80), r.uniform(1, 25)) for _ in range(30)]
    for n in range(count):
        x, y, spread = r.choice(centres)
        west = (r.gauss(x, spread) + 180) % 360 - 180
        south = max(-90.0, min(89.0, r.gauss(y, spread / 2)))
        size = r.choice([0.1, 0.5, 1.5])
        east = west + size
        if east > 180:
            east = 180.0 if r.random() < 0.5 else east - 360
        box = (west, south, east, south + size / 2)
        start = BEGIN + r.randrange(TEN_YEARS)
        cloud = round(r.random() * 100, 1)
        yield IndexedItem(
            collection=dataset, version="v", id=f"{dataset}-{n}", bbox=box, start_ms=start, end_ms=start,
            properties={"eo:cloud_cover": cloud, "title": f"scene {n}"}, body=body(dataset, n, box, start, cloud),
        )  # fmt: skip


def body(dataset: str, n: int, box: Box, start: int, cloud: float) -> bytes:
    """An item of about 900 bytes, of the shape that a published file has."""
    west, south, east, north = box
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    halves = (
        [[[west, south], [180, south], [180, north], [west, north], [west, south]]],
        [[[-180, south], [east, south], [east, north], [-180, north], [-180, south]]],
    )
    geometry = {"type": "MultiPolygon", "coordinates": list(halves)} if west > east else None
    return canonical(
        {
            "type": "Feature",
            "stac_version": "1.1.0",
            "id": f"{dataset}-{n}",
            "collection": dataset,
            "bbox": list(box),
            "geometry": geometry or {"type": "Polygon", "coordinates": [ring]},
            "properties": {"datetime": None, "eo:cloud_cover": cloud, "title": f"scene {n}", "start": start},
            "assets": {
                "data": {"href": f"./{dataset}/{n}.tif", "type": "image/tiff", "file:checksum": "1220" + "0" * 64}
            },
            "links": [{"rel": rel, "href": f"../{rel}.json", "type": "application/json"} for rel in ("root", "parent")],
        }
    )


def boxes(r: random.Random, kind: str) -> Box:
    x, y = r.uniform(-180, 180), r.uniform(-75, 75)
    if kind == "date line":
        return 180 - r.uniform(0.5, 10), y, -180 + r.uniform(0.5, 10), min(90.0, y + 10)
    wide = {"small": 1.0, "medium": 20.0, "large": 150.0}[kind]
    west = max(-180.0, min(x, 180 - wide))
    return west, max(-90.0, y - wide / 4), west + wide, min(90.0, y + wide / 4)


def spans(r: random.Random, kind: str) -> tuple[int, int] | None:
    length = {"month": 30, "year": 365, "always": 0}[kind] * DAY
    start = BEGIN + r.randrange(TEN_YEARS - length)
    return (start, start + length) if length else None


def measured(index: ItemIndex, queries: list[ItemQuery]) -> tuple[list[float], int]:
    times, found = [], 0
    for query in queries:
        begun = time.process_time()
        page = index.search(query)
        times.append((time.process_time() - begun) * 1000)
        found += len(page.bodies)
    return times, found


def line(name: str, times: list[float], found: int) -> None:
    ordered = sorted(times)
    p95 = ordered[int(len(ordered) * 0.95)]
    print(
        f"{name:36} p50 {statistics.median(times):7.2f} ms   p95 {p95:7.2f} ms   slowest {ordered[-1]:7.2f} ms"
        f"   {found / len(times):5.1f} items a page"
    )


def main(total: int, searches: int = 120) -> None:
    r = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        index = ItemIndex(os.path.join(folder, "items.db"))
        marks = {f"d{n:02}": "mark" for n in range(DATASETS)}
        begun = time.perf_counter()
        for name, mark in marks.items():
            index.replace(name, mark, items(r, name, total // DATASETS))
        spent = time.perf_counter() - begun
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
        print(f"{total:,} items indexed in {spent:.0f} s, {spent / total * 1e6:.0f} µs each; {size / 2**20:.0f} MiB")
        everything: list[float] = []
        for box in ("small", "medium", "large", "date line"):
            for span in ("month", "year", "always"):
                queries = [
                    ItemQuery(allowed=marks, bbox=boxes(r, box), interval=spans(r, span), limit=100)
                    for _ in range(searches)
                ]
                times, found = measured(index, queries)
                everything += times
                line(f"box {box}, interval {span}", times, found)
        line("all of these, mixed", everything, 0)
        plain = [ItemQuery(allowed=marks, interval=spans(r, "year"), limit=100) for _ in range(searches)]
        line("an interval of a year, no box", *measured(index, plain))
        first = index.search(plain[0])
        line("the second page", *measured(index, [with_position(plain[0], first.next)] * searches))
        clear = parse_filter(
            {"op": "<", "args": [{"property": "eo:cloud_cover"}, 10]}, {**FIELDS, "eo:cloud_cover": "number"}
        )
        filtered = [
            ItemQuery(allowed=marks, bbox=boxes(r, "medium"), interval=spans(r, "year"), filter=clear, limit=100)
            for _ in range(searches)
        ]
        line("box medium, interval year, filter", *measured(index, filtered))
        one = [ItemQuery(allowed={"d03": "mark"}, bbox=boxes(r, "medium"), limit=100) for _ in range(searches)]
        line("box medium, one dataset of 20", *measured(index, one))
        index.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
