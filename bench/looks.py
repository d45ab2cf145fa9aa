"""What commands that look cost in a long history: `python bench/looks.py [RUNS …]` (default: 1,000 and 100,000 runs).

Each state is made as the tests make theirs (tests/store/long_history.py): of ten runs seven had nothing to do, one
failed, one built a version and one published it. Time is that of the processor, from the interpreter's start to its
end, and memory the largest of the command. A million runs are 3.4 GB and take some ten minutes to make.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.store.long_history import fill

COMMANDS = (
    ("status", "--json"),
    ("runs", "list", "--json"),
    ("explain", "d1", "--json"),
    ("refs", "list", "--json"),
    ("refs", "history", "raw/d1/0", "--json"),
    ("why-not", "d1", "--json"),
)
TIMES = 7


def cost(folder: Path, words: tuple[str, ...]) -> tuple[float, float]:
    """Return milliseconds of the processor and megabytes of memory."""
    took, most = [], 0
    for _ in range(TIMES):
        child = subprocess.Popen([sys.executable, "-m", "kfm", *words], cwd=folder, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        assert status == 0, words
        took.append((used.ru_utime + used.ru_stime) * 1e3)
        most = max(most, used.ru_maxrss)
    return statistics.median(took), most / 1024


def main() -> None:
    if sys.argv[1:2] == ["--fill"]:
        fill(Path(sys.argv[2]), int(sys.argv[3]))
        return
    sizes = [int(word) for word in sys.argv[1:]] or [1000, 100_000]
    found: dict[int, list[tuple[float, float]]] = {}
    for runs in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # In a process of its own: the memory of a command counts from that of the process that starts it.
            subprocess.run([sys.executable, __file__, "--fill", name, str(runs)], check=True)
            size = (folder / ".kfm" / "state.db").stat().st_size / 1e6
            print(f"{runs} runs, a state of {size:.0f} MB, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
            found[runs] = [cost(folder, words) for words in COMMANDS]
    for n, words in enumerate(COMMANDS):
        shown = "  ".join(f"{took:6.0f} ms {memory:5.0f} MB" for took, memory in (found[runs][n] for runs in sizes))
        print(f"{' '.join(words):32}  {shown}")


if __name__ == "__main__":
    main()
