"""Digests and the keys everything is known by. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from kfm.errors import BadInput
from kfm.model.canonical import canonical, of_texts
from kfm.model.operation_target import TARGET
from kfm.model.records import SourceRef, Trigger

GENESIS = "sha256:" + "0" * 64  # what the first link of any chain names as the one before it


def digest(body: bytes) -> str:
    return "sha256:" + hashlib.sha256(body).hexdigest()


def run_key(source_url: str, etag: str, window: str, pipeline_version: str, partition: str = "") -> str:
    """sha256(source_url|etag|window|pipeline_version), with `\\` and `|` escaped inside a field; a partition, if one
    is meant, is a fifth.

    Ordinary values hash exactly as the formula reads; no two different tuples read the same.
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
            hint="remove it: it is no character",
        ) from None


def run_key_of(inputs: Iterable[SourceRef], window: str, version: str, partition: str = "") -> str:
    """The run key of several sources: their URLs and validators, each list joined by line ends, which neither holds."""
    refs = list(inputs)
    return run_key(
        "\n".join(r.uri for r in refs),
        "\n".join(r.etag or r.content_hash for r in refs),
        window,
        version,
        partition,
    )


def input_hash(inputs: Iterable[SourceRef]) -> str:
    """What was read, by content: validators have no part in it. The target of an operation is told with its ref, as it
    was before it was an input: the same order is the same work for every version of the program."""
    told: list[list[object]] = []
    for r in inputs:
        if told and r.uri.startswith(TARGET):
            told[-1][2] = [r.content_hash]
        else:
            told.append([r.uri, r.content_hash, list(r.partition), r.contract_hash])
    named = any(part[2] for part in told)  # by an author, who may have given anything
    return digest(canonical(told) if named else of_texts(told))


def claim_key(
    updater_id: str,
    version: str,
    dataset: str,
    window: str,
    inputs: str,
    params: dict[str, str],
    partition: str = "",
) -> str:
    """What a run is about: two triggers with the same claim key ask for the same effect."""
    about = ["claim/1", updater_id, version, dataset, window, inputs, params, *_named(partition)]
    return hashlib.sha256(canonical(about) if params else of_texts(about)).hexdigest()


def _named(partition: str) -> list[str]:
    """Only what is not the whole dataset is told in a key: those of the whole are as they were before partitions."""
    return [partition] if partition else []


def scopes(updater_id: str, dataset: str, partition: str = "") -> list[str]:
    """What a lease may be on, the narrower first: a partition of a dataset, or the whole of it."""
    whole = f"{updater_id}/{dataset}"
    return [f"{whole}/{partition}", whole] if partition else [whole]


def run_id(claim: str, n: int) -> str:
    """The n-th run of a claim, as a UUID (version 8): the same however often it is computed."""
    return _uuid(of_texts(["run/1", claim, n]))


def correlation_id(trigger: Trigger) -> str:
    """Of a request that has no id of its own: what was asked for, and when. Not of chance, so that every runner
    gives the same, however often others were killed before it."""
    asked = [trigger.updater_id, trigger.dataset, trigger.window, trigger.params, trigger.received_at]
    value = ["correlation/1", *asked, *_named(trigger.partition)]
    return _uuid(canonical(value) if trigger.params else of_texts(value))


def _uuid(body: bytes) -> str:
    text = hashlib.sha256(body).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"


def output_key(updater_id: str, version: str, business_key: tuple[str, ...], content_hash: str) -> str:
    """One logical output: N retries make one of it."""
    return digest(canonical([updater_id, version, list(business_key), content_hash]))
