"""One changed key of 100,000, from its source to the public folder and the catalog: what is written, by strace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.abilities import lacking
from tests.delivery.test_shared_files import CONFIG
from tests.delivery.written_bytes import Written, can_trace, written_by

KEYS = 100_000
MB = 1_000_000


def source(folder: Path, **changed: str) -> None:
    rows = [f"k{n:06d},{changed.get(f'k{n:06d}', n)}\n" for n in range(KEYS)]
    (folder / "rows.csv").write_text("county,rain\n" + "".join(rows))


@pytest.mark.long
def test_one_changed_key_of_100_000_writes_its_path_to_the_public_folder_and_the_catalog(tmp_path: Path) -> None:
    if not can_trace():
        lacking("strace cannot trace here")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "kfm.yml").write_text(CONFIG.replace("RETENTION\n", "").replace("accept_weak_storage: true\n", ""))

    def kfm(name: str, *words: str) -> Written:
        return written_by([sys.executable, "-m", "kfm", *words], folder, tmp_path / name)

    source(folder)
    kfm("first run", "run")
    first = kfm("first promotion", "promote", "gauges", "--reason", "a test")
    assert first.files["public folder"] > 2 * KEYS and first.syncs < KEYS / 50
    source(folder, **{f"k{KEYS // 2:06d}": "wet"})
    run = kfm("run", "run")
    promotion = kfm("promotion", "promote", "gauges", "--reason", "a test")
    print(first, run, promotion, sep="\n")
    assert promotion.files["public folder"] > 5, "nothing was published"
    assert sum(promotion.files.values()) < 50 and sum(promotion.size.values()) < MB
    assert promotion.syncs < 100
    assert run.size["state"] < 60 * MB, "it records every partition again: see decision 29"
