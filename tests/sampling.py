"""A sample in the default suite, everything in the long one.

A sweep that is cut into parts tries its first parts with every commit and the rest in `make test-long`. Cut it so
that each part goes over the whole of what is swept (every n-th place, not the first n), so that the sample does too.

What is tried on both kinds of state is tried with every commit on one of them, on SQLite here and on a journal of
lines there, and on the other one in `make test-long`; so is what is tried by both runners, Python's and Node's.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from typing import Any

import pytest

everything = True  # unless the run leaves out what is long: tests/conftest.py says so before the tests are read


def sampled(values: Iterable[Any], keep: int = 1, *, every: int = 0) -> list[Any]:
    """Parameters for `parametrize`: the first `keep` of them, or each n-th, as they are, the others marked long.

    A tuple is for several parameters at once."""
    return [
        value
        if (n % every == 0 if every else n < keep)
        else pytest.param(*(value if type(value) is tuple else (value,)), marks=pytest.mark.long)
        for n, value in enumerate(values)
    ]


def tries(number: int) -> int:
    """How often what is drawn by chance is tried: so often, and with every commit a quarter as often."""
    return number if everything else -(-number // 4)


def stride(number: int) -> int:
    """For `[:: stride(3)]` of what is tried one by one: all of it, and with every commit each third."""
    return 1 if everything else number


def try_one_of_two(items: list[pytest.Item]) -> None:
    """Of two tests that differ only in the kind of state, or only in the runner, one is marked long: always the same
    one."""
    if os.environ.get("TESTED_BOTH"):
        return
    _leave_one("sqlite", "jsonl", items)
    _leave_one("python", "node", items)


def try_few_on_a_server(items: list[pytest.Item]) -> None:
    """Of the tests that run on every kind of state, one of ten is tried on Postgres with every commit."""
    server = re.compile(r"(two |overlay-|pooled-)?postgres(:.*)?")
    for item in items:
        given = getattr(item, "callspec", None)
        values = given.params.values() if given else ()
        on_server = any(isinstance(value, str) and server.fullmatch(value) for value in values)
        if on_server and zlib.crc32(item.nodeid.encode()) % 10:
            item.add_marker(pytest.mark.long)


def _leave_one(one: str, other: str, items: list[pytest.Item]) -> None:
    said, kind = re.compile(f"({one}|{other})(:.*)?"), re.compile(f"{one}|{other}")
    found: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        given = getattr(item, "callspec", None)
        values = [value for value in given.params.values() if isinstance(value, str)] if given else []
        kinds = [match[1] for value in values if (match := said.fullmatch(value))]
        if len(kinds) == 1 and not item.get_closest_marker("long"):
            file, _, name = item.nodeid.partition("::")
            name = re.sub(r"state\.(db|jsonl)", "state", name)
            found.setdefault(file + kind.sub("either", name), {})[kinds[0]] = item
    for name, both in found.items():
        if len(both) == 2:
            both[(one, other)[zlib.crc32(name.encode()) % 2]].add_marker(pytest.mark.long)
