"""Where the kernel cannot confine a reader: what wants it is refused with one line, and its tests are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.installations import ROOT, Answer, Installation, Warm, environment
from tests.sampling import sampled
from tests.validation.formats.grids import MADE
from tests.validation.formats.shapes import FORMATS, shaped, week
from tests.validation.formats.tables import written
from tests.validation.formats.test_hostile_parquet import standing, tree

WITHOUT = (sys.executable, "-m", "tests.validation.formats.without_landlock")
CONFIG = """\
kfm: 1
accept_weak_storage: true
datasets:
  rain:
    version: "{version}"
    title: Rain of a day
    license: CC0-1.0
    sensitivity: public
    sources:
      day: {{uri: day.{form}, format: {form}{more}}}
    outputs:
      day: {{from: day}}
"""


@pytest.fixture(scope="module")
def older() -> Iterator[Warm]:
    """As on a kernel that has no Landlock."""
    warm = Warm(WITHOUT)
    yield warm
    warm.close()


@pytest.fixture
def site(place: Path) -> Installation:
    """What was published is a table; from then on its source is in another format."""
    (place / "kfm.yml").write_text(
        CONFIG.format(version="1.0.0", form="csv", more=", contract: {columns: [{name: mm}]}")
    )
    (place / "day.csv").write_text("gauge,mm\na,1\n")
    site = Installation(place)
    site.kfm("run")
    site.kfm("promote", "rain")
    return site


def run(older: Warm, site: Installation, form: str, body: bytes) -> Answer:
    (site.folder / "kfm.yml").write_text(CONFIG.format(version="1.1.0", form=form, more=""))
    (site.folder / f"day.{form}").write_bytes(body)
    return older.kfm(site.folder, ["run"], environment())


def test_every_format_that_wants_it_is_refused_with_one_line_and_nothing_changed(
    site: Installation, older: Warm
) -> None:
    before, refs = tree(site.folder / "public"), standing(site)
    for form in (*MADE, *FORMATS):
        told = run(older, site, form, MADE[form]() if form in MADE else shaped(form, week(5)))
        assert told.code == 69, (form, told)
        assert told.err.splitlines() == [
            f"kfm: rain: files of the format {form} are read only where their reader can be confined; "
            "use Linux 5.13 or newer, with Landlock"
        ]
        assert tree(site.folder / "public") == before and standing(site) == refs


def test_parquet_can_name_no_other_file_and_is_read_there_too(site: Installation, older: Warm) -> None:
    assert run(older, site, "parquet", written(week(5))).code == 0


@pytest.mark.parametrize(("ci", "code", "word"), sampled([("1", 1, "Failed: "), ("", 0, "SKIPPED")]))
def test_tests_that_want_it_are_skipped_there_and_fail_in_ci(ci: str, code: int, word: str) -> None:
    wanting = "tests/validation/formats/test_grids.py::test_a_cloud_optimized_one_says_so"
    done = subprocess.run(
        [*WITHOUT, sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", wanting],
        cwd=ROOT, env={**os.environ, "CI": ci}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code and word in done.stdout, done.stdout
    assert "this kernel cannot confine a process (Landlock, seccomp)" in done.stdout
