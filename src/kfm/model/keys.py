"""Digests, and the keys that identify runs, claims and outputs. All functions are pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kfm.errors import BadInput
from kfm.model.canonical import canonical, of_texts
from kfm.model.operation_target import TARGET
from kfm.model.records import SourceRef, Trigger

GENESIS = "sha256:" + "0" * 64  # the predecessor that the first entry of a chain names


def digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def run_key(source_url: str, etag: str, window: str, pipeline_version: str, partition: str = "") -> str:
    """Return sha256(source_url|etag|window|pipeline_version), with `\\` and `|` escaped inside a field; a partition, if
    given, is the fifth field.

    Values without these characters hash exactly as the formula reads; different tuples never give the same text.
    """
    fields = (source_url, etag, window, pipeline_version, *_named(partition))
    joined = "|".join(fields)
    if "\\" in joined or joined.count("|") >= len(fields):
        joined = "|".join(f.replace("\\", "\\\\").replace("|", "\\|") for f in fields)
    try:
        return hashlib.sha256(joined.encode()).hexdigest()
    except UnicodeEncodeError:
        raise BadInput(
            "the source, its validator, the window or the version holds half a surrogate pair",
            hint="remove it: it is not a character",
        ) from None


def run_key_of(inputs: Iterable[SourceRef], window: str, version: str, partition: str = "") -> str:
    """Return the run key of several sources: their URLs and their validators, each list joined by line ends, which
    neither contains."""
    refs = list(inputs)
    return run_key(
        "\n".join(r.uri for r in refs),
        "\n".join(r.etag or r.content_hash for r in refs),
        window,
        version,
        partition,
    )


def input_hash(inputs: Iterable[SourceRef]) -> str:
    """Return the digest of the content of all inputs, without validators. The target of an operation is hashed together
    with its ref, so that the same operation has the same hash in every version of the program."""
    parts: list[list[object]] = []
    for r in inputs:
        if parts and r.uri.startswith(TARGET):
            parts[-1][2] = [r.content_hash]
        else:
            parts.append([r.uri, r.content_hash, list(r.partition), r.contract_hash])
    named = any(part[2] for part in parts)  # partitions come from the author and may be any value
    return digest(canonical(parts) if named else of_texts(parts))


def claim_key(
    updater_id: str,
    version: str,
    dataset: str,
    window: str,
    inputs: str,
    params: dict[str, str],
    partition: str = "",
) -> str:
    """Return the key of the work: two triggers with the same claim key request the same effect."""
    about = ["claim/1", updater_id, version, dataset, window, inputs, params, *_named(partition)]
    return hashlib.sha256(canonical(about) if params else of_texts(about)).hexdigest()


def _named(partition: str) -> list[str]:
    """Return the partition as an extra field of a key, or nothing for the whole dataset, whose keys thus stay
    unchanged."""
    return [partition] if partition else []


def scopes(updater_id: str, dataset: str, partition: str = "") -> list[str]:
    """Return the scopes that a lease may be on, the narrower first: a partition of a dataset, or all of it."""
    whole = f"{updater_id}/{dataset}"
    return [f"{whole}/{partition}", whole] if partition else [whole]


def run_id(claim: str, n: int) -> str:
    """Return the id of the n-th run of a claim as a UUID (version 8); it is always the same."""
    return _uuid(of_texts(["run/1", claim, n]))


def correlation_id(trigger: Trigger) -> str:
    """Return the id of a request without an id of its own, from its content and time. It is not random, so that every
    runner and every resumed run derives the same."""
    request = [trigger.updater_id, trigger.dataset, trigger.window, trigger.params, trigger.received_at]
    value = ["correlation/1", *request, *_named(trigger.partition)]
    return _uuid(canonical(value) if trigger.params else of_texts(value))


def job_id_of(envelope: str) -> str:
    """Return the id of a job, given the digest of its envelope without the id; it is always the same."""
    return _uuid(of_texts(["job/1", envelope]))


def _uuid(body: bytes) -> str:
    text = hashlib.sha256(body).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def output_key(updater_id: str, version: str, business_key: tuple[str, ...], content_hash: str) -> str:
    """Return the key of one logical output: repeated attempts have the same key."""
    return digest(canonical([updater_id, version, list(business_key), content_hash]))
