"""What `kfm gc` costs: `python bench/collection.py [OBJECTS]` (default: 1,000,000 small objects, half of them named).

Each size is measured in a process of its own: the seconds to mark and to set aside, and the peak of its memory above
that of an opened session. Marking is in flat memory if the peak hardly grows with the number of objects.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kfm import config
from kfm.app.gc.collection import collect
from kfm.app.gc.mark import mark
from kfm.app.session.session import open_session, open_tables
from kfm.store.retention.object_marks import SMALL

CONFIG = """\
accept_weak_storage: true
publish: noop
datasets:
  rain:
    version: "1.0.0"
    sources: {rain: {uri: rain.csv, format: csv}}
    outputs: {rain: {from: rain}}
"""
ROWS = 10_000  # of one transaction


def laid_out(folder: Path, objects: int) -> None:
    """An installation with so many small objects. Each second one is named by the row of a plan lock."""
    from kfm.cli.main import main

    (folder / "kfm.yml").write_text(CONFIG)
    (folder / "rain.csv").write_text("station,inches\nKS-01,1.2\n")
    assert main(["run", "-q", "--config", str(folder / "kfm.yml")]) == 0
    with open_session(config.load(str(folder / "kfm.yml"), {})) as session:
        for start in range(0, objects, ROWS):
            bodies = [b"object %d" % n for n in range(start, min(objects, start + ROWS))]
            names = ["sha256:" + hashlib.sha256(body).hexdigest() for body in bodies]
            with session.state.transaction(durable=False) as tx:
                tx.objects(zip(names, bodies, strict=True))
                session.tables.put_many("plan_locks", ((name[7:], name.encode()) for name in names[::2]))


def peak() -> int:
    """KiB. Not of `getrusage`: that remembers the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])


def measured(folder: Path) -> None:
    resolved = config.load(str(folder / "kfm.yml"), {})
    with open_session(resolved) as session:
        before = peak()
        begun = time.perf_counter()
        tables = open_tables(resolved, "read")
        marks = mark(resolved, tables, session.clock.now_ms, lambda *_: None)
        named, unnamed = marks.counts(reached=True, places=SMALL)[0], marks.counts(reached=False, places=SMALL)[0]
        marks.close()
        tables.close()
        marking, grown = time.perf_counter() - begun, peak() - before
        begun = time.perf_counter()
        collect(session, reason="a bench", actor="bench")
        print(
            f"{named + unnamed:>9,} objects, {unnamed:>9,} of them unnamed: marked in {marking:7.1f} s "
            f"and {grown / 1024:6.1f} MiB, set aside in {time.perf_counter() - begun:7.1f} s, "
            f"peak {(peak() - before) / 1024:6.1f} MiB"
        )


def main() -> None:
    if sys.argv[1:2] == ["--in"]:
        measured(Path(sys.argv[2]))
        return
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    for objects in (most // 100, most // 10, most):
        with tempfile.TemporaryDirectory() as folder:
            laid_out(Path(folder), objects)
            subprocess.run([sys.executable, __file__, "--in", folder], check=True)


if __name__ == "__main__":
    main()
