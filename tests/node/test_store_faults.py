"""The disk fails under Node's store: it stops as Python's does, acknowledges nothing more, and loses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.engine.system_calls import need_strace
from tests.node.store_words import Here
from tests.node.test_store_together import check, count_of, numbers, writer
from tests.power.tally import tally

KINDS = ("sqlite", "jsonl")
ROUNDS = 12
SYNCS = "fsync,fdatasync"  # either SQLite was built to use one of them
CALLS = "write,pwrite64,fsync,fdatasync,ftruncate,openat,mkdir,link,unlink"


class Tried:
    def __init__(self, language: str, kind: str, folder: Path, inject: str) -> None:
        """A writer with a fault between it and the kernel, in the calls that touch its state only."""
        need_strace()
        log, path = folder / "calls", folder / "state"
        places = [folder, path, *(folder / f"state{end}" for end in ("-wal", ".ack", ".lock"))]
        before = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={CALLS}", "-e", f"inject={inject}"]
        for place in places:
            before += ["-P", str(place)]
        child = writer(language, kind, path, "w", ROUNDS, "durable", before=tuple(before))
        out, self.said = child.communicate(timeout=120)
        self.code = child.returncode
        self.closed = b"closed" in out
        self.acknowledged = numbers(out)
        calls = log.read_text(errors="replace").splitlines()
        self.fired = [n for n, call in enumerate(calls) if "(INJECTED)" in call]
        # The folder is synced again by whoever comes next; SQLite syncs it as well, and does not mind if it cannot.
        failed = {synced(calls[n]) for n in self.fired} - {"", str(folder)}
        if not self.acknowledged:  # a database that is only being made: SQLite undoes what it began, and syncs that
            failed -= {str(path)}
        after = calls[self.fired[-1] + 1 :] if self.fired else []
        self.again = [call for call in after if synced(call) in failed]


def synced(call: str) -> str:
    """The file a call syncs; empty if it does something else."""
    found = re.search(r" f(?:data)?sync\(\d+<([^>]*)>", call)
    return found[1] if found else ""


def go_through(kind: str, call: str, error: str, tmp_path: Path, every: int) -> dict[str, int]:
    """The n-th such call fails, for every n there is, in both languages."""
    tried = stopped = survived = 0
    said: dict[str, set[str]] = {"python": set(), "node": set()}
    for language in ("node", "python"):
        for n in range(1, 400, every):
            folder = tmp_path / f"{language}-{n}"
            folder.mkdir()
            found = Tried(language, kind, folder, f"{call}:error={error}:when={n}")
            if not found.fired:
                assert found.code == 0, found.said
                assert len(found.acknowledged) == ROUNDS
                break
            tried += 1
            story = f"{language}, {kind}: {call} number {n} with {error}: {found.said!r}"
            if found.code:
                stopped += 1
                assert found.code == 74, story
                assert re.fullmatch(rb"cannot [a-z ]+: [^;\n]+; [^\n]+\n|cannot [^;\n]+; [^\n]+\n", found.said), story
                said[language].add(found.said.decode())
                if call == SYNCS:
                    assert not found.again, story
            else:  # what SQLite does not mind, such as the size of a file it would like to shrink
                survived += 1
                assert len(found.acknowledged) == ROUNDS, story
            if (folder / "state").exists() and (folder / "state").stat().st_size:
                check(*count_of(Here(), kind, str(folder / "state")), found.acknowledged)
        else:
            pytest.fail("it never ended")
    if every == 1:
        assert said["node"] == said["python"], said
    return {"faults": tried, "stopped_with_74": stopped, "survived": survived}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call,error", [(SYNCS, "EIO"), ("pwrite64", "ENOSPC"), ("write", "EIO")])
def test_a_disk_that_fails_is_answered_with_74_and_nothing_after(
    kind: str, call: str, error: str, tmp_path: Path
) -> None:
    found = go_through(kind, call, error, tmp_path, 17)
    assert found["stopped_with_74"] or (kind, call) == ("sqlite", "write")
    tally("node-store", f"faults-{kind}-{call[:5]}-{error}", None, 0, **found)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
@pytest.mark.parametrize("call", [SYNCS, "write", "pwrite64", "openat"])
def test_whichever_call_fails_it_is_answered_alike(kind: str, call: str, error: str, tmp_path: Path) -> None:
    tally("node-store", f"each-{kind}-{call[:5]}-{error}", None, 0, **go_through(kind, call, error, tmp_path, 1))
