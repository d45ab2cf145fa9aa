from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import Refused
from kfm.masking.counts import Published, counted, suppressed
from tests.sampling import tries

tables = st.dictionaries(
    st.tuples(st.sampled_from("abcde"), st.sampled_from("vwxyz")),
    st.one_of(st.integers(0, 6), st.integers(0, 40)),
    max_size=20,
)


def determined(table: Published) -> set[tuple[str, str]]:
    """The attacker: suppressed counts that the published ones and totals leave no choice for."""
    unknown = sorted(key for key, count in table.counts.items() if count is None)
    lines = [
        *([key for key in unknown if key[0] == row] for row, total in table.rows.items() if total is not None),
        *([key for key in unknown if key[1] == column] for column, total in table.columns.items() if total is not None),
        *([unknown] if table.total is not None else []),
    ]
    matrix = [[Fraction(int(key in line)) for key in unknown] for line in lines]
    rank = 0
    for at in range(len(unknown)):
        pivot = next((row for row in range(rank, len(matrix)) if matrix[row][at]), None)
        if pivot is None:
            continue
        matrix[rank], matrix[pivot] = matrix[pivot], matrix[rank]
        matrix[rank] = [value / matrix[rank][at] for value in matrix[rank]]
        for row in range(len(matrix)):
            if row != rank and matrix[row][at]:
                factor = matrix[row][at]
                matrix[row] = [a - factor * b for a, b in zip(matrix[row], matrix[rank], strict=True)]
        rank += 1
    alone = [row for row in matrix if sum(1 for value in row if value) == 1]
    return {unknown[next(at for at, value in enumerate(row) if value)] for row in alone}


def test_the_attacker_finds_what_a_naive_table_gives_away() -> None:
    naive = Published({("a", "x"): None, ("a", "y"): 9}, {"a": 11}, {"x": None, "y": 9}, None)
    assert determined(naive) == {("a", "x")}


@given(tables, st.sampled_from([5, 7, 10]))
@settings(max_examples=tries(300), deadline=None)
def test_no_small_count_is_shown_or_can_be_worked_out(table: dict[tuple[str, str], int], k: int) -> None:
    found = suppressed(table, k)
    for key, count in found.counts.items():
        assert count is None or (count == table[key] and count >= k)
    assert determined(found) == set()
    for axis, totals in ((0, found.rows), (1, found.columns)):
        for name, total in totals.items():
            hidden = [key for key, count in found.counts.items() if count is None and key[axis] == name]
            assert total is None or not hidden or sum(table[key] for key in hidden) >= k


@given(tables)
def test_a_table_without_small_counts_is_shown_whole(table: dict[tuple[str, str], int]) -> None:
    large = {key: count + 5 for key, count in table.items()}
    found = suppressed(large)
    assert found.counts == large and found.total == sum(large.values())


def test_a_complement_is_suppressed_with_a_small_count() -> None:
    found = suppressed({("a", "x"): 2, ("a", "y"): 30, ("a", "z"): 12, ("b", "x"): 20, ("b", "y"): 15, ("b", "z"): 17})
    assert found.counts[("a", "x")] is None and found.counts[("a", "z")] is None
    assert found.counts[("a", "y")] == 30 and found.rows == {"a": 44, "b": 52} and found.total == 96


def test_k_goes_up_and_never_down() -> None:
    with pytest.raises(Refused):
        suppressed({}, 4)
    assert suppressed(counted([("a", "x")] * 9), 10).counts == {("a", "x"): None}
