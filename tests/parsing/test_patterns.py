"""Patterns mean what Python's own engine makes of them in ASCII, no value keeps them busy, and the rest is refused."""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kfm.parsing.patterns import compiled, pattern_flaw

CASES: list[tuple[str, list[str], list[str]]] = [
    (r"\d{4}-\d{2}", ["2026-01"], ["2026-1", "\u0662026-01", "2026-01\n"]),
    (r"\w+", ["a_1Z"], ["é", "a b", ""]),
    (r"\s\S", [" a", "\ta", "\u00a0 "[::-1]], ["\u00a0a", "aa", "\x1ca"]),
    (r".", ["é", "\r", "\u2028", "\U0001f600"], ["\n", ""]),
    (r"(?s).", ["\n"], [""]),
    (r"(?i)[a-c]é\.", ["Bé."], ["BÉ.", "Dé."]),
    (r"(?i:k)k", ["Kk", "kk"], ["kK", "\u212ak"]),
    (r"(?i)[^k]", ["j", "\u212a"], ["K", "k"]),
    (r"[]a]+", ["]a"], ["b"]),
    (r"[^]a]+", ["b"], ["]"]),
    (r"[a-]", ["a", "-"], ["b"]),
    (r"[\d\-x]", ["5", "-", "x"], ["y"]),
    (r"[[:]", ["[", ":"], ["a"]),
    (r"[\b]", ["\x08"], ["b"]),
    (r"a{2}b{,2}c{1,}", ["aacc", "aabbc"], ["abc", "aabbbc"]),
    (r"x{a}{", ["x{a}{"], ["x"]),
    (r"\x41\u00e9\U0001f600\t\.", ["Aé\U0001f600\t."], ["A"]),
    (r"(?P<year>\d\d)(?:x|)", ["12", "12x"], ["1"]),
    (r"\bab\b.\B-", ["ab--"], ["abb-"]),
    (r"^a$", ["a"], ["a\n"]),
    (r"\Aa\Z", ["a"], ["a\n"]),
    (r"a|bc|", ["a", "bc", ""], ["b"]),
    (r"(?:(?:a){0})b", ["b"], ["ab"]),
    (r"[^\x00-\U0010ffff]|a", ["a"], ["b"]),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), CASES, ids=[case[0] for case in CASES])
def test_a_pattern_takes_what_it_says_and_nothing_else(pattern: str, good: list[str], bad: list[str]) -> None:
    assert pattern_flaw(pattern) == ""
    for text in good:
        assert compiled(pattern)(text), text
    for text in bad:
        assert not compiled(pattern)(text), text


