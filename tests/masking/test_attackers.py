"""Programs that try to find a protected place in published data, and must fail."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import lzma
import math
import re
import zlib
from collections.abc import Callable
from itertools import pairwise

import h3
import msgspec
import pytest

from kfm.masking.counts import counted, suppressed
from kfm.masking.first_cells import learned
from kfm.masking.mask import mask_columns, prepare
from kfm.masking.public_record import PublicRecord, feature, in_public_order
from tests.masking.canaries import geohash, hits, mgrs, needles, plus_code, utm
from tests.masking.sites import KEY, canaries, columns, policy, prepared, rows, standing

SITES = canaries(200)
TABLE = rows(SITES)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda body: body,
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "base64": base64.b64encode,
    "base64 for addresses": base64.urlsafe_b64encode,
    "hexadecimal": lambda body: body.hex().encode(),
    "base64 of gzip": lambda body: base64.b64encode(gzip.compress(body)),
}


def published() -> list[PublicRecord]:
    return in_public_order(mask_columns(columns(TABLE), prepared()))


def test_places_are_written_as_others_write_them() -> None:
    # Known pairs: UTM of a well-known house, and the test data of Open Location Code and of geohash.
    lat, lng = 38.8977, -77.0365
    east, north = utm(lat, lng, 18)
    assert (round(east), round(north)) == (323394, 4307396)
    assert mgrs(east, north, 18, lat, "").startswith("18SUJ2339")
    assert plus_code(47.0000625, 8.0000625) == "8FVC2222+22"
    assert plus_code(20.3700625, 2.7821875) == "7FG49QCJ+2V"
    assert plus_code(-41.2730625, 174.7859375) == "4VCPPQGP+Q9"
    assert geohash(57.64911, 10.40744, 11) == "u4pruydqqvj"


def test_the_scanner_finds_every_way_in_every_pack() -> None:
    canary = SITES[0]
    ways = needles(canary)
    assert len(ways) >= 20
    for pack, packed in PACKED.items():
        for way, forms in ways.items():
            for form in sorted(forms)[:3]:
                body = b"\x00\x01 before " + packed(b"head " + form + b" tail") + b" after \x00"
                assert (0, way) in hits(body, [canary]), (pack, way)


def test_no_canary_is_in_what_is_published() -> None:
    body = b"\n".join(feature(one) for one in published()) + repr(published()).encode()
    assert hits(body, SITES) == set()
    assert hits(body + TABLE[5]["notes"].encode(), SITES) != set()


def test_all_that_is_public_about_a_record_together_is_one_cell() -> None:
    versions = [published()]
    first = learned({}, versions[0])
    moved = [row | {"lat": repr(float(row["lat"]) + 0.004)} for row in TABLE]
    again = prepare(policy(version="2", columns={}), standing(), KEY, first=first)
    versions.append(mask_columns(columns(moved), again))
    seen: dict[str, set[str]] = {}
    for record in (one for version in versions for one in version):
        seen.setdefault(record.id, set()).add(feature_place(record))
    assert len(seen) == 200 and all(len(places) == 1 for places in seen.values())
    naive = mask_columns(columns(moved), prepared())
    crossed = [one for one in naive if first[one.id] != one.cell]
    assert crossed  # without the memory this attack would succeed


def feature_place(record: PublicRecord) -> str:
    said = msgspec.json.decode(feature(record))
    own = said["properties"]
    return repr((said["geometry"], said["bbox"], own["centroid"], own["cell"], own["resolution"]))


def test_a_cell_comes_straight_from_the_point_and_not_from_a_finer_cell() -> None:
    sites = canaries(4000, seed=4)
    direct = mask_columns(columns(rows(sites)), prepared(resolution=5))
    expected = [h3.latlng_to_cell(site.latitude, site.longitude, 5) for site in sites]
    assert [one.cell for one in direct] == expected
    by_parent = [h3.cell_to_parent(h3.latlng_to_cell(site.latitude, site.longitude, 9), 5) for site in sites]
    assert by_parent != expected  # so a product made the other way would have shown the edge


def test_order_and_ids_say_nothing_about_places() -> None:
    sites = canaries(1000, seed=11)
    found = {one.id: row for one, row in zip(mask_columns(columns(rows(sites)), prepared()), sites, strict=True)}
    order = sorted(found)
    for values in ([found[one].latitude for one in order], [found[one].longitude for one in order]):
        assert abs(correlation(list(range(1000)), values)) < 0.05
    steps = [math.dist(found[a][:2], found[b][:2]) for a, b in pairwise(order)]
    shuffled = [math.dist(found[a][:2], found[b][:2]) for a, b in zip(order, order[500:] + order[:500], strict=True)]
    assert 0.9 < (sum(steps) / len(steps)) / (sum(shuffled) / len(shuffled)) < 1.1


def correlation(a: list[float] | list[int], b: list[float]) -> float:
    rank = {value: at for at, value in enumerate(sorted(b))}
    ranks = [rank[value] for value in b]
    mean_a, mean_b = sum(a) / len(a), sum(ranks) / len(ranks)
    both = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, ranks, strict=True))
    return both / math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in ranks))


def test_no_public_number_is_a_digest_of_a_place_or_a_site() -> None:
    body = b"\n".join(feature(one) for one in published()).decode()
    public = set(re.findall(r"[0-9a-f]{32}", body))
    assert len(public) == 200
    for site in SITES:
        spelled = {
            site.trinomial,
            site.trinomial.lower(),
            f"kansas-sites{site.trinomial}",
            f"kansas-sites:{site.trinomial}",
        }
        for digits in (3, 4, 5, 6, 7, 8):
            lat, lng = f"{site.latitude:.{digits}f}", f"{site.longitude:.{digits}f}"
            spelled |= {f"{lat},{lng}", f"{lng},{lat}", f"{lat} {lng}", f"[{lng},{lat}]", f"POINT({lng} {lat})"}
        for text in spelled:
            for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b"):
                assert hashlib.new(algorithm, text.encode()).hexdigest()[:32] not in public


def test_one_record_more_changes_no_small_count_by_one() -> None:
    records = published()
    cells = sorted({one.cell for one in records})

    def counts(of: list[PublicRecord]) -> dict[tuple[str, str], int | None]:
        return suppressed(counted((one.cell, one.attributes["material"]) for one in of)).counts

    for left_out in records[::10]:
        before, after = counts([one for one in records if one is not left_out]), counts(records)
        key = (left_out.cell, left_out.attributes["material"])
        assert before.get(key) is None and after[key] is None
        assert before.keys() ^ after.keys() <= {key}
    assert len(cells) > 100


def test_free_text_siblings_and_exports_of_a_record_are_masked_alike() -> None:
    """What leaked elsewhere: a remark with the place in it, a second record of the same site, another export."""
    siblings = [TABLE[0], TABLE[0] | {"lat": repr(float(TABLE[0]["lat"]) + 0.2), "summary": "the same again"}]
    one, two = mask_columns(columns(siblings), prepared())
    assert one.cell == two.cell and one.attributes["notes"] == "withheld"
    assert hits(feature(one) + feature(two) + msgspec.msgpack.encode(two), SITES[:1]) == set()


@pytest.mark.parametrize("day", ["2026-11-17", "2030-01-01"])
def test_a_consent_that_ran_out_closes(day: str) -> None:
    from kfm.errors import Denied
    from kfm.model.labels import Label, LabelTarget, label_classification

    label = Label(
        of=LabelTarget(dataset="sites"), sensitivity="generalised", care="community", custodian="society",
        public_resolution=7, expires="2026-11-16",
    )  # fmt: skip
    prepare(policy(), label_classification(label, "2026-11-16"), KEY)
    with pytest.raises(Denied):
        prepare(policy(), label_classification(label, day), KEY)
