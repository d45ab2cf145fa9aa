"""Patterns that a hostile value could keep busy are refused; ordinary ones are not."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable
from typing import Any

import pytest

from kfm.documents.patterns import compiled
from kfm.inspection.backtracking import pattern_problem

ORDINARY = [
    "",
    r"\d{4}-\d{2}-\d{2}",
    r"(?:[a-z0-9]+-)*[a-z0-9]+",
    r"(\d+,)*\d+",
    r".*foo.*",
    r"(?:foo|far|bar)*",
    r"\w+ \w+ \w+ \w+",
    r"(\d{1,3}\.){3}\d{1,3}",
    r"15-\d{3}-\d{5}(-\d{4})?",
    r"[^@\s]+@[^@\s]+\.[a-z]{2,}",
    r"T\d+[NS] R\d+[EW], Sec\. \d+",
    r"(?i)kansas|nebraska",
    r"https?://\S+",
    r"([+-]?\d+(\.\d+)?)( [+-]?\d+(\.\d+)?)*",
    r"(?:[a-z]{1,63}\.)+[a-z]{2,63}",
    r"^\S+(\s\S+)*$",
    r"(?:a+)*+b",
    r"(?>a+)+",
    r"(ab|cd){2,5}",
    r"(?=.*\d)(?=.*[a-z]).{8,}",
    "é+è+",
    r"[^é]+é",
    "|".join(f"word{n}" for n in range(400)),
    r"(?:a*)?b",
    r"(?:a|b)?+c",
    r"(?:,\d*)*",
    r"(?<=kg )\d+(?!\d)",
]
HOSTILE = [
    r"(a+)+",
    r"(a*)*b",
    r"(a|a)*b",
    r"(a|aa)+$",
    r"(\w+\s?)*",
    r"([a-zA-Z]+)*",
    r"(.*)*",
    r"(a?b?)*",
    r"(x+x+)+y",
    r"^(\s*\w+\s*)+$",
    r"(?:\w*\d*)*",
    r"([a-z]+\d*)+x",
    r"(?:a{1,50}){1,50}",
    r"(?:(?:(?:ba|))+b)*",
    r"(?>(a+)+b)",
    r"(?=(a+)+b)a",
    r"(é+|[à-ü])*x",
    r"(?i:(k+|K)*)x",
    r"\d+\d+\d+",
    r".*a.*b.*c",
    r"(a)\1*",
    r"(a)?(?(1)b|c)*",
    "a*" * 2000,
    "(?:" * 7 + "a{8}" + "){8}" * 7,
    "(?>" * 12 + "a{8}" + "){8}" * 12,
    r"(?:a+){1000,}+",
    r"(?:a|b?)*+c",
    r"(?:|a)+",
    r"(?:\b)*a",
    r"(?:a*)?+b",
    r"(?>((.)*?)?)",
]


@pytest.mark.parametrize("pattern", ORDINARY, ids=[pattern[:40] for pattern in ORDINARY])
def test_ordinary_patterns_have_no_problem(pattern: str) -> None:
    assert pattern_problem(pattern) == ""


def test_the_guard_of_these_tests_stops_a_pattern_that_doubles() -> None:
    assert not _within(1, lambda: re.fullmatch("(a|a)*b", "a" * 90))
    assert _within(20, lambda: re.fullmatch("a*b", "a" * 90))


@pytest.mark.parametrize("pattern", HOSTILE, ids=[pattern[:40] for pattern in HOSTILE])
def test_patterns_that_can_be_kept_busy_are_refused(pattern: str) -> None:
    assert pattern_problem(pattern)


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", "*", "(?P<n>a)(?P<n>b)", "(" * 5000 + ")" * 5000])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    assert "is not a regular expression" in pattern_problem(pattern)


class _TooLong(Exception):
    pass


def _within(seconds: float, work: Callable[[], Any]) -> bool:
    def stop(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # of our own: others may be busy
    try:
        work()
    except _TooLong:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return True


def _some_pattern(chance: random.Random, depth: int) -> str:
    roll = chance.random()
    if depth == 0 or roll < 0.3:
        return chance.choice(["a", "b", "[ab]", ".", r"\w"])
    if roll < 0.5:
        return _some_pattern(chance, depth - 1) + _some_pattern(chance, depth - 1)
    if roll < 0.7:
        other = _some_pattern(chance, depth - 1) if roll < 0.65 else ""
        return f"(?:{_some_pattern(chance, depth - 1)}|{other})"
    repeat = chance.choice(["*", "+", "?", "*?", "{2}", "{0,3}", "{1,30}", "*+"])
    return f"(?:{_some_pattern(chance, depth - 1)}){repeat}"


@pytest.mark.parametrize("seed", range(400))
def test_no_pattern_without_a_problem_doubles_its_work_with_every_character(seed: int) -> None:
    """90 characters that almost match: a doubling pattern never ends on them, others need microseconds."""
    pattern = _some_pattern(random.Random(seed), 5) + "c"
    if pattern_problem(pattern):
        return
    made = compiled(pattern)
    for text in ("a" * 90, "ab" * 45, "b" * 90, "aab" * 30, "abb" * 30):
        for tried in (text, text + "d"):
            assert _within(20, lambda tried=tried: made.fullmatch(tried)), pattern  # type: ignore[misc]
