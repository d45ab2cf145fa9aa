"""JSON, NDJSON and GeoJSON from anyone: bombs, halves, shapes and places."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kfm.model.canonical import canonical
from kfm.model.records import Column, DataContract
from kfm.validation import json_records as inspect_split
from tests.sampling import tries
from tests.validation.inspecting import look

INTEGER = Column(name="n", type="integer", mode="discard-row")

BOMBS = {
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep and open": b'{"a":' * 100_000,
    "digits": b'{"n": ' + b"9" * 100_000 + b"}",
    "past 2^53": b'{"n": 9007199254740993}',
    "past a double": b'{"n": 1e999}',
    "twice": b'{"n": 1, "n": 1}',
    "twice, escaped": b'{"n": 1, "\\u006e": 1}',
    "NaN": b'{"n": NaN}',
    "Infinity": b'{"n": -Infinity}',
    "half a pair": b'{"n": "\\ud800"}',
    "half a pair as a key": b'{"\\udc00": 1}',
    "NUL": b'{"n": "\x00"}',
    "mark": b'\xef\xbb\xbf{"n": 1}',
    "not UTF-8": b'{"n": "\xff"}',
    "cut off": b'{"n": "abc',
    "cut off escape": b'{"n": "abc\\',
    "single quotes": b"{'n': 1}",
    "trailing comma": b'{"n": 1,}',
    "two values": b'{"n": 1} {"n": 2}',
    "nothing": b"",
    "comment": b'{"n": 1} // one',
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
@pytest.mark.parametrize("place", ["alone", "list", "root", "ndjson", "feature", "around"])
def test_json_that_cannot_be_read_strictly_holds_the_source(bomb: bytes, place: str) -> None:
    feature = b'{"type":"Feature","geometry":null,"properties":%s}'
    body, contract = {
        "alone": (bomb, DataContract(format="json")),
        "list": (b'[{"n": 1}, %s]' % bomb, DataContract(format="json")),
        "root": (b'{"about": [], "list": [{"n": 1}, %s]}' % bomb, DataContract(format="json", root="list")),
        "ndjson": (b'{"n": 1}\n%s\n{"n": 2}\n' % (bomb or b"{"), DataContract(format="ndjson")),
        "feature": (
            b'{"type":"FeatureCollection","features":[%s]}' % (feature % bomb),
            DataContract(format="geojson"),
        ),
        "around": (b'{"list": [{"n": 1}], "more": %s}' % bomb, DataContract(format="json", root="list")),
    }[place]
    seen = look(body, contract)
    assert seen.result.held
    assert seen.result.cause is not None
    assert seen.result.cause.rule == "json.malformed"
    if place in ("list", "root", "ndjson"):
        # Where a whole record stands first, what follows it is in the way of the next one.
        assert seen.result.cause.row == (3 if place != "ndjson" and bomb.startswith(b'{"n": 1} ') else 2)


def test_records_are_found_wherever_a_chunk_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[Any] = [
        {"n": 1, "text": 'br[ack]ets, "quotes" \\ and {braces}'},
        {"n": 22, "deep": [[{"a": []}], {}]},
        333,
        "text]",
        -0.5e-3,
        True,
        None,
        [],
        {"n": "x"},
    ]
    for indent in (None, 2):
        listed = json.dumps(records, indent=indent).encode()
        whole = b' { "li": {"list": [9]}, "e\\u006ed" : "]" , "l\\u0069st" :  %s , "after" : [ 1 ] } \n' % listed
        for body, root in ((listed, ""), (whole, "list")):
            for chunk in (*range(1, 30), 1 << 18):
                monkeypatch.setattr(inspect_split, "CHUNK", chunk)
                schema = {"type": ["array", "object"], "items": {}, "properties": {"list": {"items": {"maximum": 100}}}}
                seen = look(body, DataContract(format="json", root=root, json_schema=schema))
                assert seen.result.rows == len(records)
                if root:
                    assert [row["data"] for row in seen.held] == [{"#": 333}]
                    kept = json.loads(seen.accepted)
                    assert kept["list"] == [record for record in records if record != 333]
                    assert kept["after"] == [1]
                else:
                    assert not seen.result.changed


@settings(max_examples=tries(300), deadline=None)
@given(
    value=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(-1e6, 1e6), st.text(max_size=5)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "r", "[{"]), inner)),
        max_leaves=10,
    ),
    cut=st.integers(0, 200),
    flip=st.integers(0, 255),
)
@example(value={"a": {"a": None, "[{": -10000}, "[{": None, "r": []}, cut=87, flip=81)  # a line end inside a text
def test_a_document_passes_if_and_only_if_it_is_json(value: Any, cut: int, flip: int) -> None:
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    damaged = bytearray(body)
    damaged[cut % len(body)] ^= flip
    for candidate in (body, body[: cut % (len(body) + 1)], bytes(damaged)):
        well, read = _judged(candidate)
        assert look(candidate, DataContract(format="json")).result.held is not well
        rooted = look(candidate, DataContract(format="json", root="r"))
        listed = well and isinstance(read, dict) and isinstance(read.get("r"), list)
        assert rooted.result.held is not listed
        line = candidate.replace(b"\n", b" ")  # which may make a text of what was none
        well, _ = _judged(line)
        assert look(line + b"\n", DataContract(format="ndjson")).result.held is not (well or not line.strip(b" \t\r"))


def _judged(candidate: bytes) -> tuple[bool, Any]:
    """Is it JSON that can be kept? By Python's own reader."""
    try:
        read = json.loads(candidate.decode("utf-8"))
        canonical(read)
        return json.dumps(read) == json.dumps(json.loads(candidate, object_pairs_hook=_once)), read
    except (ValueError, KeyError):
        return False, None
    except Exception as error:
        assert type(error).__name__ == "BadInput"
        return False, None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise KeyError
    return made


