"""Canonical JSON against RFC 8785: its own examples, another implementation, and Node."""

from __future__ import annotations

import enum
import json
import math
import os
import random
import shutil
import struct
import subprocess
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.records import Column, RefMove, SourceRef, Step, Trigger
from kfm.parsing.strict_json import MAX_DEPTH, decode, ecmascript_number
from tests.sampling import tries

# RFC 8785, appendix B.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


def double(bits: str) -> float:
    found: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return found


def doubles(count: int, seed: int) -> list[float]:
    """Finite doubles: from all bit patterns, and as many of the sizes and roundness that data has."""
    source = random.Random(seed)
    found: list[float] = []
    while len(found) < count:
        value = struct.unpack(">d", source.randbytes(8))[0]
        if math.isfinite(value):
            found.append(value)
        found.append(round(source.uniform(-1, 1) * 10 ** source.randint(-9, 24), source.randint(-3, 12)))
        found.append(float(source.randrange(-(10**6), 10**6)))
        found.append(math.nextafter(10.0 ** source.randint(-10, 25), source.choice([-math.inf, math.inf])))
    return found[:count]


def place_of(value: Any) -> str:
    with pytest.raises(BadInput) as caught:
        canonical(value)
    return caught.value.message


def refusal_of(body: bytes) -> str:
    with pytest.raises(BadInput) as caught:
        decode(body, "source.json")
    assert caught.value.message.startswith("source.json")
    return caught.value.message


# --- what is written


@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS.items())
def test_numbers_are_written_as_in_the_table_of_the_rfc(bits: str, text: str) -> None:
    assert canonical(double(bits)) == text.encode()
    assert canonical([double(bits)]) == f"[{text}]".encode()


@pytest.mark.parametrize("bits", ["7fffffffffffffff", "7ff0000000000000", "fff0000000000000"])
def test_the_numbers_that_the_rfc_refuses_are_refused(bits: str) -> None:
    assert place_of({"a": [double(bits)]}).startswith("$.a[0] ")


def test_the_first_example_of_the_rfc() -> None:
    text = (
        r'{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],'
        r' "string": "\u20ac$\u000F\u000aA' + "'" + r'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}'
    )
    expected = bytes.fromhex(
        "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b3333333333333333332e"
        "333333333333332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c75303030665c"
        "6e412742 5c225c5c5c5c5c222f227d"
    )
    assert canonical(decode(text.encode(), "rfc")) == expected


def test_the_sorting_example_of_the_rfc() -> None:
    text = (
        r'{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",'
        r' "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",'
        r' "\u00f6": "Latin Small Letter O With Diaeresis"}'
    )
    found = canonical(decode(text.encode(), "rfc"))
    assert list(json.loads(found).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


def test_doubles_are_written_as_by_another_implementation() -> None:
    values = doubles(tries(200_000), seed=1)
    for value in values:
        assert ecmascript_number(value).encode() == rfc8785.dumps(value)
    for start in range(0, len(values), 50):
        some = values[start : start + 50]
        assert canonical(some) == rfc8785.dumps(some)  # the way through msgspec, or past it
    for value in values[:50_000]:
        assert canonical({"v": value}) == b'{"v":' + rfc8785.dumps(value) + b"}"


def test_twenty_thousand_doubles_are_written_as_by_node() -> None:
    node = shutil.which("node")
    if node is None:
        if os.environ.get("CI"):
            pytest.fail("node is not on PATH")
        pytest.skip("node is not on PATH")
    values = doubles(20_000, seed=2)
    program = (
        "let t='';process.stdin.on('data',d=>t+=d);process.stdin.on('end',()=>{"
        "const b=Buffer.from(t,'hex'),o=[];for(let i=0;i<b.length;i+=8)o.push(b.readDoubleBE(i));"
        "process.stdout.write(JSON.stringify(o))})"
    )
    packed = struct.pack(f">{len(values)}d", *values).hex()
    done = subprocess.run([node, "-e", program], input=packed, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.count(",") == len(values) - 1
    assert canonical(values).decode() == done.stdout


BMP_HIGH_AND_ASTRAL = st.text(
    st.sampled_from('a\u00e9\ud7ff\ue000\ufb33\uffff\U00010000\U0001f600\U0010ffff\x00\x1f\x7f"\\/')
)
TEXT = st.one_of(st.text(), BMP_HIGH_AND_ASTRAL, st.sampled_from(["1.0,", "[2.0]", "{0.0}", ".0,.0]", "-0.0"]))
NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**18), 10**18).map(float),
    st.sampled_from([0.0, -0.0, 1.0, 1e15, 1e16, 1e20, 1e21, 1e-5, 1e-6, 1e-7, 0.1]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), TEXT, NUMBERS),
    lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(TEXT, inner)),
    max_leaves=15,
)


