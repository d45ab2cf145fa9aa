"""Reads a version for a program: resolves its name, and returns its bytes, rows or columns.

It reads the same objects as `kfm cat`, with the keys at hand. A damaged, missing or undecryptable object yields no
byte. Messages name a version and never a key, because a key may be a value of protected data.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from kfm import DISTRIBUTION
from kfm.app.runs.queries import entries_of, exact_key, find_entry, find_version
from kfm.app.runs.resolve import find_thing
from kfm.app.session.protection_files import readable_objects
from kfm.app.stewards.protected_tables import Columns, columns_in, objects_of, records_of, table_of
from kfm.errors import BadInput, Corrupt, KfmError, Unavailable
from kfm.model.lineage_edges import ZONES
from kfm.model.names import check_ref
from kfm.model.records import Layout, ManifestEntry
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session

TABLES = {"text/csv": ",", "text/tab-separated-values": "\t"}
LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
DOCUMENTS = frozenset({"application/json", "application/geo+json"})
GEOJSON = "application/geo+json"
PARQUET = "application/vnd.apache.parquet"
NETCDF = frozenset({"application/netcdf", "application/x-netcdf"})


class Selection(NamedTuple):
    """A version of a dataset with its selected entries, or one object."""

    dataset: str
    ref: str  # the ref that was resolved; empty if the version was named itself
    version: str
    entries: tuple[ManifestEntry, ...]

    @property
    def name(self) -> str:
        """The name of the selected version or object in messages."""
        return f"{self.dataset} {self.version[:19]}".lstrip()


Read = Callable[[Selection, ManifestEntry], bytes]  # returns the bytes of an entry, checked against their digest


def find(session: Session, what: str, key: str | tuple[str, ...] = "", version: str = "", ref: str = "") -> Selection:
    """Return the version that is named; for a dataset the published one, else the processed one. `version` or `ref`
    select another. BadInput if there is none."""
    if version and ref:
        raise BadInput("a version and a ref are both named", hint="give one of them")
    if ref:
        name = check_ref(f"{ref}/{what}" if ref in ZONES else ref)
        digest, is_version = find_version(session, name)
        if not is_version or name.partition("/")[2] != what.removeprefix("kfm://dataset/"):
            raise BadInput(f"{printable(name)} is no version of {printable(what)}", hint="see `kfm refs list`")
        return _version(session, name.partition("/")[2], name, digest, key)
    thing = find_thing(session, f"{what}@{version}" if version else what)
    if thing.version and thing.kind in ("dataset", "version", "ref"):
        return _version(session, thing.dataset, thing.ref, thing.version, key)
    if thing.kind == "dataset":
        raise BadInput(f"{thing.dataset} has no version yet", hint=f"make one: `kfm run {thing.dataset}`")
    if not thing.digest:
        raise BadInput(f"{printable(what)} is nothing that can be read", hint="name a dataset, a version or an object")
    if key:
        raise BadInput(f"{printable(what)} has no entries", hint="leave the key out")
    plain = ManifestEntry(key=(), digest=thing.digest, size=readable_objects(session).size(thing.digest), media_type="")
    return Selection("", thing.ref, thing.digest, (plain,))


def _version(session: Session, dataset: str, ref: str, version: str, key: str | tuple[str, ...]) -> Selection:
    _must_be_there(session, version, f"the version {version[:19]} of {dataset}")
    if key:
        text = key if isinstance(key, str) else exact_key(key)
        return Selection(dataset, ref, version, (find_entry(session, version, text),))
    return Selection(dataset, ref, version, tuple(entries_of(session, version)))


def _must_be_there(session: Session, digest: str, what: str) -> None:
    if not readable_objects(session).has(digest):
        raise Corrupt(
            f"{what} is gone: its bytes are not in the store",
            hint="restore the objects from a backup; `kfm doctor --deep` names all that is missing",
        )


def bytes_of(session: Session, found: Selection, entry: ManifestEntry) -> bytes:
    """Return the bytes of an entry, checked against their digest. Corrupt if they are missing."""
    _must_be_there(session, entry.digest, f"an object of {found.name} ({entry.digest[:19]})")
    return readable_objects(session).read(entry.digest)


def only(found: Selection) -> ManifestEntry:
    """Return the single entry of a selection. BadInput unless there is exactly one."""
    if len(found.entries) != 1:
        count = len(found.entries)
        raise BadInput(f"{found.name} has {count} entries" if count else f"{found.name} is empty", hint="name a key")
    return found.entries[0]


def kind_of(found: Selection) -> str:
    """Return the media type of all entries, without parameters. BadInput if they differ."""
    kinds = {entry.media_type.partition(";")[0].strip().lower() for entry in found.entries}
    if len(kinds) > 1:
        raise BadInput(f"{found.name} holds data of several types", hint="name a key")
    return kinds.pop() if kinds else ""


def rows_by(read: Read, found: Selection) -> list[dict[str, Any]]:
    """Return the rows of a selection as stored, entry by entry in key order. Values of a table are text."""
    kind = kind_of(found)
    if kind in LINES | DOCUMENTS:
        return records_by(read, found)
    columns = columns_by(read, found)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def records_by(read: Read, found: Selection) -> list[dict[str, Any]]:
    """Return the records of the JSON entries of a selection."""
    lines = kind_of(found) in LINES
    return [one for entry in found.entries for one in records_of(read(found, entry), found.name, lines=lines)]


def features_by(read: Read, found: Selection) -> list[dict[str, Any]]:
    """Return the objects of the JSON entries of a selection as they are; `rows_by` returns features flattened."""
    lines = kind_of(found) in LINES
    return [one for entry in found.entries for one in objects_of(read(found, entry), found.name, lines=lines)]


def columns_by(read: Read, found: Selection) -> Columns:
    """Return the columns of a selection. Tables of several entries are joined; BadInput if their columns differ."""
    kind = kind_of(found)
    if kind in LINES | DOCUMENTS:
        return columns_in(records_by(read, found))
    if not found.entries:
        return {}
    if kind == PARQUET:
        return _parquet(read, found)
    if kind not in TABLES:
        raise BadInput(f"{found.name} is {kind or 'of no known type'}, which has no rows", hint="read it as bytes")
    whole: dict[str, list[Any]] = {}
    for number, entry in enumerate(found.entries):
        layout = Layout(delimiter=TABLES[kind], encoding=_charset(entry.media_type))
        one = table_of(read(found, entry), found.name, layout)
        _add(whole, one, found, first=not number)
    return {**whole}


def _add(whole: dict[str, list[Any]], one: Columns, found: Selection, *, first: bool) -> None:
    if first:
        whole.update({name: [] for name in one})
    if list(one) != list(whole):
        raise BadInput(f"the entries of {found.name} have other columns each", hint="name a key")
    for name, column in one.items():
        whole[name].extend(column)


def _charset(media_type: str) -> str:
    for part in media_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return "utf-8"


def _parquet(read: Read, found: Selection) -> Columns:
    parquet = library("pyarrow.parquet", "parquet")
    whole: dict[str, list[Any]] = {}
    for number, entry in enumerate(found.entries):
        body = io.BytesIO(read(found, entry))
        table = understood(partial(parquet.read_table, body), f"{found.name} cannot be read as Parquet")
        _add(whole, {name: table.column(name).to_pylist() for name in table.column_names}, found, first=not number)
    return {**whole}


def library(name: str, extra: str) -> Any:
    """Return an optional library. Unavailable, with the extra to install, if it cannot be imported."""
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        what = f"{name.partition('.')[0]} is not installed, or does not work"
        raise Unavailable(what, hint=f"pip install '{DISTRIBUTION}[{extra}]'") from problem


def understood(make: Callable[[], Any], otherwise: str) -> Any:
    """Call `make`, which converts data with an optional library, and return its result. Raise BadInput if it fails; the
    error names only the type of the library's error, whose text may quote the data."""
    try:
        return make()
    except (KfmError, MemoryError):
        raise
    except Exception as problem:
        raise BadInput(f"{otherwise}: {type(problem).__name__}", hint="read it as rows or as bytes") from None
