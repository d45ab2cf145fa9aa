"""The library that knows the hexagons of the earth, imported when the first cell is asked for."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kfm.errors import Denied


@lru_cache(maxsize=1)
def library() -> Any:
    """H3, or a denial: without it nothing is masked, and what is not masked does not leave."""
    try:
        import h3.api.basic_int as found
    except ImportError:
        raise Denied("masking needs the package h3, which is not installed", hint="install it and run again") from None
    return found
