"""The label file: its bytes, its labels, and the line of each label."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from kfm.errors import BadInput
from kfm.model.labels import Label, Labels, read_labels
from kfm.parsing import documents
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document

if TYPE_CHECKING:
    from kfm.config import Resolved


def read_bytes(path: str) -> bytes:
    """Return the bytes of a file. BadInput if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise BadInput(f"{printable(path)} cannot be read: {reason}", hint="look at the path") from None
    except ValueError:
        raise BadInput(f"{printable(path)} is not a path", hint="look at it") from None


class LabelAt(msgspec.Struct, frozen=True):
    """A label, and its place in the file."""

    on: str
    at: str


class File:
    """The label file as it is on disk, or as it was signed (`signed`). BadInput if it cannot be read."""

    def __init__(self, resolved: Resolved, signed: bytes | None = None) -> None:
        self.path = resolved.at(resolved.config.labels) if resolved.config.labels else ""
        self.name = resolved.config.labels
        self.body = b"version: 1\nlabels: []\n"
        self.is_there = False
        self.is_restored = signed is not None
        if signed is not None:
            self.body, self.is_there = signed, True
        elif self.path and os.path.lexists(self.path):
            self.body, self.is_there = read_bytes(self.path), True
        self.document: Document = documents.read(self.body, self.name, json=self.name.endswith(".json"))
        self.labels: Labels = read_labels(self.document)

    def at(self, index: int) -> LabelAt:
        """Return a label with its place."""
        line, _ = self.document.position(("labels", index, "of"))
        return LabelAt(on=said(self.labels.labels[index]), at=f"{self.name}:{line}")

    def on(self, **asked: str) -> list[int]:
        """Return the indexes of the labels on one of these targets."""
        return [
            index
            for index, label in enumerate(self.labels.labels)
            if any(asked.get(kind) == value for kind, value in label.of.given().items())
        ]

    def on_source(self, dataset: str, name: str, address: str, base: str) -> list[int]:
        """Return the indexes of the labels on a dataset or on one of its sources, however they name it."""
        from kfm.engine.protected.source_classification import is_on

        labels = enumerate(self.labels.labels)
        return [index for index, label in labels if is_on(label, dataset, address, base, "", name)]


def said(label: Label) -> str:
    """Return the target of a label as text."""
    return " ".join(f"{kind} {value}" for kind, value in label.of.given().items())
