"""How fast could canonical JSON of mixed values be in Python? What the encoder takes, and what one look does.

python bench/floors/canonical_json.py

msgspec       its sorted encoder alone, which is not exact
a look        a walk over all values that asks of each only whether it is a text or holds others, and checks nothing
both          one after the other: no check of every value in Python can be faster than this
canonical     KFM
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from yardsticks import record

ROUNDS, CALLS = 40, 200


def look(values: Iterable[Any]) -> None:
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is dict:
            look(value.values())
        elif kind is list:
            look(value)


def main() -> None:
    from kfm.model.canonical import canonical

    value, encode = record(), msgspec.json.Encoder(order="sorted").encode

    def both() -> None:
        look((value,))
        encode(value)

    cases: dict[str, Callable[[], object]] = {
        "msgspec": lambda: encode(value),
        "a look": lambda: look((value,)),
        "both": both,
        "canonical": lambda: canonical(value),
    }
    least = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, case in cases.items():
            begun = time.process_time()
            for _ in range(CALLS):
                case()
            least[name] = min(least[name], (time.process_time() - begun) / CALLS * 1e6)
    for name, taken in least.items():
        print(f"{name:12}{taken:8.1f} µs{1e6 / taken:12,.0f} a second")


if __name__ == "__main__":
    main()
