"""Patterns mean what Python's own engine makes of them in ASCII, wherever engines agree; the rest is refused."""

from __future__ import annotations

import random
import re

import pytest

from kfm.documents.patterns import all_but, compiled, parse, pattern_flaw, ranges_of

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
    (r"a++ab", [], ["aaab"]),
    (r"(?>a|ab)c", ["ac"], ["abc"]),
    (r"(?:ab?)++c", ["abac"], []),
    (r"(?=.*\d)[a-z\d]+", ["a1"], ["ab"]),
    (r"(?!x)[a-z]+(?<!z)", ["abc"], ["xa", "az"]),
    (r"(?<=a)b|a(?<=a)b?", ["ab", "a"], ["b"]),
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
        assert compiled(pattern).fullmatch(text), text
    for text in bad:
        assert not compiled(pattern).fullmatch(text), text


def test_the_end_is_the_very_end_for_a_search_too() -> None:
    assert compiled("a$").search("ba")
    assert not compiled("a$").search("ba\n")
    assert not compiled("^a").search("b\na")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "a group that is not closed at character 1"),
        ("a)", "a bracket closes what was not opened at character 2"),
        ("[a", "a class that is not closed at character 1"),
        ("[]", "a class that is not closed at character 1"),
        ("[z-a]", "a range that runs backwards"),
        (r"[\d-z]", "a range that runs backwards"),
        ("*a", "nothing to repeat at character 1"),
        ("a|+", "nothing to repeat at character 3"),
        ("{2}", "nothing to repeat at character 1"),
        ("^*", "nothing to repeat at character 1"),
        ("(?=a)+", "nothing to repeat at character 1"),
        ("a**", "a repeat of a repeat at character 3"),
        ("a*??", "a repeat of a repeat at character 4"),
        ("a{2,1}", "a repeat that ends before it begins at character 2"),
        ("a{,}", "a repeat without a number at character 2"),
        ("a{10001}", "a repeat of more than 10,000 at character 2"),
        ("a{99999999999999999999}", "a repeat of more than 10,000"),
        ("\\", "a backslash before nothing at character 1"),
        (r"\q", "an escape that is not known at character 1"),
        (r"\0", "an escape that is not known"),
        (r"\N{DIGIT ONE}", "an escape that is not known"),
        (r"(a)\1", "a back-reference, which is not supported, at character 4"),
        (r"\x4", "a code that is no number"),
        (r"\ud800", "a code of no character"),
        (r"\U00110000", "a code of no character"),
        ("(?P=a)", "a group of a kind that is not supported at character 1"),
        ("(?(1)a|b)", "a group of a kind that is not supported"),
        ("(?#c)", "a group of a kind that is not supported"),
        ("a(?i)", "a group of a kind that is not supported at character 2"),
        ("(?m)^a", "a group of a kind that is not supported"),
        ("(?-i:a)", "a group of a kind that is not supported"),
        ("(?P<n>a)(?P<n>b)", "a name that is given twice at character 9"),
        ("(?<=a*)b", "a look behind that has no fixed width, or is atomic, at character 1"),
        ("(?<=(?>a))b", "a look behind that has no fixed width"),
        ("(" * 51 + ")" * 51, "nested deeper than 50 levels"),
        ("a" * 10_001, "longer than 10,000 characters"),
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
                "(?=a)",
                "(?<=a)",
                "(?!b)",
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
        ours, theirs = compiled(pattern), re.compile(pattern, re.ASCII)
        for _ in range(12):
            text = "".join(chance.choice("ab1. é") for _ in range(chance.randint(0, 6)))
            assert (ours.fullmatch(text) is None) is (theirs.fullmatch(text) is None), (pattern, text)
            assert (ours.search(text) is None) is (theirs.search(text) is None), (pattern, text)
            compared += 1
    assert compared > 10_000


def test_sets_are_kept_sorted_and_apart() -> None:
    assert ranges_of([(5, 7), (1, 2), (3, 3), (6, 9)]) == ((1, 3), (5, 9))
    assert all_but(()) == ((0, 0x10FFFF),)
    assert all_but(all_but(((3, 4), (9, 9)))) == ((3, 4), (9, 9))
    assert parse("(?i)[k-m]") == parse("[K-Mk-m]")
