"""A readable version: it stays the version that it was when it was requested."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kfm.app.data import frames, version_reader
from kfm.app.data.version_view import view_of
from kfm.client.display import Displayable, as_html, inline_map, short
from kfm.errors import KfmError

if TYPE_CHECKING:
    import geopandas
    import pandas
    import polars
    import pyarrow
    import xarray

    from kfm.app.data.version_reader import Read, Selection
    from kfm.app.session.session import Session
    from kfm.model.records import ManifestEntry

Opened = Callable[[], AbstractContextManager["Session"]]


class Entries(Protocol):
    """A version with the entries of it that were requested."""

    @property
    def dataset(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def entries(self) -> tuple[ManifestEntry, ...]: ...


class VersionReading(Displayable):
    """A version that was requested, here or from a server. Nothing is read until one of its methods is called, which
    then reads everything or raises."""

    __slots__ = ("_found", "_public")

    _found: Entries
    _public: bool  # whether the size of the data may be displayed

    @property
    def dataset(self) -> str:
        return self._found.dataset

    @property
    def version(self) -> str:
        """The digest of the version."""
        return self._found.version

    @property
    def size(self) -> int:
        """The size in bytes of the requested entries; for encrypted data, their stored size."""
        return sum(entry.size for entry in self._found.entries)

    def keys(self) -> list[tuple[str, ...]]:
        """Return the keys of the requested entries, sorted."""
        return [entry.key for entry in self._found.entries]

    @abstractmethod
    def _reading(self) -> AbstractContextManager[tuple[Read, Selection]]:
        """Return what reads the bytes of an entry, and the requested entries."""

    def bytes(self) -> bytes:
        """Return the bytes of the requested entry. If the version has several entries, the caller must request
        a key."""
        with self._reading() as (read, found):
            return read(found, version_reader.only(found))

    def rows(self) -> list[dict[str, Any]]:
        """Return rows: CSV values as text, records of NDJSON and JSON, features of GeoJSON, rows of Parquet. Several
        entries follow each other.
        """
        with self._reading() as (read, found):
            return version_reader.rows_by(read, found)

    def polars(self, *, text: bool = False) -> polars.DataFrame:
        """Return a polars frame. A CSV column becomes numeric where that loses nothing; with `text` it never does."""
        with self._reading() as (read, found):
            return frames.polars(read, found, text=text)

    def pandas(self, *, text: bool = False) -> pandas.DataFrame:
        """Return a pandas frame, by the same rules as `polars`."""
        with self._reading() as (read, found):
            return frames.pandas(read, found, text=text)

    def arrow(self, *, text: bool = False) -> pyarrow.Table:
        """Return an Arrow table, by the same rules as `polars`."""
        with self._reading() as (read, found):
            return frames.arrow(read, found, text=text)

    def geopandas(self) -> geopandas.GeoDataFrame:
        """Return a frame of GeoJSON or GeoParquet."""
        with self._reading() as (read, found):
            return frames.geopandas(read, found)

    def xarray(self) -> xarray.Dataset:
        """Return NetCDF, GeoTIFF, GRIB2 or Zarr as a dataset; tables are converted by pandas."""
        with self._reading() as (read, found):
            return frames.xarray(read, found)

    def _title(self) -> str:
        title = f"{self.dataset or 'an object'} {short(self.version)}"
        count = len(self._found.entries)
        entries = "1 entry" if count == 1 else f"{count} entries"
        return f"{title}: {entries}, {self.size} bytes" if self._public else title

    def _table(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        kinds: dict[str, int] = {}
        for entry in self._found.entries if self._public else ():
            kinds[entry.media_type] = kinds.get(entry.media_type, 0) + 1
        return ("type", "entries"), list(kinds.items())


class Reading(VersionReading):
    """The result of `read` of an installation."""

    __slots__ = ("_opened",)

    _found: Selection

    def __init__(self, found: Selection, opened: Opened, *, public: bool) -> None:
        """`public` says whether the size of the data may be displayed."""
        self._found = found
        self._opened = opened
        self._public = public

    @property
    def ref(self) -> str:
        """The ref that led to the version; empty if the caller named the version itself."""
        return self._found.ref

    @contextmanager
    def _reading(self) -> Iterator[tuple[Read, Selection]]:
        with self._opened() as session:
            yield partial(version_reader.bytes_of, session), self._found

    def _repr_html_(self) -> str:
        """Return the table of types, and of plainly public data its first rows and a map of its places."""
        names, kinds = self._table()
        page = as_html(self._title(), names, kinds)
        if not self._public:
            return page
        try:
            with self._opened() as session:
                view = view_of(session, self._found)
        except KfmError:  # a display raises nothing; `rows()` says what is wrong
            view = None
        if view is None:
            return page
        rows = as_html("the first rows", view.columns, view.rows) if view.rows else ""
        return page + rows + (inline_map(view.svg) if view.svg else "")
