"""Compares two versions: which keys were added, changed and removed, and which rows within them.

A caller who may read the data may compare keys. Rows and their counts are shown only for public data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kfm.app.data.row_diff import RowDifference, compare_rows, nothing
from kfm.app.data.row_reader import Unknown, rows_of
from kfm.app.runs.visibility import Visibility
from kfm.app.session.input_checks import Spelled
from kfm.app.session.protection_files import readable_objects
from kfm.clock import parse_instant
from kfm.errors import BadInput, Denied
from kfm.model import refs
from kfm.model.labels import LEVELS, PUBLISHABLE, Level
from kfm.model.manifests import Change, changes
from kfm.model.names import check_ref, dataset_id, is_digest
from kfm.model.records import Record, RefEntry
from kfm.parsing.characters import printable
from kfm.parsing.dates import is_date
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.app.session.session import Session

ZONES = ("processed", "published")
DAY_MS = 86_400_000
SHOWN = 20
HINT = "give DATASET, DATASET@published, DATASET@2026-01-31, DATASET@sha256:…, or a ref such as processed/DATASET"


class Point(Record, frozen=True):
    """A version of a dataset."""

    dataset: str
    zone: str
    version: str  # empty if there is no version


class KeyChange(Record, frozen=True):
    """A changed key, with the difference of its rows."""

    change: Change
    rows: RowDifference | None = None  # None if not shown
    why: str = ""  # why the rows are not shown


class Difference(Record, frozen=True):
    """The difference between two versions."""

    before: Point
    after: Point
    added: int
    changed: int
    removed: int
    changes: list[KeyChange]  # empty if only counts may be shown
    rows: RowDifference | None  # of all keys together; None if one is not shown
    why: str = ""  # why something is not shown

    @property
    def is_same(self) -> bool:
        return not (self.added or self.changed or self.removed)


def difference(
    session: Session,
    a: str,
    b: str | None = None,
    *,
    leaves: str | None = None,
    to: str | None = None,
    key: tuple[str, ...] = (),
    limit: int = 0,
    keys_only: bool = False,
    spelled: Spelled = str,
) -> Difference:
    """Return the difference between two versions that a person names, with at most `limit` rows of each key. Without
    `b` the first is the version before `a`, or `leaves`. Versions of masked data are only counted. BadInput for names
    that do not go together, Denied for protected data."""
    if b is not None and (leaves is not None or to is not None):
        first, second = spelled("from"), spelled("to")
        raise BadInput(
            f"{first} and {second} go with one dataset", hint=f"give A and B, or one of them and {first} or {second}"
        )
    before, after = _points(session, a, b, leaves, to, spelled)
    only_counts = b is not None and not check_may_compare(session, before, after)
    found = compare(session, before, after, key=key, limit=limit, look=not keys_only and not only_counts)
    return counted_only(found) if only_counts else found


def _points(
    session: Session, a: str, b: str | None, leaves: str | None, to: str | None, spelled: Spelled
) -> tuple[Point, Point]:
    if b is not None:
        if "@" not in a and "/" not in a and a not in session.config.datasets:
            after = find_point(session, b)
            return find_point(session, a, beside=after.dataset), after
        before = find_point(session, a)
        return before, find_point(session, b, beside=before.dataset)
    if to is not None and "@" in a:
        raise BadInput(f"A names a version, and {spelled('to')} another", hint="leave one of them out")
    after = find_point(session, a if to is None else f"{a}@{to}")
    if leaves is None:
        return superseded(session, after), after
    return find_point(session, f"{after.dataset}@{leaves}"), after


def find_point(session: Session, text: str, beside: str = "") -> Point:
    """Return the version that a text names. `beside` is the dataset on the other side, to which a bare version belongs.
    BadInput if there is none."""
    name, at, which = text.partition("@")
    if not at and beside and (text in (*ZONES, "nothing") or _is_version(text)) and text not in session.config.datasets:
        return _which(session, Point(dataset=beside, zone="processed", version=""), text)
    if not at and text.startswith("sha256:"):
        return _owner(session, text)
    point = _named(session, name)
    return _which(session, point, which) if at else _now(session, point.zone, point.dataset)


def _named(session: Session, text: str) -> Point:
    """Return the version of the dataset or ref with this name."""
    zone, slash, name = text.rpartition("/")
    if slash:
        check_ref(text)
        if not text.startswith((*(f"{zone}/" for zone in ZONES), refs.PREVIEW)):
            raise BadInput(f"{printable(text)} is no ref of a dataset", hint=HINT)
    name = dataset_id(name)
    zone = zone or "processed"
    if name not in session.config.datasets and not any(session.state.refs.at(f"{each}/{name}") for each in ZONES):
        close = nearest(name, sorted(session.config.datasets))
        raise BadInput(f"there is no dataset {printable(name)}", hint=f"did you mean {close}?" if close else HINT)
    return Point(dataset=name, zone=zone, version="")


def _now(session: Session, zone: str, name: str) -> Point:
    for move in session.state.refs.history(refs.in_zone(zone, name), reverse=True, limit=1):
        return Point(dataset=name, zone=zone, version=move.after)  # empty if it was withdrawn
    raise BadInput(f"{name} has no {zone} version", hint=f"see `kfm refs list {zone}/`")


def _is_version(text: str) -> bool:
    start = text.removeprefix("sha256:")
    return is_date(text[:10]) or (4 <= len(start) <= 64 and all(c in "0123456789abcdef" for c in start))


def _which(session: Session, point: Point, text: str) -> Point:
    name = point.dataset
    if text == "nothing":
        return Point(dataset=name, zone=point.zone, version="")
    if text in ZONES:
        return _now(session, text, name)
    if is_date(text[:10]):
        return Point(dataset=name, zone=point.zone, version=_at(session, point, text))
    moves = [
        move
        for zone in dict.fromkeys((point.zone, *ZONES))
        for move in session.state.refs.history(refs.in_zone(zone, name))
    ]
    return Point(dataset=name, zone=point.zone, version=version_of(name, moves, text))


def version_of(name: str, moves: list[RefEntry], text: str) -> str:
    """Return the digest of a version that this dataset had, given the digest or its start. BadInput unless exactly one
    matches."""
    start = text.removeprefix("sha256:")
    if not is_digest(text) and not (4 <= len(start) < 64 and all(c in "0123456789abcdef" for c in start)):
        raise BadInput(
            f"{printable(text)} is not a version",
            hint="give processed, published, sha256:… or the start of it, or a day such as 2026-01-31",
        )
    known = {move.after for move in moves} - {""}
    those = [version for version in known if version.startswith(f"sha256:{start}")]
    if len(those) == 1:
        return those[0]
    if is_digest(text):
        said = f"{name} was never at {text}"
    else:
        said = f"no version of {name} begins with {start}" if not those else f"{len(those)} versions begin with {start}"
    raise BadInput(said, hint=f"see `kfm refs history processed/{name}`")


def _at(session: Session, point: Point, text: str) -> str:
    """Return the version of the ref at an instant, or at the end of a day in UTC. BadInput if there was none."""
    until_ms = (
        parse_instant(f"{text}T00:00:00Z", "the day") + DAY_MS - 1 if len(text) == 10 else parse_instant(text, "@")
    )
    version = ""
    for move in session.state.refs.history(refs.in_zone(point.zone, point.dataset)):
        if parse_instant(move.ts, "a move") > until_ms:
            break
        version = move.after
    if not version:
        hint = f"see `kfm refs history {point.zone}/{point.dataset}`"
        raise BadInput(f"{point.dataset} had no {point.zone} version then", hint=hint)
    return version


def _owner(session: Session, text: str) -> Point:
    """Return the dataset and zone of a version that is named by its digest alone. BadInput unless exactly one
    matches."""
    start, those = text, set[tuple[str, str, str]]()
    if len(start) < len("sha256:") + 4:
        raise BadInput(f"{printable(text)} is not a version", hint=HINT)
    for zone in ZONES:
        for move in session.state.refs.histories(f"{zone}/"):
            if move.after.startswith(start):
                those.add((refs.parse(move.ref).dataset, zone, move.after))
    names = {name for name, _, _ in those}
    if len(names) == 1 and len({version for _, _, version in those}) == 1:
        name, zone, version = sorted(those)[0]
        return Point(dataset=name, zone=zone, version=version)
    said = f"{len(names)} datasets have" if names else "no dataset was ever at"
    raise BadInput(f"{said} a version {printable(text)}", hint="say whose it is: DATASET@sha256:…")


def compare(
    session: Session, before: Point, after: Point, *, key: tuple[str, ...] = (), limit: int = 0, look: bool = True
) -> Difference:
    """Return the difference between two versions. `key` names the key columns, if other than declared. `limit` is the
    number of rows to show; without `look`, only keys are compared. Denied if rows are requested of data that is not
    public."""
    level = _level(session, before, after)
    may_look = look and level == "public"
    if limit and not may_look:
        raise Denied(
            f"rows are not shown of {after.dataset}: it is not public ({level})",
            hint="leave out --rows to compare keys; `kfm cat` shows one",
        )
    by = _keys(session, key, before.dataset, after.dataset)
    listed: list[KeyChange] = []
    left = limit
    for change in changes(readable_objects(session), before.version, after.version):
        each = _with_rows(session, change, by, left) if may_look else KeyChange(change=change, why=_why(level, look))
        listed.append(each)
        left -= len(each.rows.shown) if each.rows is not None else 0
    counts = {what: sum(1 for each in listed if each.change.what == what) for what in ("added", "changed", "removed")}
    differences = [each.rows for each in listed if each.rows is not None]
    return Difference(
        before=before,
        after=after,
        **counts,
        changes=listed,
        rows=_together(differences) if len(differences) == len(listed) else None,
        why=next((each.why for each in listed if each.why), ""),
    )


def counted_only(found: Difference) -> Difference:
    """Return a difference reduced to counts of keys, which may be shown to any caller for masked data."""
    import msgspec

    return msgspec.structs.replace(found, changes=[], rows=None, why="it is not public: only counts are shown")


def check_may_compare(session: Session, before: Point, after: Point) -> bool:
    """Return whether more than counts may be shown to any caller. Denied if not even counts may."""
    level = _level(session, before, after)
    if level not in PUBLISHABLE:
        raise Denied(
            f"{after.dataset} is {level}: two versions of it are not compared",
            hint=f"a person who may read it compares its keys with `kfm diff {after.dataset}`",
        )
    return level == "public"


def _level(session: Session, before: Point, after: Point) -> Level:
    """Return the more closed level of both sides."""
    openness = Visibility(session)
    found = []
    for point in (before, after):
        version = session.state.ledger.version(point.dataset, point.version) if point.version else None
        found.append(openness.level(point.dataset, version))
        if point.version and version is None:
            found.append("restricted")  # a version without a record counts as restricted
    return max(found, key=LEVELS.index)


def _why(level: Level, look: bool) -> str:
    return f"it is not public ({level})" if look else "not looked at"


def _with_rows(session: Session, change: Change, by: Callable[[str], tuple[str, ...]], limit: int) -> KeyChange:
    try:
        sides = [
            rows_of(readable_objects(session), side) if side is not None else nothing
            for side in (change.old, change.new)
        ]
        return KeyChange(change=change, rows=compare_rows(sides[0], sides[1], by("/".join(change.key)), limit))
    except Unknown as problem:
        return KeyChange(change=change, why=problem.message)


def _keys(session: Session, given: tuple[str, ...], *datasets: str) -> Callable[[str], tuple[str, ...]]:
    """Return a function that gives the key columns of an output: those given, else those it is deduplicated by, else
    the one column that a contract declares unique."""

    def of(output: str) -> tuple[str, ...]:
        if given:
            return given
        for name in datasets:
            declared = session.config.datasets.get(name)
            if declared is None:
                continue
            made = declared.outputs.get(output.partition("/")[0])
            for step in reversed(made.steps if made is not None else ()):
                if step.deduplicate is not None:
                    return tuple(step.deduplicate.by)
            unique = [
                column.name
                for source in declared.sources.values()
                for column in source.data_contract().columns
                if column.unique and column.required
            ]
            if unique:
                return (unique[0],)
        return ()

    return of


def _together(differences: list[RowDifference]) -> RowDifference:
    return RowDifference(
        added=sum(each.added for each in differences),
        changed=sum(each.changed for each in differences),
        removed=sum(each.removed for each in differences),
    )


def superseded(session: Session, point: Point) -> Point:
    """Return the version before this one: where the ref was when it last moved here."""
    for zone in dict.fromkeys((point.zone, *ZONES)):
        for move in session.state.refs.history(refs.in_zone(zone, point.dataset), reverse=True):
            if move.after == point.version:
                return Point(dataset=point.dataset, zone=zone, version=move.before)
    return Point(dataset=point.dataset, zone=point.zone, version="")
