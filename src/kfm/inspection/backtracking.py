"""Refuses regular expressions that a hostile value could keep busy for ever.

An engine that backtracks tries every way a text can be cut up among the repeats of a pattern. If a loop can
take the same text in two ways (`(a+)+`, `(a|aa)*`) the tries double with every character. If three loops in a
row can take the same text (`.*x.*y.*`) they grow with the cube of the length. Both show in the automaton of
the pattern: its positions are the places in it that take a character, its edges what may come next.
An edge that exists in two ways, or two different walks over one text from a position back to it, is
the first case. A chain of three loops, joined by text that each could take itself, is the second.

The judgement errs on the side of refusing. Possessive repeats (`*+`, `++`) and atomic groups (`(?>…)`)
never give back what they took, so they count as one character.
"""

from __future__ import annotations

from collections.abc import Iterable

from kfm.documents.patterns import (
    Atomic,
    Chars,
    Choice,
    Look,
    Node,
    Place,
    Ranges,
    Repeat,
    Sequence,
    parse,
    pattern_flaw,
)

_UNROLLED = 8  # repeats up to this are written out, longer ones count as loops
_MAX_WORK = 200_000

_HINT = "rewrite it so that its repeats cannot take the same text, or make them possessive (`++`, `*+`)"


class _Refused(Exception):
    pass


class _Work:
    """What may be spent on judging one pattern, the groups inside it too."""

    def __init__(self) -> None:
        self._left = _MAX_WORK

    def spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise _Refused("is too intricate to be judged")


def pattern_problem(pattern: str) -> str:
    """Why a pattern cannot be used, or empty."""
    if flaw := pattern_flaw(pattern):
        return flaw
    try:
        _judge(parse(pattern), _Work())
    except _Refused as refusal:
        return f"{refusal}; {_HINT}"
    return ""


def _judge(node: Node, work: _Work, *, atomic: bool = False) -> None:
    automaton = _Automaton(node, work, atomic)
    core = automaton.core()
    reach = {position: automaton.reach([position], core) for position in core}
    if automaton.doubled(core, reach):
        raise _Refused("can take one text in very many ways")
    if automaton.has_long_chain(core, reach):
        raise _Refused("has three or more open-ended repeats that can take the same text")


# Where a part of the pattern may begin, where it may end, whether it may be empty; each in how many ways.
_Fragment = tuple[dict[int, int], dict[int, int], int]


