"""The modules that a run of Node loads are counted, so that a NOOP stays small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.installations import Server, serving
from tests.node.sites import Site
from tests.node.test_twins import WEEK, files_of
from tests.node.twin import ROOT

# One more is no accident but a decision: each costs every run of everybody about a millisecond.
MOST_FOR_FILES = 74
MOST_FOR_URLS = 77
WORK = {"node/engine/work_stages.mjs", "node/engine/source_check.mjs", "node/updaters/transforms/step_runner.mjs"}
NEEDLESS = ("node/engine/inspect", "node/publish/github", "node/sources/decoding", "node/webhook", "node/store/jsonl")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"week.geojson": WEEK}) as server:
        yield server


def loaded(site: Site, folder: Path, *words: str) -> tuple[str, set[str]]:
    """What a run says, and the modules of ours in it: Node itself writes down what of them was executed."""
    answer = site.node("run", *words, env={"NODE_V8_COVERAGE": str(folder)})
    assert answer.code == 0, answer
    (report,) = folder.iterdir()
    scripts = [script["url"] for script in json.loads(report.read_bytes())["result"]]
    ours = [url.removeprefix(f"{ROOT.as_uri()}/") for url in scripts if url.startswith(ROOT.as_uri())]
    return answer.out, {name for name in ours if "node_modules" not in name}


@pytest.mark.parametrize(
    ("dataset", "reader", "most"),
    [("gauges", "node/sources/local_files.mjs", MOST_FOR_FILES), ("quakes", "node/sources/http.mjs", MOST_FOR_URLS)],
)
def test_a_run_that_finds_nothing_new_loads_few_modules(
    tmp_path: Path, server: Server, dataset: str, reader: str, most: int
) -> None:
    site = Site(tmp_path / "site", files_of("sqlite", server.port), lambda _n: "node")
    said, working = loaded(site, tmp_path / "first", dataset)
    assert "done" in said and working >= WORK | {reader}
    said, idle = loaded(site, tmp_path / "second", dataset)
    assert "noop" in said and reader in idle
    assert not idle & WORK
    assert not [name for name in idle if name.startswith(NEEDLESS)]
    assert len(idle) <= most, sorted(idle)
    assert len(working) > most + 20, "the bound is of no use where it does not tell work from a NOOP"