@settings(max_examples=tries(400), deadline=None)
@given(JSON)
def test_any_value_is_written_as_by_another_implementation(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


def some_json(source: random.Random, numbers: list[float], room: int) -> Any:
    """Bulk for what Hypothesis is too slow for; mostly plain, now and then one odd part."""
    pick = source.random()
    if room and pick < 0.15:
        return [some_json(source, numbers, room - 1) for _ in range(source.randrange(6))]
    if room and pick < 0.4:
        letters = source.choice(
            ["abc_xyz", "abc_xyz", "aé€\ud7ff\ue000\uffff", "a\U00010000\U0010ffff", "\ue000\U0001f600"]
        )
        return {
            "".join(source.choices(letters, k=source.randrange(4))): some_json(source, numbers, room - 1)
            for _ in range(source.randrange(8))
        }
    return source.choice(
        [
            None,
            True,
            False,
            0,
            -1,
            source.getrandbits(53),
            source.choice(numbers),
            source.random(),
            "",
            "text, 1.0, 2.0]",
        ]
    )


def test_twenty_thousand_random_documents_are_written_as_by_another_implementation() -> None:
    source = random.Random(3)
    numbers = doubles(5000, seed=4)
    for _ in range(20_000):
        value = some_json(source, numbers, 4)
        assert canonical(value) == rfc8785.dumps(value)


@settings(max_examples=tries(300), deadline=None)
@given(JSON)
def test_what_was_written_is_read_back_and_written_the_same(value: Any) -> None:
    body = canonical(value)  # also of a double such as 1e20, which is written like an integer
    assert canonical(decode(body, "written")) == body


@settings(max_examples=tries(300), deadline=None)
@given(st.dictionaries(BMP_HIGH_AND_ASTRAL, st.integers(0, 9), min_size=2))
def test_keys_are_in_the_order_of_their_utf16_units(members: dict[str, int]) -> None:
    found = list(json.loads(canonical(members)))
    assert found == sorted(members, key=lambda key: key.encode("utf-16-be"))


@settings(max_examples=tries(100), deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4), st.randoms(use_true_random=False))
def test_the_order_in_which_members_were_added_does_not_matter(members: dict[str, Any], order: random.Random) -> None:
    shuffled = list(members.items())
    order.shuffle(shuffled)
    assert canonical(dict(shuffled)) == canonical(members)


def test_a_whole_float_is_written_without_its_point_and_text_is_left_alone() -> None:
    assert canonical({"a": 1.0, "b": "1.0,2.0]", "c": [0.0, -3.0]}) == b'{"a":1,"b":"1.0,2.0]","c":[0,-3]}'
    assert canonical({"a": "x.0}"}) == b'{"a":"x.0}"}'
    assert canonical([12.0, 1.05, 1.0]) == b"[12,1.05,1]"


def test_equal_numbers_are_equal_bytes_whatever_their_type() -> None:
    assert canonical([1.0, -0.0, 2.0**53]) == canonical([1, 0, 2**53])


def test_subclasses_are_written_as_what_they_are() -> None:
    class Level(enum.IntEnum):
        LOW = 1

    class Colour(enum.StrEnum):
        RED = "red"

    class Real(float):
        pass

    class Members(dict[str, Any]):
        pass

    value = Members({Colour.RED: [Level.LOW, Real(1.5), Real(2), Colour.RED, True]})
    assert canonical(value) == b'{"red":[1,1.5,2,"red",true]}'


# --- records


def test_a_record_is_written_as_its_members() -> None:
    move = RefMove(ref="processed/a", before="", after="x")
    assert canonical(move) == b'{"after":"x","before":"","ref":"processed/a"}'
    step = Step(id="s", key=("a", "b"), params={"f": 2.0, "g": 1e21, "ключ": None}, move=move)
    assert canonical(step) == canonical(msgspec.to_builtins(step))
    assert canonical({"steps": [step]}) == b'{"steps":[' + canonical(step) + b"]}"


def test_an_odd_float_deep_in_a_record_is_written_exactly() -> None:
    column = Column(name="t", minimum=-0.0, maximum=1e21)
    assert b'"maximum":1e+21' in canonical(column)
    assert b'"minimum":0,' in canonical(column)


