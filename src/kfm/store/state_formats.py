"""The formats of a state, and what makes one of ours out of an older one.

Which tables a format has is in sql/, numbered: every backend keeps them under the same names. What has to be
written anew out of the rows of an older format is here, over any Tables, so that every backend does the same.
An older program refuses what it does not know: SQLite by the number in the file, a journal by that in its lines.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kfm.errors import Refused
from kfm.model import refs
from kfm.model.lineage_edges import made_by
from kfm.model.ports import Tables
from kfm.model.records import Receipt

FORMAT = 8


def _follow_the_ledger(tables: Tables) -> None:
    """A row waited for every delivery. Now every sink has a cursor, and of each dataset it is known what was told."""
    waiting: dict[str, str] = {}  # by dataset: the run whose move waits longest
    for key, body in list(tables.scan("outbox")):
        if key.startswith("publish/"):
            payload = msgspec.json.decode(body)["payload"]
            waiting.setdefault(payload["dataset"], payload["run_id"])
        tables.delete("outbox", key)
    told: dict[str, int] = {}
    owed: set[str] = set()
    for key, body in tables.scan("history", refs.PUBLISHED):
        name, _, n = key.removeprefix(refs.PUBLISHED).rpartition("@")
        if name in waiting and msgspec.json.decode(body)["run_id"] == waiting[name]:
            owed.add(name)
        if name not in owed:
            told[name] = int(n)
    for name in sorted(told.keys() | owed):
        tables.put("outbox", f"told/publish/{name}", b'{"keep":-1,"moves":%d}' % told.get(name, 0))
    for name in sorted(owed):
        tables.put("outbox", f"due/publish/{name}", b"{}")
    for index, _ in tables.scan("ledger", reverse=True, limit=1):
        tables.put("meta", "cursor/publish", b"%d" % int(index))
    exported = tables.get("meta", "exported")
    if exported is not None:
        tables.put("meta", "cursor/receipts", exported)
        tables.delete("meta", "exported")


def _key_by_dataset(tables: Tables) -> None:
    """What is unfinished and what waits lay under its own id, and of what ended only the whole ledger was known."""
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
    """Which run read what was only in the receipts."""
    from kfm.store.lineage_index import rows_of

    for index, body in tables.scan("ledger"):
        entry = msgspec.json.decode(body)
        written = tables.get("receipts", entry["run_id"])
        if written is None:
            continue  # damage, which `kfm audit verify` names
        receipt = msgspec.json.decode(written, type=Receipt)
        version = tables.get("versions", f"{receipt.dataset}@{made_by(receipt)}")
        maker = msgspec.json.decode(version)["run_id"] if version is not None else receipt.run_id
        tables.put_many("lineage", rows_of(int(index), receipt, maker))


# By the number of the format that it leads to.
STEPS: dict[int, Callable[[Tables], None]] = {4: _to_format_4, 6: _draw_the_graph}


def upgrade(tables: Tables, have: int, to: int = FORMAT) -> None:
    """In the transaction that makes it a state of this format: all of it, or nothing."""
    for number in sorted(STEPS):
        if have < number <= to:
            STEPS[number](tables)


def too_new(what: str, found: int, known: int = FORMAT) -> Refused:
    return Refused(
        f"{what} has format {found}, this kfm knows up to {known}",
        hint="use the newer kfm that wrote it",
        code_hint="version.too_new",
    )
