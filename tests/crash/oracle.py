"""What must be true after a crash, and what "the same as if nothing had happened" means.

`everything` reads a whole installation: every row of every table, every file of the objects, of the
public folder, of the exported receipts and events. Two installations are the same when their
`everything` is equal. The clock stands still in these tests, so even time stamps are compared. Left
out is what the catalogue of the tables says, with the reasons, and nothing else. Of a run's journal is compared,
however it is cut: which step is done with which digest, which phases were closed, which refs moved.

`check` holds of the state right after a kill too, before anything was recovered.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from kfm.app.session.session import Session
from kfm.crypto.merkle import leaf_hash, root_of
from kfm.model.canonical import canonical
from kfm.model.keys import GENESIS, digest
from kfm.model.manifests import entries
from kfm.model.ports import Tables
from kfm.model.records import NONDET, Receipt
from kfm.projections.file_paths import receipt_path
from kfm.store.state import StoredState
from tests.servers.placement import in_buckets, without_part
from tests.store.compared import TABLES, compared

_NOT_COMPARED = (".kfm/state.", ".kfm/publish.lock", ".kfm/artifacts/")
assert {"attempt", "wal_replay_count"} <= NONDET


def rows_of(tables: Tables) -> dict[str, dict[str, bytes]]:
    return {table: dict(tables.scan(table)) for table in TABLES}


def everything(folder: str, tables: Tables) -> dict[str, str]:
    """The whole installation as place → content (or its digest)."""
    found: dict[str, str] = {}
    for table, key, body in compared(tables):
        if table == "leases" and key.startswith("lock/"):
            continue  # the lock of a process that was killed ends by itself, as a file lock does
        found[f"{table}/{key}"] = body.decode("utf-8", "replace") if len(body) < 4000 else digest(body)
    state = StoredState(tables, lambda: 0)
    for run_id, _ in tables.scan("runs"):
        found[f"journal/{run_id}"] = _journal(state, run_id)
    found.update(files_of(folder))
    return without_part(folder, found)


def _journal(state: StoredState, run_id: str) -> str:
    done: dict[int, Any] = {}
    phases: set[str] = set()
    said: list[Any] = []
    for segment, _ in state.journal.segments(run_id):
        done.update({entry[0]: entry[1:] for entry in segment.done})
        phases.update(segment.phases)
        said += [segment.payload] if segment.payload else []
    return msgspec.json.encode([sorted(done.items()), sorted(phases), said]).decode()


def files_of(folder: str) -> dict[str, str]:
    """Every file but the state itself, locks, the configuration, the sources, and the artifacts of the command
    line, which describe the last command and not the installation. What is in a bucket counts as a file."""
    found = in_buckets(folder)
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            place = os.path.relpath(path, folder)
            if place.startswith(("public/", ".kfm/")) and not place.startswith(_NOT_COMPARED):
                with open(path, "rb") as file:
                    found[place] = hashlib.sha256(file.read()).hexdigest()
    return found


def without_noops(found: dict[str, str]) -> dict[str, str]:
    """The same without the runs that found nothing to do, and without what counts them."""
    entries = {place: msgspec.json.decode(body) for place, body in found.items() if place.startswith("ledger/")}
    noops = {place: entry for place, entry in entries.items() if entry["outcome"] == "noop"}
    run_ids = {entry["run_id"] for entry in noops.values()}
    mapped = {f"ended_runs/{entry['dataset']}/{place.rpartition('/')[2]}" for place, entry in noops.items()}
    return {
        place: body
        for place, body in found.items()
        if not place.startswith(("meta/", "ledger_tree/"))
        and place not in mapped
        and not any(run_id in place or run_id in body for run_id in run_ids)
    }


def difference(expected: dict[str, str], found: dict[str, str]) -> str:
    """Where two installations differ, for a message; empty if they do not."""
    lines = []
    for place in sorted(expected.keys() | found.keys()):
        before, after = expected.get(place), found.get(place)
        if before != after:
            lines.append(f"{place}\n    undisturbed: {before}\n    recovered:   {after}")
    return "\n".join(lines)


def check(session: Session, folder: str, acks: dict[str, str]) -> None:
    """What holds at any instant: intent before effect, effect before done, proof with every move."""
    state = session.state
    runs, open_runs, receipts = (dict(session.tables.scan(table)) for table in ("runs", "open_runs", "receipts"))
    _check_journals(session, list(runs))
    _check_ledger(state, receipts)
    for run_id, name in acks.items():
        assert run_id in receipts, f"run {run_id} was acknowledged and is gone"
        assert digest(receipts[run_id]) == name, f"the receipt of {run_id} is not the one acknowledged"
    for run_id, body in runs.items():
        status = msgspec.json.decode(body)["status"]
        assert (status == "RUNNING") == (run_id not in receipts), f"run {run_id} is {status} and has a receipt, or none"
        assert (status == "RUNNING") == any(key.endswith(f"/{run_id}") for key in open_runs)
    _check_refs(session, receipts)
    _check_files(folder, session, receipts)


def _check_journals(session: Session, runs: list[str]) -> None:
    """P1a: what is DONE is there, with its digest. P1b: nothing is DONE that was not intended before."""
    for run_id in runs:
        intended: set[int] = set()
        for segment, _ in session.state.journal.segments(run_id):
            if segment.payload.get("continues"):  # intended, and done, by the run it continues
                intended.update(position for position, *_ in segment.done)
            for position, name, size, _media_type in segment.done:
                assert position in intended, f"step {position} of {run_id} is done and was never intended"
                assert len(session.objects.read(name)) == size
            for first, last in segment.intent:
                intended.update(range(first, last))


def _check_ledger(state: StoredState, receipts: dict[str, bytes]) -> None:
    """Promise 12: one receipt a run, and the chain holds."""
    previous = GENESIS
    listed = set()
    for index, entry in enumerate(state.ledger.entries(), 1):
        assert (entry.index, entry.prev) == (index, previous), f"the ledger breaks at {entry.index}"
        assert entry.receipt_digest == digest(receipts[entry.run_id])
        assert entry.run_id not in listed, f"run {entry.run_id} is in the ledger twice"
        listed.add(entry.run_id)
        previous = digest(canonical(entry))
    hashes = [leaf_hash(leaf) for leaf in state.ledger.leaves()]
    assert state.ledger.tree().root() == root_of(hashes), "the tree is not that of the entries"
    assert listed == receipts.keys()


def _check_refs(session: Session, receipts: dict[str, bytes]) -> None:
    """A ref is where its history says, every move is in the receipt of its run, and all its bytes are there."""
    state = session.state
    for name, value in state.refs.all():
        at = ""
        for entry in state.refs.history(name):
            assert entry.before == at
            moves = msgspec.json.decode(receipts[entry.run_id])["moves"]
            assert {"ref": name, "before": entry.before, "after": entry.after} in moves
            at = entry.after
        assert at == value
        if name.startswith(("processed/", "published/")):
            dataset = name.partition("/")[2]
            version = state.ledger.version(dataset, value)
            assert version is not None
            for made in entries(session.objects, value):
                assert len(session.objects.read(made.digest)) == made.size
        elif name.startswith(("raw/", "quarantine/")):
            session.objects.read(value)


def _check_files(folder: str, session: Session, receipts: dict[str, bytes]) -> None:
    """What is outside was decided inside before: no file without its version, no receipt but the one in the state."""
    refs = session.state.refs
    told = {entry.after[7:23] for name, _ in refs.all("published/") for entry in refs.history(name)}
    paths = {
        os.path.join(".kfm", receipt_path(msgspec.json.decode(body, type=Receipt))): body for body in receipts.values()
    }
    for place, digest_found in files_of(folder).items():
        if os.path.basename(place) == ".publishing" or "/tmp/" in place:
            continue
        if "/versions/" in place:
            version = place.split("/versions/")[1].split("/")[0].removesuffix(".ndjson")
            assert version in told, f"{place} was never decided on"
        if place.startswith(".kfm/receipts/"):
            expected = hashlib.sha256(paths[place]).hexdigest()
            assert digest_found == expected, f"{place} is not the receipt in the state"
