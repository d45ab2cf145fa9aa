"""An installation with as many runs as wanted, made in seconds: some real runs, then records like theirs in bulk.

Of ten further runs seven had nothing to do, one failed, one built the other of two versions, and one published the
version that was built. `moves=False` leaves the last two out: refs then move as often in a long history as in a short
one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kfm import config
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.clock import parse_instant, rfc3339
from kfm.model import refs
from kfm.model.records import Receipt, RefMove
from kfm.store.sqlite import SqliteTables

DATASETS = 3
DATASET = """\
  d{n}:
    version: "1.0.0"
    title: Number {n}
    license: CC0-1.0
    sensitivity: public
    attribution: The prairie
    sources:
      words: {{uri: d{n}.csv, format: csv, contract: {{columns: [{{name: word, required: true, mode: freeze}}]}}}}
    outputs: {{words: {{from: words}}}}
"""
BATCH = 20_000  # runs in one transaction


def lay_out(folder: Path, state: str) -> None:
    """Write kfm.yml."""
    folder.mkdir(parents=True, exist_ok=True)
    names = "".join(DATASET.format(n=n) for n in range(DATASETS))
    (folder / "kfm.yml").write_text(f"kfm: 1\nstate: {state}\naccept_weak_storage: true\ndatasets:\n{names}")


def fill(folder: Path, runs: int, *, moves: bool = True, state: str = "sqlite:.kfm/state.db") -> None:
    """Fill the installation in a folder until its ledger has so many entries."""
    lay_out(folder, state)
    with open_session(config.load(str(folder / "kfm.yml"), os.environ)) as session:
        real = [_real(session, folder, f"d{n}") for n in range(DATASETS)]
        have = next(entry.index for entry in session.state.ledger.entries(reverse=True, limit=1))
        start = parse_instant(rfc3339(session.clock.now_ms()), "now")
        if isinstance(session.tables, SqliteTables):
            session.tables._execute("PRAGMA cache_size=-400000")  # keys come in no order
        numbers = iter(range(have, runs))
        while batch := [n for n, _ in zip(numbers, range(BATCH), strict=False)]:
            with session.state.transaction(durable=batch[-1] == runs - 1):
                for n in batch:
                    _add(session, real[n % DATASETS], n, rfc3339(start + 1000 * n), moves=moves)


class _Real:
    """The receipts of one dataset's real runs, as models of further ones."""

    def __init__(self, dataset: str, made: Receipt, published: Receipt, skipped: Receipt, versions: list[str]) -> None:
        self.dataset, self.made, self.published, self.skipped = dataset, made, published, skipped
        self.versions = versions


def _real(session: Session, folder: Path, name: str) -> _Real:
    """Build and publish two versions, and run once with nothing to do."""
    versions = []
    for text in ("prairie", "creek"):
        (folder / f"{name}.csv").write_text(f"word\n{text}\n")
        made = run_trigger(session, new_trigger(session, name))
        published = run_operation(session, "promote", name, {}, reason="first", actor="tester")
        assert (made.outcome, published.outcome) == ("done", "done"), (made.errors, published.errors)
        versions.append(session.state.refs.at(refs.published(name)))
    skipped = run_trigger(session, new_trigger(session, name))
    assert skipped.outcome == "noop"
    return _Real(name, made, published, skipped, versions)


def _add(session: Session, real: _Real, n: int, at: str, *, moves: bool) -> None:
    tx = session.state.tx
    run_id = f"{(n * 2654435761) % (1 << 32):08x}-0000-8000-8000-{n:012x}"
    kind = n // DATASETS % 10
    said = {"run_id": run_id, "started_at": at, "finished_at": at}
    if kind == 0:
        tx.ledger.append(msgspec.structs.replace(real.skipped, **said, outcome="failed", status="FAILED"), op="ingest")
        return
    if kind not in (1, 2) or not moves:
        tx.ledger.append(msgspec.structs.replace(real.skipped, **said), op="ingest")
        return
    model, ref = (real.made, refs.processed(real.dataset)) if kind == 1 else (real.published, "")
    ref = ref or refs.published(real.dataset)
    before = session.state.refs.at(ref)
    wanted = session.state.refs.at(refs.processed(real.dataset))
    after = wanted if kind == 2 else next(each for each in real.versions if each != before)
    op = "ingest" if kind == 1 else "promote"
    move = RefMove(ref=ref, before=before, after=after)
    tx.refs.move(move, run_id=run_id, op=op, actor="tester", reason="again", ts=at)
    run = session.state.runs.get(model.run_id)
    assert run is not None
    tx.runs.save(msgspec.structs.replace(run, run_id=run_id, started_at=at))
    tx.lineage.keep(run_id, _edges(model, after))
    outputs = [msgspec.structs.replace(item, checksum=after) for item in model.outputs]
    tx.ledger.append(msgspec.structs.replace(model, **said, moves=[move], outputs=outputs), op=op)


def _edges(model: Receipt, after: str) -> Iterator[tuple[str, str]]:
    for item in model.inputs:
        yield item.id, after if item.kind in ("ref", "dataset") else item.checksum
