"""Attacks on published cells. They know H3 and public tables, and share no code with the product.

An attack is given all public files at several times. For the sites that it has an opinion on it names a half of the
cell, or one of its seven parts. `known` are sites whose places the attacker knows already, such as those on land of
his own: from them he learns which way a signal points.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import h3

from tests.attacker.cell_parts import AXES, centre, corners, grid, half, holds, part, sample, toward
from tests.attacker.public_view import Edition, Row, View
from tests.attacker.score import Guess, Key, Point, apart

Known = Mapping[Key, Point]
Signals = Mapping[Key, Mapping[str, float]]
Attack = Callable[[View, Known], list[Guess]]
HEX = re.compile(r"[0-9a-f]{12,128}")
NUMBER = re.compile(r"-?\d{1,3}\.\d{3,}")
CELL = re.compile(r"(?<![0-9a-f])8[0-9a-f]{14}(?![0-9a-f])")
WORD = re.compile(r"\w+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


# -- signals, and learning which way they point


def learned(view: View, known: Known, signals: Signals) -> list[Guess]:
    """Guess halves from the signal, and the direction, that fits the known sites best. A signal is tried as it is, and
    as its difference from the middle of its table."""
    signals = with_differences(signals)
    cells = {key: row["cell"] for key, row in view.rows.items()}
    taught = [key for key in signals if key in known and key in cells]
    best: tuple[float, str, int, float, float] | None = None
    for name in sorted({name for key in taught for name in signals[key]}):
        values = {key: signals[key][name] for key in taught if name in signals[key]}
        if len(set(values.values())) < 2:
            continue
        middle = statistics.median(values.values())
        if middle == max(values.values()):
            middle = (middle + max(value for value in values.values() if value < middle)) / 2
        for axis in range(len(AXES)):
            fits = sum(
                (value > middle) == (known[key][axis] > centre(cells[key])[axis]) for key, value in values.items()
            )
            score = abs(fits - len(values) / 2) / math.sqrt(len(values))
            if best is None or score > best[0]:
                best = score, name, axis, middle, 1.0 if fits * 2 >= len(values) else -1.0
    if best is None:
        return []
    _, name, axis, middle, sign = best
    return [
        half(key, cells[key], axis, sign if own[name] > middle else -sign)
        for key, own in signals.items()
        if key not in known and key in cells and name in own
    ]


def with_differences(signals: Signals) -> dict[Key, dict[str, float]]:
    values: dict[tuple[str, str], list[float]] = {}
    for (table, _), own in signals.items():
        for name, value in own.items():
            values.setdefault((table, name), []).append(value)
    middles = {key: statistics.median(some) for key, some in values.items()}
    return {
        key: {**own, **{f"{name} in its table": value - middles[key[0], name] for name, value in own.items()}}
        for key, own in signals.items()
    }


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 0 to 1; equal values share theirs."""
    order = sorted(values)
    last = max(len(values) - 1, 1)
    places = Counter(order)
    start = {value: order.index(value) for value in places}
    return [(start[value] + (places[value] - 1) / 2) / last for value in values]


def located(edition: Edition) -> list[Row]:
    return [row for row in edition.rows if len(row["cell"]) == 15]


def residuals(edition: Edition, values: Sequence[float], name: str) -> Iterator[tuple[Key, dict[str, float]]]:
    """How far a value of a row is from what its cell predicts, over the table and within the cell."""
    rows = located(edition)
    mine = ranks(values)
    lats, lons = (ranks([centre(row["cell"])[axis] for row in rows]) for axis in (0, 1))
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        groups.setdefault(row["cell"], []).append(at)
    inner = {
        at: rank for group in groups.values() for at, rank in zip(group, ranks([mine[at] for at in group]), strict=True)
    }
    for at, row in enumerate(rows):
        own = {f"{name} to latitude": mine[at] - lats[at], f"{name} to longitude": mine[at] - lons[at], name: mine[at]}
        if len(groups[row["cell"]]) > 1:
            own[f"{name} within the cell"] = inner[at]
        yield (edition.table, row["id"]), own


def gathered(found: Iterable[tuple[Key, Mapping[str, float]]]) -> dict[Key, dict[str, float]]:
    out: dict[Key, dict[str, float]] = {}
    for key, own in found:
        out.setdefault(key, {}).update(own)
    return out


# -- the attacks


def order(view: View, known: Known) -> list[Guess]:
    """The order of the rows follows the latitude, the longitude, or the order of the source."""
    found = gathered(
        one
        for editions in view.editions.values()
        for edition in editions
        for one in residuals(edition, range(len(located(edition))), "order")
    )
    return learned(view, known, found)


