"""The receipts and the telemetry of runs that changed nothing, in short form: what differs from another run's.

The ledger proves the bytes of every receipt, so none may change. But the receipts of a dataset that did not change are
alike: compressed with the one before as the dictionary, a tenth is left. The row of the other run stays as it is.
"""

from __future__ import annotations

import zlib

from kfm.errors import Corrupt
from kfm.model.ports import Tables

MARK = b"short "  # begins such a row; every other row is JSON
_TABLES = ("receipts", "telemetry")


def short_row(like: str, dictionary: bytes, body: bytes) -> bytes:
    """Return a row in short form: the run that it is like, and what differs."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zdict=dictionary)
    return MARK + like.encode() + b" " + packer.compress(body) + packer.flush()


def whole_row(tables: Tables, table: str, row: bytes) -> bytes:
    """Return a row as it was written. Raise Corrupt if the row that it is like is missing."""
    if table not in _TABLES or not row.startswith(MARK):
        return row
    like, _, rest = row.removeprefix(MARK).partition(b" ")
    dictionary = tables.get(table, like.decode("ascii", "replace"))
    try:
        if dictionary is None or dictionary.startswith(MARK):
            raise zlib.error
        unpacker = zlib.decompressobj(-15, zdict=dictionary)
        return unpacker.decompress(rest) + unpacker.flush()
    except zlib.error:
        what = f"the {'receipt' if table == 'receipts' else 'telemetry'} of a run that changed nothing cannot be read"
        raise Corrupt(what, hint="restore the state from a copy") from None
