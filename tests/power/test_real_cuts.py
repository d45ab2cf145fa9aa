"""F03: power cuts on real file systems, where this machine allows them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import pytest

from tests.power.tally import tally
from tests.sampling import sampled, tries

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def missing(kind: str) -> str:
    """Why it cannot be done here; empty if it can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    for tool in ("unshare", "losetup", f"mkfs.{kind}"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if not os.path.exists("/dev/loop-control"):
        return "there are no loop devices"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"no mount namespace of our own: {tried.stderr.strip()}"
    return ""


def cut(kind: str, cuts: int, seed: int, *more: str) -> dict[str, Any]:
    reason = missing(kind)
    if reason:
        print(f"power-real/{kind}: skipped: {reason}")
        pytest.skip(reason)
    folder = tempfile.mkdtemp(dir=MEMORY)
    try:
        command = [sys.executable, "-m", "tests.power.cutter", kind, folder, str(cuts), str(seed), *more]
        done = subprocess.run(
            ["unshare", "--mount", *command],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "src:."},
        )  # fmt: skip
    finally:
        shutil.rmtree(folder)
    last = done.stderr.strip().splitlines()[-1:] or [""]
    if "] mount: " in last[0] or "losetup" in last[0]:
        print(f"power-real/{kind}: skipped: {last[0]}")
        pytest.skip(f"this machine does not mount {kind}: {last[0]}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sweep(kind: str, cuts: int, seed: int, part: str) -> None:
    found = cut(kind, cuts, seed)
    counts = {name.replace(" ", "_"): count for name, count in found["counts"].items()}
    tally("power-real", part, (seed, seed + 1), len(found["failures"]), **counts)
    assert not found["failures"], found["failures"]
    assert counts["cuts"] >= cuts
    assert counts["published_before_the_cut"] > cuts, "hardly anything was published before"
    assert counts["lost_only_what_nobody_was_told_of"], "no cut ever lost anything: they cut nothing"


@pytest.mark.parametrize(("kind", "cuts"), sampled([("ext4", 60), ("xfs", 60)]))
def test_what_was_acknowledged_survives_real_power_cuts(kind: str, cuts: int) -> None:
    sweep(kind, tries(cuts), 11, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("shard", range(4))
def test_what_was_acknowledged_survives_a_great_many_real_power_cuts(kind: str, shard: int) -> None:
    sweep(kind, 550, 100 + shard, f"{kind} long {shard}")


@pytest.mark.parametrize("way", sampled(["forgetful-publisher", "forgetful"]))
def test_a_process_that_does_not_sync_is_found_out_by_a_real_power_cut(way: str) -> None:
    found = cut("ext4", 25, 3, way)
    tally("power-real", way, (3, 4), seeded_bugs=1, cuts_that_found_the_bug=len(found["failures"]))
    assert len(found["failures"]) >= 5
