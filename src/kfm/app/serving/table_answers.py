"""The rows of a version that may be shown, in the form that a caller asks for.

They are made of the bytes that the public files have: what is masked is masked, and nothing is decrypted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kfm import __version__
from kfm.app.data import table_forms
from kfm.app.data.row_formats import FORMS, MEDIA_TYPES, Form, own_form
from kfm.app.data.table_forms import Table
from kfm.app.data.version_reader import Selection, kind_of
from kfm.app.serving.file_answers import FoundFile
from kfm.crypto.encryption import MAGIC
from kfm.errors import BadInput, Unavailable
from kfm.model import manifests
from kfm.model.keys import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kfm.app.serving.discretion import Discretion
    from kfm.app.serving.shelf import ShownDataset
    from kfm.app.session.session import Session
    from kfm.model.records import ManifestEntry

MOST_BYTES = 16 << 20  # of stored files that are read at once to be written in another form
MOST_ENTRIES = 10_000
MOST_KEPT = 64 << 20  # bytes of written forms that a server keeps, because a client asks for a file in parts
MOST_AT_ONCE = 2  # threads that write forms
SECONDS = 5.0  # that another one waits for its turn


class VersionRows(NamedTuple):
    """The entries of a version that may be shown, and whether its dataset is plainly public."""

    dataset: str
    version: str
    entries: tuple[ManifestEntry, ...]
    is_plain: bool

    @property
    def form(self) -> Form | None:
        """The form in which all of it is stored; None if it has no rows."""
        try:
            return own_form(kind_of(self.selection))
        except BadInput:  # several types
            return None

    @property
    def selection(self) -> Selection:
        return Selection(self.dataset, "", self.version, self.entries)

    @property
    def preferred(self) -> tuple[Form, ...]:
        """All forms, the one in which it is stored first."""
        own = self.form
        return tuple(sorted(FORMS, key=lambda each: each != own))


class NoForm(Exception):
    """The rows cannot be had in any form that was asked for. `possible` are those in which they can."""

    def __init__(self, possible: Sequence[Form]) -> None:
        super().__init__()
        self.possible = possible


class _Encrypted(Exception):
    """Published bytes are never encrypted; if these are, there is nothing to show."""


class Crowded(Exception):
    """Other callers' rows are being written; ask again."""


def version_rows(
    session: Session, shown: ShownDataset, version: str, key: str, discretion: Discretion
) -> VersionRows | None:
    """Return the entries of a version, or the one that a key names; None if they may not be shown."""
    record = session.state.ledger.version(shown.dataset, version) if version in shown.standing else None
    if record is None:
        return None
    found: Iterator[ManifestEntry] = manifests.entries(session.objects, version)
    if key:
        found = (each for each in found if "/".join(each.key) == key)
    entries = tuple(islice(found, 1 if key else MOST_ENTRIES + 1))
    if key and not entries:
        return None
    return VersionRows(shown.dataset, version, entries, discretion.is_plain(shown.dataset, record))


def file_in_form(session: Session, rows: VersionRows, wanted: Sequence[Form]) -> tuple[FoundFile, Form] | None:
    """Return the rows in the first of these forms that can hold them. Raise NoForm if none can, and Crowded if too many
    callers ask at once. None if the bytes are encrypted."""
    try:
        return _in_form(session, rows, wanted)
    except _Encrypted:
        return None


def _in_form(session: Session, rows: VersionRows, wanted: Sequence[Form]) -> tuple[FoundFile, Form]:
    read = cache(partial(_table, session, rows))
    failed: set[Form] = set()
    for form in wanted:
        if (found := _stored(session, rows, form) or _written.find(rows, form)) is not None:
            return found, form
        table = read()
        if table is not None and form in table_forms.forms_of(table):
            try:
                return _written.add(rows, form, table), form
            except (BadInput, Unavailable):
                failed.add(form)
    table = read()
    possible = {*(table_forms.forms_of(table) if table is not None else ())} - failed
    raise NoForm([each for each in FORMS if each in possible or _stored(session, rows, each) is not None])


def _stored(session: Session, rows: VersionRows, form: Form) -> FoundFile | None:
    """Return the one file of a version that is stored in this form."""
    if form != rows.form or len(rows.entries) != 1:
        return None
    entry = rows.entries[0]
    if form == "csv" and not entry.media_type.startswith("text/csv"):
        return None
    if form == "ndjson" and kind_of(rows.selection) == "application/json":
        return None
    with session.objects.open(entry.digest) as file:
        _check_plain(file.read(len(MAGIC)))
    media_type = entry.media_type if form == "csv" else MEDIA_TYPES[form]
    return FoundFile(entry.digest, entry.size, media_type, rows.version)


def _table(session: Session, rows: VersionRows) -> Table | None:
    """Return the rows, read; None if there are none that can be read within the bounds."""
    small = len(rows.entries) <= MOST_ENTRIES and sum(each.size for each in rows.entries) <= MOST_BYTES
    if rows.form is None or not small:
        return None
    read = partial(_bytes_of, session)
    try:
        with _at_once:
            return table_forms.table_of(read, rows.selection, with_coordinates=rows.is_plain)
    except (BadInput, Unavailable):
        return None


def _bytes_of(session: Session, _found: Selection, entry: ManifestEntry) -> bytes:
    body = session.objects.read(entry.digest)
    _check_plain(body)
    return body


def _check_plain(body: bytes) -> None:
    if body.startswith(MAGIC):
        raise _Encrypted


class _Turns:
    """Lets a few threads in at once and turns the others away: each reads a whole table into memory."""

    def __init__(self) -> None:
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    def __enter__(self) -> None:
        if not self._places.acquire(timeout=SECONDS):
            raise Crowded

    def __exit__(self, *_: object) -> None:
        self._places.release()


class _Written:
    """The forms that were written last. A key of it names the version, the entries, the form and whether columns became
    places, so no caller gets another form than it asked for."""

    def __init__(self) -> None:
        self._bodies: OrderedDict[str, tuple[bytes, str]] = OrderedDict()
        self._guard = threading.Lock()
        self._size = 0

    def find(self, rows: VersionRows, form: Form) -> FoundFile | None:
        key = _key(rows, form)
        with self._guard:
            known = self._bodies.get(key)
            if known is None:
                return None
            self._bodies.move_to_end(key)
        return _file(rows, form, *known)

    def add(self, rows: VersionRows, form: Form, table: Table) -> FoundFile:
        with _at_once:
            body = table_forms.written(table, form)
        made = body, digest(body)
        key = _key(rows, form)
        with self._guard:
            if len(body) <= MOST_KEPT and key not in self._bodies:
                self._bodies[key] = made
                self._size += len(body)
                while self._size > MOST_KEPT:
                    _, (old, _tag) = self._bodies.popitem(last=False)
                    self._size -= len(old)
        return _file(rows, form, *made)


def _file(rows: VersionRows, form: Form, body: bytes, tag: str) -> FoundFile:
    return FoundFile(tag, len(body), MEDIA_TYPES[form], rows.version, body)


def _key(rows: VersionRows, form: Form) -> str:
    names = [f"{each.digest} {each.media_type}" for each in rows.entries]
    return digest("\n".join([__version__, form, str(rows.is_plain), *names]).encode())


_at_once = _Turns()
_written = _Written()
