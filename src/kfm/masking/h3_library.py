"""Imports the H3 library on first use."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kfm.errors import Denied


@lru_cache(maxsize=1)
def library() -> Any:
    """Return H3. Raise Denied if it is not installed: without it nothing is masked, and unmasked data is not
    published."""
    try:
        import h3.api.basic_int as found
    except ImportError:
        raise Denied("masking needs the package h3, which is not installed", hint="install it and run again") from None
    return found
