"""Something that can be read: it stays the version that it was when it was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kfm.app.data import frames, version_reader
from kfm.client.display import Shown, short

if TYPE_CHECKING:
    import geopandas
    import pandas
    import polars
    import xarray

    from kfm.app.core.session import Session
    from kfm.app.data.version_reader import Found

Opened = Callable[[], AbstractContextManager["Session"]]


class Reading(Shown):
    """What `read` found. Nothing is read of it until one of its methods is called, and then all of it or none."""

    __slots__ = ("_found", "_opened", "_public")

    def __init__(self, found: Found, opened: Opened, *, public: bool) -> None:
        """`public`: how much there is of it may be shown."""
        self._found = found
        self._opened = opened
        self._public = public

    @property
    def dataset(self) -> str:
        return self._found.dataset

    @property
    def version(self) -> str:
        """Its digest."""
        return self._found.version

    @property
    def ref(self) -> str:
        """That led to it; empty: it was named itself."""
        return self._found.ref

    @property
    def size(self) -> int:
        """In bytes, of all that was asked for; of what is sealed, as it is stored."""
        return sum(entry.size for entry in self._found.entries)

    def keys(self) -> list[tuple[str, ...]]:
        """Of the entries that were asked for, sorted."""
        return [entry.key for entry in self._found.entries]

    def bytes(self) -> bytes:
        """Of one entry: where there are several, name a key."""
        entry = version_reader.only(self._found)
        with self._opened() as session:
            return version_reader.bytes_of(session, self._found, entry)

    def rows(self) -> list[dict[str, Any]]:
        """CSV with all its values as text, the records of NDJSON and JSON, the features of GeoJSON, Parquet. Of several
        entries one after the other."""
        with self._opened() as session:
            return version_reader.rows_of(session, self._found)

    def polars(self, *, text: bool = False) -> polars.DataFrame:
        """Of CSV a column is of numbers where that loses nothing, and with `text` never."""
        with self._opened() as session:
            return frames.polars(session, self._found, text=text)

    def pandas(self, *, text: bool = False) -> pandas.DataFrame:
        """The same for pandas."""
        with self._opened() as session:
            return frames.pandas(session, self._found, text=text)

    def geopandas(self) -> geopandas.GeoDataFrame:
        """Of GeoJSON or GeoParquet."""
        with self._opened() as session:
            return frames.geopandas(session, self._found)

    def xarray(self) -> xarray.Dataset:
        """Of NetCDF, GeoTIFF, GRIB2 or Zarr; of a table by way of pandas."""
        with self._opened() as session:
            return frames.xarray(session, self._found)

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
