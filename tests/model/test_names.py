"""Names from outside: a name that could leave its folder, hide, or become another name is refused."""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import BadInput
from kfm.model.names import (
    check_id,
    check_path,
    check_ref,
    dataset_id,
    dataset_uri,
    is_digest,
    is_file_name,
    printable,
)
from tests.sampling import tries

DEVICES = [
    "con",
    "prn",
    "aux",
    "nul",
    "conin$",
    "conout$",
    "clock$",
    *(f"{n}{i}" for n in ("com", "lpt") for i in range(10)),
]
LONG = "n" * 300


def hostile_names() -> dict[str, list[str]]:
    """Names of one file, none of which may pass; by what they try."""
    controls = [chr(n) for n in range(32)] + ["\x7f"] + [chr(n) for n in range(0x80, 0xA0)]
    unseen = (
        "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d\u200e\u200f"
        "\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206f\u2800"
        "\u3164\ufe00\ufe0e\ufe0f\ufeff\uffa0\ufff9\U000e0001\U000e0020\U000e0100\U000e01ef"
    )
    spaces = "\u00a0\u1680\u2000\u2003\u2007\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
    other_forms = [
        "e\u0301.csv", "A\u030a", "\u212b", "\u1100\u1161", "\u0344", "\u2126", "\u01c4", "\ufb01le", "x\u00b2",
        "\u2460", "\uff23\uff2f\uff2e", "com\u00b9", "com\u00b2", "lpt\u00b3", "\uff0e\uff0e", "\u2024\u2024", "\u2025",
        "\u2026", "a\uff0fb", "a\uff3cb", "a\uff1ab", "\uff41", "\u0958", "\u1e9b\u0323", "q\u0307\u0323",
        "\u0301a", "\u0327",
    ]  # fmt: skip
    return {
        "climbs": ["", ".", "..", "...", "....", "..x", ". .", ".. ", " ..", "..\\", "..\\..", "\\..\\x", ".\\x"],
        "hidden": [".x", ".git", ".ssh", ".bashrc", ".kfm", ".DS_Store", "._a"],
        "absolute": ["C:", "C:\\x", "c:x", "\\", "\\\\host\\share", "\\\\?\\C:\\x", "\\\\.\\nul", "file:", "x:stream"],
        "backslash": ["a\\b", "a\\", "\\a", "a\\..\\b", "a\\\\b"],
        "controls": [f"a{c}b" for c in controls] + ["\x00", "a\x00.csv", "a.csv\x00", "a\n", "\ra", "\x1b[2J"],
        "unseen": [f"a{c}b" for c in unseen] + ["a\u202efdp.exe", "\u200b", "a.csv\u200b"],
        "spaces": [f"a{c}b" for c in spaces],
        "ends": ["a.", "a..", "a ", "a .", "a. ", " a", "  ", " ", "a.csv.", "a.csv ", "a\t"],
        "devices": [
            name
            for device in DEVICES
            for name in (device, device.upper(), f"{device}.csv", f"{device.title()}.tar.gz", f"{device} .txt")
        ],
        "long": [LONG, "é" * 101, "\U0001f600" * 51, "a" * 201, "a" * 197 + ".csv"],
        "wildcards": [f"a{c}b" for c in '*?"<>|:'] + ["*", "?", "<a>", "a|b"],
        "other forms": other_forms,
        "no characters": [
            "\ud800",
            "a\udfff",
            "\udc80\udcff",
            "\ufdd0",
            "\uffff",
            "\ue000",
            "\U0010ffff",
            "\U000f0000",
            "\u0378",
        ],
    }


HOSTILE = [(why, name) for why, names in hostile_names().items() for name in names]
HARMLESS = [
    "a", "A", "a.csv", "stations.2026-01.geojson", "0", "_x", "-x", "a b", "a-b_c", "kansas-météo.csv", "名前",
    "Ñandú", "конза", "a..b", "a'b", "x" * 200, "console", "com", "com10", "auxiliary.csv", "nullable", "#1", "100%",
    "~a",
]  # fmt: skip


def refused(check: Callable[[str], str], name: str) -> bool:
    try:
        check(name)
    except BadInput as problem:
        assert problem.message.isprintable(), "the message itself must not carry the attack"
        assert len(problem.message) < 600
        return True
    return False


def test_there_are_at_least_three_hundred_hostile_names() -> None:
    assert len({name for _, name in HOSTILE}) >= 300


@pytest.mark.parametrize(("why", "name"), HOSTILE, ids=[f"{why}-{n}" for n, (why, _) in enumerate(HOSTILE)])
def test_no_hostile_name_is_a_path_an_id_or_a_ref(why: str, name: str) -> None:
    assert not is_file_name(name)
    for path in (name, f"a/{name}", f"{name}/b", f"a/{name}/b.csv"):
        assert refused(check_path, path)
    assert refused(lambda text: check_id(text, "dataset"), name)
    assert refused(check_ref, f"processed/{name}")
    assert refused(check_ref, f"processed/a/{name}/b")
    assert refused(dataset_id, f"kfm://dataset/{name}")


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_names_are_kept(name: str) -> None:
    assert is_file_name(name)
    assert check_path(f"a/{name}/b") == f"a/{name}/b"


