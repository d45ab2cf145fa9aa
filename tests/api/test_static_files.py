"""The files of the console are sent compressed to those who take them so, and are kept for good under their digest."""

from __future__ import annotations

import gzip

import pytest

from kfm.api.console.static_files import NAMES, address_of, body_of, media_type_of
from tests.api.serving_site import Site


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_the_same_compressed_or_not(name: str, served: Site) -> None:
    plain = served.ask(address_of(name))
    packed = served.ask(address_of(name), headers={"Accept-Encoding": "br, gzip"})
    assert plain.body == body_of(name) == gzip.decompress(packed.body) and len(packed.body) < len(plain.body)
    for answer in (plain, packed):
        assert answer.headers["content-type"] == media_type_of(name)
        assert answer.headers["vary"] == "Accept-Encoding" and "immutable" in answer.headers["cache-control"]
        assert int(answer.headers["content-length"]) == len(answer.body)
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert plain.headers["etag"] != packed.headers["etag"], "other bytes"
    again = served.ask(address_of(name), headers={"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    ("header", "is_packed"),
    [
        ("gzip", True),
        ("GZIP;q=0.1", True),
        ("*", True),
        ("deflate, *;q=0.5", True),
        ("gzip;q=1.000", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000, *", False),
        ("*;q=0", False),
        ("x-gzip-like", False),
        ("gzip;q=", False),
        (";;,,=", False),
    ],
)
def test_a_file_is_compressed_only_for_a_caller_who_permits_it(header: str, is_packed: bool, served: Site) -> None:
    answer = served.ask(address_of("live.js"), headers={"Accept-Encoding": header})
    assert answer.status == 200 and (answer.headers.get("content-encoding") == "gzip") is is_packed
    assert (gzip.decompress(answer.body) if is_packed else answer.body) == body_of("live.js")


def test_the_address_of_other_bytes_is_absent(served: Site) -> None:
    at = address_of("map.js")
    absent = served.ask("/static/nothing")
    for path in (at[:-4] + "0.js", "/static/map.js", "/static/library/maplibre-gl.js.gz", "/static/../static_files.py",
                 "/static/SOURCES.md"):  # fmt: skip
        answer = served.ask(path, headers={"Accept-Encoding": "gzip"})
        assert (answer.status, answer.body) == (404, absent.body), path
