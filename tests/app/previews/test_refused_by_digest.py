"""Every change since a preview was approved is found and reported with both digests, and nothing is promoted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.previews.branches import Site, git, wells

pytestmark = pytest.mark.xdist_group("approved branch")  # what they share is made once


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, str]:
    """A branch that was previewed and approved, and is not merged yet."""
    site = Site(tmp_path_factory.mktemp("approved"))
    site.published()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3) + "east,301\n" * 9000)  # more than is kept as a row of the state
    site.commit("deeper wells")
    return site, site.previewed("deeper")


@pytest.fixture
def site(approved: tuple[Site, str], tmp_path: Path) -> Site:
    return approved[0].copy(tmp_path)


@pytest.fixture
def digest(approved: tuple[Site, str]) -> str:
    return approved[1]


def refused(site: Site, digest: str, code: int, branch: str = "deeper") -> dict[str, dict[str, Any]]:
    """What stands against it, by rule; and that nothing moved."""
    before = site.refs()
    said = site.kfm("preview", "publish", branch, "--approved", digest, "--json")
    assert said.code == code, said
    assert said.data["receipts"] == []
    assert said.data["refused"]
    assert site.refs() == before
    return {each["rule"]: each for each in said.data["refused"]}


def promoted(site: Site, digest: str) -> dict[str, str]:
    said = site.kfm("preview", "publish", "deeper", "--approved", digest, "--json")
    assert said.code == 0, said
    return site.refs()


def test_what_was_not_merged_is_not_promoted(site: Site, digest: str) -> None:
    commit = git(site.desk, "rev-parse", "deeper").strip()
    against = refused(site, digest, 4)
    assert against["merge.missing"]["approved"] == commit


def test_main_that_moved_elsewhere_stands_against_nothing(site: Site, digest: str) -> None:
    version = site.refs()["preview/deeper/processed/wells"]
    site.on("main")
    site.replace("data/gauges.csv", "1,10", "1,11")
    site.commit("gauges, meanwhile")
    site.merge("deeper")
    assert promoted(site, digest)["published/wells"] == version


def test_a_declaration_that_the_merge_makes_another_is_refused(site: Site, digest: str) -> None:
    site.on("main")
    site.replace("kfm.yml", "title: Wells", "title: Wells of Kansas")
    site.commit("another title, meanwhile")
    site.merge("deeper")
    against = refused(site, digest, 6)
    assert against["declaration.changed"]["approved"] != against["declaration.changed"]["found"]
    assert site.previewed("deeper", "--dataset", "wells") == digest  # the branch itself has not changed
    merged = site.previewed("main", "--dataset", "wells")
    assert site.kfm("preview", "publish", "main", "--approved", merged).code == 0


def test_code_that_the_merge_makes_another_is_refused(site: Site, digest: str) -> None:
    site.on("main")
    site.replace("wells.py", '("east", "west")', '("west", "east")')
    site.commit("other code, meanwhile")
    site.merge("deeper")
    assert "code.changed" in refused(site, digest, 6)


def test_a_run_that_came_in_between_is_refused(site: Site, digest: str) -> None:
    site.on("main")
    site.write("data/wells.csv", wells(2))
    site.commit("the nightly run finds more")
    site.pull()
    assert site.kfm("run", "wells").code == 0
    site.merge("deeper", "--no-ff", "-X", "theirs")
    against = refused(site, digest, 6)
    assert against["base.moved"]["found"] == site.refs()["processed/wells"]


def test_a_promotion_that_came_in_between_is_refused(site: Site, digest: str) -> None:
    assert site.kfm("rollback", "wells", "--to", "nothing", "--reason", "wrong").code == 0
    site.merge("deeper")
    against = refused(site, digest, 6)
    assert against["published.moved"]["found"] == ""


def test_a_version_that_a_person_withdrew_comes_back_by_no_merge(site: Site, digest: str) -> None:
    site.on("main")
    site.write("data/wells.csv", wells(3) + "east,301\n" * 9000)
    site.commit("the same wells")
    site.pull()
    assert site.kfm("run", "wells").code == 0 and site.kfm("publish", "wells", "--reason", "new").code == 0
    made = site.refs()["published/wells"]
    assert site.kfm("rollback", "wells", "--reason", "wrong units").code == 0
    site.merge("deeper", "--no-ff", "-X", "theirs")
    against = refused(site, digest, 6)
    assert set(against) == {"version.withdrawn"} and against["version.withdrawn"]["approved"] == made
    assert "wrong units" in against["version.withdrawn"]["message"]


def test_a_source_that_changed_after_the_approval_is_refused(site: Site, digest: str) -> None:
    site.on("deeper")
    site.merge("deeper")
    site.on("main")
    site.write("data/wells.csv", wells(4))
    site.commit("a source changed, on main")
    site.pull()
    against = refused(site, digest, 6)
    assert set(against) == {"source.changed"}
    assert against["source.changed"]["approved"].startswith("sha256:")
    assert against["source.changed"]["approved"] != against["source.changed"]["found"]


def test_a_source_that_is_gone_after_the_approval_is_refused(site: Site, digest: str) -> None:
    site.merge("deeper")
    (site.folder / "data/wells.csv").unlink()
    against = refused(site, digest, 6)
    assert set(against) == {"source.changed"} and against["source.changed"]["found"] == ""


def test_bytes_that_changed_since_they_were_made_are_refused(site: Site, digest: str) -> None:
    site.merge("deeper")
    version = site.refs()["preview/deeper/processed/wells"]
    entries = [json.loads(line) for line in site.kfm("cat", "preview/deeper/processed/wells").out.splitlines()]
    large = max(entries, key=lambda entry: int(entry["size"]))["digest"].removeprefix("sha256:")
    found = [path for path in (site.folder / ".kfm/objects").rglob("*") if path.is_file() and large[4:] in path.name]
    assert found, "the entry is a file of its own"
    found[0].chmod(0o600)
    body = found[0].read_bytes()
    found[0].write_bytes(body[:-3] + b"9" + body[-2:])
    against = refused(site, digest, 6)
    assert against["artifact.changed"]["approved"] == version


def test_an_approval_of_what_was_built_before_is_stale(site: Site, digest: str) -> None:
    site.on("deeper")
    site.write("data/wells.csv", wells(5))
    site.commit("and deeper")
    anew = site.previewed("deeper")
    site.merge("deeper")
    against = refused(site, digest, 4)
    assert (against["approval.stale"]["approved"], against["approval.stale"]["found"]) == (digest, anew)
    promoted(site, anew)


def test_commits_after_the_preview_are_refused_by_what_they_make(site: Site, digest: str) -> None:
    site.on("deeper")
    site.write("data/wells.csv", wells(6))
    site.commit("pushed after the approval")
    site.merge("deeper")
    assert "source.changed" in refused(site, digest, 6)


def test_the_same_again_is_the_same_digest_and_stays_approved(site: Site, digest: str) -> None:
    assert site.previewed("deeper") == digest
    site.merge("deeper")
    version = site.refs()["preview/deeper/processed/wells"]
    after = promoted(site, digest)
    assert after["published/wells"] == after["processed/wells"] == version
    again = site.kfm("preview", "publish", "deeper", "--approved", digest)
    assert again.code == 3
    assert "no preview" in again.err


def test_a_squashed_branch_is_promoted_by_what_it_makes_only_if_github_says_it_was_merged(
    site: Site, digest: str
) -> None:
    git(site.desk, "switch", "-q", "main")
    git(site.desk, "merge", "-q", "--squash", "deeper")
    site.commit("deeper, squashed")
    site.pull()
    assert "merge.missing" in refused(site, digest, 4)


def test_a_frozen_dataset_is_not_promoted(site: Site, digest: str) -> None:
    site.merge("deeper")
    assert site.kfm("freeze", "wells", "--reason", "look first").code == 0
    before = site.refs()
    assert site.kfm("preview", "publish", "deeper", "--approved", digest).code == 5
    assert site.refs() == before
    assert site.kfm("preview", "build", "deeper", "--dataset", "wells").code == 5
    assert site.kfm("triggers", "list", "--json").data[0]["kind"] == "operation"
    assert len(site.kfm("triggers", "list", "--json").data) == 1
