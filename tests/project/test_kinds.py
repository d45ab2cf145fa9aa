"""Each kind of work is an example that runs: its input changes, it runs again, and the public folder says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kfm.cli.main import main
from tests.engine.installations import ROOT

KINDS = ROOT / "examples/kinds"


class Kind:
    """A copy of the example of one kind of work."""

    def __init__(self, name: str, dataset: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.dataset = dataset
        shutil.copytree(KINDS / name, folder / name)
        monkeypatch.chdir(folder / name)
        monkeypatch.setenv("KFM_ACCEPT_WEAK_STORAGE", "true")
        monkeypatch.setenv("KFM_ACTOR", "tester")

    def kfm(self, *words: str) -> int:
        return main([*words])

    def change(self) -> None:
        shutil.copytree("change", ".", dirs_exist_ok=True, copy_function=shutil.copyfile)  # as of now

    @property
    def version(self) -> str:
        return str(json.loads(Path(f"public/datasets/{self.dataset}/current.json").read_text())["version"])

    def files(self) -> dict[str, str]:
        """What is public now, by the name of its file."""
        found: dict[str, str] = {}
        listing = Path(f"public/datasets/{self.dataset}/versions/{self.version[7:23]}.ndjson")
        for line in listing.read_text().splitlines():
            entry = json.loads(line)
            found["/".join(entry["key"])] = entry["digest"]
        return found

    def text(self, name: str) -> str:
        return next(Path(f"public/datasets/{self.dataset}/versions/{self.version[7:23]}").glob(name)).read_text()


CASES = {
    "ingest": "gauges",
    "stac-polling": "scenes",
    "etl-sync": "shop",
    "metadata-refresh": "wells",
    "remote-sensing-delta": "greenness",
    "correction": "wells",
    "derived": "well-tiles",
    "story-node": "rain-story",
}


@pytest.fixture
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kind:
    return Kind(request.param, CASES[request.param], monkeypatch, tmp_path)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", [name], indirect=True)


def test_every_kind_is_tested_and_documented() -> None:
    assert {path.name for path in KINDS.iterdir()} == set(CASES)
    guide = (ROOT / "docs/guides/kinds-of-work.md").read_text()
    for name in CASES:
        assert (KINDS / name / "README.md").read_text().startswith("# ")
        assert f"../../examples/kinds/{name}/README.md" in guide


@of("ingest")
def test_what_comes_in_is_public_but_for_what_cannot_be_true(kind: Kind) -> None:
    assert kind.kfm("run") == 0
    first = kind.text("gauges*")
    assert first.startswith("gauge,rain_mm\nbarber,12.1\n") and first.endswith("ness,9.9\npratt,9.5\n")
    kind.change()
    assert kind.kfm("run") == 0
    assert kind.text("gauges*") == first.replace("pratt,9.5", "pratt,11"), "and not the gauge with less than no rain"
    assert kind.kfm("run", "--exit-code") == 10


@of("stac-polling")
def test_a_new_scene_is_seen_by_looking_at_the_catalog(kind: Kind) -> None:
    assert kind.kfm("triggers", "watch", "--once") == 0
    assert kind.text("scenes*").count("scene-1,") == 1
    kind.change()
    assert kind.kfm("triggers", "watch", "--once") == 0
    assert "scene-2,2026-01-09T00:00:00Z,kite,https://example.org/scene-2.tif" in kind.text("scenes*")


@of("etl-sync")
def test_the_other_store_follows_table_by_table(kind: Kind) -> None:
    assert kind.kfm("run") == 0
    before = kind.files()
    kind.change()
    assert kind.kfm("run") == 0
    assert kind.files()["customers"] == before["customers"]
    rows = [json.loads(line) for line in kind.text("orders*").splitlines()]
    assert [(row["id"], row["cents"]) for row in rows] == [(11, 450), (12, 90)]


@of("metadata-refresh")
def test_what_is_said_of_the_data_changes_and_the_data_do_not(kind: Kind) -> None:
    assert kind.kfm("run") == 0
    before, version = kind.files(), kind.version
    kind.change()
    assert kind.kfm("run") == 0
    assert kind.version != version
    assert kind.files()["wells"] == before["wells"]
    assert "NAVD88" in kind.text("about*")


@of("remote-sensing-delta")
def test_only_the_tile_that_changed_is_new(kind: Kind) -> None:
    assert kind.kfm("run") == 0
    before = kind.files()
    assert json.loads(kind.text("n38*"))["changed"] == [{"x": 1, "delta": 0.32}]
    kind.change()
    assert kind.kfm("run") == 0
    assert kind.files()["n38"] == before["n38"]
    assert json.loads(kind.text("n39*"))["changed"] == [{"x": 0, "delta": -0.4}]


@of("correction")
def test_what_a_label_closes_is_taken_back_and_the_rest_stays(kind: Kind) -> None:
    assert kind.kfm("run") == 0
    for name in ("wells", "towns"):
        assert kind.kfm("promote", name, "--reason", "first") == 0
    assert "Ford" in kind.text("wells*")
    assert Path("public/datasets/wells/index.html").is_file()
    kind.change()
    kind.kfm("run", "towns")
    assert kind.version == ""
    public = [path for path in Path("public").rglob("*") if path.is_file()]
    assert not any(b"Ford" in path.read_bytes() for path in public)
    assert not Path("public/datasets/wells/index.html").exists()
    assert "Towns" in Path("public/index.html").read_text()
    assert "Wells" not in Path("public/index.html").read_text()


@of("derived")
def test_a_new_version_is_counted_drawn_and_found(kind: Kind, capfd: pytest.CaptureFixture[str]) -> None:
    assert kind.kfm("run") == 0
    before = kind.files()
    assert kind.kfm("search", "carr") == 0
    assert "Carr" not in capfd.readouterr().out
    kind.change()
    assert kind.kfm("run") == 0
    assert before.keys() == kind.files().keys() == {"metadata", "tiles"} and before != kind.files()
    assert json.loads(kind.text("metadata*"))["features"] == 8
    capfd.readouterr()
    assert kind.kfm("search", "carr") == 0
    found = capfd.readouterr()
    assert "1038225763" in found.out and "INFO" not in found.err


@of("story-node")
def test_a_story_is_made_again_for_the_version_that_it_cites(kind: Kind) -> None:
    assert kind.kfm("run") == 0
    before, first = kind.text("text*"), json.loads(kind.text("story*"))
    assert [each["dataset"] for each in first["citations"]] == ["gauges", "gauges"]
    assert f"kfm://dataset/gauges@{first['citations'][0]['version']}" in before
    kind.change()
    assert kind.kfm("run") == 0
    again = json.loads(kind.text("story*"))
    was, now = (each["citations"][0]["version"] for each in (first, again))
    assert was != now and kind.text("text*") == before.replace(was, now), "the text is the same but for the digest"
    assert kind.kfm("run", "--exit-code") == 10
