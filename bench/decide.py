"""How long one embedded decision takes, for each gate: `python bench/decide.py`.

The question is a record that is there already; what is measured is everything from it to the decision.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from kfm.policy.decide import embedded
from kfm.policy.questions import Question
from tests.policy.examples import EXAMPLES, example

TIMES = 2000


def main() -> None:
    point = embedded()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; microseconds a decision")
    for name in EXAMPLES:
        question = msgspec.convert(example(name), Question)
        assert point.decide(question).allow is True
        took = []
        for _ in range(TIMES):
            begun = time.perf_counter()
            point.decide(question)
            took.append((time.perf_counter() - begun) * 1e6)
        took.sort()
        median, least, most = statistics.median(took), took[0], took[TIMES * 99 // 100]
        print(f"{name:16} median {median:7.1f}   least {least:7.1f}   p99 {most:7.1f}")


if __name__ == "__main__":
    main()
