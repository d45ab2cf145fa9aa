"""How long one embedded decision takes, for each gate: `python bench/decide.py`.

The question is a record that is there already; what is measured is everything from it to the decision. Last, the first
decision of a process: what a run that asks pays once, imports and the loading of the program included.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from kfm.policy.decision import embedded
from kfm.policy.questions import PolicyQuestion
from tests.policy.examples import EXAMPLES, example

TIMES = 2000


def main() -> None:
    point = embedded()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; microseconds a decision")
    for name in EXAMPLES:
        question = msgspec.convert(example(name), PolicyQuestion)
        assert point.decide(question).allow is True
        took = []
        for _ in range(TIMES):
            begun = time.perf_counter()
            point.decide(question)
            took.append((time.perf_counter() - begun) * 1e6)
        took.sort()
        median, least, most = statistics.median(took), took[0], took[TIMES * 99 // 100]
        print(f"{name:16} median {median:7.1f}   least {least:7.1f}   p99 {most:7.1f}")
    firsts = sorted(float(_first()) for _ in range(11))
    print(f"{'first of all':16} median {firsts[5]:7.1f}   least {firsts[0]:7.1f}   CPU milliseconds")


def _first() -> str:
    """In a process that has what every run has loaded, and has been asked nothing yet."""
    code = (
        "import time, kfm.app.session.session, kfm.engine.upsert; begun = time.process_time()\n"
        "from kfm.policy.promotion_gate import embedded\n"
        "embedded().decide({'gate': 'zone', 'subjects': ['sha256:' + '0' * 64]})\n"
        "print((time.process_time() - begun) * 1e3)"
    )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout


if __name__ == "__main__":
    main()
