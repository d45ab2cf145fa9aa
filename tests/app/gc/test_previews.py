"""`kfm gc` removes previews that were not built again for as long as `retention.previews` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.previews.branches import Site, wells


@pytest.mark.long
def test_a_preview_goes_after_its_time_and_the_published_version_stays(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.published()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.commit("deeper wells")
    site.previewed("deeper")
    path = site.folder / "kfm.yml"
    path.write_text("retention: {previews: 30d}\n" + path.read_text())
    for day, there in (("2026-03-30", True), ("2026-04-20", False)):
        said = site.kfm("gc", "--json", env={"KFM_NOW": f"{day}T05:06:07Z"})
        assert said.code == 0, said
        counts = {each["kind"]: each["count"] for each in said.data["kinds"]}
        assert counts["previews"] == (not there) and bool(site.refs("preview/")) is there
    assert site.refs()["published/wells"] and site.kfm("doctor", "--deep").code == 0
