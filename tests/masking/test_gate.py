from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import h3
import pytest

from kfm.errors import Denied
from kfm.masking import leak_search
from kfm.masking.fingerprints import Fingerprints, Marker, of_stored
from kfm.masking.leak_scanner import one_cell, over_masked, scan
from kfm.masking.mask import mask_columns
from kfm.masking.public_record import feature, in_public_order
from kfm.model.secret import Secret
from tests.masking.sites import KEY, canaries, columns, prepared, rows
from tests.sampling import sampled

SITES = canaries(200)
TABLE = rows(SITES)
MARKER = Marker(KEY)
KNOWN = MARKER.of([row["trinomial"] for row in TABLE], [(row["lat"], row["lng"]) for row in TABLE], finer_than=7)


def as_csv(table: list[dict[str, Any]], *names: str, end: str = "\n") -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, names or list(table[0]), lineterminator=end, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue().encode()


def rounded(digits: int, *, cut: bool = False) -> list[dict[str, Any]]:
    def short(text: str) -> str:
        whole, _, fraction = text.partition(".")
        return f"{whole}.{fraction[:digits]}" if cut else f"{float(text):.{digits}f}"

    return [row | {"lat": short(row["lat"]), "lng": short(row["lng"])} for row in TABLE]


def as_geojson(table: list[dict[str, Any]], **how: Any) -> bytes:
    features = [
        {
            "type": "Feature",
            "properties": {"material": row["material"]},
            "geometry": {"type": "Point", "coordinates": [float(row["lng"]), float(row["lat"])]},
        }
        for row in table
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}, **how).encode()


def public() -> bytes:
    records = in_public_order(mask_columns(columns(TABLE), prepared()))
    return b'{"type":"FeatureCollection","features":[' + b",".join(feature(one) for one in records) + b"]}"


# As the first states kept them: of one id and one point, under a key that is nobody's.
AS_TEXTS = b"""{"ids":["a2355f7790547a916b5bba68"],"points":["2d3f65ab5d6fe845881b5d7c","6fc2d3fe0e88de71334cfa0a",
"8373674fd3d1514c571bbc82","934599e073e24c96f0db5558","cbf54358f2b4e03540a9fe18","d544883bc751eec907259b78"],
"singles":["2dac97baff14eff01ba5c874","33cbb7e728de08dc6f083e89","52ef367f77999908227247dd","5b0f6fc8c2603beab14a2226",
"c4701e49bd2f01b0966095cc","f62e0e78cacc8f4acfa68fd8"],"near":["31ae72d5492c129df38985c4","82d0f6a92895ec61f669699d",
"b9a0304dd0ac58d48499aa51"],"cells":["81153797baa81c5535a8da09","d1e6d03efdf7cb76682fdf39"],"longest":4,"lengths":[6],
"records":1,"weak":0}"""


@pytest.mark.parametrize("text", [b"14-bo-20", b"37.5,-101.25", b"37.500000;-101.250000", b"POINT(-101.25 37.50)"])
def test_fingerprints_that_an_earlier_state_kept_still_find_what_they_are_of(text: bytes) -> None:
    marker, kept = Marker(Secret(b"k" * 32)), of_stored(AS_TEXTS)
    assert scan(text, kept, marker).verdict == "deny"
    assert scan(text.replace(b"5", b"6").replace(b"o", b"u"), kept, marker).verdict == "clean"
    again = of_stored(marker.of(["14BO20"], [("37.5", "-101.25")], finer_than=14).stored())
    assert scan(text, again, marker) == scan(text, kept, marker)


def test_many_fingerprints_are_kept_in_few_bytes_and_put_together_without_loss() -> None:
    some = [(f"{37 + n / 7919:.6f}", f"{-95 - n / 6007:.6f}") for n in range(9000)]
    whole = MARKER.of([f"site {n}" for n in range(9000)], some, finer_than=7)
    halves = [MARKER.of([], some[part::2], finer_than=7) for part in (0, 1)]
    kept = of_stored(whole.stored())
    assert len(whole.stored()) < 9000 * 450
    both = halves[0] | halves[1]
    assert both.records == kept.records == 9000
    for latitude, longitude in some[::100]:
        text = f"{latitude} {longitude}".encode()
        assert scan(text, kept, MARKER).verdict == scan(text, both, MARKER).verdict == "deny"