@pytest.mark.parametrize(
    "body", [b"[]", b"5", b'{"other": []}', b'{"list": {}}', b'{"list": null}', b'{"a": {"list": []}}']
)
def test_a_document_without_its_list_is_held(body: bytes) -> None:
    seen = look(body, DataContract(format="json", root="list"))
    assert seen.rules == [(0, "", "json.root")]
    assert seen.result.held


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (b'{"list": SEKRIT}', "line 1, column 10"),
        (b'{"other": SEKRIT}', "line 1, column 11"),
        (b'{"other": {}\n SEKRIT}', "line 2, column 2"),
        (b"SEKRIT", "line 1, column 1"),
        (b"[SEKRIT]", "line 1, column 2"),
        (b"", "line 1, column 1"),
    ],
)
@pytest.mark.parametrize(
    "contract", [DataContract(format="json", root="list"), DataContract(format="geojson")], ids=["json", "geojson"]
)
def test_what_is_no_json_at_all_is_called_that(contract: DataContract, body: bytes, place: str) -> None:
    seen = look(body.replace(b"list", b"features") if contract.format == "geojson" else body, contract)
    (finding,) = seen.result.findings
    assert (finding.rule, finding.row) == ("json.malformed", 0) and seen.result.held
    assert finding.message.startswith("the document is not JSON at line ") and "SEKRIT" not in finding.message
    assert place in finding.message or contract.format == "geojson"


def test_a_document_too_long_to_be_looked_at_whole_is_held_for_its_list() -> None:
    body = b'{"other": {}, "long": "' + b"x" * (inspect_split.MAX_RECORD + inspect_split.CHUNK) + b'"}'
    assert look(b"[" + body + b"]", DataContract(format="json", root="list")).rules == [(0, "", "json.root")]


def test_an_empty_list_is_a_list() -> None:
    for body in (b"[]", b" [ \n ] "):
        assert look(body, DataContract(format="json")).result.rows == 0
    assert not look(b'{"list":[ ]}', DataContract(format="json", root="list")).result.held
    assert look(b"[]", DataContract(format="json", min_rows=1)).result.held


def test_a_record_longer_than_the_limit_holds_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_split, "MAX_RECORD", 2000)
    monkeypatch.setattr(inspect_split, "CHUNK", 100)
    short, long = b'{"t":"%s"}' % (b"x" * 1900), b'{"t":"%s"}' % (b"x" * 2200)
    for fits in (True, False):
        record = short if fits else long
        for body, contract in (
            (record, DataContract(format="json")),
            (b"[%s,%s]" % (short, record), DataContract(format="json")),
            (b'{"r":[%s,%s]}' % (short, record), DataContract(format="json", root="r")),
            (b"%s\n%s\n" % (short, record), DataContract(format="ndjson")),
        ):
            seen = look(body, contract)
            assert seen.result.held is not fits
            assert fits or "too-long" in seen.result.finding_counts


def test_a_document_that_is_one_record_passes_whole_or_not_at_all() -> None:
    contract = DataContract(format="json", columns=(INTEGER,))
    assert look(b'{"n": 1}', contract).result.rows == 1
    held = look(b'{"n": "x"}', contract)
    assert held.result.held
    assert held.result.finding_counts == {"json.record": 1, "type": 1}
    blanking = DataContract(format="json", columns=(Column(name="n", type="integer", mode="discard-value"),))
    assert look(b'{"n": "x", "m": 1.50}', blanking).accepted == b'{"m":1.5,"n":null}'


