"""URLs are read strictly, and no message ever shows a password."""

from __future__ import annotations

import random
from urllib.parse import urljoin

import pytest

from kfm.errors import BadInput
from kfm.sources.urls import ParsedUrl, parse


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.org", ParsedUrl("http", "example.org", 80, "/")),
        ("HTTPS://Example.ORG/A?b=C#d", ParsedUrl("https", "example.org", 443, "/A?b=C")),
        ("http://example.org.:8080/", ParsedUrl("http", "example.org", 8080, "/")),
        ("http://example.org:/x", ParsedUrl("http", "example.org", 80, "/x")),
        ("http://example.org?q", ParsedUrl("http", "example.org", 80, "/?q")),
        ("http://[2001:DB8::1]:81/x", ParsedUrl("http", "2001:db8::1", 81, "/x")),
        ("http://127.1/", ParsedUrl("http", "127.1", 80, "/")),
        ("http://a_b.example/é?ü", ParsedUrl("http", "a_b.example", 80, "/%C3%A9?%C3%BC")),
        ("http://example.org/a@b", ParsedUrl("http", "example.org", 80, "/a@b")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: ParsedUrl) -> None:
    assert parse(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "", "example.org", "http:example.org", "http:/example.org", "http://", "http:///x", "http://:80/", "http://./",
        "http://a..b/", "ftp://example.org/", "file:///etc/passwd", "http://example.org:0/", "http://example.org:65536/",
        "http://example.org:-1/", "http://example.org:8_0/", "http://example.org:\uff180/", "http://exa mple.org/",
        "http://example.org/a b", "http://example.org/\r\nX: y", "http://example.org\\@evil/", "http://[::1/",
        "http://[::1]x/", "http://[1.2.3.4]/", "http://[fe80::1%25eth0]/", "http://ex%61mple.org/", "http://bücher.de/",
        "http://\u212aansas.example/",
        "http://①②⑦.⓪.⓪.①/", "http://127。0。0。1/", "http://" + "a" * 64 + "/", "http://" + "a." * 130 + "b/",
        "http://example.org/" + "a" * 9000, "http://example.org/\ud800", "http://exam\x00ple.org/",
        "javascript:alert(1)",
    ],
)  # fmt: skip
def test_what_two_readers_could_understand_differently_is_refused(url: str) -> None:
    with pytest.raises(BadInput):
        parse(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://canary:secret@example.org/",
        "http://canary@example.org/",
        "http://canary:se@cret@example.org/",
        "http://example.org:80@canary/",
        "http://canary:se/cret@example.org/",
        "http://canary:secret@",
        "ftp://canary:secret@example.org/",
        "https://canary secret@example.org/",
        "http://canary%3Asecret@example.org/",
    ],
)
def test_a_password_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        parse(url)
    assert "canary" not in str(caught.value)
    assert "cret" not in str(caught.value)


def test_the_message_says_that_it_was_a_password() -> None:
    with pytest.raises(BadInput, match="user name or password"):
        parse("http://canary:secret@example.org/")


def test_what_is_shown_has_no_query_and_is_short() -> None:
    assert parse("https://example.org/a/b?key=canary").shown() == "https://example.org/a/b"
    assert parse("http://[::1]:81/?key=canary").shown() == "http://[::1]:81/"
    assert len(parse("http://example.org/" + "a" * 1000).shown()) < 160


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("/x", "http://example.org:81/x"),
        ("x", "http://example.org:81/a/x"),
        ("../x?y", "http://example.org:81/x"),
        ("?y", "http://example.org:81/a/b"),
        ("//other.example/x", "http://other.example/x"),
        ("https://other.example", "https://other.example/"),
        ("/caf\xc3\xa9", "http://example.org:81/caf%C3%A9"),
        ("#z", "http://example.org:81/a/b"),
        ("./x//y/./z/", "http://example.org:81/a/x//y/z/"),
        ("../../../x/..", "http://example.org:81/"),
        ("HTTP://Other.example/./a/../b", "http://other.example/./a/../b"),
    ],
)
def test_a_redirect_is_followed_relative_to_where_it_was_seen(reference: str, expected: str) -> None:
    assert parse("http://example.org:81/a/b?c").follow(reference).shown() == expected


def test_a_redirect_is_resolved_as_the_standard_library_does_where_that_follows_the_standard() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        base = "http://example.org" + "".join(chance.choice(["/a", "/b", "/..", "/.", "/c"]) for _ in range(3))
        base += chance.choice(["", "/", "?q=1"])
        reference = "".join(chance.choice(["a", "b", "..", ".", "/", "?", "x=1"]) for _ in range(chance.randint(1, 6)))
        if "//" in reference or reference.endswith("?"):
            continue  # it drops empty segments and queries
        location = parse(base)
        joined = urljoin(f"http://example.org{location.target}", reference)
        if "/.." in joined.partition("?")[0] or "/." in joined.partition("?")[0]:
            continue  # without a path of its own it leaves the dots of the base
        assert location.follow(reference) == parse(joined), (base, reference)


@pytest.mark.parametrize(
    "reference", ["", "http://[", "http://h\xf6st/", "/a\\b", "/a b", "mailto:x@example.org", "http:x", "x:y/z"]
)
def test_a_redirect_to_what_is_no_web_address_is_refused(reference: str) -> None:
    with pytest.raises(BadInput):
        parse("http://example.org/").follow(reference)
