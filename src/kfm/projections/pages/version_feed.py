"""The Atom feed of a dataset's versions: new, changed, restored and withdrawn (RFC 4287). Pure.

An entry of a version that is no longer public has its number, its time and nothing of its content.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from kfm.model import refs
from kfm.model.public_run import Places, ref_id
from kfm.model.records import RefEntry
from kfm.projections.pages import file_marks
from kfm.projections.pages.public_addresses import absolute, feed_path, page_address

MOST = 200  # entries; older ones are left out


class Counts(NamedTuple):
    """The size of a version that is public."""

    entries: int
    size: int


def version_feed(
    dataset: str, title: str, moves: Sequence[RefEntry], live: Mapping[str, Counts | None], places: Places
) -> bytes:
    """Return the feed of the moves of a published ref, given oldest first. `live` has the versions that are public,
    each with its counts, or None where they are not said. A withdrawn dataset has no title: pass its name."""
    here, page = absolute(places, feed_path(dataset)), page_address(places, dataset)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        file_marks.FEED,
        f"<id>{_urn(ref_id(refs.published(dataset)))}</id>",
        f"<title>{_text(title)}: versions</title>",
        f"<updated>{_text(moves[-1].ts)}</updated>",
        f"<author><name>{_text(places.publisher)}</name></author>",
        f'<link rel="self" type="application/atom+xml" href={quoteattr(here or "feed.xml")}/>',
    ]
    if live:
        lines.append(f'<link rel="alternate" type="text/html" href={quoteattr(page or "index.html")}/>')
    for at in reversed(range(max(0, len(moves) - MOST), len(moves))):
        lines += _entry(moves, at, live, places)
    return ("\n".join([*lines, "</feed>"]) + "\n").encode("utf-8", "replace")


def _entry(moves: Sequence[RefEntry], at: int, live: Mapping[str, Counts | None], places: Places) -> list[str]:
    move = moves[at]
    kind, said = _kind(moves, at, live)
    summary = said
    counts = live.get(move.after)
    if move.after in live and counts is not None:
        summary = f"{said} It has {_count(counts.entries, 'file')} of {_count(counts.size, 'byte')}."
    name = f"Version {move.after[7:19]}" if move.after else "No version"
    dataset = move.ref.partition("/")[2]
    listing = f"versions/{move.after[7:23]}.ndjson"
    address = absolute(places, f"datasets/{dataset}/{listing}") or listing
    link = f'<link rel="alternate" type="application/x-ndjson" href={quoteattr(address)}/>'
    return [
        "<entry>",
        f"<id>{_urn(f'{ref_id(move.ref)}#{move.n}/{move.run_id}')}</id>",
        f"<title>{name}: {kind}</title>",
        f"<updated>{_text(move.ts)}</updated>",
        f'<category term="{kind}"/>',
        *([link] if move.after in live else []),
        f"<summary>{summary}</summary>",
        "</entry>",
    ]


def _kind(moves: Sequence[RefEntry], at: int, live: Mapping[str, Counts | None]) -> tuple[str, str]:
    """Return the kind of a move, and a sentence about it."""
    move = moves[at]
    if not move.after:
        return "withdrawn", "The dataset was withdrawn. Nothing of it is public."
    if move.after not in live:
        return "gone", "This version is no longer public."
    earlier = {each.after for each in moves[:at]}
    if move.after in earlier:
        return "restored", "The dataset is at this version again."
    if earlier - {""}:
        return "changed", "A new version of the dataset was published."
    return "new", "The dataset was published for the first time."


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _urn(name: str) -> str:
    """Return an id that stays the same wherever the archive moves."""
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, name)}"


def _text(text: str) -> str:
    """Return a text as XML allows it: without control characters."""
    return escape("".join(each for each in text if each >= " " and each not in "\ufffe\uffff"))
