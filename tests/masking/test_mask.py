from __future__ import annotations

import hmac
import random
from typing import Any

import h3
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kfm.errors import BadInput, Denied, Refused
from kfm.masking.first_cells import learned, remembered, to_withdraw
from kfm.masking.hmac_batch import Keyed
from kfm.masking.mask import Prepared, mask, mask_columns, prepare
from kfm.masking.public_record import WITHHELD, PublicRecord, feature, in_public_order
from kfm.model import json_schemas
from kfm.model.masks import Accuracy, ColumnRule, Location, MaskingPolicy, read_policy
from kfm.model.secret import Secret
from kfm.parsing.documents import read
from tests.masking.sites import KEY, POINT, canaries, columns, policy, prepared, rows, standing
from tests.sampling import tries

FILE = b"""id: sites
version: '1'
namespace: kansas-sites
record_id: trinomial
resolution: 7
location:
  latitude: lat
  longitude: lng
  accuracy:
    column: how
    classes:
      gps: {name: point, metres: 10}
columns:
  material: {kind: code, values: [bone]}
"""

ROW: dict[str, Any] = {
    "trinomial": "14BO20",
    "lat": "38.5",
    "lng": "-98.75",
    "how": "gps",
    "material": "bone",
    "age": "1120",
    "dug": "1974-05-03",
    "notes": "by the old mill",
    "summary": "a camp",
}


def test_a_policy_is_read_and_fits_its_schema() -> None:
    document = read(FILE, "policy.yml", json=False)
    assert read_policy(document).k == 5
    Draft202012Validator(json_schemas.schema_of(MaskingPolicy, "masking-policy")).validate(document.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"  material: {kind: code, values: [bone]}", b"  material: {kind: code}"),
        (b"  material: {kind: code, values: [bone]}", b"  lat: {kind: number}"),
        (b"  material: {kind: code, values: [bone]}", b"  trinomial: {kind: text, reviewed_by: me}"),
        (b"  material: {kind: code, values: [bone]}", b"  how: {kind: text, reviewed_by: me}"),
        (b"  material: {kind: code, values: [bone]}", b"  east: {kind: number, name: Decimal_Longitude}"),
        (b"  material: {kind: code, values: [bone]}", b"  a: {kind: text, name: cell}"),
        (b"  material: {kind: code, values: [bone]}", b"  a: {kind: text, name: b}\n  b: {kind: text}"),
        (b"  material: {kind: code, values: [bone]}", b"  a: {kind: text, step: 5}"),
        (b"  latitude: lat\n", b""),
        (b"  longitude: lng\n", b"  longitude: lng\n  geometry: true\n"),
        (b"    column: how\n", b""),
        (b"resolution: 7", b"resolution: 7\nk: 4"),
        (b"metres: 10", b"metres: -1"),
    ],
)
def test_a_policy_that_would_show_a_place_or_a_key_is_refused(old: bytes, new: bytes) -> None:
    assert old in FILE
    with pytest.raises(BadInput):
        read_policy(read(FILE.replace(old, new), "policy.yml", json=False))


def test_a_masked_record_is_one_cell_and_listed_columns() -> None:
    found = mask(ROW, prepared())
    assert found.cell == h3.latlng_to_cell(38.5, -98.75, 7)
    assert found.attributes == {
        "material": "bone",
        "age": "1100",
        "excavated": "1974",
        "notes": WITHHELD,
        "summary": "a camp",
    }
    said = msgspec.json.decode(feature(found))
    own = said["properties"]
    assert said["id"] == found.id and len(found.id) == 32
    assert own["resolution"] == 7 and own["coordinateUncertaintyInMeters"] >= 1000
    assert own["dataGeneralizations"].startswith("The location is one H3 cell of resolution 7.")
    assert "free text that nobody reviewed" in own["informationWithheld"]
    ring = said["geometry"]["coordinates"][0]
    assert said["bbox"] == [
        min(x for x, _ in ring),
        min(y for _, y in ring),
        max(x for x, _ in ring),
        max(y for _, y in ring),
    ]


def test_the_type_has_no_room_for_a_coordinate() -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(PublicRecord)}
    assert not [name for name, type_ in fields.items() if "float" in str(type_) or "Any" in str(type_)]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(msgspec.to_builtins(mask(ROW, prepared())) | {"geometry": [1.0, 2.0]}, PublicRecord)
    with pytest.raises(Denied):
        PublicRecord(id="14BO20", cell="", accuracy="", metres=0, attributes={}, rules=())
    with pytest.raises(Denied):
        PublicRecord(id="0" * 32, cell="38.5,-98.75", accuracy="", metres=0, attributes={}, rules=())


