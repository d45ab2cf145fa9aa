"""Both languages agree on characters, names, flags, sizes and suggestions."""

from __future__ import annotations

import json
import random
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import pytest

from kfm.cli.parser import Usage, parse
from kfm.cli.render import size
from kfm.cli.work.run import plain
from kfm.clock import parse_instant, rfc3339
from kfm.errors import BadInput
from kfm.model import names, redaction
from kfm.model.canonical import canonical
from kfm.parsing import characters
from kfm.parsing.characters import printable
from tests.node.twin import Twin, essence, refusal
from tests.project.node_files import runner_parsers

# Half a surrogate pair stands for a byte that is no UTF-8: always the second half, never one before it.
ODD = (
    "aZ0 .-_/:'\"\\\t\n\x1c\x7f\x85\xa0\xad\u0301\u0345\u200b\u2028\u3000\ufe0f\ufeff\uffff\udcff😀"
    "\U000e0100\U00011f00\u017f\u212a\xdf\u0130\ufb01\uac00"
)


@pytest.fixture(scope="module")
def twin() -> Iterator[Twin]:
    with Twin() as asked:
        yield asked


def test_the_tables_of_characters_are_those_of_unicode_14() -> None:
    """What a later Unicode assigns is not printable here, and what 14 has never changes."""
    shown = [code for code in range(0x80, sys.maxunicode + 1) if characters.is_printable(chr(code))]
    assert all(chr(code).isprintable() for code in shown)
    if unicodedata.unidata_version == "14.0.0":
        assert shown == [code for code in range(0x80, sys.maxunicode + 1) if chr(code).isprintable()]


def test_characters_that_combine_are_known_in_node(twin: Twin) -> None:
    combining = {chr(code) for code in range(0x80, sys.maxunicode + 1) if unicodedata.combining(chr(code))}
    some = random.Random(4).sample(sorted(combining), 500)
    assert [seen[2] for seen in twin.ask("texts", some)["ok"]] == [names.is_file_name(text) for text in some]


def test_texts_are_seen_alike(twin: Twin, count: Any) -> None:
    pick = random.Random(5)
    texts = ["".join(pick.choice(ODD) for _ in range(pick.randrange(6))) for _ in range(4000)]
    texts += [chr(pick.randrange(sys.maxunicode)) + "x" for _ in range(4000)] + ["CON.txt", "nul", "x" * 201, "." * 3]
    ours = [
        [
            characters.is_printable(text),
            printable(text),
            names.is_file_name(text),
            names.is_identifier(text),
            text.strip(),
            len(text),
            text[:2],
            characters.escaped(text),
        ]
        for text in texts
    ]
    theirs = twin.ask("texts", texts)["ok"]
    for text, one, other in zip(texts, ours, theirs, strict=True):
        assert one == other, repr(text)
    assert twin.ask("sorted", texts)["ok"] == sorted(texts)
    count("texts seen alike", len(texts))


def test_sizes_are_rounded_alike(twin: Twin) -> None:
    pick = random.Random(7)
    counts = [*range(3000), *(1024**k * n // 20 for k in (1, 2, 3, 4) for n in range(0, 200)), 2**50, 2**53]
    counts += [pick.randrange(2 ** pick.randrange(1, 53)) for _ in range(3000)]
    assert twin.ask("sizes", counts)["ok"] == [size(number) for number in counts]


def test_secrets_are_hidden_alike(twin: Twin) -> None:
    value = {
        "api_token": "x", "Secret": "env:A", "password": "", "a": ["https://u:p@h/x?token=1&a=2#c", {"key": "y"}],
        "b": 1, "url": "x://a@b@c?sig=1&X-Amz-Signature=2&auth", "__proto__": "https://h?api-key=1",
    }  # fmt: skip
    assert twin.ask("redacted", value)["ok"] == canonical(redaction.redacted(value)).decode()


def test_instants_are_read_alike(twin: Twin) -> None:
    pick = random.Random(8)
    for _ in range(1500):
        text = (
            f"{pick.choice((0, 1, 1969, 1970, 2000, 2026, 9999)):04d}-{pick.randrange(14):02d}-{pick.randrange(33):02d}"
            f"{pick.choice('TTt x')}{pick.randrange(26):02d}:{pick.randrange(62):02d}:{pick.randrange(62):02d}"
            f"{pick.choice(('', '.5', '.1239', '.'))}{pick.choice(('Z', 'z', '', '+00:00', '-23:59', '+24:00', '+01'))}"
        )
        try:
            ours = {"ok": rfc3339(parse_instant(text, "it"))}
        except BadInput as problem:
            ours = refusal(problem)
        assert essence(twin.ask("instant", text)) == ours


def typed(argv: list[str]) -> dict[str, Any]:
    words = StringIO()
    try:
        with redirect_stdout(words):
            found = vars(parse(argv, "updater"))
    except SystemExit:
        return {"ok": {"told": words.getvalue()}}
    except Usage as problem:
        return refusal(problem)
    for own in ("handler", "reports", "partition", "typed", "wait", "jobs"):  # of Python
        found.pop(own, None)
    return {"ok": json.loads(json.dumps(found))}


def test_what_is_typed_is_read_alike(twin: Twin, count: Any) -> None:
    pick = random.Random(9)
    flags = [flag for one in runner_parsers().values() for flag in one._option_string_actions]
    others = ["run", "run", "webhook", "verify", "a", "--", "-", "-5", "-x", "- x", "", "--window=", "--force=1",
              "--json=", "-h", "--help", "--dry", "--windw", "rnu", "--config=x", "😀", "--header=a: b"]  # fmt: skip
    asked = [[pick.choice((*flags, *others, *others)) for _ in range(pick.randrange(6))] for _ in range(3000)]
    answers = twin.ask_all([("typed", argv) for argv in asked])
    for argv, theirs in zip(asked, answers, strict=True):
        assert typed(argv) == essence(theirs), argv
    count("command lines read alike", len(asked))


def test_the_help_of_the_runners_names_every_flag() -> None:
    for one in runner_parsers().values():
        for flag in one._option_string_actions:
            assert f" {flag}" in one.format_help()


@pytest.mark.parametrize(
    "words",
    [["rain"], ["rain", "snow", "--dry-run"], ["--json"], ["--quiet", "--verbose", "--no-color", "--exit-code"], []],
)
def test_the_shortcut_for_plain_lines_reads_them_as_the_parser_does(words: list[str]) -> None:
    for program in ("kfm", "updater"):
        shortcut = plain(["run", *words], program)
        assert shortcut is not None and vars(shortcut) == vars(parse(["run", *words], program))


def test_short_flags_are_read_by_kfm_alone() -> None:
    assert parse(["run", "-q"]).quiet
    assert plain(["run", "-q"], "updater") is None
    with pytest.raises(Usage):
        parse(["run", "-q"], "updater")


@pytest.mark.parametrize("program", ["kfm", "updater"])
def test_names_may_stand_between_flags(program: str) -> None:
    assert parse(["run", "a", "--json", "b", "--dry-run", "c"], program).dataset == ["a", "b", "c"]
    assert parse(["run", "a", "--json", "--", "-b"], program).dataset == ["a", "-b"]
    with pytest.raises(Usage, match="unrecognized arguments: --windw b"):
        parse(["run", "a", "--windw", "b"], program)


def test_a_command_that_only_kfm_has_is_named_as_one_of_kfm() -> None:
    with pytest.raises(Usage, match="updater has no command 'publish'") as refused:
        parse(["publish", "rain"], "updater")
    assert refused.value.hint == "use kfm publish"
