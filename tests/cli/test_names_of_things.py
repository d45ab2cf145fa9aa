"""Every name on the command line gets an answer or one clear line, and changes nothing."""

from __future__ import annotations

import pytest

from kfm.cli.parser import Usage, parse
from tests.cli.conftest import Kfm, tree


def is_typable(words: tuple[str, ...]) -> bool:
    try:
        parse([*words, "x"])
    except Usage:
        return False
    return True


QUESTIONS = [
    words
    for words in (
        ("reproduce",),
        ("explain",),
        ("why-not",),
        ("lineage", "upstream"),
        ("lineage", "downstream"),
        ("catalog", "show"),
    )
    if is_typable(words)
]
VERSION = "7f118dc3ed0fb1413d8c91c7d0494e65175d1ff9f3c2166c1a6624cb12547c08"
FOLDER = "datasets/rain-gauges/versions/7f118dc3ed0fb141"
REAL = [
    "rain-gauges",
    "kfm://dataset/rain-gauges",
    "processed/rain-gauges",
    "kfm://ref/published/rain-gauges",
    VERSION,
    f"sha256:{VERSION[:12]}",
    f"rain-gauges@{VERSION[:8]}",
    f"{FOLDER}/riley.csv",
    "raw/rain-gauges/0",
    "last",
]
NOTHING = [
    "", " ", "\n", "..", "/", "@", "@@", "-", "*", "%s%n", "$(id)", "last ", "keys", "dead", "rain_gauges",
    "rain-gauges@", "rain-gauges@zz", f"rain-gauges@{VERSION}{VERSION}", f"@{VERSION[:8]}", "sha256:", "sha256:zz",
    "f" * 64, "sha256:" + "f" * 64, "published/nothing", "switch/nowhere", "datasets/rain-gauges/versions",
    f"{FOLDER}/nothing.csv", f"{FOLDER}/../../..", "datasets/../../etc/passwd", "/etc/passwd", "a" * 5000,
    "half \udcff", "\u202egauges", "kfm://dataset/", "kfm://ref/", "kfm://dataset/rain-gauges/../riley",
    "kfm://withheld/" + "0" * 64, "\x1b[31mred", "<script>alert(1)</script>", "https://example.org/a.csv",
]  # fmt: skip
assert len(QUESTIONS) >= 4
FINE = {0, 2, 3, 4, 5, 6, 10}


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_what_is_no_thing_gets_one_line_and_changes_nothing(ran: Kfm, words: tuple[str, ...]) -> None:
    before = tree()
    for text in NOTHING:
        answer = ran(*words, "--", text)
        assert answer.code in FINE, (text, answer)
        if answer.code:
            assert answer.complaint, text
        assert "\x1b" not in answer.out + answer.err and "<script>" not in answer.out
    said = ran(*words, "--json", "--", "published/nothing")
    assert said.code == 0 or said.data["error"]["code"]
    assert tree() == before


@pytest.mark.parametrize("words", QUESTIONS, ids=" ".join)
def test_every_name_of_a_thing_gets_an_answer_or_the_reason_why_there_is_none(ran: Kfm, words: tuple[str, ...]) -> None:
    before, answered = tree(), 0
    for text in REAL:
        answer = ran(*words, text)
        assert answer.code in FINE, (text, answer)
        assert answer.code == 0 or answer.complaint, text
        answered += answer.code == 0
    assert answered and tree() == before
