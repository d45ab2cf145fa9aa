"""kfm diff: two versions of a dataset, key by key."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kfm.cli.opening import known_dataset, opened, settings
from kfm.cli.reading import shown_key
from kfm.cli.render import Screen, short, size
from kfm.contract.manifests import changes
from kfm.contract.names import is_digest
from kfm.documents.characters import printable
from kfm.errors import BadInput

if TYPE_CHECKING:
    from kfm.contract.records import RefEntry
    from kfm.house.opening import House

ZONES = ("processed", "published")


def diff(options: argparse.Namespace, screen: Screen) -> int:
    resolved = settings(options)
    name = known_dataset(options, screen, resolved, options.dataset)
    with opened(options, screen, "read", resolved) as house:
        moves = {zone: list(house.state.refs.history(f"{zone}/{name}")) for zone in ZONES}
        after = _version(name, moves, options.to)
        before = (
            _superseded(moves, options.to, after) if options.leaves is None else _version(name, moves, options.leaves)
        )
        _tell(house, screen, name, before, after)
    return 0


def _tell(house: House, screen: Screen, name: str, before: str, after: str) -> None:
    found = list(changes(house.readable, before, after))
    counts = {what: sum(1 for each in found if each.what == what) for what in ("added", "changed", "removed")}
    if screen.json:
        told = [{"change": each.what, "key": each.key, "before": each.old, "after": each.new} for each in found]
        screen.data({"dataset": name, "from": before, "to": after, **counts, "changes": told})
        return
    rows = []
    for each in found:
        entry = each.new or each.old
        old, new = (side.digest if side else "" for side in (each.old, each.new))
        rows.append((each.what, shown_key(each.key), size(entry.size) if entry else "", short(old), short(new)))
    screen.table(("change", "key", "size", "before", "after"), rows)
    counted = ", ".join(f"{count} {what}" for what, count in counts.items())
    screen.say(f"{counted}; from {short(before) or 'nothing'} to {short(after) or 'nothing'}")


def _version(name: str, moves: dict[str, list[RefEntry]], text: str) -> str:
    """The digest that was meant: of a version this dataset was at."""
    if text in ZONES:
        if not moves[text]:
            raise BadInput(f"{name} has no {text} version", hint=f"see `kfm refs list {text}/`")
        return moves[text][-1].after
    if text == "nothing":
        return ""
    start = text.removeprefix("sha256:")
    if not is_digest(text) and not (4 <= len(start) < 64 and all(c in "0123456789abcdef" for c in start)):
        raise BadInput(
            f"{printable(text)} is not a version", hint="give processed, published, sha256:… or the start of it"
        )
    known = {move.after for zone in ZONES for move in moves[zone]} - {""}
    found = [version for version in known if version.startswith(f"sha256:{start}")]
    if len(found) == 1:
        return found[0]
    if is_digest(text):
        said = f"{name} was never at {text}"
    else:
        said = f"no version of {name} begins with {start}" if not found else f"{len(found)} versions begin with {start}"
    raise BadInput(said, hint=f"see `kfm refs history processed/{name}`")


def _superseded(moves: dict[str, list[RefEntry]], text: str, version: str) -> str:
    """Where the ref was before it came to this version, the last time it did."""
    for zone in (text,) if text in ZONES else ZONES:
        for move in reversed(moves[zone]):
            if move.after == version:
                return move.before
    return ""
