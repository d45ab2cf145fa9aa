"""Many runs that read, make, remove and publish, out of one seed; and what a graph must say after all of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from kfm.app.metadata.graph_sink import statements
from kfm.model.outbox_messages import Letter
from kfm.model.public_run import PublicArtifact, PublicInput, PublicLabels, PublicRun
from kfm.model.records import RefMove

PLAIN = {
    "job_type": "ingest.pull_source",
    "partition": "",
    "updater_version": "1.0.0",
    "trigger": "schedule",
    "status": "SUCCESS",
    "outcome": "applied",
    "dry_run": False,
    "correlation_id": "",
    "run_key": "",
    "plan_hash": "",
    "input_hash": "",
    "code_hash": "",
    "config_hash": "",
    "receipt_digest": "",
    "before": "",
    "rows": None,
    "held_rows": None,
    "labels": None,
    "metadata": {},
}


def digest(text: object) -> str:
    import hashlib

    return "sha256:" + hashlib.sha256(str(text).encode()).hexdigest()


def a_run(index: int, **fields: Any) -> PublicRun:
    at = f"2026-01-{1 + index // 86_400:02d}T{index // 3600 % 24:02d}:{index // 60 % 60:02d}:{index % 60:02d}.000Z"
    own = {
        "run_id": f"run-{index:06d}",
        "wal_id": f"wal-{index:06d}",
        "index": index,
        "op": "ingest",
        "dataset": "rain",
        "updater_id": "gauges",
        "started_at": at,
        "finished_at": at,
        "inputs": (),
        "artifacts": (),
        "removed": (),
        "version": "",
        "ref": "",
        "moves": (),
    }
    return PublicRun(**{**PLAIN, **own, **fields})  # type: ignore[arg-type]


def made(dataset: str, key: str, text: object) -> PublicArtifact:
    return PublicArtifact(
        id=f"kfm://dataset/{dataset}/{key}",
        key=(key,),
        digest=digest(text),
        size=1,
        media_type="text/csv",
        path=f"{key}.csv",
        stac_id=f"{dataset}-{key}",
    )


def read(uri: str, text: object) -> PublicInput:
    return PublicInput(kind="uri", id=uri, checksum=digest(text))


def crowd(count: int, seed: int) -> list[PublicRun]:
    """In the order of the ledger. Datasets read sources and what datasets before them made."""
    rng = random.Random(seed)
    names = [f"set-{n}" for n in range(6)]
    there: dict[str, dict[str, str]] = {name: {} for name in names}
    runs: list[PublicRun] = []
    for index in range(1, count + 1):
        at = rng.randrange(len(names))
        name = names[at]
        if there[name] and rng.random() < 0.2:
            runs.append(_moved(index, name, rng))
            continue
        inputs = [read(f"https://example.org/{rng.randrange(8)}.csv", rng.randrange(20)) for _ in range(2)]
        before = [(f"kfm://dataset/{other}/{key}", hash) for other in names[:at] for key, hash in there[other].items()]
        for id, hash in rng.sample(before, min(2, len(before))):
            inputs.append(PublicInput(kind="dataset", id=id, checksum=hash))
        keys = rng.sample("abcdefgh", rng.randrange(4))
        gone = [key for key in there[name] if key not in keys and rng.random() < 0.1]
        artifacts = [made(name, key, f"{name} {key} {index}") for key in sorted(keys)]
        there[name] |= {each.key[0]: each.digest for each in artifacts}
        for key in gone:
            del there[name][key]
        changed = bool(artifacts or gone)
        version = digest(f"{name} {index}") if changed else ""
        ref = f"processed/{name}"
        runs.append(
            a_run(
                index,
                dataset=name,
                updater_id=name,
                inputs=tuple({(each.id, each.checksum): each for each in inputs}.values()),
                artifacts=tuple(artifacts),
                removed=tuple(sorted(f"kfm://dataset/{name}/{key}" for key in gone)),
                version=version,
                ref=ref if changed else "",
                moves=(RefMove(ref=ref, before="", after=version),) if changed else (),
                outcome="applied" if changed else "noop",
                labels=_labels() if at == 5 else None,
            )
        )
    return runs


def _moved(index: int, name: str, rng: random.Random) -> PublicRun:
    op, after = rng.choice([("promote", digest(f"{name} {index}")), ("rollback", digest(name)), ("rollback", "")])
    ref = f"published/{name}"
    return a_run(
        index,
        op=op,
        job_type=f"operation.{op}",
        dataset=name,
        updater_id=f"kfm-{op}",
        trigger="operation",
        inputs=(PublicInput(kind="ref", id=f"kfm://ref/processed/{name}", checksum=digest(index)),),
        version=after,
        ref=ref,
        moves=(RefMove(ref=ref, before="", after=after),),
    )


def _labels() -> PublicLabels:
    return PublicLabels(
        level="generalised",
        care="Restricted / By Request",
        access="",
        resolution=7,
        expires="",
        custodians=(),
        authorities=(),
        community_labels=(),
        rules=(),
    )


def letters(runs: Iterable[PublicRun]) -> list[Letter]:
    return [
        Letter(index=run.index, run_id=run.run_id, dataset=run.dataset, key=run.run_id, body=statements(run))
        for run in runs
    ]


Edge = tuple[str, str, str]
Pair = tuple[str, str, str, str]


def used(runs: Sequence[PublicRun]) -> set[Edge]:
    return {(each.id, each.checksum, run.run_id) for run in runs for each in run.used()}


def generated(runs: Sequence[PublicRun]) -> set[Edge]:
    """Artifacts, or else the ref that moved."""
    found = {(run.run_id, each.id, each.digest) for run in runs for each in run.artifacts}
    return found | {(run.run_id, f"kfm://ref/{run.ref}", run.version) for run in runs if run.ref and not run.artifacts}


def made_things(runs: Sequence[PublicRun]) -> set[Edge]:
    return {(id, hash, run.run_id) for run in runs for id, hash in run.outputs()}


def members(runs: Sequence[PublicRun]) -> set[Pair]:
    return {(*whole, *part) for run in runs for whole, parts in run.collections().items() for part in parts}


def specialisations(runs: Sequence[PublicRun]) -> set[Pair]:
    return {(*one, *other) for run in runs for one, other in run.specialisations()}


def pointed(runs: Sequence[PublicRun]) -> set[Edge]:
    """Where each ref points after all of them."""
    last = {
        move.ref: (run.dataset, move.after) for run in sorted(runs, key=lambda run: run.index) for move in run.moves
    }
    return {(f"kfm://ref/{ref}", f"kfm://dataset/{name}", after) for ref, (name, after) in last.items() if after}
