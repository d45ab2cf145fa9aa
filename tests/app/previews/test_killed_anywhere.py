"""A preview or promotion killed before or after any transaction continues to the same refs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.previews.branches import NOW, Site, wells
from tests.sampling import sampled

pytestmark = pytest.mark.xdist_group("killed branches")  # what they share is made once

DYING = """
import contextlib, os, signal, sys
from kfm.store.state import StoredState
wanted, seen, real = int(os.environ["DIE_AT"]), 0, StoredState.transaction
def point():
    global seen
    seen += 1
    if seen == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
@contextlib.contextmanager
def dying(self, *words, **more):
    point()
    with real(self, *words, **more) as tx:
        yield tx
    point()
StoredState.transaction = dying
from kfm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
PARTS = 8  # each goes over every sixteenth boundary


def dies(site: Site, at: int, *words: str) -> bool:
    """Was it killed? If not, it had ended before."""
    env = {**os.environ, "KFM_NOW": NOW, "KFM_ACTOR": "ann", "DIE_AT": str(at)}
    done = subprocess.run(
        [sys.executable, "-c", DYING, *words], cwd=site.folder, env=env, capture_output=True, check=False
    )
    assert done.returncode in (-signal.SIGKILL, 0), done.stderr
    return done.returncode != 0


@pytest.fixture(scope="module")
def branched(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("branched"))
    site.published()
    site.branch("deeper")
    site.write("data/wells.csv", wells(3))
    site.write("data/gauges.csv", "id,flow\n1,11\n2,21\n")
    site.commit("both")
    return site


@pytest.fixture(scope="module")
def merged(branched: Site, tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, str]:
    site = branched.copy(tmp_path_factory.mktemp("merged"))
    digest = site.previewed("deeper")
    site.merge("deeper")
    return site, digest


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_a_preview_killed_anywhere_is_taken_up(branched: Site, part: int, tmp_path: Path) -> None:
    quiet = branched.copy(tmp_path / "quiet")
    wanted, killed = quiet.previewed("deeper"), 0
    for at in range(2 + part, 1000, 2 * PARTS):
        site = branched.copy(tmp_path / str(at))
        if not dies(site, at, "preview", "build", "deeper"):
            break
        killed += 1
        assert site.kfm("resume").code == 0  # the preview is not its business, and in nobody's way
        assert site.previewed("deeper") == wanted
        assert site.refs("preview/") == quiet.refs("preview/")
        assert not os.listdir(site.folder / ".kfm/previews")
    assert killed


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_a_promotion_killed_anywhere_goes_on(merged: tuple[Site, str], part: int, tmp_path: Path) -> None:
    words = ("preview", "publish", "deeper", "--approved", merged[1])
    quiet, killed = merged[0].copy(tmp_path / "quiet"), 0
    assert quiet.kfm(*words).code == 0
    for at in range(1 + part, 1000, 2 * PARTS):
        site = merged[0].copy(tmp_path / str(at))
        if not dies(site, at, *words):
            break
        killed += 1
        again = site.kfm(*words)
        assert again.code in (0, 3), again  # 3: nothing was left of it but to say so
        assert site.refs() == quiet.refs()
        public = (site.folder / "public/datasets/wells/current.json").read_text()
        assert site.refs()["published/wells"] in public
    assert killed
