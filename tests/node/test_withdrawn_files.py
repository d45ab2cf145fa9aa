"""Withdrawn, superseded and expired versions leave the public folder, whichever runner delivers and over any kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm import config
from kfm.app.runs.run_control import run_operation
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_session
from tests.node.sites import contents, declared
from tests.node.test_frozen_deliveries import Weather

EMPTY: dict[str, str] = {}


@pytest.fixture(params=["python", "node"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Weather]:
    site = Weather(tmp_path / "site", {"kfm.yml": declared("rain", "snow", "other")}, lambda _n: request.param)
    site.put("other.csv", "mm\n1\n")
    yield site


def short(version: str) -> str:
    return version.removeprefix("sha256:")[:16]


def ordered(site: Weather, *words: str) -> None:
    """Committed by Python; told by the runner whose turn it is."""
    with site.blocked():
        site.kfm(*words, code=74)
    site.tell()


def test_a_withdrawal_removes_every_file_of_the_dataset_and_of_no_other(site: Weather) -> None:
    site.becomes("rain", "1")
    two = site.becomes("rain", "20")
    site.becomes("snow", "1")
    site.tell()
    snow = site.public("snow")
    assert len(site.versions("rain")) == 2 and snow
    ordered(site, "rollback", "rain", "--to", "nothing", "--reason", "asked by its custodian")
    assert set(site.public("rain")) == {"current.json"} and site.pointer("rain") == ""
    assert not list((site.folder / "public/datasets/rain/versions").iterdir()), "an empty folder is left"
    assert site.public("snow") == snow
    ordered(site, "rollback", "rain", "--to", two[:23], "--reason", "right")
    assert site.versions("rain") == {short(two)}, "only what is published again is there again"


def test_what_broke_off_while_it_was_published_goes_with_what_is_withdrawn(site: Weather) -> None:
    version = site.becomes("rain", "1")
    site.tell()
    versions = site.folder / "public/datasets/rain/versions"
    # As a process leaves it that dies while it writes the manifest, or a file of the version.
    (versions / ".publishing").write_bytes((versions / f"{short(version)}.ndjson").read_bytes())
    (versions / short(version) / ".publishing").write_bytes(b"half a file")
    ordered(site, "rollback", "rain", "--to", "nothing", "--reason", "asked by its custodian")
    assert not list(versions.rglob("*")), "something of it can still be read"


def test_a_rollback_removes_what_it_takes_back_and_keeps_what_was_superseded(site: Weather) -> None:
    one, two, three = site.becomes("rain", "1"), site.becomes("rain", "20"), site.becomes("rain", "300")
    site.tell()
    assert site.versions("rain") == {short(one), short(two), short(three)}
    ordered(site, "rollback", "rain", "--to", two[:23])
    assert site.versions("rain") == {short(one), short(two)} and site.pointer("rain") == two
    ordered(site, "rollback", "rain", "--to", three[:23], "--reason", "right")
    assert site.versions("rain") == {short(one), short(two), short(three)}, "forward again takes nothing back"


@pytest.mark.parametrize("where", ["installation", "dataset"])
def test_superseded_versions_stay_as_long_as_the_retention_says(site: Weather, where: str) -> None:
    text = (site.folder / "kfm.yml").read_text()
    if where == "installation":
        site.put("kfm.yml", "publish_retention: 1\n" + text)
    else:
        site.put(
            "kfm.yml", "publish_retention: 7\n" + text.replace("title: Rain", "title: Rain\n    publish_retention: 1")
        )
    one, two = site.becomes("rain", "1"), site.becomes("rain", "20")
    site.tell()
    assert site.versions("rain") == {short(one), short(two)}
    three = site.becomes("rain", "300")
    site.tell()
    assert site.versions("rain") == {short(two), short(three)}
    site.put("kfm.yml", "publish_retention: 0\n" + text)
    four = site.becomes("rain", "4000")
    site.tell()
    assert site.versions("rain") == {short(four)}, "also what stayed under the retention that was"


class Dies(BaseException):
    pass


def killed(site: Weather, at: int, words: Callable[[Any], object]) -> bool:
    """Commit, and die before the so-many-th removal. True if it came to that."""
    with open_session(config.load(str(site.folder / "kfm.yml"), EMPTY)) as session:
        words(session)
        left = [at]
        publisher: Any = session.publisher

        def mortal(name: str) -> Callable[..., None]:
            real = getattr(publisher, name)

            def call(*given: Any) -> None:
                if not left[0]:
                    raise Dies
                left[0] -= 1
                real(*given)

            return call

        for name in ("remove_file", "remove_rest"):
            setattr(publisher, name, mortal(name))
        try:
            settle_session(session)
        except Dies:
            return True
    return False


def test_killed_twice_between_the_commit_and_the_removal_it_is_removed_all_the_same(site: Weather) -> None:
    site.becomes("rain", "1")
    site.becomes("rain", "20")
    site.tell()
    died = 0
    for at in (0, 3):  # of six: two files and a folder of each version
        died += killed(
            site, at, lambda session: run_operation(session, "rollback", "rain", {"to": "nothing"}, reason="asked")
        )
    assert died == 2 and len(site.public("rain")) > 1, "nothing was left to remove"
    assert site.pointer("rain") == "", "the pointer leads to what is being removed"
    site.tell()
    assert set(site.public("rain")) == {"current.json"}


def test_one_who_was_slow_publishes_nothing_again_that_was_withdrawn_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Weather(tmp_path / "site", {"kfm.yml": declared("rain", "other")}, lambda _n: "python")
    site.becomes("rain", "1")
    resolved = config.load(str(site.folder / "kfm.yml"), EMPTY)
    with open_session(resolved) as slow:
        real = slow.publisher.write_file
        happened = []

        def late(path: str, *given: Any) -> None:
            if not happened and path.startswith("datasets/"):
                happened.append(path)
                site.kfm("rollback", "rain", "--to", "nothing", "--reason", "asked")
            real(path, *given)

        monkeypatch.setattr(slow.publisher, "write_file", late)
        settle_session(slow)
    assert happened and set(site.public("rain")) == {"current.json"} and site.pointer("rain") == ""


def test_what_is_withdrawn_goes_although_what_it_consisted_of_cannot_be_read(site: Weather) -> None:
    site.put("rain.csv", "mm\n" + "".join(f"{n}\n" for n in range(9)))
    site.kfm("run", "rain")
    site.kfm("promote", "rain")
    version = site.ref("published/rain")
    with open_session(config.load(str(site.folder / "kfm.yml"), EMPTY)) as session:
        with session.state.transaction() as tx:
            tx.objects([(version, b"something else")])
        run_operation(session, "rollback", "rain", {"to": "nothing"}, reason="asked")
    site.tell()
    assert set(site.public("rain")) == {"current.json"}


def test_a_withdrawal_is_delivered_although_a_later_publication_cannot_be(site: Weather) -> None:
    site.becomes("rain", "1")
    site.tell()
    with site.blocked():
        site.kfm("rollback", "rain", "--to", "nothing", "--reason", "asked", code=74)
    two = site.becomes("rain", "20")
    site.kfm("freeze", "rain", "--reason", "stop")
    site.tell()
    assert set(site.public("rain")) == {"current.json"} and site.pointer("rain") == ""
    site.kfm("thaw", "rain")
    site.tell()
    assert site.versions("rain") == {short(two)} and site.pointer("rain") == two


def test_a_finished_delivery_leaves_no_rows_behind(site: Weather) -> None:
    for n in range(1, 5):
        site.becomes("rain", "1" * n)
        site.tell()
    kept = site.seen[-1].rows["outbox"]
    # Records of runs that every sink has followed, or that the last of them has not followed yet, are no deliveries.
    rows = {key: value for key, value in kept.items() if not key.startswith(("complete/", "pending/"))}
    assert {key: json.loads(value) for key, value in rows.items()} == {"told/publish/rain": {"keep": -1, "moves": 4}}
    assert contents(site.folder / "public")
