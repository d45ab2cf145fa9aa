"""What an operation is to move and where to: two inputs, the ref as it stands and its target, an input of a kind of its
own. Both are pinned as sources are, so a move that is taken up again is the one that was ordered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kfm.model.records import SourceRef

REF = "kfm://ref/"
LABELS = "rules/labels"  # the ref that is at the file of labels as it was signed
TARGET = "kfm://target/"


class Aim(NamedTuple):
    ref: SourceRef
    target: str  # a digest, or what a switch is set to; empty: the ref shall be gone


def aiming(ref: SourceRef, target: str) -> list[SourceRef]:
    """The inputs of an operation."""
    return [ref, SourceRef(uri=TARGET + ref.name, content_hash=target, size=0)]


def aim_of(inputs: Sequence[SourceRef]) -> Aim:
    """Of the inputs of an operation. A run that was kept before targets were inputs has its own as a partition."""
    ref, *rest = inputs
    return Aim(ref, rest[0].content_hash if rest else ref.partition[0])