class _Automaton:
    def __init__(self, node: Node, work: _Work, atomic: bool) -> None:
        """`atomic`: it matters which of several ways is found first, and engines differ in how they go round what
        may be empty."""
        self._atomic = atomic
        self.takes: list[int] = []  # per position the characters it takes, as bits
        self.edges: list[dict[int, int]] = []  # per position what may come next, and in how many ways
        self._work = work
        self._bounds = sorted(_bounds(node))
        self._any = (1 << len(self._bounds)) - 1
        self._fragment(node)

    # -- from the parsed pattern

    def _fragment(self, node: Node) -> _Fragment:
        if isinstance(node, Chars):
            return self._position(self._bits(node.ranges))
        if isinstance(node, Sequence):
            return self._sequence(node.items)
        if isinstance(node, Choice):
            return self._choice(node.branches)
        if isinstance(node, Repeat):
            return self._repeat(node)
        if isinstance(node, Atomic):
            inner = node.body
            # A greedy loop that may end at once takes what it can and is done: only its body is tried in ways.
            loops = isinstance(inner, Repeat) and inner.least <= 1 and not inner.lazy
            _judge(inner.body if isinstance(inner, Repeat) and loops else inner, self._work, atomic=True)
            if isinstance(inner, Repeat) and inner.most != 0 and _may_be_empty(inner.body):
                raise _Refused("repeats what may be empty")
            fragment = self._position(self._any)
            return fragment[0], fragment[1], int(_may_be_empty(inner))
        if isinstance(node, Look):
            _judge(node.body, self._work, atomic=self._atomic)
        return {}, {}, 1

    def _sequence(self, items: Iterable[Node]) -> _Fragment:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        empty = 1
        for item in items:
            fragment = self._fragment(item)
            self._link(last, fragment[0])
            first = _sum(first, fragment[0], empty)
            last = _sum(fragment[1], last, fragment[2])
            empty = min(2, empty * fragment[2])
        return first, last, empty

    def _choice(self, branches: Iterable[Node]) -> _Fragment:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        empty = 0
        for branch in branches:
            fragment = self._fragment(branch)
            first = _sum(first, fragment[0], 1)
            last = _sum(last, fragment[1], 1)
            empty = min(2, empty + fragment[2])
        return first, last, empty

    def _repeat(self, node: Repeat) -> _Fragment:
        if node.most == 0:
            return {}, {}, 1
        fragment = self._fragment(node.body)
        empty = min(2, fragment[2] + (node.least == 0))
        if node.most == 1 and not (fragment[2] and self._atomic):
            return fragment[0], fragment[1], empty
        if fragment[2]:
            raise _Refused("repeats what may be empty")
        if node.most is None or node.most > _UNROLLED:
            self._link(fragment[1], fragment[0])
            return fragment[0], fragment[1], empty
        last = fragment[1] if node.least <= 1 else {}
        before = fragment
        for count in range(2, node.most + 1):
            following = self._fragment(node.body)
            self._link(before[1], following[0])
            if count >= node.least:
                last = _sum(last, following[1], 1)
            before = following
        return fragment[0], last, empty

    def _position(self, characters: int) -> _Fragment:
        self._work.spend(20)
        self.takes.append(characters)
        self.edges.append({})
        return {len(self.takes) - 1: 1}, {len(self.takes) - 1: 1}, 0

    def _link(self, before: dict[int, int], after: dict[int, int]) -> None:
        self._work.spend(len(before) * len(after))
        for one, ways in before.items():
            edges = self.edges[one]
            for other, more in after.items():
                edges[other] = min(2, edges.get(other, 0) + ways * more)

    def _bits(self, ranges: Ranges) -> int:
        """A set of characters as bits: one for each stretch of them that no set in the pattern divides."""
        bits = 0
        at = 0
        for low, high in ranges:
            while at < len(self._bounds) and self._bounds[at] < low:
                at += 1
            while at < len(self._bounds) and self._bounds[at] <= high:
                bits |= 1 << at
                at += 1
        return bits

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

    def reach(self, starts: Iterable[int], within: set[int], taking: int | None = None) -> set[int]:
        """What can be come to by at least one edge, reading only characters in `taking`."""
        wanted = self._any if taking is None else taking
        found: set[int] = set()
        open_ = list(starts)
        while open_:
            edges = self.edges[open_.pop()]
            self._work.spend(len(edges) + 1)
            for other in edges:
                if other in within and other not in found and self.takes[other] & wanted:
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
            self._work.spend(len(ones) * len(twos) + 1)
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

    def has_long_chain(self, core: set[int], reach: dict[int, set[int]]) -> bool:
        """Whether three loops follow one another, each joined to the next by text that both could take."""
        loops: list[set[int]] = []
        for position in sorted(core):
            if position in reach[position] and not any(position in loop for loop in loops):
                loops.append({p for p in reach[position] if position in reach[p]})
        taken = [0] * len(loops)
        for index, loop in enumerate(loops):
            for position in loop:
                taken[index] |= self.takes[position]
        joined: list[list[int]] = [[] for _ in loops]
        for one, loop in enumerate(loops):
            for other, there in enumerate(loops):
                shared = taken[one] & taken[other]
                if one != other and shared and not there.isdisjoint(self.reach(loop, core, shared)):
                    joined[one].append(other)
        return any(joined[middle] for ends in joined for middle in ends)


def _sum(ways: dict[int, int], more: dict[int, int], times: int) -> dict[int, int]:
    if not times or not more:
        return ways
    return {p: min(2, ways.get(p, 0) + more.get(p, 0) * times) for p in (*ways, *more)}


def _bounds(node: Node) -> set[int]:
    """The first characters of the stretches that no set in a pattern divides."""
    found = {0}
    open_ = [node]
    while open_:
        one = open_.pop()
        if isinstance(one, Chars):
            for low, high in one.ranges:
                found |= {low, high + 1}
        elif isinstance(one, Sequence):
            open_ += one.items
        elif isinstance(one, Choice):
            open_ += one.branches
        elif not isinstance(one, Place):
            open_.append(one.body)
    return found - {0x110000}


def _may_be_empty(node: Node) -> bool:
    if isinstance(node, Chars):
        return False
    if isinstance(node, Sequence):
        return all(map(_may_be_empty, node.items))
    if isinstance(node, Choice):
        return any(map(_may_be_empty, node.branches))
    if isinstance(node, Repeat):
        return node.least == 0 or _may_be_empty(node.body)
    return not isinstance(node, Atomic) or _may_be_empty(node.body)
