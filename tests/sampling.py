"""A sample in the default suite, everything in the long one.

A sweep that is cut into parts tries its first parts with every commit and the rest in `make test-long`. Cut it so
that each part goes over the whole of what is swept (every n-th place, not the first n), so that the sample does too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], keep: int = 1) -> list[Any]:
    """Parameters for `parametrize`: the first `keep` of them as they are, the others marked long."""
    marked = [pytest.param(value, marks=pytest.mark.long) for value in list(values)[keep:]]
    return [*list(values)[:keep], *marked]
