"""The progress of a long fetch shows bytes, rate and time left, and nothing of protected sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm import config
from kfm.app.runs.run_control import run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import open_session
from kfm.cli.render import fetched

from .conftest import Kfm

CONFIG = """\
{labels}datasets:
  big:
    version: 1.0.0
    title: Big
    license: CC0-1.0
    sensitivity: public
    sources: {{list: {{uri: list.csv, format: csv}}}}
    outputs: {{all: {{from: list}}}}
  other:
    version: 1.0.0
    sources: {{list: {{uri: other.csv, format: csv}}}}
    outputs: {{all: {{from: list}}}}
"""
LABELS = "version: 1\nlabels:\n  - {of: {dataset: other}, sensitivity: restricted, care: open}\n"


@pytest.mark.parametrize(
    ("done", "total", "seconds", "said"),
    [
        (0, 0, 0.0, "0 B"),
        (1 << 20, 0, 0.1, "1.0 MiB"),
        (1 << 20, 0, 2.0, "1.0 MiB, 512.0 KiB/s"),
        (1 << 20, 4 << 20, 1.0, "1.0 MiB of 4.0 MiB (25 %), 1.0 MiB/s, 3 s left"),
        (1 << 20, 1 << 30, 1.0, "1.0 MiB of 1.0 GiB (0 %), 1.0 MiB/s, 17m left"),
        (4 << 20, 4 << 20, 1.0, "4.0 MiB of 4.0 MiB (100 %), 4.0 MiB/s"),
    ],
)
def test_bytes_rate_and_time_left_are_shown_as_far_as_they_are_known(
    done: int, total: int, seconds: float, said: str
) -> None:
    assert fetched(done, total, seconds, done) == said


def told(labels: str = "") -> list[tuple[int, int]]:
    Path("list.csv").write_text("id,name\n" + "".join(f"{n},a name of no meaning\n" for n in range(150_000)))
    Path("labels.yml").write_text(LABELS)
    Path("kfm.yml").write_text(CONFIG.format(labels=labels))
    found: list[tuple[int, int]] = []

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "fetch":
            found.append((done, total))

    with open_session(config.load("kfm.yml", {}), progress=progress) as session:
        run_trigger(session, new_trigger(session, "big"))
        settle_session(session)
    return found


def test_a_fetch_is_counted_as_its_bytes_come(kfm: Kfm) -> None:
    found = told()
    size = Path("list.csv").stat().st_size
    assert found[0] == (0, 0) and found[-1] == (size, size) and len(found) > 3
    assert [done for done, _ in found] == sorted(done for done, _ in found)


def test_where_anything_is_protected_no_fetch_is_counted(kfm: Kfm) -> None:
    assert told("labels: labels.yml\n") == [(0, 0)]
