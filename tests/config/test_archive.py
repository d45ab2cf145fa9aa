"""`archive:` and `public_url:`: the archive's own name, publisher, contact and address are settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kfm import config
from kfm.app.maintenance.config_check import check
from kfm.app.metadata.archive_places import archive_places, outline_of
from kfm.errors import BadInput

BASE = "datasets: {a: {updater: u.py:U}}\n"
SET = """\
public_url: https://data.example.org/kansas/
archive:
  name: Kansas Frontier Matrix
  description: Open data about Kansas.
  publisher: Frontier Society
  contact: data@example.org
  url: https://example.org
  namespace: kansas
"""


def load(folder: Path, text: str, env: dict[str, str] | None = None) -> config.Resolved:
    (folder / "kfm.yml").write_text(text + BASE)
    return config.load(str(folder / "kfm.yml"), env or {})


def test_the_archive_is_named_by_its_settings_and_by_nothing_else(tmp_path: Path) -> None:
    places = archive_places(load(tmp_path, SET), "..")
    assert (places.title, places.publisher, places.contact) == (
        "Kansas Frontier Matrix",
        "Frontier Society",
        "data@example.org",
    )
    assert (places.home, places.namespace, places.public_url) == (
        "https://example.org",
        "kansas",
        "https://data.example.org/kansas",
    )


@pytest.mark.parametrize(
    ("said", "title", "publisher"),
    [
        ("", "Data archive", "Data archive"),
        ("archive: {publisher: Frontier Society}\n", "Frontier Society", "Frontier Society"),
        ("archive: {name: Wells}\n", "Wells", "Wells"),
        ("public_url: https://data.example.org/k\n", "data.example.org", "data.example.org"),
    ],
)
def test_a_name_that_is_not_set_is_derived_from_the_other_settings(
    tmp_path: Path, said: str, title: str, publisher: str
) -> None:
    places = archive_places(load(tmp_path, said), "..")
    assert (places.title, places.publisher) == (title, publisher)


def test_the_environment_sets_the_archive_too(tmp_path: Path) -> None:
    env = {"KFM_PUBLIC_URL": "https://a.example", "KFM_ARCHIVE__NAME": "Wells of Kansas"}
    resolved = load(tmp_path, "", env)
    assert (resolved.config.public_url, resolved.config.archive.name) == ("https://a.example", "Wells of Kansas")
    assert resolved.origins["archive.name"] == "env KFM_ARCHIVE__NAME"


@pytest.mark.parametrize(
    ("said", "message", "cure"),
    [
        ("public_url: data.example.org\n", "public_url is not an address", "https://data.example.org/kansas"),
        ("public_url: http://data.example.org\n", "public_url is not encrypted", "https://"),
        ("public_url: https://u:p@data.example.org\n", "public_url is not an address", "without user"),
        ("public_url: https://a.example/?q=1\n", "public_url is not an address", "query"),
        ("archive: {url: example.org}\n", "archive.url is not an address", "https://example.org"),
        ("archive: {contact: me at home}\n", "archive.contact is neither an e-mail", "data@example.org"),
        ("archive: {contact: http://example.org}\n", "archive.contact is not encrypted", "https://"),
        ("archive: {namespace: My Archive}\n", "archive.namespace is not a short name", "ks-archive"),
        ('archive: {name: "two\\nlines"}\n', "archive.name is not one line", "control characters"),
        ("archive: {nmae: x}\n", "archive.nmae", "name"),
    ],
)
def test_a_malformed_value_is_refused_with_the_cure(tmp_path: Path, said: str, message: str, cure: str) -> None:
    with pytest.raises(BadInput) as refused:
        load(tmp_path, said)
    line = f"{refused.value.message}; {refused.value.hint}"
    assert message in line and cure in line and "\n" not in line
    assert "u:p" not in line


def test_an_outline_is_read_as_lines_in_degrees(tmp_path: Path) -> None:
    ring = [[-102.0, 37.0], [-94.6, 37.0], [-94.6, 40.0], [-102.0, 37.0]]
    shape = {"type": "Feature", "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    body = {"type": "FeatureCollection", "features": [shape, {"type": "LineString", "coordinates": ring[:2]}]}
    (tmp_path / "outline.geojson").write_text(json.dumps(body))
    resolved = load(tmp_path, "archive: {outline: outline.geojson}\n")
    assert outline_of(resolved) == (tuple(map(tuple, ring)), tuple(map(tuple, ring[:2])))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "[]",
        '{"type": "Point", "coordinates": [1, 2]}',
        '{"type": "LineString", "coordinates": [[500, 1], [2, 3]]}',
    ],
)
def test_an_outline_that_is_none_is_refused_with_the_cure(tmp_path: Path, body: str) -> None:
    (tmp_path / "outline.geojson").write_text(body)
    with pytest.raises(BadInput, match="not GeoJSON of lines or areas"):
        outline_of(load(tmp_path, "archive: {outline: outline.geojson}\n"))
    with pytest.raises(BadInput, match="cannot be read"):
        outline_of(load(tmp_path, "archive: {outline: missing.geojson}\n"))
    (mistake,) = [each for each in check(str(tmp_path / "kfm.yml"), {}).mistakes if each.key == "archive.outline"]
    assert "cannot be read" in mistake.message and mistake.line == 1
