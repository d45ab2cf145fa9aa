"""Both runners write the same tree of parts, whichever wrote the version before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.sites import Site, contents, rows_of
from tests.sampling import stride

CONFIG = """\
kfm: 1
accept_weak_storage: true
state: STATE
datasets:
  gauges:
    version: "1.0.0"
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    sources:
      gauges:
        {uri: gauges.csv, format: csv, contract: {partition_by: county, shrink_limit: 1, columns: [{name: county}]}}
    outputs:
      rain: {from: gauges, partition_by: county}
"""


def gauges(counties: range, rain: int) -> str:
    return "county,rain\n" + "".join(f"county-{n:04d},{rain + n % 3}\n" for n in counties)


EDITIONS = (gauges(range(700), 1), gauges(range(300, 310), 5), gauges(range(690, 720), 7), gauges(range(0, 720, 7), 1))


@pytest.mark.parametrize("state", ["sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl"])
def test_a_tree_is_the_same_in_both_languages_whichever_wrote_before(tmp_path: Path, state: str) -> None:
    found = []
    turns = [("python",) * 4, ("node",) * 4, ("python", "node", "python", "node")]
    for n, runners in enumerate(turns[:: stride(2)]):
        site = Site(tmp_path / str(n), {"kfm.yml": CONFIG.replace("STATE", state)}, lambda _n: "python")
        for runner, edition in zip(runners, EDITIONS, strict=True):
            site.put("gauges.csv", edition)
            answer = site.node("run") if runner == "node" else site.python("run")
            assert answer.code == 0, answer
        assert site.kfm("promote", "gauges", "--reason", "all of it").code == 0
        rows = rows_of(site.folder)
        found.append(
            (
                rows["objects"],
                rows["history"].keys(),
                rows["refs"],
                contents(site.folder / "public/datasets/gauges/versions"),
            )
        )
        trees = [body for body in rows["objects"].values() if body.startswith(b'{"depth":')]
        assert len(trees) == 4, "a root for every version"
    assert all(one[0] == found[0][0] for one in found)
    assert all(one == found[0] for one in found)