def test_a_record_that_is_no_object_is_held_alone_unless_a_column_is_frozen() -> None:
    body = b'{"n": 1}\n[1]\n"x"\n{"n": 2}\n'
    seen = look(body, DataContract(format="ndjson", columns=(INTEGER,)))
    assert [row["data"] for row in seen.held] == [{"#": [1]}, {"#": "x"}]
    assert seen.accepted == b'{"n": 1}\n{"n": 2}\n'
    frozen = DataContract(format="ndjson", columns=(INTEGER, Column(name="m")))
    assert look(body, frozen).result.held
    assert not look(body, DataContract(format="ndjson")).result.findings, "without columns a record may be anything"


def test_records_that_pass_keep_their_own_bytes() -> None:
    body = b'{ "n": 1.0,   "z": "\\u00e9", "a": [1.50] }\r\n\r\n{"n":"x"}\n{"n":3}'
    seen = look(body, DataContract(format="ndjson", columns=(INTEGER,)))
    assert seen.accepted == b'{ "n": 1.0,   "z": "\\u00e9", "a": [1.50] }\n{"n":3}\n'
    listed = look(b'{"k": 1.0, "list": [ {"n": 1.0} , {"n":"x"},{"n":3} ], "z": 0}', DataContract(
        format="json", root="list", columns=(INTEGER,)))  # fmt: skip
    assert listed.accepted == b'{"k": 1.0, "list": [{"n": 1.0},\n{"n":3}], "z": 0}'


def test_members_that_the_contract_does_not_name_pass_are_taken_out_or_hold_the_source() -> None:
    body = b'{"n":1}\n{"n":2,"b":1,"a":2}\n{"n":3,"a":1}\n'
    evolve = look(body, DataContract(format="ndjson", columns=(INTEGER,)))
    assert (evolve.result.changed, evolve.rules) == (False, [(0, "", "column.unknown")])
    dropped = look(body, DataContract(format="ndjson", columns=(INTEGER,), other_columns="discard-value"))
    assert dropped.accepted == b'{"n":1}\n{"n":2}\n{"n":3}\n'
    assert dropped.rules == [(2, "a", "column.unknown"), (2, "b", "column.unknown")]
    frozen = look(body, DataContract(format="ndjson", columns=(INTEGER,), other_columns="freeze"))
    assert frozen.result.held


def test_a_record_as_deep_as_can_be_read_can_be_held() -> None:
    deep: Any = 1
    for _ in range(199):
        deep = [deep]
    body = canonical({"n": "x", "deep": deep}) + b"\n"
    seen = look(body, DataContract(format="ndjson", columns=(INTEGER,)))
    assert seen.held[0]["data"] == {"#": body.decode().strip()}


def test_the_first_thousand_of_very_many_unknown_names_are_reported() -> None:
    body = b"".join(b'{"n":1,"m%d":1}\n' % number for number in range(3000))
    seen = look(body, DataContract(format="ndjson", columns=(INTEGER,), other_columns="discard-value"))
    assert seen.result.finding_counts == {"column.unknown": 1000}
    assert seen.accepted == b'{"n":1}\n' * 3000


# ---------------------------------------------------------------------------------------------- GeoJSON


def _collection(*features: Any, **more: Any) -> bytes:
    return canonical({"type": "FeatureCollection", "features": list(features), **more})


