"""The inputs of an operation, two for each ref that it moves: the ref as it is, and the target it moves to. They are
pinned like sources, so a resumed operation makes the moves that were requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kfm.model.records import SourceRef, Trigger

REF = "kfm://ref/"
TARGET = "kfm://target/"
CONTEXT = "kfm://context/"  # + dataset: a source that the installation answers from its public records
GROUPS = ("updater", "community")  # kinds of scopes of a freeze that stand for several datasets
DATASETS = "datasets"  # the parameter of a freeze that names several datasets, one on each line
REQUESTED = "requested"  # the parameter of an operation that a server accepted: `kfm up` carries it out
SIGNED = "signed"  # the parameter with the change request that its requester signed elsewhere
SIGNATURE = "signature"  # the parameter with a signature, made elsewhere, under a change request that is kept


class Aim(NamedTuple):
    ref: SourceRef
    target: str  # a digest, or the value of a freeze flag; empty: the ref is to be removed


def aiming(ref: SourceRef, target: str) -> list[SourceRef]:
    """Return the inputs of an operation that moves `ref` to `target`."""
    return [ref, SourceRef(uri=TARGET + ref.name, content_hash=target, size=0)]


def aims_of(inputs: Sequence[SourceRef]) -> list[Aim]:
    """Return every ref in the inputs of an operation, with its target."""
    if len(inputs) < 2:
        return [aim_of(inputs)] if inputs else []
    return [Aim(ref, target.content_hash) for ref, target in zip(inputs[::2], inputs[1::2], strict=True)]


def aim_of(inputs: Sequence[SourceRef]) -> Aim:
    """Return the first target in the inputs of an operation. In older runs the target is a partition of the ref."""
    ref, *rest = inputs
    return Aim(ref, rest[0].content_hash if rest else ref.partition[0])


def is_group(scope: str) -> bool:
    """Return whether the scope of a freeze stands for several datasets."""
    kind, slash, _ = scope.partition("/")
    return bool(slash) and kind in GROUPS


def is_requested(trigger: Trigger) -> bool:
    """Return whether a server accepted this operation, so that `kfm up` carries it out."""
    return trigger.kind == "operation" and REQUESTED in trigger.params


def is_signature(trigger: Trigger) -> bool:
    """Return whether a trigger brings a signature under a change request that is kept already."""
    return trigger.kind == "operation" and SIGNATURE in trigger.params
