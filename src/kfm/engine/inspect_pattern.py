"""Refuses regular expressions that a hostile value could keep busy for ever.

Python's engine tries every way a text can be cut up among the repeats of a pattern. If a loop can take the same
text in two ways (`(a+)+`, `(a|aa)*`) the tries double with every character. If three loops in a row
can take the same text (`.*x.*y.*`) they grow with the cube of the length. Both show in the automaton of
the pattern: its positions are the places in it that take a character, its edges what may come next.
An edge that exists in two ways, or two different walks over one text from a position back to it, is
the first case. A chain of three loops, joined by text that each could take itself, is the second.

The judgement errs on the side of refusing. Possessive repeats (`*+`, `++`) and atomic groups (`(?>…)`)
never give back what they took, so they count as one character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_UNROLLED = 8  # repeats up to this are written out, longer ones count as loops
_MAX_WORK = 200_000
# All characters: ASCII one by one, and one each for the letters, digits, spaces and others past it.
_ALPHABET = [*map(chr, range(128)), "é", "٣", "\u00a0", "€"]
_OTHER = 0b1111 << 128
_ANY = (1 << 132) - 1
_CHAIN = 3

_HINT = "rewrite it so that its repeats cannot take the same text, or make them possessive (`++`, `*+`)"


class _Refused(Exception):
    pass


def pattern_problem(pattern: str) -> str:
    """Why a pattern cannot be used, or empty."""
    from re import _parser  # type: ignore[attr-defined]

    try:
        re.compile(pattern)
        parsed = _parser.parse(pattern)
        _judge(parsed, bool(parsed.state.flags & re.IGNORECASE))
    except re.error as error:
        return f"is not a regular expression: {error.msg}"
    except (RecursionError, OverflowError):
        return "is nested too deeply or repeats too often"
    except _Refused as refusal:
        return f"{refusal}; {_HINT}"
    return ""


def _judge(items: Any, ignore_case: bool) -> None:
    automaton = _Automaton(ignore_case)
    automaton.sequence(items)
    core = automaton.core()
    reach = {position: automaton.reach([position], core) for position in core}
    if automaton.doubled(core, reach):
        raise _Refused("can take one text in very many ways")
    if automaton.longest_chain(core, reach) >= _CHAIN:
        raise _Refused("has three or more open-ended repeats that can take the same text")


# Where a part of the pattern may begin, where it may end, whether it may be empty; each in how many ways.
_Fragment = tuple[dict[int, int], dict[int, int], int]


class _Automaton:
    def __init__(self, ignore_case: bool) -> None:
        self._ignore_case = ignore_case
        self.takes: list[int] = []  # per position the characters it takes, as bits
        self.edges: list[dict[int, int]] = []  # per position what may come next, and in how many ways
        self._work = 0

    # -- from the parsed pattern

    def sequence(self, items: Iterable[tuple[Any, Any]]) -> _Fragment:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        empty = 1
        for operation, argument in items:
            fragment = self._node(str(operation), argument)
            if fragment is None:
                continue
            self._link(last, fragment[0])
            first = _sum(first, fragment[0], empty)
            last = _sum(fragment[1], last, fragment[2])
            empty *= fragment[2]
        return first, last, empty

    def _node(self, operation: str, argument: Any) -> _Fragment | None:
        if operation in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._position(self._characters(operation, argument))
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(*argument)
        if operation == "SUBPATTERN":
            self._ignore_case = self._ignore_case or bool(argument[1] & re.IGNORECASE)
            return self.sequence(argument[-1])
        if operation == "BRANCH":
            first: dict[int, int] = {}
            last: dict[int, int] = {}
            empty = 0
            for branch in map(self.sequence, argument[1]):
                first = _sum(first, branch[0], 1)
                last = _sum(last, branch[1], 1)
                empty += branch[2]
            return first, last, empty
        if operation in ("ATOMIC_GROUP", "POSSESSIVE_REPEAT"):
            _judge(argument if operation == "ATOMIC_GROUP" else argument[-1], self._ignore_case)
            return self._position(_ANY)
        if operation in ("ASSERT", "ASSERT_NOT"):
            _judge(argument[1], self._ignore_case)
            return None
        if operation == "AT":
            return None
        if operation == "FAILURE":
            return {}, {}, 0
        raise _Refused("uses back-references or conditions")

    def _repeat(self, least: int, most: Any, body: Any) -> _Fragment:
        fragment = self.sequence(body)
        empty = fragment[2] + (least == 0)
        if most == 1:
            return fragment[0], fragment[1], empty
        if int(most) > _UNROLLED or fragment[2]:
            self._link(fragment[1], fragment[0])
            # A round that takes nothing may follow the last: one more way to end.
            return fragment[0], _sum(fragment[1], fragment[1], fragment[2]), empty
        last = fragment[1] if least <= 1 else {}
        before = fragment
        for count in range(2, int(most) + 1):
            following = self.sequence(body)
            self._link(before[1], following[0])
            if count >= least:
                last = _sum(last, following[1], 1)
            before = following
        return fragment[0], last, empty

    def _position(self, characters: int) -> _Fragment:
        self._spend(20)
        self.takes.append(characters)
        self.edges.append({})
        return {len(self.takes) - 1: 1}, {len(self.takes) - 1: 1}, 0

    def _link(self, before: dict[int, int], after: dict[int, int]) -> None:
        self._spend(len(before) * len(after))
        for one, ways in before.items():
            edges = self.edges[one]
            for other, more in after.items():
                edges[other] = min(2, edges.get(other, 0) + ways * more)

    def _characters(self, operation: str, argument: Any) -> int:
        if operation == "ANY":
            return _ANY
        items = argument if operation == "IN" else [(operation, argument)]
        negated = False
        some = 0  # the characters it takes, and all of a kind past ASCII if it takes any
        whole = 0  # without the kinds of which it may take only some
        for kind, value in items:
            name = str(kind)
            if name in ("NEGATE", "NOT_LITERAL"):
                negated = True
            if name == "CATEGORY":
                some |= _category(str(value))
                whole |= _category(str(value))
            elif name != "NEGATE":
                bits = self._both_cases(_bits(*value) if name == "RANGE" else _bits(value, value))
                some |= bits
                whole |= bits & ~_OTHER
        return _ANY & ~whole if negated else some

    def _both_cases(self, bits: int) -> int:
        if not self._ignore_case:
            return bits
        for code in range(128):
            if bits >> code & 1:
                bits |= 1 << ord(chr(code).swapcase())
        return bits | _OTHER  # the long s and the Kelvin sign fold into ASCII

    def _spend(self, work: int) -> None:
        self._work += work
        if self._work > _MAX_WORK:
            raise _Refused("is too intricate to be judged")

    # -- what the automaton tells

    def core(self) -> set[int]:
        """Positions on a loop, or between loops: the others are peeled off from both ends."""
        left = set(range(len(self.takes)))
        before: list[set[int]] = [set() for _ in self.takes]
        for position, edges in enumerate(self.edges):
            for other in edges:
                before[other].add(position)
        after = [set(edges) for edges in self.edges]
        for inward, outward in ((before, after), (after, before)):
            ends = [position for position in left if left.isdisjoint(inward[position])]
            while ends:
                gone = ends.pop()
                left.discard(gone)
                ends += [p for p in outward[gone] if p in left and left.isdisjoint(inward[p])]
        return left

    def reach(self, starts: Iterable[int], within: set[int], taking: int = _ANY) -> set[int]:
        """What can be come to by at least one edge, reading only characters in `taking`."""
        found: set[int] = set()
        open_ = list(starts)
        while open_:
            edges = self.edges[open_.pop()]
            self._spend(len(edges) + 1)
            for other in edges:
                if other in within and other not in found and self.takes[other] & taking:
                    found.add(other)
                    open_.append(other)
        return found

    def doubled(self, core: set[int], reach: dict[int, set[int]]) -> bool:
        """Whether some text leads from a position back to itself in two ways."""
        following: dict[tuple[int, int], list[tuple[int, int]]] = {}

        def next_pairs(pair: tuple[int, int]) -> list[tuple[int, int]]:
            one, two = pair
            ones = [p for p in self.edges[one] if p in core and one in reach[p]]
            twos = [p for p in self.edges[two] if p in core and two in reach[p]]
            self._spend(len(ones) * len(twos) + 1)
            return [(a, b) for a in ones for b in twos if self.takes[a] & self.takes[b]]

        alike = [(p, p) for p in core if p in reach[p]]
        if any(n > 1 and p in reach.get(q, ()) for p in core for q, n in self.edges[p].items()):
            return True
        open_ = list(alike)
        while open_:
            pair = open_.pop()
            if pair not in following:
                following[pair] = next_pairs(pair)
                open_ += following[pair]
        back: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for pair, nexts in following.items():
            for other in nexts:
                back.setdefault(other, []).append(pair)
        returning: set[tuple[int, int]] = set()
        open_ = list(alike)
        while open_:
            for pair in back.get(open_.pop(), ()):
                if pair not in returning:
                    if pair[0] != pair[1]:
                        return True
                    returning.add(pair)
                    open_.append(pair)
        return False

    def longest_chain(self, core: set[int], reach: dict[int, set[int]]) -> int:
        loops: list[set[int]] = []
        for position in sorted(core):
            if position in reach[position] and not any(position in loop for loop in loops):
                loops.append({p for p in reach[position] if position in reach[p]})
        taken = [0] * len(loops)
        for index, loop in enumerate(loops):
            for position in loop:
                taken[index] |= self.takes[position]
        longest: dict[int, int] = {}

        def chain(index: int) -> int:
            if index not in longest:
                longest[index] = 1 + max(
                    (chain(other) for other in range(len(loops)) if other != index and joined(index, other)), default=0
                )
            return longest[index]

        def joined(one: int, other: int) -> bool:
            shared = taken[one] & taken[other]
            return bool(shared) and not loops[other].isdisjoint(self.reach(loops[one], core, shared))

        return max((chain(index) for index in range(len(loops))), default=0)


def _sum(ways: dict[int, int], more: dict[int, int], times: int) -> dict[int, int]:
    if not times or not more:
        return ways
    return {p: min(2, ways.get(p, 0) + more.get(p, 0) * times) for p in (*ways, *more)}


def _bits(low: int, high: int) -> int:
    bits = _OTHER if high > 127 else 0
    if low == high > 127:
        past = _ALPHABET[128:]
        bits = 1 << 128 + next(i for i, c in enumerate(past) if _kind(c) == _kind(chr(low)))
    for code in range(low, min(high, 127) + 1):
        bits |= 1 << code
    return bits


def _category(name: str) -> int:
    negated = "_NOT_" in name
    escape = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}.get(name.rpartition("_")[2])
    if escape is None:
        return _ANY
    bits = 0
    for index, character in enumerate(_ALPHABET):
        if bool(re.match(escape, character)) != negated:
            bits |= 1 << index
    return bits


def _kind(character: str) -> tuple[bool, bool, bool]:
    return re.match(r"\w", character) is not None, re.match(r"\d", character) is not None, character.isspace()
