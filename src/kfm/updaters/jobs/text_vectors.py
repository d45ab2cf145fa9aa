"""Vectors of texts: the mean of the vectors of their words, as 256 signed bytes.

The model lies in the package `wordllama`; nothing is downloaded. Sums are exact, so every machine gets the same bytes.
"""

from __future__ import annotations

import os
from base64 import b64encode
from functools import lru_cache
from math import fsum, sqrt
from typing import Any

SIZE = 256
_WORDS = 512  # the first ones of a text


@lru_cache(maxsize=1)
def model_name() -> str:
    """Return the model and the release that brings it; empty if the extra `search` is not installed."""
    from importlib import metadata, util

    try:
        if util.find_spec("numpy") is None or util.find_spec("wordllama") is None:
            return ""
        return f"wordllama-{metadata.version('wordllama')}-l2-supercat-{SIZE}"
    except (metadata.PackageNotFoundError, ValueError):
        return ""


@lru_cache(maxsize=1)
def _model() -> Any:
    import logging

    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    import wordllama

    root.handlers[:], root.level = handlers, level  # it configures the log of the whole process
    folder = os.path.dirname(wordllama.__file__)
    return wordllama.WordLlama.load(cache_dir=folder, dim=SIZE, disable_download=True)


def vector_of(text: str) -> list[int]:
    """Return the vector of a text, its largest part 127; all zeros if it has no words."""
    import numpy as np

    model = _model()
    ids = model.tokenizer.encode(text, add_special_tokens=False).ids[:_WORDS]
    if not ids:
        return [0] * SIZE
    rows = model.embedding[np.clip(np.array(ids), 0, model.embedding.shape[0] - 1)]
    mean = [fsum(column) for column in rows.T.tolist()]
    length = sqrt(fsum(part * part for part in mean))
    most = max(map(abs, mean))
    if not length or not most:
        return [0] * SIZE
    return [round(part / most * 127) for part in mean]


def packed(vector: list[int]) -> str:
    """Return a vector as base64; empty if all of it is zero."""
    return b64encode(bytes(part & 0xFF for part in vector)).decode() if any(vector) else ""