@pytest.mark.parametrize(
    ("how", "resolution", "word"), [("gps", 7, "point"), ("section", 7, "section"), ("county", 3, "county")]
)
def test_a_cell_is_never_finer_than_what_the_source_knows(how: str, resolution: int, word: str) -> None:
    found = mask(ROW | {"how": how}, prepared())
    assert (found.resolution, found.accuracy) == (resolution, word)
    assert (found.uncertainty() or 0) > found.metres


@pytest.mark.parametrize("how", ["", "guess", None, "GPS"])
def test_an_accuracy_that_is_not_known_gives_no_location(how: object) -> None:
    found = mask(ROW | {"how": how}, prepared())
    assert found.cell == "" and "mask.accuracy-unknown" in found.rules
    assert msgspec.json.decode(feature(found))["geometry"] is None


@pytest.mark.parametrize("value", ["", "north", "1_0", "nan", "inf", "91", None, True, [38.5]])
def test_a_location_that_cannot_be_read_is_withheld_and_not_guessed(value: object) -> None:
    found = mask(ROW | {"lat": value}, prepared())
    assert found.cell == "" and "mask.location-unreadable" in found.rules


def test_of_a_feature_only_a_point_is_understood() -> None:
    at = Location(geometry=True, accuracy=Accuracy(all=POINT))
    ready = prepared(location=at)
    point = {"type": "Point", "coordinates": [-98.75, 38.5]}
    assert mask(ROW | {"geometry": point}, ready).cell == h3.latlng_to_cell(38.5, -98.75, 7)
    for other in ({"type": "LineString", "coordinates": [[-98.75, 38.5]]}, None, {"type": "Point", "coordinates": []}):
        assert mask(ROW | {"geometry": other}, ready).cell == ""


@pytest.mark.parametrize(
    ("to", "shown"),
    [
        ("quarter", ["1974-Q2", "1974-Q2", "1974", "withheld", "1974-Q4", ""]),
        ("year", ["1974", "1974", "1974", "withheld", "1974", ""]),
        ("decade", ["1970s", "1970s", "1970s", "withheld", "1970s", ""]),
        ("century", ["1900s", "1900s", "1900s", "withheld", "1900s", ""]),
    ],
)
def test_dates_become_coarse(to: Any, shown: list[str]) -> None:
    ready = prepared(columns={"dug": ColumnRule(kind="date", to=to)})
    dates = ["1974-05-03", "1974-05", "1974", "3 May 1974", "1974-12-31T23:59:00Z", None]
    assert [mask(ROW | {"dug": date}, ready).attributes["dug"] for date in dates] == shown


def test_labels_make_it_coarser_and_closed_labels_deny() -> None:
    assert prepare(policy(), standing(public_resolution=4), KEY).resolution == 4
    assert prepare(policy(), standing(public_resolution=9), KEY).resolution == 7
    for closed in ({"expires": "2020-01-01"}, {"sensitivity": "restricted"}, {"care": "who knows"}, {"custodian": ""}):
        with pytest.raises(Denied):
            prepare(policy(), standing(**closed), KEY)
    with pytest.raises(Denied):
        prepare(policy(), standing(), Secret(b"short"))
    with pytest.raises(Refused):
        prepare(policy(columns={"lat": ColumnRule(kind="number")}), standing(), KEY)


def test_a_public_id_is_stable_and_differs_by_key_and_namespace() -> None:
    one = mask(ROW, prepared()).id
    assert one == mask(ROW | {"trinomial": " 14BO20 ", "lat": "39"}, prepared()).id
    assert one != mask(ROW | {"trinomial": "14BO21"}, prepared()).id
    assert one != mask(ROW, prepared(namespace="other")).id
    assert one != mask(ROW, prepare(policy(), standing(), Secret(bytes(32)))).id
    assert "Secret" not in repr(prepared()) and "\\x" not in repr(prepared())


@given(st.binary(max_size=150), st.binary(max_size=20), st.binary(max_size=80))
def test_the_keyed_digest_is_the_hmac_of_the_standard_library(key: bytes, prefix: bytes, body: bytes) -> None:
    assert Keyed(Secret(key), prefix).digest(body) == hmac.digest(key, prefix + body, "sha256")


