"""One source has one identity, however its address is written; two sources have two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfm.model.source_identity import file_path, is_part_of, same_source, source_identity

BASE = "/data/kansas"
FILES = [
    "data/sites.csv",
    "./data/sites.csv",
    "data//sites.csv",
    "data/x/../sites.csv",
    "file:data/sites.csv",
    "FILE:data/sites.csv",
    "file:data/sites%2Ecsv",
    "file:data%2Fsites.csv",
    "file:data/%73ites.csv",
    "file:///data/kansas/data/sites.csv",
    "file://localhost/data/kansas/data/sites.csv",
    "file://LOCALHOST/data/kansas/./data/sites.csv",
    "/data/kansas/data/sites.csv",
    "/data/kansas//data/../data/sites.csv",
]
URLS = [
    "http://localhost/a/sites.csv",
    "http://localhost:80/a/sites.csv",
    "https://localhost/a/sites.csv",
    "http://LOCALHOST/a/sites.csv",
    "HTTP://localhost./a/sites.csv",
    "http://127.0.0.1/a/sites.csv",
    "http://127.1/a/sites.csv",
    "http://2130706433/a/sites.csv",
    "http://0x7f000001/a/sites.csv",
    "http://0177.0.0.1/a/sites.csv",
    "http://[::1]/a/sites.csv",
    "http://[::ffff:127.0.0.1]/a/sites.csv",
    "http://0.0.0.0/a/sites.csv",
    "http://localhost/./a/sites.csv",
    "http://localhost//a/sites.csv",
    "http://localhost/x/../a/sites.csv",
    "http://localhost/a/sites%2Ecsv",
    "http://localhost/a%2Fsites.csv",
    "http://localhost/a/sites.csv/",
    "http://user:secret@localhost/a/sites.csv",
]


@pytest.mark.parametrize("written", FILES)
def test_a_file_has_one_identity_in_every_spelling(written: str) -> None:
    assert source_identity(written, BASE) == "data/sites.csv"


@pytest.mark.parametrize("written", URLS)
def test_a_url_has_one_identity_in_every_spelling(written: str) -> None:
    assert source_identity(written, BASE).partition(":")[2] == "//localhost/a/sites.csv"
    assert same_source(written, "http://localhost/a/sites.csv", BASE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("data/sites.csv", "data/sites2.csv"),
        ("data%2Fsites.csv", "data/sites.csv"),  # a plain path is not decoded when it is read either
        ("http://a.example/x", "http://b.example/x"),
        ("http://a.example:8080/x", "http://a.example/x"),
        ("http://a.example/x?y=1", "http://a.example/x?y=2"),
        ("http://a.example/x#member=a", "http://a.example/x#member=b"),
        ("s3://bucket/x", "http://bucket/x"),
        ("http://12.example/x", "http://example/x"),
    ],
)
def test_two_sources_have_two_identities(one: str, other: str) -> None:
    assert source_identity(one, BASE) != source_identity(other, BASE)


def test_the_order_of_a_query_does_not_matter() -> None:
    one, other = "http://a.example/x?b=2&a=%31", "http://a.example/x?a=1&b=2"
    assert source_identity(one, BASE) == source_identity(other, BASE)


def test_a_name_in_two_unicode_forms_is_one_name() -> None:
    assert source_identity("data/caf\u00e9.csv", BASE) == source_identity("data/cafe\u0301.csv", BASE)


@given(st.text(max_size=60), st.sampled_from(["", "file:", "file://", "http://", "https://h/", "s3://b/"]))
def test_every_text_has_an_identity_and_is_the_same_source_as_itself(text: str, start: str) -> None:
    assert source_identity(start + text, BASE)
    assert same_source(start + text, start + text, BASE)


def test_the_path_of_a_file_uri_is_decoded_and_a_plain_path_is_not() -> None:
    assert file_path("file:a%20b.csv") == "a b.csv"
    assert file_path("a%20b.csv") == "a%20b.csv"


def test_a_label_on_a_member_is_on_the_archive_and_on_no_other_member() -> None:
    assert is_part_of("data/a.zip", "data/a.zip#member=sites.csv", BASE)
    assert is_part_of("data/a.zip#member=sites.csv", "data/a.zip", BASE)
    assert not is_part_of("data/a.zip#member=towns.csv", "data/a.zip#member=sites.csv", BASE)