def ids(view: View, known: Known) -> list[Guess]:
    """Ids are numbers in the order of the source, or some of their digits are of the place."""
    readings: dict[str, Callable[[str], float]] = {
        "as text": lambda text: float(int.from_bytes(text.encode()[:16].ljust(16, b"\0"), "big")),
        "first digits": lambda text: float(int(text[:8].encode().hex(), 16)),
        "last digits": lambda text: float(int(text[-4:].encode().hex(), 16)),
        "letters": lambda text: float(sum(letter.isalpha() for letter in text)),
    }
    found = gathered(
        one
        for editions in view.editions.values()
        for edition in editions
        for name, reading in readings.items()
        for one in residuals(edition, [reading(str(row["id"])) for row in located(edition)], name)
    )
    return learned(view, known, found)


def columns(view: View, known: Known) -> list[Guess]:
    """A value of a row, or that it is withheld, says where in its cell the site is."""
    found: dict[Key, dict[str, float]] = {}
    for key, row in view.rows.items():
        own = found.setdefault(key, {})
        for name, value in row.items():
            if name in ("id", "cell", "geometry", "bbox", "centroid"):
                continue
            own[f"length of {name}"] = len(str(value))
            own[f"hash of {name}"] = zlib.crc32(str(value).encode())
            own[f"withheld {name}"] = float(value == "withheld")
            try:
                own[f"value of {name}"] = float(value)
                own[f"last digit of {name}"] = float(value) % 10
            except (TypeError, ValueError):
                pass
    return learned(view, known, found)


def counts(view: View, known: Known) -> list[Guess]:
    """Sites lie on the side of the cells with more sites."""
    sites = Counter(row["cell"] for row in view.rows.values())
    out = []
    for key, row in view.rows.items():
        around = {near: sites[near] for near in h3.grid_disk(row["cell"], 3) if near != row["cell"] and sites[near]}
        if around and key not in known:
            lat = sum(centre(near)[0] * many for near, many in around.items()) / sum(around.values())
            lon = sum(centre(near)[1] * many for near, many in around.items()) / sum(around.values())
            out.append(toward(key, row["cell"], (lat, lon)))
    return out


def aggregates(view: View, known: Known) -> list[Guess]:
    """How many rows share a cell, a value or a version says which part of a cell they are in."""
    found: dict[Key, dict[str, float]] = {}
    for editions in view.editions.values():
        for at, edition in enumerate(editions):
            shared = {name: Counter(str(row.get(name)) for row in edition.rows) for name in edition.rows[0]}
            for row in located(edition):
                own = found.setdefault((edition.table, row["id"]), {})
                for name, counted in shared.items():
                    own[f"rows with its {name} in version {at}"] = counted[str(row.get(name))]
                own[f"rows of version {at}"] = len(edition.rows)
    return learned(view, known, found)


def changes(view: View, known: Known) -> list[Guess]:
    """When a row appeared, and what changed with it, says where it is."""
    found: dict[Key, dict[str, float]] = {}
    for editions in view.editions.values():
        for at, edition in enumerate(editions):
            before = {row["id"]: row for row in editions[at - 1].rows} if at else {}
            new = [row for row in located(edition) if row["id"] not in before]
            for row in located(edition):
                own = found.setdefault((edition.table, row["id"]), {})
                own.setdefault("first version", at)
                own["last version"] = at
                own[f"changed in {at}"] = float(before.get(row["id"]) not in (None, row))
                own[f"new in its cell in {at}"] = sum(other["cell"] == row["cell"] for other in new)
    return learned(view, known, found)


def two_cells(view: View, known: Known) -> list[Guess]:
    """A site was in two cells, in two versions or in two tables: it is where they meet."""
    seen: dict[Key, list[str]] = {}
    for editions in view.editions.values():
        for edition in editions:
            for row in located(edition):
                seen.setdefault((edition.table, row["id"]), []).append(row["cell"])
    by_id: dict[str, set[str]] = {}
    for (_, id), cells in seen.items():
        by_id.setdefault(id, set()).update(cells)
    out = []
    for key, row in view.rows.items():
        others = by_id[key[1]] - {row["cell"]}
        if key in known or not others:
            continue
        inside = meeting(row["cell"], tuple(sorted(others)))
        if inside:
            out.append(part(key, row["cell"], inside))
    return out


