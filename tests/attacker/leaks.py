"""Leaks planted in copies of the public files: for each attack one that it must find.

A leak is given the files and the truth, and returns both: where it changes ids, the truth names the new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import h3

from tests.attacker.public_view import DATA, File, Folder, Row, rows_of, written
from tests.attacker.score import Key, Point

Truth = dict[Key, Point]
Leak = Callable[[list[Folder], Truth], tuple[list[Folder], Truth]]
Rows = list[Row]


def rewritten(change: Callable[[str, int, Rows, Truth], Rows]) -> Leak:
    """A leak that changes the rows of every table; it is given the number of the version, too."""

    def leak(folders: list[Folder], truth: Truth) -> tuple[list[Folder], Truth]:
        numbers: dict[str, list[str]] = {}
        out: list[Folder] = []
        for files in folders:
            copy = dict(files)
            for path, file in sorted(files.items(), key=lambda item: item[1].time):
                match = DATA.search(path)
                if not match or b"cell" not in file.body:
                    continue
                table = f"{match[1]}/{match[3]}"
                known = numbers.setdefault(table, [])
                if path not in known:
                    known.append(path)
                rows = change(table, known.index(path), list(rows_of(file.body, match[4])), truth)
                copy[path] = File(written(rows, match[4]), file.time)
            out.append(copy)
        return out, truth

    return leak


def with_value(name: str, value: Callable[[Row, Point], Any]) -> Leak:
    """A leak that gives each row one more value, or replaces one."""
    return rewritten(lambda table, _, rows, truth: [row | {name: value(row, truth[table, row["id"]])} for row in rows])


def is_north(row: Row, place: Point) -> bool:
    return place[0] > h3.cell_to_latlng(row["cell"])[0]


def by_latitude(table: str, _: int, rows: Rows, truth: Truth) -> Rows:
    return sorted(rows, key=lambda row: truth[table, row["id"]])


def new_ids(name: Callable[[int, Point], str]) -> Leak:
    """A leak that replaces ids: by the number of a row in the order of the source, or by its place."""

    def leak(folders: list[Folder], truth: Truth) -> tuple[list[Folder], Truth]:
        order = sorted(truth, key=lambda key: truth[key])
        other = {id: name(number, truth[table, id]) for number, (table, id) in enumerate(order)}

        def change(_: str, __: int, rows: Rows, ___: Truth) -> Rows:
            return [row | {"id": other[row["id"]]} for row in rows]

        return rewritten(change)(folders, truth)[0], {(table, other[id]): at for (table, id), at in truth.items()}

    return leak


def digest(_: int, place: Point) -> str:
    return hashlib.sha256(f"{place[0]:.3f},{place[1]:.3f}".encode()).hexdigest()[:32]


def only_north_first(table: str, version: int, rows: Rows, truth: Truth) -> Rows:
    """New rows of the south appear a version later."""
    return [row for row in rows if version or is_north(row, truth[table, row["id"]])]


def grouped(table: str, _: int, rows: Rows, truth: Truth) -> Rows:
    """A column whose rare value is that of the south: the count tells, and not the value."""
    south = [row["id"] for row in rows if not is_north(row, truth[table, row["id"]])]
    return [row | {"group": f"{table} {row['id'] if row['id'] in south else 'many'}"[-9:]} for row in rows]


def exact_cell(table: str, version: int, rows: Rows, truth: Truth) -> Rows:
    """A later version shows the cell of a coarser grid, computed from the place again."""
    return [row | {"cell": moved(row, truth[table, row["id"]])} if version == 2 else row for row in rows]


def moved(row: Row, place: Point) -> str:
    return h3.latlng_to_cell(*place, h3.get_resolution(row["cell"]) + 1)


def renamed(table: str, version: int, rows: Rows, truth: Truth) -> Rows:
    """In the second version each row has another id, and the cell of the neighbour that is nearest to its place."""
    out = []
    for row in rows:
        key = table, hashlib.md5(row["id"].encode()).hexdigest()
        truth.setdefault(key, truth[table, row["id"]])
        near = min(
            set(h3.grid_disk(row["cell"], 1)) - {row["cell"]},
            key=lambda cell: h3.great_circle_distance(h3.cell_to_latlng(cell), truth[table, row["id"]]),
        )
        own = {"kind": row["id"][:6]}
        out.append(row | own | ({"id": key[1], "cell": near} if version else {}))
    return out


def described(facts: Callable[[list[Point]], dict[str, Any]]) -> Leak:
    """A leak in a file next to each version that describes all its places together."""

    def leak(folders: list[Folder], truth: Truth) -> tuple[list[Folder], Truth]:
        out = []
        for files in folders:
            copy = dict(files)
            for path, file in files.items():
                match = DATA.search(path)
                if match and b"cell" in file.body:
                    rows = rows_of(file.body, match[4])
                    places = [truth[f"{match[1]}/{match[3]}", row["id"]] for row in rows]
                    said = {"version": match[2], match[3]: facts(places)}
                    copy[f"{path}.json"] = File(json.dumps(said).encode(), file.time)
            out.append(copy)
        return out, truth

    return leak


def extent(places: list[Point]) -> dict[str, Any]:
    lats, lons = zip(*places, strict=True)
    return {"bbox": [min(lons), min(lats), max(lons), max(lats)]}


def mean(places: list[Point]) -> dict[str, Any]:
    return {"mean": [sum(axis) / len(places) for axis in zip(*places, strict=True)]}


def timed(folders: list[Folder], truth: Truth) -> tuple[list[Folder], Truth]:
    """Each site is published in a file of its own, a second later if it is in the south."""
    out = []
    for files in folders:
        copy = {path: file for path, file in files.items() if not DATA.search(path)}
        for path, file in files.items():
            match = DATA.search(path)
            if not match or b"cell" not in file.body:
                continue
            halves: dict[bool, Rows] = {True: [], False: []}
            for row in rows_of(file.body, match[4]):
                halves[is_north(row, truth[f"{match[1]}/{match[3]}", row["id"]])].append(row)
            for north, rows in halves.items():
                name = path.replace(match[2], match[2][:15] + "01"[north])
                copy[name] = File(written(rows, match[4]), file.time // 60 * 60 + north)
        out.append(copy)
    return out, truth


def padded(folders: list[Folder], truth: Truth) -> tuple[list[Folder], Truth]:
    """The file of a table ends with an empty line for each site of the north."""
    out = []
    for files in folders:
        copy = dict(files)
        for path, file in files.items():
            match = DATA.search(path)
            if match and b"cell" in file.body:
                rows = list(rows_of(file.body, match[4]))
                north = sum(is_north(row, truth[f"{match[1]}/{match[3]}", row["id"]]) for row in rows)
                copy[path] = File(file.body + b"\n" * 200 * north, file.time)
        out.append(copy)
    return out, truth


def drawn(row: Row, place: Point) -> list[float]:
    at = h3.cell_to_latlng(row["cell"])
    return [at[1] + (place[1] - at[1]) / 3, at[0] + (place[0] - at[0]) / 3]


LEAKS: dict[str, dict[str, Leak]] = {
    "order": {"rows in the order of the source": rewritten(by_latitude)},
    "ids": {"numbers in the order of the source": new_ids(lambda number, _: f"{number:032d}")},
    "digests": {"a digest of the place as id": new_ids(digest)},
    "columns": {
        "a value withheld in the south": with_value(
            "kind", lambda row, at: "camp" if is_north(row, at) else "withheld"
        ),
        "a column of the east": with_value("zone", lambda row, at: at[1] > h3.cell_to_latlng(row["cell"])[1]),
    },
    "aggregates": {"a rare value in the south": rewritten(grouped)},
    "changes": {"rows of the south a version later": rewritten(only_north_first)},
    "two cells": {"another cell in a later version": rewritten(exact_cell)},
    "same row": {"another id in a neighbouring cell": rewritten(renamed)},
    "sums": {"the mean of all places": described(mean)},
    "sizes": {
        "a withheld text as long as before": with_value(
            "remarks", lambda row, at: "x" * (40 if is_north(row, at) else 4)
        )
    },
    "growth": {"a file that is longer with a site of the north": padded},
    "times": {"files written in two halves": timed},
    "leftovers": {
        "the box of all places": described(extent),
        "a finer cell": with_value("tile", lambda row, at: h3.latlng_to_cell(*at, 9)),
        "a rounded latitude": with_value("y", lambda row, at: f"{at[0]:.3f}"),
    },
    "geometry": {"a middle drawn toward the place": with_value("centroid", drawn)},
}


def planted(leak: Leak, folders: Iterable[Folder], truth: Truth) -> tuple[list[Folder], Truth]:
    return leak(list(folders), dict(truth))
