"""From a branch to the public version: preview, report, red gates, green gates, merge, promotion by digest."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.app.previews.branches import Site, git, wells
from tests.crypto.world import seed


def test_a_branch_is_previewed_reported_mended_merged_and_promoted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.published()
    before = site.refs()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.replace("kfm.yml", "    title: Wells\n    license: CC-PDM-1.0\n", "    title: Wells\n")
    site.commit("deeper wells, and no licence")

    red = site.kfm("preview", "build", "deeper", "--json")
    assert red.code == 0, red
    assert list(red.data["datasets"]) == ["wells"]
    version = red.data["datasets"]["wells"]
    there = site.refs()
    assert there["preview/deeper/processed/wells"] == version
    assert there["preview/deeper/record"] == red.data["preview"]
    assert {ref: at for ref, at in there.items() if not ref.startswith("preview/")} == before

    said = site.kfm("preview", "report", "deeper", "--out", "out")
    assert said.code == 4
    text = (site.folder / "out/report.md").read_text()
    assert "a gate says no" in text
    assert "licen" in text
    assert not re.search(r"\b300\b", text)  # values wait for green gates; a digest may hold these figures
    tree = ET.parse(site.folder / "out/junit.xml").getroot()
    assert int(tree.attrib["failures"]) > 0
    assert site.kfm("preview", "publish", "deeper", "--approved", red.data["preview"]).code == 4  # not merged

    site.replace("kfm.yml", "    title: Wells\n", "    title: Wells\n    license: CC0-1.0\n")
    site.commit("with a licence")
    stale = site.kfm("preview", "report", "deeper")
    assert stale.code == 6
    green = site.kfm("preview", "build", "deeper", "--json")
    digest = green.data["preview"]
    assert digest != red.data["preview"]
    again = site.kfm("preview", "build", "deeper")  # there is nothing to do, and what is shown is of the branch
    assert "noop" in again.out and green.data["datasets"]["wells"][:19] in again.out, again
    assert before["processed/wells"][:19] not in again.out
    said = site.kfm("preview", "report", "deeper", "--out", "out")
    assert said.code == 0, said
    text = (site.folder / "out/report.md").read_text()
    assert "every gate says yes" in text
    assert "-east,100" in text
    assert "+east,300" in text
    assert "license: CC-PDM-1.0 → CC0-1.0" in text
    assert '"Polygon"' in text
    assert f"kfm preview publish deeper --approved {digest}" in text
    assert "kfm rollback wells" in text
    assert int(ET.parse(site.folder / "out/junit.xml").getroot().attrib["failures"]) == 0
    assert (site.folder / "out/extent-wells.svg").read_text().startswith("<svg")

    site.merge("deeper")
    assert site.kfm("preview", "publish", "deeper", "--approved", digest, "--dry-run").code == 0
    assert "preview/deeper/record" in site.refs()
    done = site.kfm("preview", "publish", "deeper", "--approved", digest, "--json")
    assert done.code == 0, done
    after = site.refs()
    assert after["published/wells"] == after["processed/wells"] == green.data["datasets"]["wells"]
    assert after["published/gauges"] == before["published/gauges"]
    assert not [ref for ref, at in after.items() if ref.startswith("preview/") and at]
    pointer = (site.folder / "public/datasets/wells/current.json").read_text()
    assert green.data["datasets"]["wells"] in pointer
    again = site.kfm("run", "wells", "--json")
    assert again.code == 0
    assert site.refs()["processed/wells"] == after["processed/wells"]
    assert site.kfm("doctor", "--deep").code == 0


def test_kfm_up_removes_a_preview_that_was_not_built_again_for_two_weeks(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.published()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.commit("deeper wells")
    site.previewed("deeper")
    git(site.desk, "push", "-q", "origin", "--delete", "deeper")
    git(site.folder, "fetch", "-q", "--prune")
    for days, there in ((13, True), (15, False)):
        env = {"KFM_NOW": f"2026-03-{4 + days:02d}T05:06:07Z", "KFM_WATCH__POLL_S": "0"}
        said = site.kfm("up", "--once", env=env)
        assert said.code == 0, said
        assert bool(site.refs("preview/")) is there, "one whose branch is not here may be of somebody else"
    assert site.refs()["published/wells"]
    assert "sweep" in site.kfm("runs", "list").out


def test_a_merged_version_without_attestation_is_not_promoted_where_a_key_is_set(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.published()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.commit("deeper wells")
    digest = site.previewed("deeper")  # before there is a key: nothing is signed
    before = site.refs("published/")
    site.merge("deeper")
    keyed = {"KFM_ATTEST__SIGN_WITH": "env:KFM_SECRET_ATTEST", "KFM_SECRET_ATTEST": seed("prover").hex()}
    denied = site.kfm("preview", "publish", "deeper", "--approved", digest, env=keyed)
    assert denied.code == 4 and "has none about this version" in denied.err, denied
    version = site.refs("preview/")["preview/deeper/processed/wells"]
    assert f"kfm attest wells --version {version}" in denied.err
    assert site.refs("published/") == before
    assert site.kfm("attest", "wells", "--version", version, env=keyed).code == 0
    assert site.kfm("preview", "publish", "deeper", "--approved", digest, env=keyed).code == 0
    assert site.refs("published/")["published/wells"] == version


def test_a_preview_that_was_built_with_a_key_is_attested_and_promoted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    keyed = {"KFM_ATTEST__SIGN_WITH": "env:KFM_SECRET_ATTEST", "KFM_SECRET_ATTEST": seed("prover").hex()}
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.commit("deeper wells")
    built = site.kfm("preview", "build", "deeper", "--dataset", "wells", "--json", env=keyed)
    assert built.code == 0, built
    site.merge("deeper")
    done = site.kfm("preview", "publish", "deeper", "--approved", built.data["preview"], env=keyed)
    assert done.code == 0, done