@cache
def meeting(cell: str, others: tuple[str, ...]) -> Point | None:
    """The middle of what a cell shares with others, or of its side toward them; None if they hold most of it."""
    points = sample(cell)
    shared = [point for point in points if all(holds(other, point) for other in others)]
    if len(shared) > 0.6 * len(points):
        return None
    if shared:
        return statistics.fmean(lat for lat, _ in shared), statistics.fmean(lon for _, lon in shared)
    lat, lon = centre(cell)
    at = statistics.fmean(centre(other)[0] for other in others), statistics.fmean(centre(other)[1] for other in others)
    size = apart((lat, lon), at) or 1.0
    reach = max(apart((lat, lon), corner) for corner in corners(cell))
    return lat + (at[0] - lat) / size * reach, lon + (at[1] - lon) / size * reach


def same_row(view: View, known: Known) -> list[Guess]:
    """A row vanished and one with the same values appeared in a neighbouring cell: the site is where both meet."""
    out = []
    for table, editions in view.editions.items():
        for before, after in pairwise(editions):
            old = {row["id"]: row for row in located(before)}
            new = {row["id"]: row for row in located(after)}
            for gone in old.keys() - new.keys():
                for came in new.keys() - old.keys():
                    one, two = old[gone], new[came]
                    alike = values(one) == values(two)
                    if alike and one["cell"] != two["cell"] and two["cell"] in h3.grid_disk(one["cell"], 1):
                        place = meeting(two["cell"], (one["cell"],))
                        if place and (table, came) not in known:
                            out.append(part((table, came), two["cell"], place))
    return out


def values(row: Row) -> dict[str, str]:
    place = ("id", "cell", "resolution", "geometry", "bbox", "centroid", "coordinateUncertaintyInMeters")
    place += ("dataGeneralizations",)
    return {name: str(value) for name, value in row.items() if name not in place}


def two_tables(view: View, known: Known) -> list[Guess]:
    """Two tables have a row with the same values, in different cells that meet or touch: the site is there."""
    last = [editions[-1] for editions in view.editions.values()]
    out = []
    for one in last:
        for other in last:
            if one.table == other.table:
                continue
            theirs: dict[str, list[Row]] = {}
            for row in located(other):
                theirs.setdefault(repr(values(row)), []).append(row)
            for row in located(one):
                same = theirs.get(repr(values(row)), [])
                key = one.table, row["id"]
                if len(same) == 1 and key not in known and same[0]["cell"] != row["cell"]:
                    reach = sum(apart(corners(cell)[0], centre(cell)) for cell in (row["cell"], same[0]["cell"]))
                    if apart(centre(row["cell"]), centre(same[0]["cell"])) < reach:
                        place = meeting(row["cell"], (same[0]["cell"],))
                        out += [part(key, row["cell"], place)] if place else []
    return out


def sums(view: View, known: Known) -> list[Guess]:
    """Totals and means of two versions differ by one site: its place is the difference."""
    out = []
    for table, editions in view.editions.items():
        described = [numbers_about(view, edition) for edition in editions]
        for at in range(1, len(editions)):
            old = {row["id"] for row in editions[at - 1].rows}
            new = [row for row in located(editions[at]) if row["id"] not in old]
            if len(new) != 1 or (table, new[0]["id"]) in known:
                continue
            many = len(editions[at - 1].rows), len(editions[at].rows)
            lats, lons = zip(*corners(new[0]["cell"]), strict=True)
            for path in sorted(described[at].keys() & described[at - 1].keys()):
                one, two = described[at - 1][path], described[at][path]
                if one == two:
                    continue
                for value in (two - one, two * many[1] - one * many[0]):
                    for axis, side in enumerate((lats, lons)):
                        if min(side) < value < max(side):
                            sign = math.copysign(1.0, value - centre(new[0]["cell"])[axis])
                            out.append(half((table, new[0]["id"]), new[0]["cell"], axis, sign))
    return list({guess.key: guess for guess in out}.values())


def numbers_about(view: View, edition: Edition) -> dict[str, float]:
    """Every number in JSON files that name this version, by its path in the file."""
    out: dict[str, float] = {}
    for path, text in view.texts.items():
        if edition.about in text and path != edition.path:
            for found in parsed(text):
                out.update(found)
    return out


@lru_cache(maxsize=1000)
def parsed(text: str) -> tuple[dict[str, float], ...]:
    out: dict[str, float] = {}
    try:
        walk(json.loads(text), "", out)
    except ValueError:
        return ()
    return (out,)


