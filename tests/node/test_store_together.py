"""Python and Node at one state at once: neither waits for ever, neither loses a write, and a dead process keeps no
lock.
"""

from __future__ import annotations

import base64
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kfm.store.locks import FileLock
from tests.node.store_words import Here, There
from tests.node.twin import ROOT, node
from tests.power.tally import tally

KINDS = ("sqlite", "jsonl")
LANGUAGES = ("python", "node")
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}


def writer(language: str, *arguments: Any, before: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """A process that writes, and says on its standard output what was acknowledged."""
    command = (
        [sys.executable, "-m", "tests.node.store_writer"]
        if language == "python"
        else [node(), str(ROOT / "node/tests/store_writer.mjs")]
    )
    line = [*before, *command, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT)


def numbers(lines: bytes) -> list[tuple[int, int]]:
    """What was acknowledged: count and fencing token. A line that was cut by a kill is none."""
    whole = [line.split() for line in lines.split(b"\n")[:-1]]
    return [(int(line[0]), int(line[1])) for line in whole if len(line) == 2]


def count_of(here: Any, kind: str, path: str) -> tuple[int, list[tuple[int, int]]]:
    """As another language finds it: the count, and every row that was written with it."""
    opened = here.ask("open", "s", kind, path)
    assert "ok" in opened, opened
    count = here.ask("tables", "s", "get", "runs", "n")["ok"]
    rows = here.ask("tables", "s", "scan", "refs")["ok"]
    here.ask("close", "s")
    return int(text_of(count)), sorted((int(a), int(b)) for a, b in (text_of(body).split() for _, body in rows))


def text_of(told: Any) -> str:
    return "0" if told is None else base64.b64decode(told["b"]).decode()


def check(count: int, rows: list[tuple[int, int]], acknowledged: list[tuple[int, int]]) -> None:
    assert [n for n, _ in rows] == list(range(1, count + 1)), "a transaction is half there"
    tokens = [token for _, token in rows]
    assert tokens == sorted(set(tokens)), "a fencing token went back"
    assert set(acknowledged) <= set(rows), "what was acknowledged is gone"


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_several_make_at_once_turns_none_of_them_away(kind: str, tmp_path: Path) -> None:
    with There() as one, There() as two, There() as three, ThreadPoolExecutor(4) as pool:
        crowd = (one, two, Here(), three)
        for n in range(30):
            path = str(tmp_path / f"{n}" / "state")
            told = list(pool.map(lambda each, path=path: each.ask("open", "s", kind, path), crowd))
            assert told == [{"ok": 0}] * len(crowd)
            for each in crowd:
                each.ask("close", "s")


@pytest.mark.parametrize("kind", KINDS)
def test_both_languages_counting_together_lose_no_count_and_no_token(kind: str, tmp_path: Path) -> None:
    path, rounds = str(tmp_path / "new" / "state"), 1000
    children = [writer(language, kind, path, language, rounds, "mixed") for language in LANGUAGES]
    answers = [child.communicate(timeout=500) for child in children]
    assert [child.returncode for child in children] == [0, 0], answers
    told = [numbers(out) for out, _ in answers]
    expected = 2 * sum(1 for i in range(rounds) if i % 5)
    assert not {n for n, _ in told[0]} & {n for n, _ in told[1]}, "two were given the same number"
    with There() as there:
        for reader in (Here(), there):
            count, rows = count_of(reader, kind, path)
            assert count == expected == len(rows)
            check(count, rows, [*told[0], *told[1]])
    order = [language for _, language in sorted((n, k) for k, lines in enumerate(told) for n, _ in lines)]
    changes = sum(one != two for one, two in pairwise(order))
    assert changes > 20, "they did not write at the same time"
    tally("node-store", f"together-{kind}", None, 0, transactions_together=2 * rounds, turns_taken=changes)


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_holds_the_lock_keeps_the_other_language_out_until_it_dies(language: str, tmp_path: Path) -> None:
    path = str(tmp_path / "a.lock")
    ours = FileLock(path)
    with There() as there:
        if language == "node":
            assert there.ask("take", path) == {"ok": True}
            assert not ours.take()
            there.ask("release", path)
            assert ours.take()
            ours.release()
            assert there.ask("take", path) == {"ok": True}
            there.process.send_signal(signal.SIGKILL)
            there.process.wait(60)
            assert ours.take()
        else:
            assert ours.take()
            assert there.ask("take", path) == {"ok": False}
            ours.close()
            assert there.ask("take", path) == {"ok": True}
    ours.close()
    assert Path(path).read_bytes() == b""


@pytest.mark.parametrize("writing", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_look_at_what_the_other_language_is_writing_sees_whole_transactions(
    kind: str, writing: str, tmp_path: Path
) -> None:
    path, looks, seen = str(tmp_path / "state"), 25, 0
    with There() as there:
        looking: Any = there if writing == "python" else Here()
        child = writer(writing, kind, path, "w", 1_000_000, "durable")
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(3)]
        for _ in range(looks):
            told.append(child.stdout.readline())
            count, rows = count_of(looking, f"overlay-{kind}", path)
            check(count, rows, numbers(b"".join(told)))
            assert count >= seen, "what was there before is gone"
            seen = count
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read()  # communicate() would leave out what readline() has read ahead
        child.wait(timeout=60)
        check(*count_of(looking, f"overlay-{kind}", path), numbers(b"".join(told) + rest))
    tally("node-store", f"looks-{kind}-{writing}", None, 0, looks_while_written=looks)


def kill_and_look(kind: str, dying: str, path: str, rounds: int, seed: str) -> tuple[int, int]:
    """Kill a writer again and again; the other language looks. Returns kills and what was acknowledged in all."""
    draw = random.Random(seed)
    acknowledged: list[tuple[int, int]] = []
    with There() as there:
        looking: Any = there if dying == "python" else Here()
        for n in range(rounds):
            child = writer(dying, kind, path, f"w{n}", 1_000_000, "durable")
            assert child.stdout is not None
            if draw.random() < 0.2:  # while it starts, opens or makes the state
                time.sleep(draw.random() * 0.25)
                told = b""
            else:
                told = b"".join(child.stdout.readline() for _ in range(draw.randrange(1, 30)))
                time.sleep(draw.random() / 300)
            child.send_signal(signal.SIGKILL)
            rest, said = child.communicate(timeout=60)
            assert child.returncode == -signal.SIGKILL, said
            acknowledged += numbers(told + rest)
            if os.path.exists(path):
                check(*count_of(looking, kind, path), acknowledged)
    assert acknowledged
    return rounds, len(acknowledged)


def kills(kind: str, dying: str, path: str, rounds: int) -> None:
    killed, kept = kill_and_look(kind, dying, path, rounds, f"{kind}{dying}{rounds}")
    tally("node-store", f"kills-{kind}-{dying}-{rounds}", None, 0, kills=killed, acknowledged_and_kept=kept)


@pytest.mark.parametrize("dying", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_other_language_finds_everything_that_a_killed_writer_committed(
    kind: str, dying: str, tmp_path: Path
) -> None:
    kills(kind, dying, str(tmp_path / "state"), 8)


@pytest.mark.long
@pytest.mark.parametrize("dying", LANGUAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_however_often_a_writer_is_killed_the_other_language_finds_all(kind: str, dying: str, tmp_path: Path) -> None:
    kills(kind, dying, str(tmp_path / "state"), 400)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_lease_of_a_dead_process_is_free_for_the_other_language(language: str, tmp_path: Path) -> None:
    path = str(tmp_path / "state")
    here = Here()
    assert here.ask("open", "s", "sqlite", path) == {"ok": 0}
    here.ask("now", 1000)
    with There() as there, There() as other:
        there.ask("open", "s", "sqlite", path)
        if language == "node":
            holder = other.ask("self")["ok"]
            ask: Callable[..., Any] = here.ask
        else:
            child = subprocess.Popen(
                [sys.executable, "-c", "from kfm.store.process_identity import this_process as t; print(t()); input()"],
                env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert child.stdout is not None
            holder = child.stdout.readline().decode().strip()
            ask = there.ask
            there.ask("now", 1000)
        assert "ok" in ask("ask", "s", "acquire", "u/d", holder, 60_000)
        assert ask("ask", "s", "acquire", "u/d", "else:1:2", 60_000)["error"]["code"] == "lease.busy"
        dying = other.process if language == "node" else child
        dying.send_signal(signal.SIGKILL)
        if language == "node":
            dying.wait(60)
        else:
            child.communicate(timeout=60)
        assert ask("ask", "s", "acquire", "u/d", "else:1:2", 60_000)["ok"]["token"] == 2
        assert there.ask("dead", holder) == {"ok": True}
