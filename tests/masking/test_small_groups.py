"""In any sequence of versions no group of quasi-identifiers is smaller than k, and no value becomes finer again."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.masking.count_table import CountTable, count_table, features_of, rows_of
from kfm.masking.first_cells import Memory, memory_of, shown_cells
from kfm.masking.leak_scanner import one_cell
from kfm.masking.mask import mask_columns
from kfm.masking.places import PlaceKeys
from kfm.masking.public_record import WITHHELD, PublicRecord, feature, properties
from kfm.masking.public_table import NOTHING_SHOWN, PublicTable, public_table
from kfm.masking.small_groups import difference, group_sizes
from kfm.model.masks import ColumnRule, MaskingPolicy, faults
from tests.masking.sites import KEY, POINT, policy, prepared
from tests.sampling import tries

PLACES = [("38.51", "-97.52"), ("38.5101", "-97.52"), ("39.51", "-99.52"), ("0", "nowhere")]
QUASI: dict[str, Any] = {
    "columns": {
        "material": ColumnRule(kind="code", values=("bone", "wood")),
        "age": ColumnRule(kind="number", step=50, below_k=1000),
        "dug": ColumnRule(kind="date", to="year", below_k="century"),
    },
    "quasi_identifiers": ("material", "age", "dug"),
}
NAMES = ("material", "age", "dug")
KEYS = PlaceKeys(KEY)
Rows = list[tuple[int, int, str, int, int]]
rows = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, len(PLACES) - 1),
        st.sampled_from(["bone", "wood", "gold", ""]),
        st.sampled_from([100, 150, 1900]),
        st.sampled_from([1968, 1972]),
    ),
    max_size=40,
)


def shown(table: Rows, known: Memory = NOTHING_SHOWN) -> PublicTable:
    columns: dict[str, list[Any]] = {
        "trinomial": [f"14XX{number}" for number, *_ in table],
        "how": ["gps"] * len(table),
        "lat": [PLACES[place][0] for _, place, *_ in table],
        "lng": [PLACES[place][1] for _, place, *_ in table],
        "material": [material for *_, material, _, _ in table],
        "age": [str(age) for *_, age, _ in table],
        "dug": [f"{year}-05-06" for *_, year in table],
    }
    return public_table(columns, prepared(**QUASI), lambda bound: mask_columns(columns, bound), known, KEYS)


def united(known: Memory, made: PublicTable) -> Memory:
    return memory_of(known.stored() | made.learned.stored())


def values(record: PublicRecord) -> tuple[str, ...]:
    return tuple(record.attributes[name] for name in NAMES)


@given(st.lists(rows, min_size=1, max_size=4))
@settings(max_examples=tries(40), deadline=None)
def test_no_version_shows_a_small_group_or_a_value_that_was_coarser(versions: list[Rows]) -> None:
    known = memory_of({})
    withheld: set[tuple[str, str]] = set()
    for table in versions:
        made = shown(table, known)
        groups: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for one in made.records:
            groups[one.cell, *values(one)].add(one.id)
        for (_, *its), ids in groups.items():
            assert len(ids) >= 5 or set(its) == {WITHHELD}
        for before, after in zip(made.as_masked, made.records, strict=True):
            assert (before.id, before.cell) == (after.id, after.cell)
            withheld |= {
                (after.id, name) for name in NAMES if after.attributes[name] == WITHHELD != before.attributes[name]
            }
        assert all(
            one.attributes[name] == WITHHELD for one in made.records for name in NAMES if (one.id, name) in withheld
        )
        assert group_sizes(made.records, policy(**QUASI)).below_k == 0
        known = united(known, made)
        again = shown(table, known)
        assert again.records == made.records and not any(again.learned)


@given(rows)
@settings(max_examples=tries(20), deadline=None)
def test_the_order_of_the_rows_changes_no_record(table: Rows) -> None:
    def as_set(made: PublicTable) -> list[bytes]:
        return sorted(feature(one) for one in made.records)

    one_each = list({number: row for row in table if (number := row[0]) >= 0}.values())
    assert as_set(shown(one_each)) == as_set(shown(one_each[::-1]))


def test_rows_of_one_record_are_one_record_of_a_group() -> None:
    made = shown([(1, 0, "bone", 100, 1968)] * 9)
    assert {values(one) for one in made.records} == {(WITHHELD,) * 3}
    assert group_sizes(made.as_masked, policy(**QUASI)).unique == 1


def test_a_coarser_form_is_taken_from_the_published_value_and_the_last_column_goes_first() -> None:
    table = [(n, 0, "bone", 100 + 50 * (n % 2), 1968 + n) for n in range(6)]
    assert {values(one) for one in shown(table).records} == {("bone", "0", "1900s")}
    other = [(n, 0, "bone", 100 + 900 * n, 1968) for n in range(6)]
    assert {values(one) for one in shown(other).records} == {("bone", WITHHELD, WITHHELD)}


def test_a_small_rest_takes_some_of_a_large_group_with_it_and_leaves_k() -> None:
    table = [*((n, 0, "bone", 100, 1968) for n in range(9)), (20, 0, "wood", 1900, 1972)]
    found = [values(one) for one in shown(table).records]
    assert found.count((WITHHELD,) * 3) == 5 and found.count(("bone", "100", "1968")) == 5


def test_records_that_come_or_go_with_fewer_than_k_are_counted() -> None:
    crowd = [(n, 0, "bone", 100, 1968) for n in range(8)]
    before = shown(crowd)
    groups = {one.id: [(one.cell, *values(one))] for one in before.records}
    after = shown([*crowd[1:], *((n, 0, "bone", 100, 1968) for n in range(10, 16)), (30, 2, "wood", 100, 1972)])
    found = difference(groups, after.records, policy(**QUASI))
    assert (found.added, found.added_below_k, found.removed, found.removed_below_k) == (7, 1, 1, 1)


def test_the_cells_of_a_public_file_are_read_in_every_form() -> None:
    records = shown([(n, n % 3, "bone", 100, 1968) for n in range(6)]).records
    expected = {(one.id, one.cell) for one in records}
    table = [{"id": one.id, **properties(one)} for one in records]
    lines = ["id,note,cell", *(f'{row["id"]},"a, b",{row["cell"]}' for row in table)]
    features = b",".join(feature(one) for one in records)
    assert set(shown_cells("\n".join(lines).encode())) == expected
    assert set(shown_cells(b"\n".join(feature(one) for one in records))) == expected
    assert set(shown_cells(b'{"type":"FeatureCollection","features":[' + features + b"]}")) == expected
    for other in (b"", b"cell", b'"cell', b"\xff\xfecell", b'["cell"]', b'{"cell":1}', b"a,cell\n1,2\n"):
        assert list(shown_cells(other)) == []


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"quasi_identifiers": ("weight",)}, "is not a published column"),
        ({"quasi_identifiers": ("age", "age")}, "is given twice"),
        ({"quasi_identifiers": ("age",)}, "is only for a quasi-identifier"),
        ({"columns": {"age": ColumnRule(kind="number", step=50, below_k=50)}}, "is not coarser than step"),
        ({"columns": {"age": ColumnRule(kind="number", below_k="year")}}, "does not fit the kind"),
        ({"columns": {"age": ColumnRule(kind="code", values=("a",), below_k=5)}}, "does not fit the kind"),
        ({"columns": {"age": ColumnRule(kind="date", to="decade", below_k="year")}}, "is not coarser than decade"),
    ],
)
def test_a_policy_with_wrong_quasi_identifiers_is_refused(changed: dict[str, Any], what: str) -> None:
    said = QUASI | ({"quasi_identifiers": ("age",)} if "columns" in changed else {}) | changed
    assert any(what in problem for _, problem, _ in faults(policy(**said)))


def test_a_policy_without_quasi_identifiers_has_the_digest_that_it_had() -> None:
    from kfm.model.canonical import canonical

    assert b"quasi" not in canonical(policy()) and b"below_k" not in canonical(policy())
    assert isinstance(policy(), MaskingPolicy) and POINT.metres == 10


def counts_of(counts: dict[tuple[str, str], int], known: dict[str, Any], k: int = 5) -> CountTable:
    """A record for each count, in the cell of its first part."""
    records = [
        PublicRecord(id=f"{n:032x}", cell=cell, accuracy="", metres=0, attributes={"material": value}, rules=())
        for n, (cell, value) in enumerate(key for key, count in counts.items() for _ in range(count))
    ]
    return count_table(records, policy(**QUASI, counts_by="material", k=k), known, KEYS)


tables = st.dictionaries(
    st.tuples(st.sampled_from([f"8{n}6e042ffffffff" for n in "123"]), st.sampled_from("vwxyz")),
    st.one_of(st.integers(0, 6), st.integers(0, 40)),
    max_size=12,
)


@given(st.lists(tables, min_size=1, max_size=3))
@settings(max_examples=tries(60), deadline=None)
def test_no_withheld_count_follows_from_the_others_and_none_is_shown_later(versions: list[Any]) -> None:
    known: dict[str, Any] = {}
    withheld: set[tuple[str, str]] = set()
    for table in versions:
        made = counts_of(table, known)
        hidden = {key for key, count in made.counts.items() if count is None}
        assert withheld & made.counts.keys() <= hidden
        for key, count in made.counts.items():
            assert count is None or (count == table[key] and count >= 5)
        if hidden and hidden != made.counts.keys():  # the number of all rows is no secret
            assert len(hidden) > 1 and sum(table[key] for key in hidden) >= 5
        withheld |= hidden
        known |= made.forms


def test_features_of_counts_show_nothing_but_their_cell() -> None:
    cell = shown([(0, 0, "bone", 100, 1968)]).records[0].cell
    made = counts_of({(cell, "bone"): 7, (cell, "wood"): 6, ("", "bone"): 9, ("", "wood"): 9}, {})
    table = rows_of(made, "material")
    assert [row["count"] for row in table] == [9, 9, 7, 6]
    body = b'{"type":"FeatureCollection","features":[' + b",".join(features_of(table, "material")) + b"]}"
    assert one_cell(body, 7).verdict == "clean"
