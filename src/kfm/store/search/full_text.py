"""Full-text search over documents in memory, by the search engine of SQLite (FTS5) and its BM25 ranking."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

import apsw

from kfm.parsing.lazy_regex import pattern

MOST_WORDS = 32
_WORD = pattern(r"\w+")


class TextHit(NamedTuple):
    number: int  # of the document
    rank: float  # smaller is better
    snippet: str


def words_of(query: str) -> list[str]:
    """Return the words that a query asks for, each once."""
    return list(dict.fromkeys(_WORD.findall(query)))[:MOST_WORDS]


def best_matches(documents: Iterable[tuple[int, str, str]], words: list[str], limit: int) -> list[TextHit]:
    """Return the documents (number, title, text) that have any of the words, the best first. A word in a title counts
    four times."""
    if not words:
        return []
    with closing(apsw.Connection(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE found USING fts5(title, body, tokenize = 'unicode61 remove_diacritics 2')")
        with db:
            db.executemany("INSERT INTO found (rowid, title, body) VALUES (?, ?, ?)", documents)
        asked = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
        rows = db.execute(
            "SELECT rowid, bm25(found, 4.0, 1.0) AS rank, snippet(found, 1, '', '', '…', 24) FROM found "
            "WHERE found MATCH ? ORDER BY rank, rowid LIMIT ?",
            (asked, limit),
        )
        return [TextHit(int(number), float(rank), " ".join(str(text).split())) for number, rank, text in rows]
