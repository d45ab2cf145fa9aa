"""After the commit: tells the outside, at least once, from the outbox and the ledger. All of it can be told again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from kfm.contract import manifests
from kfm.contract.canonical import canonical
from kfm.contract.keys import digest, output_key
from kfm.contract.ports import Log, Objects, Publisher, State
from kfm.contract.records import OutboxItem, Receipt
from kfm.errors import Corrupt, Frozen, KfmError
from kfm.projections.artifacts import published_path, receipt_path, version_path

BATCH = 256  # receipts that are noted as exported together


def deliver(
    state: State, objects: Objects, publisher: Publisher, log: Log, *, sync: bool
) -> list[tuple[str, KfmError]]:
    """Make durable what is waiting, then deliver it. Lineage waits in the outbox for its sinks. What others commit
    meanwhile waits for the next time: nobody has made it durable for us.

    Raises only before anything is durable. What cannot be delivered after that stays in the outbox and is returned,
    with its dataset where it is one's own fault. One whose bytes are damaged strands no other, and is given up once
    its dataset has moved on: nobody needs it any more.

    While a switch is set nothing is told that adds or changes anything; a withdrawal is.
    """
    waiting = list(state.outbox("publish"))
    newest = next((entry.index for entry in state.ledger(reverse=True, limit=1)), 0)
    if sync:
        state.sync()
    problems: list[tuple[str, KfmError]] = []
    latest = {item.payload["dataset"]: item for item in waiting}
    withdrawn = {item.payload["dataset"]: item.seq for item in waiting if not item.payload["after"]}
    done: list[OutboxItem] = []
    try:
        for item in waiting:
            dataset = str(item.payload["dataset"])
            if item.seq < withdrawn.get(dataset, 0):  # nobody was told of it, and it may not be public any more
                done.append(item)
                continue
            try:
                _publish(state, objects, publisher, item)
            except Frozen:  # it waits for the thaw
                continue
            except Corrupt as problem:
                if item is latest[dataset]:
                    problems.append((dataset, problem))
                    continue
                log.event("publish.abandoned", dataset_ids=[dataset], error=problem)
            except KfmError as problem:  # the place itself: the others would fare no better
                problems.append(("", problem))
                break
            done.append(item)
        if done:
            state.acknowledge(done)
        _export_receipts(state, publisher, newest)
    except KfmError as problem:
        problems.append(("", problem))
    return problems


def _publish(state: State, objects: Objects, publisher: Publisher, item: OutboxItem) -> None:
    dataset, version = str(item.payload["dataset"]), str(item.payload["after"])
    if version:
        made = state.dataset_version(dataset, version)
        for entry in manifests.entries(objects, version):
            _check_open(state, dataset)
            key = output_key(
                made.updater_id if made else "", made.updater_version if made else "", entry.key, entry.digest
            )
            publisher.write_file(
                published_path(dataset, version, entry), entry.digest, entry.size, key, _chunks(objects, entry.digest)
            )
        # What it consists of, for those who see only the files.
        name, size = _listed(objects, version)
        path = version_path(dataset, version) + ".ndjson"
        _check_open(state, dataset)
        publisher.write_file(path, name, size, f"{item.key}/manifest", manifests.listing(objects, version))
        _check_open(state, dataset)
    publisher.update_metadata(
        f"datasets/{dataset}/current.json",
        {"dataset": dataset, "version": version, "before": item.payload["before"], "run_id": item.payload["run_id"],
         "seq": item.seq},
        item.key,
    )  # fmt: skip
    publisher.emit_event(
        {
            "type": "org.kfm.dataset.published.v1" if version else "org.kfm.dataset.withdrawn.v1",
            "dataset": dataset,
            "version": version,
            "run_id": item.payload["run_id"],
        },
        item.key,
    )


def _listed(objects: Objects, version: str) -> tuple[str, int]:
    """Digest and size of the listing of a version."""
    total, size = hashlib.sha256(), 0
    for piece in manifests.listing(objects, version):
        total.update(piece)
        size += len(piece)
    return "sha256:" + total.hexdigest(), size


def _check_open(state: State, dataset: str) -> None:
    """Asked before every single effect: one that others freeze meanwhile gets no further."""
    for switch in ("switch/global", f"switch/dataset/{dataset}"):
        if state.ref(switch) not in ("", "open"):
            raise Frozen(f"{dataset} is frozen", hint="what was committed is kept; a thaw publishes it")


def _chunks(objects: Objects, name: str) -> Iterator[bytes]:
    with objects.open(name) as file:
        while chunk := file.read(1 << 20):
            yield chunk


def _export_receipts(state: State, publisher: Publisher, newest: int) -> None:
    last = 0
    for entry in state.ledger(after=state.exported()):
        if entry.index > newest:
            break
        receipt, body = state.receipt(entry.run_id), state.receipt_body(entry.run_id)
        if receipt is not None and body is not None:
            _export(publisher, receipt, body)
        last = entry.index
        if not last % BATCH:
            state.mark_exported(last)
    if last:
        state.mark_exported(last)


def _export(publisher: Publisher, receipt: Receipt, body: bytes) -> None:
    """As it is stored. A dry run foretells the receipt that the real run would leave, to the byte."""
    if receipt.dry_run:
        body = canonical(msgspec.structs.replace(receipt, dry_run=False))
    publisher.write_file(receipt_path(receipt), digest(body), len(body), f"receipt/{receipt.run_id}", [body])