def test_the_place_inside_a_record_is_named() -> None:
    ref = SourceRef(uri="u", content_hash="h", size=2**60)
    trigger = Trigger(kind="manual", updater_id="u", dataset="d", params={"x": "\ud800"})
    assert place_of([ref]).startswith("$[0].size ")
    assert place_of(trigger).startswith("$.params.x ")


def test_names_tags_and_omissions_that_a_class_declares_are_kept() -> None:
    class Tagged(msgspec.Struct, tag="t", rename="camel", omit_defaults=True):
        some_value: float
        other_value: int = 3

    class Row(msgspec.Struct, array_like=True, tag="row"):
        a: float
        b: str

    class Unset(msgspec.Struct):
        a: int | msgspec.UnsetType = msgspec.UNSET
        b: float = 1e21

    for value in (Tagged(1.5), Tagged(1e21), Tagged(-0.0, 4), Row(1.5, "x"), Row(1e21, "x"), Unset(), Unset(1)):
        assert canonical(value) == canonical(msgspec.to_builtins(value))


# --- what is not written


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (math.nan, "$ "),
        ([1, math.inf], "$[1] "),
        ({"a": {"b": [0, -math.inf]}}, "$.a.b[1] "),
        (2**53 + 1, "$ "),
        ({"n": -(2**53) - 1}, "$.n "),
        ([10**5000], "$[0] "),
        ("\ud800", "$ "),
        ({"a": ["ok", "x\udfffy"]}, "$.a[1] "),
        ({"a": {"\ud800": 1}}, "$.a "),
        ({"é": {1: 2}}, "$['é'] "),
        ([{None: 1}], "$[0] "),
        ({"a": {(1, 2): 1}}, "$.a "),
        ({"a": b"bytes"}, "$.a "),
        ([{1, 2}], "$[0] "),
        ([bytearray()], "$[0] "),
        ({"when": __import__("datetime").datetime(2026, 1, 1)}, "$.when "),
        ({"id": __import__("uuid").UUID(int=0)}, "$.id "),
        ({"d": __import__("decimal").Decimal(1)}, "$.d "),
        ([msgspec.Raw(b"1")], "$[0] "),
        ([msgspec.UNSET], "$[0] "),
        ([1j], "$[0] "),
        ([object()], "$[0] "),
        ({"a\n'b": [math.nan]}, r"$['a\u000a\u0027b'][0] "),
        ({"x" * 1000: math.nan}, "$['xxx"),
    ],
)
def test_a_value_without_a_canonical_form_is_refused_with_its_place(value: Any, place: str) -> None:
    message = place_of(value)
    assert message.startswith(place)
    assert len(message) < 300


def test_integers_up_to_two_to_the_fifty_third_are_written() -> None:
    assert canonical([2**53, -(2**53)]) == b"[9007199254740992,-9007199254740992]"


def _nested(depth: int, leaf: Any) -> Any:
    for level in range(depth):
        leaf = [leaf] if level % 2 else {"a": leaf}
    return leaf


@pytest.mark.parametrize("leaf", [0, 1e21, [], {}])
def test_nesting_may_be_two_hundred_deep_and_no_deeper(leaf: Any) -> None:
    deepest = MAX_DEPTH - isinstance(leaf, list | dict)
    assert canonical(_nested(deepest, leaf)) == rfc8785.dumps(_nested(deepest, leaf))
    assert "deeper than 200" in place_of(_nested(deepest + 1, leaf))
    assert decode(canonical(_nested(deepest, leaf)), "deep") == _nested(deepest, leaf)


def test_a_list_inside_itself_is_refused() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    assert "deeper than 200" in place_of(loop)


