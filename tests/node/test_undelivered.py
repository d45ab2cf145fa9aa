"""A commit that could not be delivered is reported, delays nothing else, and is delivered later."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kfm import config
from kfm.app.session.session import open_session
from tests.engine.installations import NOW
from tests.node.sites import Site, declared

CONFIG = declared("rain", "snow")
TOLD = "committed, but not delivered yet, do not repeat it: "
ONLY_RECORDS = "every change is delivered, only records of runs are not yet: "


class Weather(Site):
    def becomes(self, name: str, values: int) -> None:
        """A new version, so large that it lies in a file of its own."""
        self.put(f"{name}.csv", "mm\n" + "".join(f"{n}.25\n" for n in range(values)))
        self.kfm("run", name)

    def pointer(self, name: str) -> str:
        return str(json.loads((self.folder / f"public/datasets/{name}/current.json").read_bytes())["version"])

    def resumed(self, code: int = 0) -> None:
        """By the runner whose turn it is."""
        if self._runner(0) == "node":
            self.run("run", "rain", code=None)
        else:
            self.kfm("resume", code=code)

    def promoted_and_flipped(self, name: str) -> None:
        """Whole when the gate read it, and damaged before anyone could be told."""
        public, aside = self.folder / "public", self.folder / "aside"
        if public.exists():
            public.rename(aside)
        public.write_text("in the way")
        self.kfm("promote", name, code=74)
        self.flip(name)
        public.unlink()
        if aside.exists():
            aside.rename(public)

    def flip(self, name: str) -> Path:
        """One bit of the object that only this version needs; returns where it lies."""
        with open_session(config.load(str(self.folder / "kfm.yml"), {}), mode="read") as session:
            manifest = session.objects.read(session.state.refs.at(f"processed/{name}"))
        digest = json.loads(manifest.splitlines()[0])["digest"].removeprefix("sha256:")
        (path,) = (self.folder / ".kfm/objects").rglob(digest[2:])
        body = bytearray(path.read_bytes())
        body[100] ^= 1
        path.chmod(0o600)
        path.write_bytes(body)
        return path


@pytest.fixture
def site(tmp_path: Path) -> Weather:
    return Weather(tmp_path / "site", {"kfm.yml": CONFIG}, lambda _n: "python")


@pytest.fixture(params=["python", "node"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Weather]:
    yield Weather(tmp_path / "site", {"kfm.yml": CONFIG}, lambda _n: request.param)


@pytest.fixture
def blocked(site: Weather) -> Path:
    """Where the public folder should be there is a file."""
    site.put("public", "in the way")
    return site.folder / "public"


def test_an_operation_that_cannot_be_delivered_is_shown_as_done(site: Weather, blocked: Path) -> None:
    site.becomes("rain", 3)
    answer = site.kfm("promote", "rain", code=74)
    assert f"\nkfm: {TOLD}cannot publish a file: " in answer.err
    assert "rain     SUCCESS  done" in answer.out
    assert "published/rain: nothing → sha256:" in answer.err
    told = site.kfm("resume", "--json", code=74).data
    assert [error["code"] for error in told["errors"]] == ["storage.failed"]
    site.kfm("freeze", "rain")  # from here on nothing is tried
    assert "publish.waiting" in site.kfm("doctor").out
    blocked.unlink()
    site.kfm("thaw", "rain")
    assert site.pointer("rain") == site.ref("published/rain") != ""


def test_a_run_that_cannot_be_delivered_is_shown_as_done(either: Weather) -> None:
    """The receipts cannot be exported."""
    site = either
    site.put("rain.csv", "mm\n1\n")
    site.put(".kfm/receipts", "in the way")
    answer = site.run("run", "rain", code=74).answer
    assert answer.err.startswith(f"kfm: {TOLD}cannot publish a file: ")
    assert "rain     SUCCESS  done" in answer.out
    told = site.run("run", "rain", "--json", code=74).answer.data
    assert [receipt["outcome"] for receipt in told["receipts"]] == ["noop"]
    (site.folder / ".kfm/receipts").unlink()
    site.resumed()
    by_a_run = site._runner(0) == "node"  # which leaves a receipt of its own
    assert len(list((site.folder / ".kfm/receipts").rglob("*.json"))) == 2 + by_a_run


def test_a_failed_delivery_outranks_the_result_of_the_run(either: Weather) -> None:
    site = either
    site.put("rain.csv", "mm\nnot a number\n")
    site.put(".kfm/receipts", "in the way")
    answer = site.run("run", "rain", code=74).answer
    assert "rain     FAILED  held" in answer.out
    assert TOLD not in answer.err and f"kfm: {ONLY_RECORDS}cannot publish a file: " in answer.err


def test_what_is_damaged_for_one_dataset_fails_no_command_about_another(either: Weather) -> None:
    site = either
    site.becomes("rain", 30_000)
    site.becomes("snow", 3)
    site.promoted_and_flipped("rain")
    answer = site.kfm("promote", "snow")
    assert f"kfm: rain: {TOLD}" in answer.err and site.pointer("snow") == site.ref("published/snow")
    site.put("snow.csv", "mm\n12345\n2\n3\n")
    assert f"kfm: rain: {TOLD}" in site.run("run", "snow").answer.err
    waiting = next(line for line in site.kfm("doctor").out.splitlines() if line.startswith("publish.waiting"))
    assert " rain " in waiting
    site.kfm("resume", code=65)


def test_what_is_damaged_and_no_longer_published_is_given_up(either: Weather) -> None:
    site = either
    site.becomes("rain", 3)
    site.kfm("promote", "rain")
    whole = site.ref("published/rain")
    site.becomes("rain", 30_000)
    site.promoted_and_flipped("rain")
    site.kfm("resume", code=65)
    assert site.pointer("rain") == whole
    if site._runner(0) == "node":  # committed by the one, told by the other
        public = site.folder / "public"
        public.rename(site.folder / "elsewhere")
        public.write_text("in the way")
        site.kfm("rollback", "rain", code=74)
        public.unlink()
        (site.folder / "elsewhere").rename(public)
        site.resumed()
    else:
        site.kfm("rollback", "rain")
    assert site.pointer("rain") == site.ref("published/rain") == whole
    site.kfm("resume")
    assert site.pointer("rain") == whole


def test_after_a_restored_older_state_the_public_folder_follows_it(either: Weather) -> None:
    site = either
    site.becomes("rain", 3)
    site.kfm("promote", "rain")
    shutil.copytree(site.folder / ".kfm", site.folder / "backup")
    for size in (4, 5):
        site.becomes("rain", size)
        site.kfm("promote", "rain")
    ahead = site.pointer("rain")
    for name in ("state.db", "state.db.ack"):
        shutil.copy(site.folder / "backup" / name, site.folder / ".kfm" / name)
    for late in (site.folder / ".kfm").glob("state.db-*"):
        late.unlink()
    later = {"KFM_NOW": NOW.replace(":08Z", ":59Z")}
    assert later["KFM_NOW"] != NOW
    receipts = site.folder / ".kfm/receipts"
    exported = len(list(receipts.rglob("*.json")))
    site.put("rain.csv", "mm\n0.25\n1.25\n2.25\n3.25\n")
    site.run("run", "rain", env=later)
    assert len(list(receipts.rglob("*.set-aside-*"))) == 1
    assert len(list(receipts.rglob("*.json"))) == exported
    site.kfm("rollback", "rain", "--to", "nothing", "--reason", "the custodian asked for it")
    assert ahead and site.pointer("rain") == site.ref("published/rain") == ""
    assert "4 foreign" in site.kfm("doctor", "--deep", code=3).out  # what was published by the state that is gone
    site.kfm("reconcile", "--public", "--repair")
    site.kfm("doctor", "--deep")


def test_an_object_that_is_gone_is_no_matter_of_the_configuration(site: Weather) -> None:
    site.becomes("rain", 30_000)
    site.flip("rain").unlink()
    answer = site.kfm("promote", "rain", code=4)
    assert "is missing; restore it from a backup, or make it again: `kfm run rain --force" in answer.err