COPIES: dict[str, Callable[[], bytes]] = {
    "the same bytes": lambda: as_csv(TABLE),
    "other line ends": lambda: as_csv(TABLE, end="\r\n"),
    "old line ends": lambda: as_csv(TABLE, end="\r"),
    "only the ids": lambda: as_csv(TABLE, "material", "trinomial"),
    "ids in small letters": lambda: as_csv(TABLE, "trinomial").lower(),
    "ids with marks": lambda: as_csv(TABLE, "trinomial").replace(b"BO", b"-BO-"),
    "one id in a text": lambda: b"We walked to the site (14BO4000), and back.",
    "an escaped id": lambda: rb'{"site": "14\u0042O4000"}',
    "only the places": lambda: as_csv(TABLE, "lng", "material", "lat"),
    "only the latitudes": lambda: as_csv(TABLE, "lat", "material"),
    "only the notes": lambda: as_csv(TABLE, "notes"),
    "a GeoJSON of it": lambda: as_geojson(TABLE),
    "a GeoJSON with line ends": lambda: as_geojson(TABLE, indent=2),
    "a GeoJSON with fewer digits": lambda: as_geojson(rounded(4)),
    **{f"{n} digits": lambda n=n: as_csv(rounded(n), "lat", "lng") for n in range(2, 9)},
    **{f"{n} digits, cut off": lambda n=n: as_csv(rounded(n, cut=True), "lat", "lng") for n in range(2, 9)},
    "some rows, few digits": lambda: as_csv(rounded(3)[::8], "lng", "lat"),
    "one row, some digits": lambda: as_csv(rounded(5)[:1], "lat", "lng"),
    "packed": lambda: gzip.compress(as_csv(TABLE)),
    "in two packs": lambda: gzip.compress(b"a,b\n") + gzip.compress(as_csv(TABLE)),
    "UTF-16": lambda: as_csv(TABLE).decode().encode("utf-16"),
    "finer cells": lambda: h3.latlng_to_cell(SITES[3].latitude, SITES[3].longitude, 9).encode(),
    "finer cells as numbers": lambda: str(
        int(h3.latlng_to_cell(SITES[3].latitude, SITES[3].longitude, 12), 16)
    ).encode(),
}


@pytest.mark.parametrize("name", sampled(COPIES, every=2))
def test_a_copy_in_another_form_is_denied(name: str) -> None:
    report = scan(COPIES[name](), KNOWN, MARKER)
    assert report.verdict == "deny" and report.leaks
    assert "14BO" not in str(report)


def test_masked_records_pass_and_so_does_what_is_not_protected() -> None:
    assert scan(public(), KNOWN, MARKER).verdict == "clean"
    other = rows(canaries(400, seed=99))
    for number, row in enumerate(other):
        row["trinomial"] = f"ks-{number}-station"
        row["notes"] = "grass"
    assert scan(as_csv(other), KNOWN, MARKER).verdict == "clean"


def test_a_few_rough_points_are_for_a_person_to_look_at() -> None:
    others = [row | {"lat": f"{float(row['lat']) + 0.3:.2f}"} for row in rounded(2)]
    mixed = others[:150] + rounded(2)[:4]
    assert scan(as_csv(mixed, "lat", "lng"), KNOWN, MARKER).verdict in ("review", "deny")
    assert scan(as_csv(rounded(2)[:1], "lat", "lng"), KNOWN, MARKER).verdict == "review"


@pytest.mark.parametrize(
    "body", [b"PK\x03\x04\0\0", b"\x1f\x8b broken", gzip.compress(b"a" * 99, mtime=0)[:-9], b"\xff\xfe\0"]
)
def test_what_cannot_be_read_is_for_a_person_to_review(body: bytes) -> None:
    report = scan(body, KNOWN, MARKER)
    assert report.verdict == "review" and [leak.rule for leak in report.leaks] == ["gate.unreadable"]


def test_fingerprints_say_nothing_without_their_key() -> None:
    other = Marker(Secret(bytes(32)))
    assert scan(as_csv(TABLE), KNOWN, other).verdict == "clean"
    shown = str(KNOWN)
    assert not [site for site in SITES if site.trinomial.lower() in shown or f"{site.latitude:.3f}" in shown]
    with pytest.raises(Denied):
        Marker(Secret(b"short"))


