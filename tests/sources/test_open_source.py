"""A source is chosen by its scheme, and loads nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kfm.errors import BadInput
from kfm.sources import open_source, scheme_of
from kfm.sources.http import HttpSource
from kfm.sources.local_files import FileSource
from kfm.sources.s3 import S3Source


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("http://example.org/", HttpSource), ("HTTPS://example.org/", HttpSource), ("file:///data/a.csv", FileSource),
        ("File:a.csv", FileSource), ("a.csv", FileSource), ("data/a:b.csv", FileSource), ("/data/a.csv", FileSource),
        ("./c:a.csv", FileSource), ("", FileSource), ("1:a.csv", FileSource), ("s3://bucket/a", S3Source),
    ],
)  # fmt: skip
def test_the_scheme_chooses_the_reader(uri: str, kind: type) -> None:
    assert type(open_source(uri)) is kind


@pytest.mark.parametrize("uri", ["gs://canary:secret@bucket/a", "ftp://example.org/", "data:,a", "gopher://x", "C:\\a"])
def test_an_unknown_scheme_is_bad_input_that_lists_the_known_ones(uri: str) -> None:
    with pytest.raises(BadInput) as caught:
        open_source(uri)
    assert "http, https, file" in str(caught.value)
    assert scheme_of(uri) in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import kfm.sources", ("socket", "ssl", "kfm.sources.http", "kfm.sources.local_files")),
        ("from kfm.sources import open_source; open_source('a.csv')", ("socket", "ssl", "ctypes", "kfm.sources.http")),
        ("from kfm.sources import open_source; open_source('http://a/')", ("ssl", "http.client", "email", "ipaddress")),
    ],
)
def test_opening_a_source_loads_only_what_it_needs(code: str, absent: tuple[str, ...]) -> None:
    probe = f"import sys\n{code}\nprint([m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