@pytest.mark.parametrize(
    "path", ["/a", "a/", "a//b", "/", "//", "a/../b", "a/./b", "../a", "a/..", "./a", "/etc/passwd"]
)
def test_a_path_stays_below_its_root(path: str) -> None:
    assert refused(check_path, path)


def test_a_path_is_at_most_a_thousand_characters() -> None:
    assert check_path("/".join(["a" * 99] * 10))
    assert refused(check_path, "/".join(["a" * 99] * 11))


def test_a_slash_is_no_part_of_a_file_name() -> None:
    assert not is_file_name("a/b")


PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=tries(500), deadline=None)
@given(st.lists(PLAIN_TEXT | st.sampled_from([".", "..", "con", "a"]), min_size=1, max_size=4).map("/".join))
def test_a_path_that_passes_has_one_reading_everywhere(path: str) -> None:
    if refused(check_path, path):
        return
    assert posixpath.normpath(path) == path
    assert not path.startswith("/")
    assert "\\" not in path
    for form in ("NFC", "NFKC"):
        assert unicodedata.normalize(form, path) == path


def test_names_that_pass_are_kept_by_the_file_system(tmp_path: Path) -> None:
    names = [name for name in HARMLESS if is_file_name(name)]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert set(os.listdir(tmp_path)) == set(names)


@settings(max_examples=tries(500), deadline=None)
@given(st.text(max_size=80))
def test_two_spellings_of_a_name_never_both_pass(name: str) -> None:
    spellings = {unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC", "NFKD")} | {name}
    assert len([spelling for spelling in spellings if not refused(check_path, spelling)]) <= 1


# --- ids, refs, digests


@pytest.mark.parametrize("name", ["a", "0", "noaa-stations", "a.b", "a_b-c.d1", "x" * 63])
def test_ids_are_lower_case_words(name: str) -> None:
    assert check_id(name, "dataset") == name
    assert dataset_uri(name) == f"kfm://dataset/{name}"
    assert dataset_id(dataset_uri(name)) == name


@pytest.mark.parametrize(
    "name",
    ["", "A", "aB", "a/b", "-a", "a-", "_a", "a_", "a.", ".a", "a..b", "é", "x" * 64, "a b", "a\n", "nul", "com1.x",
     "a%2e", "a|b", "kfm://dataset/a", "\uff41", "\u0131", "\u017f", "a:b", "a@b", "a~1", "$a", "a'", "\u0661"],
)  # fmt: skip
def test_other_texts_are_no_ids(name: str) -> None:
    assert refused(lambda text: check_id(text, "dataset"), name)


@settings(max_examples=tries(300), deadline=None)
@given(st.text(max_size=70) | st.from_regex(r"[a-z0-9._-]{1,66}", fullmatch=True))
def test_ids_are_safe_file_names_and_differ_in_more_than_case(name: str) -> None:
    if not refused(lambda text: check_id(text, "dataset"), name):
        assert is_file_name(name)
        assert name == name.lower()
        assert name.isascii()


@pytest.mark.parametrize(
    "ref",
    [
        "processed/a",
        "published/noaa-stations",
        "switch/dataset/x",
        "raw/A_b-c.d",
        "a/" + "b/" * 7 + "b",
        "raw/" + "x" * 128,
    ],
)
def test_refs_are_words_joined_by_slashes(ref: str) -> None:
    assert check_ref(ref) == ref
    assert check_path(ref) == ref


@pytest.mark.parametrize(
    "ref",
    ["", "a", "a/", "/a", "a//b", "A/b", "a/.b", "a/b.", "a/b/../c", "a/..", "a/b c", "a/é", "a/b\n", "a/b:c", "1/a",
     "a/-b", "a/_b", "a/" + "b/" * 8 + "b", "raw/" + "x" * 129, "raw/nul", "raw/NUL.txt", "raw/con/x", "raw/a@{1}",
     "raw/a*", "raw/a\\b", "raw\\a"],
)  # fmt: skip
def test_other_texts_are_no_refs(ref: str) -> None:
    assert refused(check_ref, ref)


def test_only_lower_case_sha256_is_a_digest() -> None:
    good = "sha256:" + "0a" * 32
    assert is_digest(good)
    others = [
        "",
        good + "\n",
        good[:-1],
        good + "0",
        good.upper(),
        "sha256:" + "0A" * 32,
        "sha512:" + "0" * 64,
        "0a" * 32,
        " " + good,
    ]
    assert not any(map(is_digest, others))


@settings(max_examples=tries(300), deadline=None)
@given(st.text(max_size=300))
def test_foreign_text_in_a_message_is_quoted_escaped_and_cut(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert shown[0] == shown[-1] == "'"
    assert "'" not in shown[1:-1]
    assert len(shown) <= 2 + 80 * 7
    assert shown.encode()