def test_the_keyed_digest_answers_the_vectors_of_rfc_4231() -> None:
    for key, body, expected in (
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    ):
        assert Keyed(Secret(key)).digest(body).hex() == expected


def test_errors_say_rows_and_rules_and_no_values() -> None:
    table = columns([ROW, ROW | {"trinomial": "", "notes": "14XX99"}])
    with pytest.raises(Refused) as caught:
        mask_columns(table, prepared())
    assert caught.value.fields == {"rule": "mask.record-id-missing", "row": 2}
    assert "14XX99" not in str(caught.value)
    with pytest.raises(Refused):
        mask_columns({**columns([ROW]), "lat": []}, prepared())


values = st.one_of(
    st.none(), st.booleans(), st.integers(-200, 200), st.floats(allow_nan=True), st.text(max_size=8),
    st.sampled_from(["gps", "county", "section", "bone", "1974-05-03", "38.5", "-98.75", "1", 1, 1.0, True]),
    st.lists(st.integers(), max_size=2),
)  # fmt: skip
places = st.one_of(st.floats(-90, 90), st.floats(-90, 90).map(repr), values)
records = st.fixed_dictionaries(
    {
        "trinomial": st.sampled_from(["14BO20", "14BO21", "14CO3", "7", 7]),
        "lat": places,
        "lng": places,
        "how": st.sampled_from(["gps", "county", "section", "", "?"]),
        "material": values,
        "age": values,
        "dug": values,
        "notes": values,
        "summary": values,
    }
)


@given(st.lists(records, min_size=1, max_size=12))
@settings(max_examples=tries(150), deadline=None)
def test_a_table_gives_the_same_bytes_as_its_records_one_by_one(table: list[dict[str, Any]]) -> None:
    whole = mask_columns(columns(table), prepared())
    alone = [mask(row, prepared()) for row in table]
    coarsest_first = sorted((one for one in alone if one.cell), key=lambda one: one.resolution or 0)
    first = learned({}, coarsest_first)
    single = [mask(row, Prepared(policy(), 7, KEY, first, "keep")) for row in table]
    assert [feature(one) for one in whole] == [feature(one) for one in single]
    assert len({(one.id, one.cell) for one in whole if one.cell}) == len({one.id for one in whole if one.cell})


def test_a_correction_over_an_edge_keeps_the_first_cell() -> None:
    before = mask(ROW, prepared())
    moved = ROW | {"lat": "38.6"}
    assert mask(moved, prepared()).cell != before.cell
    first = learned({}, [before])
    assert mask(moved, prepare(policy(), standing(), KEY, first=first)).cell == before.cell
    assert to_withdraw(first, [before]) == ()
    other = mask(moved, prepare(policy(), standing(), KEY, first=first, moved="withdraw"))
    assert other.cell != before.cell and to_withdraw(first, [other]) == (before.id,)


def test_a_finer_accuracy_later_shows_nothing_finer_and_a_coarser_policy_withdraws() -> None:
    rough = mask(ROW | {"how": "county"}, prepared())
    first = learned({}, [rough])
    assert mask(ROW, prepare(policy(), standing(), KEY, first=first)).cell == rough.cell
    fine = learned({}, [mask(ROW, prepared())])
    today = mask(ROW, prepare(policy(), standing(public_resolution=4), KEY, first=fine))
    assert today.resolution == 4 and to_withdraw(fine, [today]) == (today.id,)


def test_what_is_remembered() -> None:
    a, b, parent = (h3.latlng_to_cell(*point) for point in ((38.5, -98, 7), (38.9, -98, 7), (38.5, -98, 4)))
    assert remembered("", a) == (a, "first")
    assert remembered(a, a) == (a, "same")
    assert remembered(a, b) == (a, "kept")
    assert remembered(a, b, moved="withdraw") == (b, "withdraw")
    assert remembered(a, parent) == (parent, "withdraw")
    assert remembered(parent, a) == (parent, "kept")
    assert remembered(a, "") == ("", "same")


def test_the_public_order_does_not_depend_on_that_of_the_source() -> None:
    table = rows(canaries(50))
    one = in_public_order(mask_columns(columns(table), prepared()))
    random.Random(3).shuffle(table)
    assert in_public_order(mask_columns(columns(table), prepared())) == one
