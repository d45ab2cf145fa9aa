"""A wrong declaration gives one clear line with file and line, and nothing changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.app.backfills.sites import Site

FILE = "pipelines/backfills/rain.yml"
LISTED = "keys.txt"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path, monkeypatch, days=2)
    site.backfill("start")
    return site


def told(site: Site, *words: str) -> str:
    """The one line that a command which is refused says; nothing has changed."""
    before = fingerprint(site)
    said = site.kfm("backfill", *words, code=3)
    (line,) = said.words.splitlines()
    assert "Traceback" not in line and len(line) < 400
    assert fingerprint(site) == before, "something was written"
    return line


def fingerprint(site: Site) -> dict[str, str]:
    files = [path for path in site.folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(
    ("partitions", "line", "words"),
    [
        ("{kind: day, from: 2024-01-01, to: 2024-13-01}", 5, "'2024-13-01' is not a valid day"),
        ("{kind: day, from: 2024-02-30, to: 2024-03-01}", 5, "'2024-02-30' is not a valid day"),
        ("{kind: day, from: 2024-01-02, to: 2024-01-01}", 5, "is before"),
        ("{kind: day, from: 2024-1-2, to: 2024-01-03}", 5, "'2024-1-2' is not a valid day"),
        ("{kind: month, from: 2024-01-01, to: 2024-03}", 5, "is not a valid month"),
        ("{kind: week, from: 2024-W01, to: 2024-W54}", 5, "'2024-W54' is not a valid week"),
        ("{kind: hour, from: 0001-01-01T00, to: 9999-01-01T00}", 5, "more than 500,000 partitions"),
        ("{kind: day, from: 2024-01-01}", 5, "needs from and to"),
        ("{kind: day, keys: [a]}", 5, "with a range of times"),
        ("{kind: station, from: 2024-01-01}", 5, "is only for times"),
        ("{kind: station}", 5, "either keys or file"),
        ("{kind: planet, keys: [a]}", 5, "kind"),
        ("{kind: station, keys: [a, ../b]}", 5, "is not a valid name"),
        ("\n      kind: station\n      keys:\n        - a\n        - b\n        - a", 10, "is in line 8 already"),
        ("{kind: tile, keys: [7/29/128]}", 5, "does not exist"),
        ("{kind: tile, keys: [7/29]}", 5, "is not a tile"),
        ("{kind: cell, keys: [8526e2b7ffffffe]}", 5, "is not an H3 cell"),
        ("{kind: station, file: nowhere.txt}", 5, "cannot be read"),
    ],
)
def test_partitions_that_mean_nothing_are_refused_where_they_stand(
    partitions: str, line: int, words: str, site: Site
) -> None:
    site.declare(partitions)
    for command in ("plan", "start"):
        said = told(site, command, "january")
        assert f"{FILE}:{line}" in said and words in said, said


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"pool": "gpu"}, "no pool 'gpu'"),
        ({"downstream": "loudly"}, "downstream"),
        ({"which": "some"}, "which"),
        ({"datset": "rain"}, "datset"),
    ],
)
def test_settings_that_mean_nothing_are_refused_where_they_stand(said: dict[str, str], words: str, site: Site) -> None:
    site.declare("{kind: station, keys: [a]}", **said)
    line = told(site, "plan", "january")
    assert f"{FILE}:6" in line and words in line, line


def test_a_dataset_that_is_not_made_by_parts_is_refused(site: Site) -> None:
    with (site.folder / "kfm.yml").open("a") as file:
        file.write("  whole:\n    version: 1.0.0\n")
        file.write("    sources: {a: {uri: a.csv, format: csv}}\n    outputs: {a: {from: a}}\n")
    path = site.folder / FILE
    path.write_text(path.read_text().replace("dataset: rain", "dataset: whole"))
    assert f"{FILE}:4" in (line := told(site, "plan", "january")) and "built as a whole" in line
    path.write_text(path.read_text().replace("dataset: whole", "dataset: rian"))
    assert "did you mean rain?" in told(site, "plan", "january")
    path.write_text(path.read_text().replace("dataset: rian", "dataset: rain"))
    assert "did you mean january?" in told(site, "plan", "janury")


@pytest.mark.parametrize(
    ("body", "line", "words"),
    [
        (b"a\n\n# more\nb\n../c\n", 5, "this line is not a valid name of a station"),
        (b"a\nb\nc\nb\n", 4, "'b' is in line 2 already"),
        (b"a\n\xff\n", 2, "is not UTF-8"),
        (b"a\n" + b"x" * 5000 + b"\n", 2, "too long"),
    ],
)
def test_a_file_of_keys_is_refused_at_its_line(body: bytes, line: int, words: str, site: Site) -> None:
    (site.folder / LISTED).write_bytes(body)
    site.declare(f"{{kind: station, file: {LISTED}}}")
    said = told(site, "plan", "january")
    assert f"{LISTED}:{line}:" in said and words in said, said


@pytest.mark.parametrize("kind", ["station", "tile", "cell"])
def test_a_line_that_is_no_key_is_not_quoted(kind: str, site: Site) -> None:
    """An operator may have named a file of protected data."""
    (site.folder / LISTED).write_text("burial 17, 38.5, -97.2\n")
    site.declare(f"{{kind: {kind}, file: {LISTED}}}")
    said = told(site, "plan", "january")
    assert f"{LISTED}:1: " in said and "burial" not in said and "38.5" not in said, said


def test_a_file_of_a_million_lines_is_refused_at_the_line_that_is_too_much(site: Site) -> None:
    (site.folder / LISTED).write_bytes(b"".join(b"s%07d\n" % n for n in range(1_000_000)))
    site.declare(f"{{kind: station, file: {LISTED}}}")
    assert f"{LISTED}:500001: there are more than 500,000 partitions" in told(site, "start", "january")


def test_a_declaration_of_a_million_lines_is_refused_with_its_line(site: Site) -> None:
    keys = "".join(f"        - s{n:07d}\n" for n in range(1_000_000))
    (site.folder / FILE).write_text(
        "backfills:\n  january:\n    dataset: rain\n    partitions:\n      kind: station\n      keys:\n" + keys
    )
    said = told(site, "plan", "january")
    assert f"{FILE}:" in said and "larger than 4 MiB" in said
    run = site.kfm("run", "rain", "--partition", site.days[0], code=3)
    assert "larger than 4 MiB" in run.words, "a run names the same mistake before it starts"


@pytest.mark.parametrize(
    ("partitions", "names"),
    [
        ("{kind: hour, from: 2024-02-28T23, to: 2024-02-29T01}", ["2024-02-28T23", "2024-02-29T00", "2024-02-29T01"]),
        ("{kind: day, from: 2024-02-28, to: 2024-03-01}", ["2024-02-28", "2024-02-29", "2024-03-01"]),
        ("{kind: week, from: 2020-W52, to: 2021-W01}", ["2020-W52", "2020-W53", "2021-W01"]),
        ("{kind: month, from: 2023-11, to: 2024-02}", ["2023-11", "2023-12", "2024-01", "2024-02"]),
        ('{kind: year, from: "1999", to: "2001"}', ["1999", "2000", "2001"]),
        ('{kind: year, from: "9998", to: "9999"}', ["9998", "9999"]),
        ("{kind: tile, keys: [0/0/0, 7/29/48]}", ["0-0-0", "7-29-48"]),
        ("{kind: cell, keys: [8526e2b7fffffff]}", ["8526e2b7fffffff"]),
        ("{kind: station, keys: [KS-01, KS-02]}", ["KS-01", "KS-02"]),
        ("{kind: release, keys: [1.0.0, 2024q3]}", ["1.0.0", "2024q3"]),
        ("{kind: name, file: keys.txt}", ["b", "a"]),
    ],
)
def test_partitions_are_what_their_kind_says(partitions: str, names: list[str], site: Site) -> None:
    (site.folder / LISTED).write_text("# names\nb\n\n  a  \n")
    site.declare(partitions)
    assert [each["partition"] for each in site.backfill("plan")["partitions"]] == names
