"""The conditions of a filter, for one value or for a whole column of texts.

A value is read with the type of the operand in the configuration: as a number next to a number, as a text next to a
text. A value that cannot be read so, or is blank, meets only `not_equals` and `blank: true`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import and_, eq, ge, gt, le, lt
from typing import Any

from kfm.model.transform_config import FilterConfig, Scalar, glob_parts
from kfm.updaters.transforms.step_values import is_blank, number_of, text_of, truth_of

Test = Callable[[Any], bool]
Mask = list[bool]
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "equals": eq, "above": gt, "below": lt, "at_least": ge, "at_most": le
}  # fmt: skip
_NUMERIC = b"0123456789.+-"
_SURE = 15  # a number of at most this many characters is exact as a double
_REMEMBERED = 1 << 16  # most cached values of a column; the next line limits their length
_MEMORABLE = 64


def test_of(said: FilterConfig) -> Test:
    """Return a function that says whether a value, of JSON or of a table, meets all conditions."""
    tests = _tests(said)
    return tests[0] if len(tests) == 1 else lambda value: all(test(value) for test in tests)


def _tests(said: FilterConfig) -> list[Test]:
    tests = [_compared(name, operand) for name, operand in _comparisons(said)]
    if said.not_equals is not None:
        same = _compared("equals", said.not_equals)
        tests.append(lambda value: not same(value))
    if said.in_:
        any_of = [_compared("equals", operand) for operand in said.in_]
        tests.append(lambda value: any(test(value) for test in any_of))
    if said.matches:
        glob = Glob(said.matches)
        tests.append(lambda value: not is_blank(value) and glob.fits(text_of(value)))
    if said.blank is not None:
        wanted = said.blank
        tests.append(lambda value: is_blank(value) is wanted)
    return tests


def _comparisons(said: FilterConfig) -> list[tuple[str, Scalar]]:
    return [(name, operand) for name in _COMPARE if (operand := getattr(said, name)) is not None]


def _compared(name: str, operand: Scalar) -> Test:
    compare = _COMPARE[name]
    read = truth_of if isinstance(operand, bool) else text_of if isinstance(operand, str) else number_of

    def test(value: Any) -> bool:
        if is_blank(value):
            return False
        found = read(value)
        return found is not None and compare(found, operand)

    return test


# ------------------------------------------------------------------------------ a column at once


def mask_of(said: FilterConfig) -> Callable[[Sequence[str]], Mask]:
    """Return a function that says for each text of a column whether it meets all conditions."""
    masks: list[Callable[[Sequence[str]], Mask]] = []
    bounds = [(name, operand) for name, operand in _comparisons(said) if type(operand) in (int, float)]
    if bounds:
        masks.append(_Remembered(partial(_within, bounds)))
    rest = [(name, operand) for name, operand in _comparisons(said) if type(operand) not in (int, float)]
    for name, operand in rest:
        masks.append(partial(_same, operand) if name == "equals" and isinstance(operand, str)
                     else _Remembered(partial(_each, _compared(name, operand))))  # fmt: skip
    if isinstance(said.not_equals, str):
        masks.append(partial(_other, said.not_equals))
    if said.in_ and all(isinstance(operand, str) for operand in said.in_):
        masks.append(partial(_among, frozenset(said.in_)))
    left = FilterConfig(
        column=said.column,
        not_equals=None if isinstance(said.not_equals, str) else said.not_equals,
        in_=() if all(isinstance(operand, str) for operand in said.in_) else said.in_,
        matches=said.matches,
        blank=said.blank,
    )
    masks += [_Remembered(partial(_each, test)) for test in _tests(left)]

    def mask(column: Sequence[str]) -> Mask:
        found = masks[0](column)
        for other in masks[1:]:
            found = list(map(and_, found, other(column)))
        return found

    return mask


class _Remembered:
    """Caches the result of a test for each distinct value, because columns repeat values. A column with very many
    values is not cached."""

    def __init__(self, mask: Callable[[Sequence[str]], Mask]) -> None:
        self._mask = mask
        self._answers: dict[str, bool] | None = {}

    def __call__(self, column: Sequence[str]) -> Mask:
        answers = self._answers
        if answers is None:
            return self._mask(column)
        try:
            return list(map(answers.__getitem__, column))
        except KeyError:
            fresh = list(set(column).difference(answers))
        if len(answers) + len(fresh) > _REMEMBERED or max(map(len, fresh)) > _MEMORABLE:
            self._answers = None
            return self._mask(column)
        answers.update(zip(fresh, self._mask(fresh), strict=True))
        return list(map(answers.__getitem__, column))


def _each(test: Test, column: Sequence[str]) -> Mask:
    """Return the result of a test for each text of a column. Each distinct text is tested once, because columns repeat
    values."""
    answers = {value: test(value) for value in set(column)}
    return list(map(answers.__getitem__, column))


def _same(text: Any, column: Sequence[str]) -> Mask:
    return [value == text for value in column]


def _other(text: Any, column: Sequence[str]) -> Mask:
    return [value != text for value in column]


def _among(texts: frozenset[Any], column: Sequence[str]) -> Mask:
    return list(map(texts.__contains__, column))


def _within(bounds: list[tuple[str, Any]], column: Sequence[str]) -> Mask:
    numbers = sure_numbers(column, "nan")  # every comparison with NaN is false
    if numbers is None:
        tests = [_compared(name, operand) for name, operand in bounds]
        return _each(lambda value: all(test(value) for test in tests), column)
    found: Mask | None = None
    for name, operand in bounds:
        if name == "at_least":
            mask = [number >= operand for number in numbers]
        elif name == "above":
            mask = [number > operand for number in numbers]
        elif name == "at_most":
            mask = [number <= operand for number in numbers]
        elif name == "below":
            mask = [number < operand for number in numbers]
        else:
            mask = [number == operand for number in numbers]
        found = mask if found is None else list(map(and_, found, mask))
    assert found is not None
    return found


def sure_numbers(column: Sequence[str], blank: str = "") -> list[float] | None:
    """Return the numbers if every text is short and clearly a number; otherwise None. `blank` replaces empty texts."""
    joined = "".join(column)
    if not joined.isascii() or joined.encode().translate(None, _NUMERIC) or max(map(len, column), default=0) > _SURE:
        return None
    try:
        return list(map(float, [text or blank for text in column] if blank and "" in column else column))
    except ValueError:
        return None


class Glob:
    """A pattern in which `*` is any text and `?` any one character. It searches each part once, from left to right."""

    def __init__(self, pattern: str) -> None:
        parts = glob_parts(pattern)
        assert parts is not None
        self._first = _Part(parts[0])
        self._last = _Part(parts[-1])
        self._between = [_Part(part) for part in parts[1:-1] if part != [""]]
        self._single = len(parts) == 1

    def fits(self, text: str) -> bool:
        if self._single:
            return len(text) == self._first.size and self._first.at(text, 0)
        end = len(text) - self._last.size
        if end < self._first.size or not self._first.at(text, 0) or not self._last.at(text, end):
            return False
        position = self._first.size
        for part in self._between:
            found = part.find(text, position, end)
            if found < 0:
                return False
            position = found + part.size
        return True


class _Part:
    """A part of a pattern between two stars; `?` in it matches any one character."""

    def __init__(self, pieces: list[str]) -> None:
        self.size = sum(map(len, pieces)) + len(pieces) - 1
        self._anchor = pieces[0]
        self._pieces: list[tuple[int, str]] = []
        offset = 0
        for piece in pieces:
            self._pieces.append((offset, piece))
            offset += len(piece) + 1

    def at(self, text: str, position: int) -> bool:
        return all(text.startswith(piece, position + offset) for offset, piece in self._pieces)

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first position of this part in the text between `start` and `end`; -1 if it is not there."""
        last = end - self.size
        while start <= last:
            start = text.find(self._anchor, start, end)
            if start < 0 or start > last:
                return -1
            if len(self._pieces) == 1 or self.at(text, start):
                return start
            start += 1
        return -1