# --- what is read


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a":1,"a":2}', ": $ names a key twice"),
        (b'[{"b":{"a":1,"\\u0061":2}}]', ": $[0].b names a key twice"),
        (b"[NaN]", ": $[0] is NaN"),
        (b'{"x":-Infinity}', ": $.x is NaN or Infinity"),
        (b"[1,9007199254740993]", ": $[1] is an integer larger than 2^53"),
        (b"[-9007199254740993]", ": $[0] is an integer larger than 2^53"),
        (b'{"n":' + b"9" * 100_000 + b"}", ": $.n is an integer larger than 2^53"),
        (b"[1e999]", ": $[0] is not a finite double"),
        (b"[-1" + b"0" * 400 + b".5]", ": $[0] is not a finite double"),
        (b'["\\ud800"]', ": $[0] holds half a surrogate pair"),
        (b'["\\udc00\\ud800"]', ": $[0] holds half a surrogate pair"),
        (b'{"a":{"\\uDfff":1}}', ": $.a holds half a surrogate pair"),
        (b"[" * 201 + b"]" * 201, " is nested deeper than 200"),
        (b"[" * 100_000, " is nested deeper than 200"),
        (b'{"a":' * 100_000, " is nested deeper than 200"),
        (b"[" * 100_000 + b"]" * 100_000, " is nested deeper than 200"),
        (b"\xef\xbb\xbf{}", " begins with a byte order mark"),
        (b'{\n"a":"\xff"}', " is not UTF-8 at line 2, byte 7"),
        (b'"\xed\xa0\x80"', " is not UTF-8 at line 1"),
        (b'"\xc0\x80"', " is not UTF-8 at line 1"),
        (b'{"a":1\n,}', " is not JSON at line 2, column "),
        (b"", " is not JSON at line 1, column 1"),
        (b"[1] [2]", " is not JSON at line 1, column 5"),
        (b"[01]", " is not JSON at line 1, column 3"),
        (b"[+1]", " is not JSON at line 1"),
        (b"[.5]", " is not JSON at line 1"),
        (b"[1.]", " is not JSON at line 1"),
        (b"['a']", " is not JSON at line 1"),
        (b'["\t"]', " is not JSON at line 1"),
        (b'["\x00"]', " is not JSON at line 1"),
        (b'["\\x41"]', " is not JSON at line 1"),
        (b"{1:2}", " is not JSON at line 1"),
        (b"[1,]", " is not JSON at line 1"),
        (b"[True]", " is not JSON at line 1"),
        ("[\u0661]".encode(), " is not JSON at line 1"),
        ("\u00a0[]".encode(), " is not JSON at line 1"),
        (b"[1]\x00", " is not JSON at line 1"),
        ('{"a":1}'.encode("utf-16"), " is not UTF-8"),
    ],
)  # fmt: skip
def test_text_that_is_not_strict_json_is_refused_with_its_place(body: bytes, said: str) -> None:
    assert said in refusal_of(body)


def test_a_refusal_never_quotes_a_value() -> None:
    for body in (
        b'{"k":"secret\\ud800"}', b'{"k":123456789012345678901}', b'{"k":"secret',
        b'{"k": secret}', b'{"k":{"x":"secret","x":"secret"}}', b'{"k":"secret\\q"}', b'{"k":"secret\xff"}',
    ):  # fmt: skip
        message = refusal_of(body)
        assert "secret" not in message
        assert "123456" not in message


def test_the_first_of_several_flaws_is_named() -> None:
    assert ": $.b[1] " in refusal_of(b'{"a":1,"b":[0,NaN],"c":NaN,"d":{"x":1,"x":1}}')


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b' {"a" : [1, -0, 2.50, 1E3, null, true, false]}\r\n', {"a": [1, 0, 2.5, 1000.0, None, True, False]}),
        (b'"\\ud83d\\ude00\\u0000\\/"', "\U0001f600\x00/"),
        (b"9007199254740992", 2**53),
        (b"-9007199254740992", -(2**53)),
        (b"1e-999", 0.0),
        (b'{"":{}}', {"": {}}),
        (b"0." + b"3" * 100_000, 1 / 3),
    ],
)
def test_strict_json_is_read(body: bytes, value: Any) -> None:
    assert decode(body, "source.json") == value


@settings(max_examples=tries(500), deadline=None)
@given(
    st.binary(max_size=60)
    | st.text(st.sampled_from('{}[]":,0123456789.eE+-\\u dtrufalsn"'), max_size=40).map(str.encode)
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        value = decode(body, "source.json")
    except BadInput as refused:
        assert refused.message.startswith("source.json")
    else:
        assert json.loads(body) == value
        canonical(value)


@settings(max_examples=tries(200), deadline=None)
@given(JSON, st.data())
def test_damaged_json_is_read_or_refused(value: Any, data: st.DataObject) -> None:
    body = bytearray(canonical(value))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        canonical(decode(bytes(body), "source.json"))
    except BadInput as refused:
        assert refused.message.startswith("source.json")


def test_an_object_of_very_many_keys_has_a_form_whatever_their_order() -> None:
    """The encoder alone runs out of its stack and takes the process with it, where one key is out of order."""
    names = [f"k{n:06d}" for n in range(120_000)]
    expected = b'{"deep":{' + b",".join(b'"%s":1' % name.encode() for name in [*names, "z"]) + b"}}"
    assert canonical({"deep": dict.fromkeys(["z", *names], 1)}) == expected
    assert canonical([dict.fromkeys([*names, "z"], 1.0)]) == b"[" + expected[8:-1] + b"]"
