"""Passages of free text: every five words in a row, in lower case and without marks."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

WORDS = 5
_LETTERS = 20  # fewer, and the passage is a phrase that any text may have
_RUN = re.compile(r"(?<![^\W_])[^\W\d_]{1,40}(?:[^\w]{1,3}[^\W\d_]{1,40}){4,}")
_WORD = re.compile(r"[^\W\d_]+")


def passages(text: str) -> Iterator[str]:
    """Yield the passages of a text. Numbers end a passage."""
    for run in _RUN.finditer(text):
        words = _WORD.findall(unicodedata.normalize("NFKC", run[0]).casefold())
        for at in range(len(words) - WORDS + 1):
            passage = " ".join(words[at : at + WORDS])
            if len(passage) >= _LETTERS + WORDS - 1:
                yield passage