def test_the_end_is_the_very_end_for_a_search_too() -> None:
    assert compiled("a$", whole=False)("ba")
    assert not compiled("a$", whole=False)("ba\n")
    assert not compiled("^a", whole=False)("b\na")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "a group that is not closed at character 1"),
        ("a)", "a bracket closes what was not opened at character 2"),
        ("[a", "a class that is not closed, or has an escape that is not known, at character 1"),
        ("[]", "a class that is not closed"),
        ("[z-a]", "a range that runs backwards"),
        (r"[\d-z]", "a range that runs backwards"),
        ("*a", "nothing to repeat at character 1"),
        ("a|+", "nothing to repeat at character 3"),
        ("{2}", "nothing to repeat at character 1"),
        ("^*", "nothing to repeat at character 2"),
        ("a**", "a repeat of a repeat at character 3"),
        ("a*??", "a repeat of a repeat at character 4"),
        ("a{2,1}", "a repeat that ends before it begins at character 2"),
        ("a{,}", "a repeat without a number at character 2"),
        ("a{1001}", "a repeat of more than 1,000, also as a product of nested ones, at character 2"),
        (f"a{{{'9' * 5_000}}}", "a repeat of more than 1,000"),
        ("(?:(?:a{10}){10}){11}", "a repeat of more than 1,000, also as a product of nested ones, at character 18"),
        ("(?:ab{1000}){1}" * 10, "more than 10,000 characters with all repeats written out"),
        ("(?:abcdefghijkl){1000}", "more than 10,000 characters with all repeats written out"),
        ("\\", "a backslash before nothing at character 1"),
        (r"\q", "an escape that is not known at character 1"),
        (r"\0", "an escape that is not known"),
        (r"\N{DIGIT ONE}", "an escape that is not known"),
        (r"(a)\1", "a back-reference, which is not supported, at character 4 (write out what may come again)"),
        (r"\x4", "an escape that is not known"),
        (r"\ud800", "a code that is no character"),
        (r"\U00110000", "a code that is no character"),
        ("(?P=a)", "a group of a kind that is not supported at character 1"),
        ("(?(1)a|b)", "a group of a kind that is not supported"),
        ("(?#c)", "a group of a kind that is not supported"),
        ("a(?i)", "a group of a kind that is not supported at character 2"),
        ("(?m)^a", "a group of a kind that is not supported"),
        ("(?-i:a)", "a group of a kind that is not supported"),
        ("x(?=a)", "a look-around, which is not supported, at character 2 (write out what may stand there)"),
        ("(?!a)", "a look-around"),
        ("(?<=a)", "a look-around"),
        ("(?<!a)", "a look-around"),
        ("(?>a)", "an atomic group, which is not supported, at character 1"),
        ("a++", "a possessive repeat, which is not supported, at character 3"),
        ("a{2}+", "a possessive repeat, which is not supported, at character 5"),
        (r"[a\q]", "a class that is not closed, or has an escape that is not known, at character 1"),
        (r"\pL", "an escape that is not known"),
        (r"\C", "an escape that is not known"),
        ("(?<n>a)", "a group of a kind that is not supported"),
        ("(" * 51 + ")" * 51, "groups more than 50 deep at character 51"),
        ("(" * 5_000 + ")" * 5_000, "groups more than 50 deep"),
        ("a" * 10_001, "more than 10,000 characters"),
        ("a\ud800", "half a surrogate pair at character 2"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(pattern: str, says: str) -> None:
    assert says in pattern_flaw(pattern)
    assert pattern_flaw(pattern).startswith("is not a regular expression: ")


def _some_pattern(chance: random.Random, depth: int) -> str:
    roll = chance.random()
    if depth == 0 or roll < 0.3:
        return chance.choice(
            [
                "a",
                "b",
                "[ab]",
                "[^a]",
                ".",
                r"\w",
                r"\d",
                r"\s",
                "1",
                r"\.",
                "é",
                r"\b",
                r"\W",
            ]
        )
    if roll < 0.55:
        return _some_pattern(chance, depth - 1) + _some_pattern(chance, depth - 1)
    if roll < 0.7:
        return f"(?:{_some_pattern(chance, depth - 1)}|{_some_pattern(chance, depth - 1)})"
    if roll < 0.75:
        return f"({_some_pattern(chance, depth - 1)}|)"
    return f"({_some_pattern(chance, depth - 1)}){chance.choice(['*', '+', '?', '{2}', '{0,2}', '*?', '{1,3}?'])}"


def test_what_python_matches_in_ascii_is_matched_and_nothing_else() -> None:
    chance = random.Random(11)
    compared = 0
    for _ in range(1500):
        pattern = _some_pattern(chance, 3)
        if "nothing to repeat" in pattern_flaw(pattern):  # a place, which Python repeats without effect
            continue
        whole, some, theirs = compiled(pattern), compiled(pattern, whole=False), re.compile(pattern, re.ASCII)
        for _ in range(12):
            text = "".join(chance.choice("ab1. é") for _ in range(chance.randint(0, 6)))
            assert whole(text) is (theirs.fullmatch(text) is not None), (pattern, text)
            assert some(text) is (theirs.search(text) is not None), (pattern, text)
            compared += 1
    assert compared > 10_000


HOSTILE = [
    (r"(a+)+$", "a" * 9_999 + "!"),
    (r"(a|a)*b", "a" * 10_000),
    (r"(\w+\s?)*!", "a " * 5_000),
    (r"(x+x+)+y", "x" * 10_000),
    (r".*a.*b.*c.*d", "abc" * 3_000),
    (r"(?:a?){1000}b", "a" * 10_000),
    (r"(?:a{1,50}){1,20}b", "a" * 10_000),
    (r"(?:(?:a*)*)*b", "a" * 10_000),
    (r"(é+|[à-ü])*x", "é" * 10_000),
    ("a*" * 2_000 + "b", "a" * 10_000),
    (r"(?:a|b)*a(?:a|b){900}c", "".join(random.Random(1).choices("ab", k=10_000))),
    (r"(?:[^é]?[^ü]?){400}c", "a" * 10_000),
]


@pytest.mark.parametrize(("pattern", "value"), HOSTILE, ids=[pattern[:30] for pattern, _ in HOSTILE])
def test_no_value_keeps_a_pattern_busy(pattern: str, value: str) -> None:
    """Ten thousand characters that almost match. An engine that tries every way would not come back from most."""
    assert pattern_flaw(pattern) == ""
    assert _within(60, lambda: _both(pattern, value) == (False, False))


def _both(pattern: str, value: str) -> tuple[bool, bool]:
    return compiled(pattern)(value), compiled(pattern, whole=False)(value)


def test_the_guard_of_these_tests_stops_a_pattern_that_doubles() -> None:
    assert not _within(1, lambda: re.fullmatch("(a|a)*b", "a" * 90) is None)
    assert _within(20, lambda: re.fullmatch("a*b", "a" * 90) is None)


class _TooLong(Exception):
    pass


def _within(seconds: float, work: Callable[[], Any]) -> bool:
    def stop(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # of our own: others may be busy
    try:
        return bool(work())
    except _TooLong:
        return False
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_the_engine_is_loaded_only_for_a_pattern() -> None:
    code = (
        "import sys\nimport kfm.config, kfm.validation.column_rules\nfrom kfm.parsing.patterns import pattern_flaw\n"
        "before = 're2' in sys.modules\npattern_flaw('a')\nprint(before, 're2' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False True\n"
