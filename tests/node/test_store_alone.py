"""Node's own tests of its store, and states that only Python writes and Node must read."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.node.store_words import There
from tests.node.twin import ROOT, node


def test_nodes_own_tests_of_its_store_pass() -> None:
    ran = subprocess.run(
        [node(), "--test", "node/tests/store.test.mjs"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "# pass 0" not in ran.stdout


def test_a_dry_store_in_node_keeps_what_it_is_given_to_itself(tmp_path: Path) -> None:
    with There() as there:
        there.ask("open", "s", "sqlite", str(tmp_path / "state"))
        digest, _, known, stored = there.ask("dry", "s", b"new")["ok"]
        assert (known, stored) == (True, False)
        assert there.ask("objects", "s", "has", digest) == {"ok": False}


def test_both_languages_know_the_mount_of_a_place_alike(tmp_path: Path) -> None:
    from kfm.store.filesystem_check import mount_of

    with There() as there:
        for place in ("/", "/proc", "/dev/shm", str(tmp_path), "/sys"):
            assert there.ask("mount", place, "/proc/self/mountinfo") == {"ok": list(mount_of(place))}
