"""The steps over a table. They work on whole columns, and lines stay unchanged as long as no step changes them.

Every value is a text. A cast changes the text to that of the number or boolean, and the type of its column, which
decides how it sorts and what it becomes in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import compress
from typing import Any

from kfm.model.csv_format import Block, Table, lines_of
from kfm.model.transform_config import StepConfig, sort_keys
from kfm.updaters.transforms.deduplication import Deduplicator, KeyTexts
from kfm.updaters.transforms.external_sort import Keys, Payloads, Room, Sorted, Sorter, Tags, TextSorter, has_blank
from kfm.updaters.transforms.filter_conditions import mask_of, sure_numbers
from kfm.updaters.transforms.join import Key, Lookup
from kfm.updaters.transforms.step_columns import after, asked, check
from kfm.updaters.transforms.step_values import UNFIT, cast_text
from kfm.updaters.transforms.transform_errors import Place

Column = Sequence[str]


class Rows:
    """A batch of rows on their way through the steps. Columns, lines and numbers are computed on use."""

    __slots__ = ("_cache", "_column", "_lines", "_numbers", "size")

    def __init__(
        self,
        size: int,
        column: Callable[[int], Column],
        lines: Callable[[], list[str] | None],
        numbers: Callable[[], Sequence[int]],
    ) -> None:
        self.size = size
        self._column = column
        self._lines = lines
        self._numbers = numbers
        self._cache: dict[int, Column] = {}

    @classmethod
    def of(cls, block: Block, numbers: Sequence[int]) -> Rows:
        return cls(block.size, lambda i: block.columns[i], block.given_lines, lambda: numbers)

    def knowing(self, columns: dict[int, Column]) -> Rows:
        """Return these rows with some columns already computed."""
        self._cache.update(columns)
        return self

    def column(self, i: int) -> Column:
        found = self._cache.get(i)
        if found is None:
            found = self._cache[i] = self._column(i)
        return found

    @property
    def numbers(self) -> Sequence[int]:
        """The number of each row in the source, from 1."""
        return self._numbers()

    def given_lines(self) -> list[str] | None:
        """Return the rows as lines if they are known; else None."""
        return self._lines()

    def lines(self, width: int) -> list[str]:
        found = self._lines()
        return lines_of([self.column(i) for i in range(width)], self.size) if found is None else found

    def keep(self, mask: Sequence[bool]) -> Rows:
        size = sum(mask)
        if size == self.size:
            return self

        def lines() -> list[str] | None:
            given = self._lines()
            return None if given is None else list(compress(given, mask))

        return Rows(
            size,
            lambda i: list(compress(self.column(i), mask)),
            lines,
            lambda: list(compress(self._numbers(), mask)),
        )

    def pick(self, places: Sequence[int]) -> Rows:
        return Rows(self.size, lambda i: self.column(places[i]), _unknown, self._numbers)

    def with_columns(self, changed: dict[int, Column]) -> Rows:
        return Rows(self.size, lambda i: changed[i] if i in changed else self.column(i), _unknown, self._numbers)


def _unknown() -> None:
    """Return None, for rows that are not known as lines."""


Stream = Iterator[Rows]
Op = Callable[[Stream], Stream]


class Pipeline:
    """The steps of an output, fitted to the columns of one table. `names` and `types` are those of the columns at the
    end."""

    def __init__(
        self,
        names: Sequence[str],
        steps: Sequence[tuple[StepConfig, Place]],
        lookup: Callable[[StepConfig, Place], Lookup],
        room: Room,
    ) -> None:
        self.names = list(names)
        self.types = ["text"] * len(self.names)
        self._room = room
        self._lookup = lookup
        self._nul = False  # a table has no NUL, but a column that a join adds may
        # Once rows are out of order, a step that refuses a row needs its number.
        refusing = [n for n, (step, _) in enumerate(steps) if _may_refuse(step)]
        self._ops: list[Op] = []
        found = list(self.names)
        for step, place in steps:  # check all names before anything is read
            check(found, step, place, pointers=False)
            found = after(found, step)
        for n, (step, place) in enumerate(steps):
            self._later = [step for step, _ in steps[n + 1 :]]
            op = self._compile(step, place, numbered=bool(refusing) and refusing[-1] > n)
            if op is not None:
                self._ops.append(op)

    def run(self, stream: Stream) -> Stream:
        for op in self._ops:
            stream = op(stream)
        return stream

    def _compile(self, step: StepConfig, place: Place, *, numbered: bool) -> Op | None:
        at = {name: i for i, name in enumerate(self.names)}
        if step.filter is not None:
            return partial(_filter, at[step.filter.column], mask_of(step.filter))
        if step.cast:
            wanted = [(at[name], name, step.cast[name]) for name in sorted(step.cast)]
            for i, _, kind in wanted:
                self.types[i] = kind
            return partial(_cast, wanted, step.unfit or "refuse", place)
        if step.join is not None:
            texts = self._lookup(step, place).texts()
            self._nul = self._nul or any("\0" in text for added in texts.values() for text in added)
            op = partial(
                _join, [at[name] for name in sorted(step.join.on)], len(self.names), len(step.join.add), texts,
                step.join.missing, step.join.source, place,
            )  # fmt: skip
            self.types += ["text"] * len(step.join.add)
            self.names = after(self.names, step)
            return op
        if step.select:
            places = [at[name] for name in step.select]
            self.types = [self.types[i] for i in places]
            same = self.names == list(step.select)
            self.names = list(step.select)
            return None if same else partial(_select, places)
        if step.rename:
            self.names = after(self.names, step)
            return None
        if step.deduplicate is not None:
            by = [at[name] for name in step.deduplicate.by]
            return partial(_deduplicate, by, step.deduplicate.keep, len(self.names), self._room, numbered)
        keys = sort_keys(step)
        by = [at[key.column] for key in keys]
        types, descending = [self.types[i] for i in by], [key.descending for key in keys]
        rest = len(self.names), self._carried(), self._room, numbered
        if not self._nul and len(set(descending)) == 1 and not {"integer", "number"} & set(types):
            return partial(_sort_texts, by, descending[0], *rest)
        return partial(_sort, by, types, descending, *rest)

    def _carried(self) -> list[int]:
        """Return the columns that later steps read and no step changes before: they are kept with sorted rows, so that
        they need not be read from the lines again."""
        wanted: list[str] = []
        names = list(self.names)
        for step in self._later:
            if step.select or step.cast or step.join is not None:
                return []
            wanted += [self.names[names.index(name)] for name in asked(step)] if not step.rename else []
            names = after(names, step)
            if step.sort:
                break
        places = sorted({self.names.index(name) for name in wanted})
        return places if len(places) <= 3 else []


def _may_refuse(step: StepConfig) -> bool:
    casts = any(kind != "text" for kind in step.cast.values()) and step.unfit in (None, "refuse")
    return casts or (step.join is not None and step.join.missing == "refuse")


def table_rows(table: Table) -> Stream:
    number = 1
    for block in table.blocks:
        yield Rows.of(block, range(number, number + block.size))
        number += block.size


def _filter(i: int, mask: Callable[[Column], list[bool]], stream: Stream) -> Stream:
    for rows in stream:
        kept = rows.keep(mask(rows.column(i)))
        if kept.size:
            yield kept


def _select(places: list[int], stream: Stream) -> Stream:
    for rows in stream:
        yield rows.pick(places)


def _cast(wanted: Sequence[tuple[int, str, str]], unfit: str, place: Place, stream: Stream) -> Stream:
    for rows in stream:
        changed: dict[int, Column] = {}
        flaws: list[tuple[int, int]] = []  # row in this block, and position of the column
        for n, (i, _, kind) in enumerate(wanted):
            column = rows.column(i)
            answers = {text: cast_text(kind, text) for text in set(column)}
            if UNFIT in answers.values():
                flaws += [(row, n) for row, text in enumerate(column) if answers[text] is UNFIT]
                answers = {text: "" if answer is UNFIT else answer for text, answer in answers.items()}
            if any(text != answer for text, answer in answers.items()):
                changed[i] = list(map(answers.__getitem__, column))
        if changed:
            rows = rows.with_columns(changed)
        if flaws and unfit == "refuse":
            row, n = min(flaws)
            yield from _before(rows, row)
            raise place.unfit(rows.numbers[row], wanted[n][1], wanted[n][2])
        if flaws and unfit == "drop":
            bad = {row for row, _ in flaws}
            rows = rows.keep([row not in bad for row in range(rows.size)])
        if rows.size:
            yield rows


def _join(
    on: list[int],
    width: int,
    adds: int,
    lookup: dict[Key, tuple[str, ...]],
    missing: str,
    source: str,
    place: Place,
    stream: Stream,
) -> Stream:
    nothing = ("",) * adds
    for rows in stream:
        # Keys in the lookup have no blank part, so a row with one finds nothing.
        keys: Sequence[Key] = rows.column(on[0]) if len(on) == 1 else list(zip(*map(rows.column, on), strict=True))
        found = [lookup.get(key) for key in keys]
        lost = found.index(None) if missing == "refuse" and None in found else -1
        if missing == "drop" and None in found:
            rows = rows.keep([added is not None for added in found])
            found = [added for added in found if added is not None]
            if not found:
                continue
        columns = zip(*(nothing if added is None else added for added in found), strict=True)
        joined = rows.with_columns(dict(enumerate(columns, width)))
        if lost >= 0:
            yield from _before(joined, lost)
            raise place.no_match(rows.numbers[lost], source)
        yield joined


def _before(rows: Rows, row: int) -> Stream:
    """Yield the rows before a refused one. A later step may refuse one of these, and that is reported first, so the
    error does not depend on the block size."""
    if row:
        yield rows.keep([at < row for at in range(rows.size)])


# --------------------------------------------------------------------- steps that change the order of rows


def _again(rows: Sorted, width: int) -> Rows:
    """Return sorted rows, parsed again from the lines that the sorter stored."""
    return Rows.of(Block.of_lines(rows.payloads, width), [number for (number,) in rows.tags] if rows.tags else ())


def _sort(
    by: list[int],
    types: list[str],
    descending: list[bool],
    width: int,
    carried: list[int],
    room: Room,
    numbered: bool,
    stream: Stream,
) -> Stream:
    def keys(column: Callable[[int], Column]) -> Keys:
        return [_places(column(i), kind) for i, kind in zip(by, types, strict=True)]

    def keys_of(payloads: Payloads, _tags: Tags) -> Keys:
        return keys(_again(Sorted(payloads, []), width).column)

    sorter = Sorter(keys_of, descending, room)
    try:
        for rows in stream:
            tags = [(n,) for n in rows.numbers] if numbered else []
            sorter.add(rows.lines(width), tags, keys(rows.column), [rows.column(i) for i in carried])
        for some in sorter.rows():
            yield _again(some, width).knowing(dict(zip(carried, some.carried, strict=bool(some.carried))))
    finally:
        sorter.close()


def _sort_texts(
    by: list[int], descending: bool, width: int, carried: list[int], room: Room, numbered: bool, stream: Stream
) -> Stream:
    """Yield all rows sorted, for keys that are all texts with the same direction."""
    taken = [*by, *(i for i in carried if i not in by)]
    sorter = TextSorter(len(by), descending, room)
    try:
        for rows in stream:
            tags = [list(map(str, rows.numbers))] if numbered else []
            sorter.add([*map(rows.column, taken), *tags, rows.lines(width)])
        for columns, whole in sorter.rows():
            numbers = list(map(int, columns[-2])) if numbered else []
            found = Rows.of(Block.of_lines(columns[-1], width), numbers)
            yield found.knowing(dict(zip(taken, columns, strict=False))) if whole else found
    finally:
        sorter.close()


def _places(column: Column, kind: str) -> Sequence[Any]:
    """Return a column as the values to compare: texts, or numbers after a cast; None for blanks."""
    if kind in ("integer", "number"):
        sure = sure_numbers(column)
        return sure if sure is not None else [float(text) if text else None for text in column]
    return [None if not text or text.isspace() else text for text in column] if has_blank(column) else column


def _deduplicate(by: list[int], keep: str, width: int, room: Room, numbered: bool, stream: Stream) -> Stream:
    def keys_of(payloads: Payloads) -> KeyTexts:
        rows = _again(Sorted(payloads, []), width)
        return key_texts([rows.column(i) for i in by], rows.size)

    found = Deduplicator(keep, keys_of, room)
    try:
        for rows in stream:
            keys = key_texts([rows.column(i) for i in by], rows.size)
            if found.full:
                found.lay_aside(rows.lines(width), [(n,) for n in rows.numbers] if numbered else [], keys)
                continue
            kept = rows.keep(found.fresh(keys))
            if kept.size:
                yield kept
        for some in found.rows():
            yield _again(some, width)
    finally:
        found.close()


def key_texts(columns: Sequence[Column], size: int) -> KeyTexts:
    """Return one text for all columns of a key; None if all are blank. Blanks are equal."""
    plain: list[Column] = []
    blanks = 0
    for column in columns:
        if has_blank(column):
            blanks += 1
            column = ["" if text.isspace() else text for text in column]
        plain.append(column)
    if len(plain) == 1:
        return [text or None for text in plain[0]] if blanks else plain[0]
    if blanks < len(plain):
        return lines_of(plain, size)
    empty = "," * (len(plain) - 1)
    return [None if line == empty else line for line in lines_of(plain, size)]
