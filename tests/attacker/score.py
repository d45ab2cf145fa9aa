"""Guesses, and how likely it is that chance alone makes as many right ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy

Point = tuple[float, float]
Key = tuple[str, str]  # the table, and the public id of a row


class Guess(NamedTuple):
    """Which of several parts of its cell a site is in. A part is what is nearest to its middle."""

    key: Key
    parts: tuple[Point, ...]
    chosen: int

    @property
    def chance(self) -> float:
        return 1 / len(self.parts)


class Result(NamedTuple):
    guesses: int
    right: int
    expected: float
    p: float  # of as many right guesses or more by chance alone


def is_right(guess: Guess, place: Point) -> bool:
    return min(range(len(guess.parts)), key=lambda at: apart(guess.parts[at], place)) == guess.chosen


def apart(a: Point, b: Point) -> float:
    """The distance of two near places, in degrees of latitude."""
    return math.hypot(a[0] - b[0], (a[1] - b[1]) * math.cos(math.radians(a[0])))


def judged(guesses: Sequence[Guess], truth: Mapping[Key, Point]) -> Result:
    """Return how many guesses are right, with the probability of one-sided chance. Without a guess it is 1."""
    scored = [(guess.chance, is_right(guess, truth[guess.key])) for guess in guesses if guess.key in truth]
    right = sum(hit for _, hit in scored)
    chances = [chance for chance, _ in scored]
    return Result(len(scored), right, sum(chances), tail(chances, right))


def tail(chances: Sequence[float], right: int) -> float:
    """Return the probability of at least so many successes. If all chances are equal, this is the binomial test."""
    spread = numpy.zeros(len(chances) + 1)
    spread[0] = 1.0
    for count, chance in enumerate(chances, 1):
        spread[1 : count + 1] = spread[1 : count + 1] * (1 - chance) + spread[:count] * chance
        spread[0] *= 1 - chance
    return min(1.0, float(spread[right:].sum()))
