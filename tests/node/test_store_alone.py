"""Node's own tests of its store, and what only Python does to a state that Node must still read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kfm.contract.keys import GENESIS
from tests.node.store_words import Here, There, plain
from tests.node.twin import ROOT, node
from tests.store import records as make


def test_nodes_own_tests_of_its_store_pass() -> None:
    ran = subprocess.run(
        [node(), "--test", "node/tests/store.test.mjs"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
    assert "# pass 0" not in ran.stdout


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
def test_a_journal_that_python_put_away_node_reads_as_before(kind: str, tmp_path: Path) -> None:
    here, path = Here(), str(tmp_path / "state")
    assert here.ask("open", "s", kind, path) == {"ok": 0}
    for run in range(3):
        head = GENESIS
        for n in range(40):
            done = [[k, make.DIGEST, k, "text/\U0001f5fa"] for k in range(60)]
            step = ["segment", plain([f"run-{run}", make.segment(n, head, done=done, payload={"é": [0.5, 1]})])]
            head = here.ask("write", "s", None, {}, [step], False)["ok"][0]
    with There() as there:
        assert "ok" in there.ask("open", "s", kind, path)
        asked = [("ask", "s", "segments", f"run-{run}") for run in range(4)]
        before = [there.ask(*question) for question in asked]
        assert before == [here.ask(*question) for question in asked]
        assert [len(answer["ok"]) for answer in before] == [40, 40, 40, 0]
        assert here.archive["s"].compact() == 3
        assert there.ask("tables", "s", "scan", "segments") == {"ok": []}
        assert [there.ask(*question) for question in asked] == before
        (file,) = (tmp_path / "state.objects").glob("sha256/*/*")
        body = file.read_bytes()
        file.chmod(0o600)
        file.write_bytes(body[:-1] + b" ")
        broken = there.ask(*asked[0])
        assert broken == here.ask(*asked[0])
        assert broken["error"]["code"] == "corrupt"
    here.ask("close", "s")


def test_a_dry_store_in_node_keeps_what_it_is_given_to_itself(tmp_path: Path) -> None:
    with There() as there:
        there.ask("open", "s", "sqlite", str(tmp_path / "state"))
        digest, _, known, stored = there.ask("dry", "s", b"new")["ok"]
        assert (known, stored) == (True, False)
        assert there.ask("objects", "s", "has", digest) == {"ok": False}


def test_both_languages_know_the_mount_of_a_place_alike(tmp_path: Path) -> None:
    from kfm.store.place import mount_of

    with There() as there:
        for place in ("/", "/proc", "/dev/shm", str(tmp_path), "/sys"):
            assert there.ask("mount", place, "/proc/self/mountinfo") == {"ok": list(mount_of(place))}
