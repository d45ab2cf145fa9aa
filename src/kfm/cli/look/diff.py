"""kfm diff: compare two versions, key by key and row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kfm.app.data.version_diff import difference
from kfm.app.session.input_checks import as_flag
from kfm.cli.look.cat import shown_key
from kfm.cli.render import Screen, clean, short, size
from kfm.cli.session import opened
from kfm.errors import EXIT_CODES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from kfm.app.data.row_diff import RowDifference
    from kfm.app.data.version_diff import Difference, KeyChange, Point
    from kfm.cli.parser import Parser
    from kfm.cli.render import Screen


WIDTH = 400  # characters of a row that is shown


MORE = """\
A and B are DATASET, DATASET@VERSION, DATASET@DATE, a ref such as published/DATASET (with @ too) or a
digest. A VERSION is a digest, the start of one, `processed`, `published` or `nothing`; a DATE the end of a
day in UTC, or an instant. Without B, the first is the version before A. Rows of CSV, GeoJSON, NDJSON and
(with pyarrow) Parquet are matched by the column that a contract calls unique and required, by the columns
an output is deduplicated by, or by --key; without any they are only added and removed. Versions of masked
data are only counted; protected data is refused. `kfm cat` with its digest reads what was removed.
exit: 0, or with --check 3 if they differ"""


def arguments(parser: Parser) -> None:
    parser.add_argument("a", metavar="A", help="the first; alone: the second")
    parser.add_argument("b", nargs="?", default=None, metavar="B", help="the second")
    parser.add_argument(
        "--from", dest="leaves", default=None, metavar="VERSION", help="without B: the first (default: see above)"
    )
    parser.add_argument("--to", default=None, metavar="VERSION", help="without B: the second (default: `processed`)")
    parser.add_argument("--rows", action="store_true", help="show rows, too")
    parser.add_argument("--limit", type=_count, default=20, metavar="N", help="at most so many of them (default: 20)")
    parser.add_argument("--key", default="", metavar="COLUMNS", help="columns that identify a row: id, or state,county")
    parser.add_argument("--keys-only", action="store_true", help="do not compare rows")
    parser.add_argument("--check", action="store_true", help="exit 3 if they differ")
    parser.set_defaults(handler=diff)


def diff(options: argparse.Namespace, screen: Screen) -> int:
    key = tuple(name for name in options.key.split(",") if name)
    with opened(options, screen, "read") as session:
        found = difference(
            session,
            options.a,
            options.b,
            leaves=options.leaves,
            to=options.to,
            key=key,
            limit=options.limit if options.rows else 0,
            keys_only=options.keys_only,
            spelled=as_flag,
        )
    if screen.json:
        screen.data(_plain(found))
    else:
        _tell(screen, found)
    return EXIT_CODES["refused" if options.check and not found.is_same else "done"]


def _tell(screen: Screen, found: Difference) -> None:
    """Print a summary line, then each changed key, then rows if they were requested."""
    counted = f"{found.added} added, {found.changed} changed, {found.removed} removed"
    screen.say(f"{counted}; from {_named(found.before, found.after)} to {short(found.after.version) or 'nothing'}")
    if found.rows is not None and not found.is_same:
        screen.say(f"rows: {_counted(found.rows)}")
    elif found.why and not found.is_same:
        screen.say(f"rows are not compared: {found.why}")
    if found.changes or found.is_same:
        screen.table(("change", "key", "size", "before", "after", "rows"), map(_line, found.changes))
    for each in found.changes:
        if each.rows is not None and each.rows.shown:
            screen.line()
            screen.line(clean(shown_key(each.change.key)) + (f", by {', '.join(each.rows.by)}" if each.rows.by else ""))
            for mark, values in _rows(each.rows):
                screen.line(f"  {mark} {values}")


def _named(before: Point, after: Point) -> str:
    said = short(before.version) or "nothing"
    return said if before.dataset == after.dataset else f"{said} of {before.dataset}"


def _counted(rows: RowDifference) -> str:
    columns = [f"column {name} added" for name in rows.columns_added]
    columns += [f"column {name} gone" for name in rows.columns_removed]
    return ", ".join([f"{rows.added} added", f"{rows.changed} changed", f"{rows.removed} removed", *columns[:5]])


def _line(each: KeyChange) -> tuple[str, ...]:
    change, entry = each.change, each.change.new or each.change.old
    old, new = (short(side.digest) if side else "" for side in (change.old, change.new))
    rows = f"+{each.rows.added} ~{each.rows.changed} -{each.rows.removed}" if each.rows is not None else ""
    return change.what, shown_key(change.key), size(entry.size) if entry else "", old, new, rows


def _rows(rows: RowDifference) -> Iterator[tuple[str, str]]:
    import msgspec

    def text(values: Any) -> str:
        said = clean(msgspec.json.encode(values).decode())
        return said if len(said) <= WIDTH else said[:WIDTH] + "…"

    for each in rows.shown:
        if each.before is not None and each.after is not None:
            differ = [name for name in {**each.before, **each.after} if each.before.get(name) != each.after.get(name)]
            kept = {name: value for name, value in each.after.items() if name in rows.by}
            yield "-", text({**kept, **{name: each.before.get(name) for name in differ}})
            yield "+", text({**kept, **{name: each.after.get(name) for name in differ}})
        elif each.after is not None:
            yield "+", text(each.after)
        else:
            yield "-", text(each.before)


def _plain(found: Difference) -> dict[str, Any]:
    counts = ("added", "changed", "removed")
    return {
        "dataset": found.after.dataset,
        "from": found.before.version,
        "to": found.after.version,
        "same": found.is_same,
        **{name: getattr(found, name) for name in counts},
        "changes": [
            {
                "change": each.change.what,
                "key": each.change.key,
                "before": each.change.old,
                "after": each.change.new,
                "rows": each.rows,
                "why": each.why,
            }
            for each in found.changes
        ],
        "rows": {name: getattr(found.rows, name) for name in counts} if found.rows is not None else None,
        "why": found.why,
    }


def _count(text: str) -> int:
    from argparse import ArgumentTypeError

    if not (text.isascii() and text.isdigit() and 1 <= int(text[:6]) <= 10_000):
        raise ArgumentTypeError("must be a number from 1 to 10000")
    return int(text)
