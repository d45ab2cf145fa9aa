"""The public folder is compared with the refs and made what they say, whatever was done to it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.node.sites import Site, contents, declared


class Weather(Site):
    def becomes(self, mm: str, name: str = "rain") -> str:
        self.put(f"{name}.csv", f"mm\n{mm}\n")
        self.kfm("run", name)
        self.kfm("promote", name)
        return self.ref(f"published/{name}")

    def public(self) -> dict[str, bytes]:
        return contents(self.folder / "public")

    def checked(self, code: int = 3) -> list[tuple[str, str]]:
        found: list[dict[str, Any]] = self.kfm("reconcile", "--public", "--json", code=code).data["drift"]
        return [(each["what"], each["about"]) for each in found]


@pytest.fixture
def site(tmp_path: Path) -> Weather:
    return Weather(tmp_path / "site", {"kfm.yml": declared("rain", "snow")}, lambda _n: "python")


def test_what_is_missing_altered_or_foreign_is_named_and_put_right(site: Weather) -> None:
    site.becomes("1")
    version = site.becomes("20")
    whole = site.public()
    assert site.checked(0) == []
    folder = f"datasets/rain/versions/{version[7:23]}"
    public = site.folder / "public"
    (public / folder / "all.csv").write_text("mm\n99\n")
    (public / f"{folder}.ndjson").unlink()
    (public / "datasets/rain/current.json").write_text("{}")
    for name in (f"{folder}/more.csv", "datasets/rain/versions/0123456789abcdef/all.csv", "datasets/gone/current.json"):
        (public / name).parent.mkdir(parents=True, exist_ok=True)
        (public / name).write_text("who knows")
    site.put("public/README", "mine")
    expected = [
        ("foreign", "datasets/gone/current.json"),
        ("altered", "datasets/rain/current.json"),
        ("foreign", "datasets/rain/versions/0123456789abcdef/all.csv"),
        ("missing", f"{folder}.ndjson"),
        ("altered", f"{folder}/all.csv"),
        ("foreign", f"{folder}/more.csv"),
    ]
    assert sorted(site.checked()) == sorted(expected)
    answer = site.kfm("doctor", "--deep", code=3)
    assert "public.rain" in answer.out and "2 altered, 2 foreign, 1 missing" in answer.out
    site.kfm("reconcile", "--public", "--repair")
    assert site.public() == {**whole, "README": b"mine"} and site.checked(0) == []
    assert "all is well" in site.kfm("doctor", "--deep").err


def test_a_public_folder_that_is_gone_is_made_again(site: Weather) -> None:
    site.becomes("1")
    site.becomes("1", "snow")
    whole = site.public()
    shutil.rmtree(site.folder / "public")
    assert {kind for kind, _ in site.checked()} == {"missing"}
    site.kfm("reconcile", "rain", "--repair")
    assert site.public() == {name: body for name, body in whole.items() if "/rain/" in name}
    site.kfm("reconcile", "--public", "--repair")
    assert site.public() == whole


def test_what_was_withdrawn_and_lies_there_again_is_removed(site: Weather) -> None:
    site.becomes("1")
    shutil.copytree(site.folder / "public/datasets/rain/versions", site.folder / "copy")
    site.kfm("rollback", "rain", "--to", "nothing")
    shutil.copytree(site.folder / "copy", site.folder / "public/datasets/rain/versions", dirs_exist_ok=True)
    assert {kind for kind, _ in site.checked()} == {"foreign"}
    site.kfm("freeze")
    site.kfm("reconcile", "--public", "--repair")  # it only takes away
    assert set(site.public()) == {"datasets/rain/current.json"}


def test_a_freeze_stops_what_adds_and_not_what_takes_away(site: Weather) -> None:
    version = site.becomes("1")
    folder = site.folder / "public/datasets/rain/versions" / version[7:23]
    (folder / "all.csv").unlink()
    (folder / "more.csv").write_text("who knows")
    site.kfm("freeze", "rain")
    answer = site.kfm("reconcile", "--public", "--repair", code=5)
    assert "rain is frozen" in answer.err and not list(folder.iterdir())
    site.kfm("thaw", "rain")
    site.kfm("reconcile", "--public", "--repair")
    assert [path.name for path in folder.iterdir()] == ["all.csv"]


@pytest.mark.parametrize("how", ["promote", "repair"])
def test_after_an_older_state_was_put_back_the_folder_becomes_what_it_says(site: Weather, how: str) -> None:
    one = site.becomes("1")
    before = site.public()
    shutil.copytree(site.folder / ".kfm", site.folder / "backup")
    site.becomes("20")
    site.becomes("300")
    site.becomes("1", "snow")
    shutil.rmtree(site.folder / ".kfm")
    (site.folder / "backup").rename(site.folder / ".kfm")
    if how == "promote":
        assert "it is there already" in site.kfm("promote", "rain").err
        pointer = json.loads(site.public()["datasets/rain/current.json"])
        assert pointer["version"] == one
    else:
        site.kfm("reconcile", "--public", "--repair")
        assert site.public() == before


def test_what_cannot_be_made_again_is_said_and_holds_up_no_other(site: Weather) -> None:
    site.put("rain.csv", "mm\n" + "".join(f"{n}.25\n" for n in range(30_000)))
    site.kfm("run", "rain")
    site.kfm("promote", "rain")
    site.becomes("1", "snow")
    whole = site.public()
    shutil.rmtree(site.folder / "public")
    for path in (site.folder / ".kfm/objects/sha256").rglob("*"):
        if path.is_file():
            path.unlink()
    assert "is missing" in site.kfm("reconcile", "--public", "--repair", code=65).err
    assert {n: b for n, b in site.public().items() if "/snow/" in n} == {
        n: b for n, b in whole.items() if "/snow/" in n
    }
