"""The formats of a state, and the upgrade from older ones.

sql/ lists the tables of each format by number; every backend uses the same names. This module rewrites the rows of an
older format over any Tables, so that every backend does the same. An older program refuses a format it does not know:
SQLite by the number in the file, a journal by the number in its lines.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.lineage_edges import made_by
from kfm.model.ports import Tables
from kfm.model.records import Receipt

FORMAT = 10


def _follow_the_ledger(tables: Tables) -> None:
    """Replace the rows of single deliveries by a cursor for each sink and, for each dataset, how far it was
    reported."""
    waiting: dict[str, str] = {}  # by dataset: the run with the oldest waiting move
    for key, body in list(tables.scan("outbox")):
        if key.startswith("publish/"):
            payload = msgspec.json.decode(body)["payload"]
            waiting.setdefault(payload["dataset"], payload["run_id"])
        tables.delete("outbox", key)
    told: dict[str, int] = {}
    pending: set[str] = set()
    for key, body in tables.scan("history", refs.PUBLISHED):
        name, _, n = key.removeprefix(refs.PUBLISHED).rpartition("@")
        if name in waiting and msgspec.json.decode(body)["run_id"] == waiting[name]:
            pending.add(name)
        if name not in pending:
            told[name] = int(n)
    for name in sorted(told.keys() | pending):
        tables.put("outbox", f"told/publish/{name}", b'{"keep":-1,"moves":%d}' % told.get(name, 0))
    for name in sorted(pending):
        tables.put("outbox", f"due/publish/{name}", b"{}")
    for index, _ in tables.scan("ledger", reverse=True, limit=1):
        tables.put("meta", "cursor/publish", b"%d" % int(index))
    exported = tables.get("meta", "exported")
    if exported is not None:
        tables.put("meta", "cursor/receipts", exported)
        tables.delete("meta", "exported")


def _key_by_dataset(tables: Tables) -> None:
    """Key unfinished runs and waiting triggers by dataset instead of by id, and index ended runs by dataset."""
    for run_id, body in list(tables.scan("open_runs")):
        run = tables.get("runs", run_id)
        tables.delete("open_runs", run_id)
        if run is not None:
            tables.put("open_runs", f"{msgspec.json.decode(run)['dataset']}/{run_id}", body)
    for trigger_id, body in list(tables.scan("inbox")):
        tables.delete("inbox", trigger_id)
        tables.put("inbox", f"{msgspec.json.decode(body)['dataset']}/{trigger_id}", body)
    for index, body in tables.scan("ledger"):
        tables.put("ended_runs", f"{msgspec.json.decode(body)['dataset']}/{index}", b"{}")


def _to_format_4(tables: Tables) -> None:
    _follow_the_ledger(tables)
    _key_by_dataset(tables)


def _draw_the_graph(tables: Tables) -> None:
    """Build the index of which run read which data. Older formats recorded that only in receipts."""
    from kfm.store.lineage_index import rows_of

    for index, body in tables.scan("ledger"):
        entry = msgspec.json.decode(body)
        written = tables.get("receipts", entry["run_id"])
        if written is None:
            continue  # damage, which `kfm audit verify` reports
        receipt = msgspec.json.decode(written, type=Receipt)
        version = tables.get("versions", f"{receipt.dataset}@{made_by(receipt)}")
        maker = msgspec.json.decode(version)["run_id"] if version is not None else receipt.run_id
        tables.put_many("lineage", rows_of(int(index), receipt, maker))


# By the format that each step leads to.
STEPS: dict[int, Callable[[Tables], None]] = {4: _to_format_4, 6: _draw_the_graph}


def upgrade(tables: Tables, have: int, to: int = FORMAT) -> None:
    """Rewrite the rows of an older format, within the transaction that sets the new format: all of them or none."""
    for number in sorted(STEPS):
        if have < number <= to:
            STEPS[number](tables)


def upgraded(tables: Tables, have: int) -> Tables:
    """Return these tables as this format has them. Those of an older format stay as they are: what an upgrade writes
    is in memory."""
    if have >= FORMAT:
        return tables
    from kfm.store.overlay import OverlayTables

    newer = OverlayTables(tables)
    upgrade(newer, have)
    return newer


def too_new(what: str, found: int, known: int = FORMAT) -> Refused:
    return Refused(
        f"{what} has format {found}, this kfm knows up to {known}",
        hint="use the newer kfm that wrote it",
        code_hint="version.too_new",
    )
