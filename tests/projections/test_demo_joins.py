"""The datasets of the demo: from each grammar alone, every public file leads to its source, and back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.bans import ROOT
from tests.projections import chains, consumers

KANSAS = {
    "noaa-stations": "noaa-isd-history.csv",
    "kgs-tops": "kgs-arroyo-tops.csv",
    "usgs-earthquakes": "usgs-all-week.geojson",
    "hugoton-facies": "hugoton-facies.csv",
    "riley-drought": "usdm-riley-county.csv",
}
DAYS = {
    "drought": "usdm-riley-county.csv",
    "drought-severe": "usdm-riley-county.csv",
    "quakes-by-day": "usgs-all-week.geojson",
}


def kfm(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kfm.cli.main", *words],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "KFM_ACCEPT_WEAK_STORAGE": "true"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.long
def test_every_public_file_of_the_demo_leads_to_its_source_in_every_grammar(tmp_path: Path) -> None:
    demo = [sys.executable, str(ROOT / "examples" / "demo.py"), str(tmp_path)]
    done = subprocess.run(demo, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in KANSAS:
        if name != "usgs-earthquakes":  # the demo published it
            kfm(tmp_path / "demo", "promote", name, "--reason", "for all to read")
    for folder, sources in (("demo", KANSAS), ("demo-protected", {"sites": "kfm://withheld/"})):
        files = list(chains.public_files(tmp_path / folder / "public"))
        assert {file.dataset for file in files} == set(sources)
        for grammar, read in consumers.EXPORTED.items():
            found = read(kfm(tmp_path / folder, "lineage", "export", "--format", grammar))
            for file in files:
                chains.assert_joined(found, file, (sources[file.dataset],), [])
    for grammar, read in consumers.EXPORTED.items():
        found = read(kfm(tmp_path / "demo-days", "lineage", "export", "--format", grammar))
        for name, source in DAYS.items():  # none of them is public; their versions join all the same
            versions = chains.named(found, f"dataset/{name}#sha256:")
            assert versions, (grammar, name)
            starts = set(chains.named(found, source))
            assert all(found.back(version) & starts for version in versions), (grammar, name)