def test_fingerprints_of_two_sources_are_put_together() -> None:
    one, two = MARKER.of(["14AA111"], [], finer_than=7), MARKER.of(["7"], [("38.12345", "-98.54321")], finer_than=7)
    both = one | two
    assert two.weak == 1 and both.records == 1
    for text in (b"see 14aa111", b"-98.54321 38.12345"):
        assert scan(text, both, MARKER).verdict == "deny"
        assert scan(text, Fingerprints(), MARKER).verdict == "clean"


def changed(**properties: Any) -> bytes:
    whole = json.loads(public())
    whole["features"][0]["properties"] |= properties
    return json.dumps(whole).encode()


def test_all_geography_of_a_record_is_its_one_cell() -> None:
    assert one_cell(public(), 7).verdict == "clean"
    lines = b"\n".join(json.dumps(one).encode() for one in json.loads(public())["features"])
    assert one_cell(lines, 7).verdict == "clean"
    assert one_cell(public(), 6).leaks[0].rule == "gate.cell-too-fine"
    assert one_cell(changed(centroid=[-98.0, 38.0]), 7).leaks[0].rule == "gate.place-beside-the-cell"
    assert one_cell(changed(cell="withheld"), 7).leaks[0].rule == "gate.place-beside-the-cell"
    assert one_cell(changed(cell="nowhere"), 7).leaks[0].rule == "gate.cell-missing"
    whole = json.loads(public())
    whole["features"][1]["id"] = whole["features"][0]["id"]
    whole["features"][2]["geometry"] = {"type": "Point", "coordinates": [-98.0, 38.0]}
    whole["features"][3]["bbox"][0] += 0.01
    whole["features"][4]["place"] = [1, 2]
    found = {leak.rule: leak.count for leak in one_cell(json.dumps(whole).encode(), 7).leaks}
    assert found == {"gate.two-cells": 1, "gate.place-beside-the-cell": 2, "gate.member-unknown": 1}
    for wrong in (b"", b"lat,lng\n1,2\n", b"[]", b'{"type":"Point"}', b'{"type":"FeatureCollection"}'):
        assert one_cell(wrong, 7).verdict == "deny"


def test_unnecessary_hiding_is_reported() -> None:
    ready = prepared()
    records = mask_columns(columns(TABLE), ready)
    hidden = over_masked(records, ready)
    unlisted = sum(row["material"] not in ("charcoal", "bone") for row in TABLE)
    assert hidden.records == 200 and hidden.values == {"material": unlisted, "notes": 200}
    assert hidden.without_location == 0 and hidden.coarser_than_needed == 0
    rough = mask_columns(columns([row | {"how": "county"} for row in TABLE[:3]]), ready)
    kept = mask_columns(columns(TABLE[:3]), type(ready)(ready.policy, 7, KEY, {r.id: r.cell for r in rough}, "keep"))
    assert over_masked(rough, ready).coarser_than_needed == 0
    assert over_masked(kept, ready).coarser_than_needed == 3
    lost = mask_columns(columns([row | {"how": "?"} for row in TABLE[:3]]), ready)
    assert over_masked(lost, ready).without_location == 3


@pytest.mark.parametrize("between", [" ", ",", "\n", '","'])
def test_an_id_is_found_wherever_a_long_text_is_parted(between: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its words lie on both sides; and what only begins like one is none."""
    monkeypatch.setattr(leak_search, "_STRETCH", 40)
    known = MARKER.of(["14-BO-2000"], [], finer_than=7)
    for before in range(60):
        filler = between.join(["abcdefg"] * 20)[:before].rstrip("abcdefg") + between
        for said in (f"14{between}BO{between}2000", "14BO2000"):
            text = f"{filler}{said}{between}" + between.join(["later"] * 30)
            assert scan(text.encode(), known, MARKER).verdict == "deny", (before, said)
            assert scan(text.replace("2000", "20001").encode(), known, MARKER).verdict == "clean"


@pytest.mark.long
def test_the_words_of_a_long_text_are_not_all_held_at_once() -> None:
    known = MARKER.of(["14-BO-2000"], [], finer_than=7)
    body = b"some,words,that,are,none,of,them,an,id\n" * 200_000
    tracemalloc.start()
    assert scan(body, known, MARKER).verdict == "clean"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * len(body)