def _feature(geometry: Any, **more: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": geometry, "properties": {"n": 1}, **more}


def _geometry(kind: str, coordinates: Any) -> dict[str, Any]:
    return {"type": kind, "coordinates": coordinates}


RING = [[-100, 37], [-95, 37], [-95, 40], [-100, 37]]
POINT = _geometry("Point", [-98.5, 38.5, 5.2])
GOOD = [
    None,
    POINT,
    _geometry("Point", [180, -90]),
    _geometry("MultiPoint", []),
    _geometry("LineString", [[179, 50], [-179, 51]]),
    _geometry("MultiLineString", [[[0, 0], [1, 1]], [[2, 2], [3, 3]]]),
    _geometry("Polygon", [RING, RING]),
    _geometry("MultiPolygon", [[RING], [RING]]),
    {"type": "GeometryCollection", "geometries": [POINT, {"type": "GeometryCollection", "geometries": []}]},
    {**POINT, "bbox": [170, -10, -170, 10]},
]
BAD: list[tuple[Any, str]] = [
    ("Point", "geojson.geometry"),
    ({"type": "point", "coordinates": [0, 0]}, "geojson.geometry"),
    ({"type": ["Point"], "coordinates": [0, 0]}, "geojson.geometry"),
    ({"type": "Point"}, "geojson.geometry"),
    (_geometry("Point", []), "geojson.geometry"),
    (_geometry("Point", [1]), "geojson.geometry"),
    (_geometry("Point", [1, "2"]), "geojson.geometry"),
    (_geometry("Point", [True, 1]), "geojson.geometry"),
    (_geometry("Point", [1, 2, None]), "geojson.geometry"),
    (_geometry("Point", [[1, 2]]), "geojson.geometry"),
    (_geometry("Point", [180.0001, 0]), "geojson.range"),
    (_geometry("Point", [0, 91]), "geojson.range"),
    (_geometry("Point", [4_500_000, 3_200_000]), "geojson.range"),
    (_geometry("LineString", [[0, 0]]), "geojson.geometry"),
    (_geometry("LineString", [0, 0]), "geojson.geometry"),
    (_geometry("Polygon", [RING[:3]]), "geojson.geometry"),
    (_geometry("Polygon", [[*RING[:3], [0, 0]]]), "geojson.geometry"),
    (_geometry("Polygon", RING), "geojson.geometry"),
    (_geometry("MultiPolygon", [RING]), "geojson.geometry"),
    (_geometry("MultiPolygon", [1]), "geojson.geometry"),
    ({"type": "GeometryCollection"}, "geojson.geometry"),
    ({"type": "GeometryCollection", "geometries": [_geometry("Point", [0, 91])]}, "geojson.range"),
    ({**POINT, "bbox": [1, 2, 3]}, "geojson.shape"),
    ({**POINT, "bbox": [0, 0, 0, 91]}, "geojson.range"),
]


def test_every_kind_of_geometry_passes_and_crosses_the_antimeridian() -> None:
    seen = look(_collection(*map(_feature, GOOD), bbox=[170, -10, 0, -170, 10, 9]), DataContract(format="geojson"))
    assert (seen.result.rows, seen.result.findings) == (len(GOOD), [])


@pytest.mark.parametrize(("geometry", "rule"), BAD, ids=[str(geometry)[:60] for geometry, _ in BAD])
def test_a_feature_that_lies_wrong_is_held_alone_even_if_columns_are_frozen(geometry: Any, rule: str) -> None:
    body = _collection(_feature(POINT), _feature(geometry), _feature(None))
    seen = look(body, DataContract(format="geojson", columns=(Column(name="n", type="integer"),)))
    assert seen.rules == [(2, "", rule)]
    assert [row["data"]["geometry"] for row in seen.held] == [geometry]
    assert [feature["geometry"] for feature in json.loads(seen.accepted)["features"]] == [POINT, None]


def test_collections_nested_without_end_are_held() -> None:
    geometry: Any = POINT
    for _ in range(60):
        geometry = {"type": "GeometryCollection", "geometries": [geometry]}
    assert look(_collection(_feature(geometry)), DataContract(format="geojson")).rules == [(1, "", "geojson.geometry")]


@pytest.mark.parametrize(
    "feature",
    [
        7,
        [],
        POINT,
        {"type": "Feature", "properties": None},
        {"type": "Feature", "geometry": None},
        {"type": "Feature", "geometry": None, "properties": []},
        {"type": "Feature", "geometry": None, "properties": None, "id": True},
    ],
    ids=str,
)
def test_what_is_no_feature_is_held_alone_unless_a_column_is_frozen(feature: Any) -> None:
    body = _collection(_feature(POINT), feature)
    seen = look(body, DataContract(format="geojson", columns=(INTEGER,)))
    assert seen.rules == [(2, "", "geojson.shape")]
    assert not seen.result.held
    assert look(body, DataContract(format="geojson", columns=(Column(name="n"),))).result.held


@pytest.mark.parametrize(
    "body",
    [
        canonical({"type": "Collection", "features": []}),
        canonical({"features": []}),
        canonical({"type": "FeatureCollection", "features": [], "bbox": [0, 0]}),
        canonical(_feature(POINT)),
        canonical(POINT),
        canonical([_feature(POINT)]),
    ],
    ids=str,
)
def test_a_document_that_is_no_collection_is_held(body: bytes) -> None:
    assert look(body, DataContract(format="geojson")).result.held


def test_a_property_that_is_discarded_becomes_null_in_its_feature() -> None:
    column = Column(name="n", type="integer", mode="discard-value")
    body = _collection(_feature(POINT), {**_feature(POINT, id="q"), "properties": {"n": "x", "m": 2}})
    seen = look(body, DataContract(format="geojson", columns=(column,), other_columns="discard-value"))
    assert json.loads(seen.accepted)["features"][1] == {**_feature(POINT, id="q"), "properties": {"n": None}}
