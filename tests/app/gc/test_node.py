"""The Node runner next to `kfm gc`: it reads short receipts, and objects that were set aside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.gc.house import DAY, Years, everywhere, gc, opened, set_aside
from tests.app.move.carried import kfm
from tests.app.move.test_places import edited
from tests.node.twin import ROOT, node


@pytest.fixture
def years(monkeypatch: pytest.MonkeyPatch) -> Iterator[Years]:
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    yield Years()


def test_node_reads_short_receipts_and_what_was_set_aside(years: Years, site: str) -> None:
    edited(site, "publish: file:public\n", "publish: file:public\nretention: {unchanged_runs: 30d}\n")
    Path(site, "rain.csv").write_text("station,inches\n" + "".join(f"KS-{n},{n % 9}.5\n" for n in range(9000)))
    for _ in range(3):
        years.advance(DAY)
        assert kfm(site, "run", "rain").code == 0
    years.advance(31 * DAY)
    assert gc(site).code == 0
    with opened(site) as session:
        noop = [entry.run_id for entry in session.state.ledger.entries() if entry.outcome == "noop"]
        assert noop and all(session.state.ledger.is_short(run) for run in noop)
        large = [name for name, _ in session.objects.in_folders()]
    objects = everywhere(site)
    with opened(site) as session:
        session.objects.set_aside(sorted(objects))
    assert large and set_aside(site) == objects
    words = [node(), str(ROOT / "updater.mjs"), "run", "rain", "--config", os.path.join(site, "kfm.yml")]
    for force in ([], ["--force", "--reason", "a test"]):
        done = subprocess.run([*words, *force], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, (done.stdout, done.stderr)
    assert kfm(site, "doctor", "--deep").code == 0
    assert gc(site).code == 0 and objects <= everywhere(site)
