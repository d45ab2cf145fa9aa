"""A file that was overwritten, with its size and its time kept, is read again by the next run of either runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from tests.node.sites import Seen, Site, declared, differences, tell
from tests.sampling import sampled

FILES = {"kfm.yml": declared("rain"), "rain.csv": "mm\n1\n2\n", "other.csv": "mm\n1\n3\n"}
Copy = Callable[[Path, Path], object]


def _touched(source: Path, target: Path) -> None:
    """As `touch -r` does: written in place, and then given the time it had."""
    before = target.stat()
    target.write_bytes(source.read_bytes())
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))


def _cp(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-p", source, target], check=True)


COPIES: dict[str, Copy] = {"touch -r": _touched, "cp -p": _cp, "shutil.copy2": shutil.copy2}


def outcome(seen: Seen) -> str:
    (receipt,) = json.loads(seen.answer.out)["receipts"]
    return str(receipt["outcome"])


def cost(before: Seen | None, after: Seen | None) -> int:
    """The bytes that the newest run read."""
    assert after is not None
    (run,) = set(after.rows["telemetry"]) - set(before.rows["telemetry"] if before else ())
    return int(json.loads(after.rows["telemetry"][run])["bytes_in"])


def told(tmp_path: Path, change: Callable[[Path], None]) -> tuple[list[Seen], list[tuple[int, int, int]]]:
    """A run, the change, two runs more; by Python, by Node and by both in turn, who say and record the same."""
    stamps: list[tuple[int, int, int]] = []

    def story(site: Site) -> None:
        site.run("run", "--json")
        stamps.append(_stamp(site.folder / "rain.csv"))
        change(site.folder)
        stamps.append(_stamp(site.folder / "rain.csv"))
        site.run("run", "--json")
        site.run("run", "--json")

    turns: list[Callable[[int], str]] = [
        lambda _n: "python", lambda _n: "node", *(lambda n, at=at: ("python", "node")[(n + at) % 2] for at in range(2)),
    ]  # fmt: skip
    tellings = [tell(tmp_path / "site", FILES, story, turn) for turn in turns]
    for telling in tellings[1:]:
        assert not list(differences(tellings[0], telling))
    return tellings[0], stamps


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ino


@pytest.mark.parametrize("copy", sampled(COPIES))
def test_a_file_copied_over_with_its_size_and_time_kept_is_seen_by_the_next_run(tmp_path: Path, copy: str) -> None:
    seen, stamps = told(tmp_path, lambda folder: COPIES[copy](folder / "other.csv", folder / "rain.csv") and None)
    assert stamps[::2] == stamps[1::2]  # nothing else tells the two apart
    assert [outcome(one) for one in seen] == ["done", "done", "noop"]


def test_another_mode_or_name_of_the_file_costs_a_read_and_changes_nothing(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "rain.csv").chmod(0o600)
        (folder / "again.csv").hardlink_to(folder / "rain.csv")

    seen, stamps = told(tmp_path, change)
    assert stamps[::2] == stamps[1::2]
    assert [outcome(one) for one in seen] == ["done", "noop", "noop"]
    assert [cost(*pair) for pair in pairwise([None, *seen])] == [7, 7, 0]