def walk(value: Any, path: str, out: dict[str, float]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            walk(inner, f"{path}/{name}", out)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            walk(inner, f"{path}/{at}", out)
    elif isinstance(value, float):
        out[path] = value


def sizes(view: View, known: Known) -> list[Guess]:
    """Lengths of rows, plain and compressed, follow what was withheld from them."""
    found: dict[Key, dict[str, float]] = {}
    for editions in view.editions.values():
        for edition in editions:
            body = edition.file.body
            whole = len(zlib.compress(body))
            starts = sorted((body.find(str(row["id"]).encode()), row["id"]) for row in located(edition))
            for (start, id), (end, _) in zip(starts, [*starts[1:], (len(body), "")], strict=True):
                found[edition.table, id] = {
                    "length": end - start,
                    "compressed length": len(zlib.compress(body[start:end])),
                    "compressed share": whole - len(zlib.compress(body[:start] + body[end:])),
                }
    return learned(view, known, found)


def growth(view: View, known: Known) -> list[Guess]:
    """The file of a table, or the files about it, grow by more or less with one new row."""
    found: dict[Key, dict[str, float]] = {}
    for editions in view.editions.values():
        for before, after in pairwise(editions):
            old = {row["id"] for row in before.rows}
            new = [row["id"] for row in located(after) if row["id"] not in old]
            if len(new) == 1 and len(after.rows) == len(old) + 1:
                expected = len(before.file.body) * len(after.rows) / len(before.rows)
                around = about(view, after) - about(view, before)
                grown = {"its file": len(after.file.body) - expected, "files about it": around}
                found[after.table, new[0]] = grown
    return learned(view, known, found)


def about(view: View, edition: Edition) -> int:
    return sum(len(text) for path, text in view.texts.items() if edition.about in text and path != edition.path)


def times(view: View, known: Known) -> list[Guess]:
    """Times of files, and moments and durations that the records give, follow the place of what is new."""
    moments = [(text, MOMENT.findall(text)) for text in view.texts.values()]
    found: dict[Key, dict[str, float]] = {}
    for editions in view.editions.values():
        for edition in editions:
            said = {moment for text, some in moments if some and edition.about in text for moment in some}
            stated = sorted(datetime.fromisoformat(moment).timestamp() for moment in said) or [0.0]
            signals = {
                "second of the file": edition.file.time % 1,
                "minute of the file": edition.file.time % 60,
                "time of the file": edition.file.time,
                "duration": stated[-1] - stated[0],
                "last moment": stated[-1] % 1,
                "moments": float(len(stated)),
            }
            for row in located(edition):
                found.setdefault((edition.table, row["id"]), signals)
    return learned(view, known, found)


def leftovers(view: View, known: Known) -> list[Guess]:
    """A number or a finer cell in the files lies in the cell of one site, and is none of the cell's own."""
    cells = {row["cell"] for row in view.rows.values()}
    explained = {
        f"{value:.{digits}f}"
        for cell in cells
        for point in (centre(cell), *corners(cell))
        for value in point
        for digits in (3, 4, 5, 6, 7)
    }
    finer = {cell for text in view.texts.values() for cell in CELL.findall(text) if h3.is_valid_cell(cell)} - cells
    out = []
    for key, row in view.rows.items():
        if key in known:
            continue
        own = json.dumps(row)
        inner = [one for one in CELL.findall(own) if one in finer] or sorted(finer)
        within = [centre(one) for one in inner if holds(row["cell"], centre(one))]
        guess = (
            part(key, row["cell"], within[0]) if within else by_number(key, row["cell"], loose_numbers(own, explained))
        )
        out += [guess] if guess else []
    for text, rows in described(view):
        numbers = loose_numbers(text, explained)
        sharing = Counter(row["cell"] for row in rows.values())
        for key, row in rows.items() if numbers else ():
            if key not in known and sharing[row["cell"]] <= 2:
                guess = by_number(key, row["cell"], numbers, sharing.keys() - {row["cell"]})
                out += [guess] if guess else []
    return list({guess.key: guess for guess in out}.values())


def described(view: View) -> Iterator[tuple[str, dict[Key, Row]]]:
    """Each text that names a version, with the rows that it may be about: those of the tables that it names."""
    versions = {edition.about for editions in view.editions.values() for edition in editions}
    tables = {edition.path for editions in view.editions.values() for edition in editions}
    names = {table.partition("/")[2]: table for table in view.editions}
    for path, text in view.texts.items():
        if path.partition("#")[0] not in tables and any(version in text for version in versions):
            about = {names[word] for word in set(WORD.findall(f"{path} {text}")) & names.keys()}
            yield text, {key: row for key, row in view.rows.items() if key[0] in (about or view.editions)}


def loose_numbers(text: str, explained: set[str]) -> set[float]:
    found = set(NUMBER.findall(MOMENT.sub("", text)))
    return {float(said) for said in found if said not in explained}


def by_number(key: Key, cell: str, numbers: Iterable[float], others: Iterable[str] = ()) -> Guess | None:
    """The side of the cell that a number is on, if the number fits no other cell."""
    for axis in range(len(AXES)):
        free = [number for number in numbers if in_range(cell, axis, number)]
        free = [number for number in free if not any(in_range(other, axis, number) for other in others)]
        if free:
            return half(key, cell, axis, math.copysign(1.0, statistics.median(free) - centre(cell)[axis]))
    return None


def in_range(cell: str, axis: int, number: float) -> bool:
    side = [corner[axis] for corner in corners(cell)]
    return min(side) < number < max(side)


def geometry(view: View, known: Known) -> list[Guess]:
    """A published middle, box or outline is not that of the cell, but drawn toward the site."""
    out = []
    for key, row in view.rows.items():
        boxes = [row["bbox"]] if isinstance(row.get("bbox"), list) else []
        shape = row.get("geometry")
        rings = shape["coordinates"] if isinstance(shape, dict) and shape.get("type") == "Polygon" else []
        points = [(lat, lon) for ring in rings for lon, lat in ring[:-1]]
        middles = [((south + north) / 2, (west + east) / 2) for west, south, east, north in boxes]
        middles += [tuple(statistics.fmean(point[axis] for point in points) for axis in (0, 1))] if points else []
        if isinstance(row.get("centroid"), list):
            middles.append((row["centroid"][1], row["centroid"][0]))
        at, reach = centre(row["cell"]), apart(corners(row["cell"])[0], centre(row["cell"]))
        shifted = [middle for middle in middles if apart(middle, at) > 0.05 * reach]
        if shifted and key not in known:
            out.append(toward(key, row["cell"], shifted[0]))
    return out


DIGESTS = ("md5", "sha1", "sha256", "sha512", "blake2b")
SPELLINGS: tuple[Callable[[str, str], str], ...] = (
    lambda lat, lon: f"{lat},{lon}",
    lambda lat, lon: f"{lon},{lat}",
    lambda lat, lon: f"{lat} {lon}",
    lambda lat, lon: f"[{lon},{lat}]",
    lambda lat, lon: f"POINT({lon} {lat})",
)


def digests(view: View, known: Known, digits: int = 3, per_table: int = 1) -> list[Guess]:
    """An id or a digest is one of a place, without a key: try every place of the cell."""
    public = {said[:12] for text in view.texts.values() for said in HEX.findall(text)}
    public |= {
        said.replace("-", "")[:12] for text in view.texts.values() for said in re.findall(r"[0-9a-f-]{36}", text)
    }
    out, tried = [], Counter[str]()
    for key, row in sorted(view.rows.items()):
        if key in known or tried[key[0]] == per_table or h3.get_resolution(row["cell"]) < 7:
            continue
        tried[key[0]] += 1
        hits = []
        for lat, lon in grid(row["cell"], digits):
            spelled = [spell(f"{lat:.{digits}f}", f"{lon:.{digits}f}").encode() for spell in SPELLINGS]
            made = {hashlib.new(name, text).hexdigest()[:12] for name in DIGESTS for text in spelled}
            if made & public:
                hits.append((str(row["id"])[:12] not in made, (lat, lon)))
        out += [part(key, row["cell"], min(hits)[1])] if hits else []
    return out


def towns(view: View, known: Known) -> list[Guess]:
    """Sites lie on the side of the nearest town of a public gazetteer."""
    return [
        toward(key, row["cell"], min(view.towns, key=lambda town: apart(town, centre(row["cell"]))))
        for key, row in view.rows.items()
        if key not in known and view.towns
    ]


ATTACKS: dict[str, Attack] = {
    "order": order,
    "ids": ids,
    "digests": digests,
    "columns": columns,
    "counts": counts,
    "aggregates": aggregates,
    "changes": changes,
    "two cells": two_cells,
    "same row": same_row,
    "sums": sums,
    "sizes": sizes,
    "growth": growth,
    "times": times,
    "leftovers": leftovers,
    "geometry": geometry,
    "towns": towns,
}
