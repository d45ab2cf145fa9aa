"""While a freeze flag is set, neither runner delivers additions or changes; both deliver withdrawals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm import config
from kfm.app.session.session import open_session
from tests.node.sites import Site, contents, declared


class Weather(Site):
    def becomes(self, name: str, mm: str) -> str:
        """A new version of the dataset, promoted while nobody can be told."""
        self.put(f"{name}.csv", f"mm\n{mm}\n")
        self.kfm("run", name)
        with self.blocked():
            self.kfm("promote", name, code=74)
        return self.ref(f"published/{name}")

    def blocked(self) -> Blocked:
        return Blocked(self.folder / "public")

    def tell(self, code: int = 0) -> None:
        """By the runner whose turn it is: any command that settles."""
        self.run("run", "other", code=code)

    def public(self, name: str) -> dict[str, bytes]:
        return contents(self.folder / "public/datasets" / name)

    def versions(self, name: str) -> set[str]:
        """The folders of versions in which there is a file, and the manifests next to them."""
        return {path.split("/")[1].removesuffix(".ndjson") for path in self.public(name) if "/" in path}

    def pointer(self, name: str) -> str:
        return str(json.loads(self.public(name)["current.json"])["version"])

    def events(self) -> list[str]:
        return sorted(
            f"{event['type'].split('.')[3]} {event['version']}".strip()
            for event in map(json.loads, contents(self.folder / ".kfm/events").values())
        )


class Blocked:
    """Meanwhile there is a file where the public folder should be."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.aside = place.with_name("aside")

    def __enter__(self) -> None:
        if self.place.exists():
            self.place.rename(self.aside)
        self.place.write_text("in the way")

    def __exit__(self, *_: object) -> None:
        self.place.unlink()
        if self.aside.exists():
            self.aside.rename(self.place)


@pytest.fixture(params=["python", "node"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Weather]:
    site = Weather(tmp_path / "site", {"kfm.yml": declared("rain", "snow", "other")}, lambda _n: request.param)
    site.put("other.csv", "mm\n1\n")
    yield site


@pytest.mark.parametrize("scope", ["global", "rain"])
def test_what_was_committed_before_a_freeze_waits_for_the_thaw(site: Weather, scope: str) -> None:
    one = site.becomes("rain", "1")
    site.kfm("freeze", scope, "--reason", "stop")
    site.tell(5 if scope == "global" else 0)
    site.kfm("resume", code=None)
    assert site.public("rain") == {} and site.events() == []
    site.kfm("thaw", scope, "--reason", "go on")
    site.tell()
    assert site.pointer("rain") == one and site.events() == [f"published {one}"]


def test_a_freeze_of_one_dataset_holds_up_no_other(site: Weather) -> None:
    site.becomes("rain", "1")
    site.kfm("freeze", "rain", "--reason", "stop")
    two = site.becomes("snow", "2")
    site.tell()
    assert site.public("rain") == {} and site.pointer("snow") == two


def test_no_freeze_stops_a_withdrawal(site: Weather) -> None:
    one = site.becomes("rain", "1")
    site.tell()
    assert site.versions("rain")
    for scope in ("global", "rain"):
        site.kfm("freeze", scope, "--reason", "stop")
    with site.blocked():
        site.kfm("rollback", "rain", "--to", "nothing", "--reason", "asked by its custodian", code=74)
    assert site.ref("published/rain") == ""
    site.tell(5)
    assert site.pointer("rain") == "" and "withdrawn" in site.events()
    site.kfm("rollback", "rain", "--to", "sha256:1111", code=3)
    site.kfm("promote", "rain", "--to", one, "--reason", "it may be shown after all", code=5)
    assert site.ref("published/rain") == ""


def test_a_version_withdrawn_while_it_waited_is_never_delivered(site: Weather) -> None:
    site.becomes("rain", "1")
    site.kfm("freeze", "--reason", "stop")
    site.kfm("rollback", "rain", "--to", "nothing", "--reason", "asked by its custodian")
    site.kfm("thaw", "--reason", "go on")
    site.tell()
    assert site.pointer("rain") == "" and site.versions("rain") == set()
    assert site.events() == ["withdrawn"]


def test_receipts_are_exported_while_all_is_frozen(site: Weather) -> None:
    site.becomes("rain", "1")
    site.kfm("freeze", "--reason", "stop")
    site.tell(5)
    with open_session(config.load(str(site.folder / "kfm.yml"), {}), mode="read") as session:
        entries = list(session.state.ledger.entries())
    assert {path.stem for path in (site.folder / ".kfm/receipts").rglob("*.json")} == {e.run_id for e in entries}
