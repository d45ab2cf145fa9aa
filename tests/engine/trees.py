"""Manifests as trees over memory, and what a write of them reads and writes, counted."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, BinaryIO

from kfm.engine.manifest.manifest_tree import Line, Root, Tally, write
from kfm.model import manifests


class Counted:
    """Objects in memory; `read_names` are those that were read since it was last emptied."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.read_names: list[str] = []

    def put(self, body: bytes) -> str:
        name = "sha256:" + hashlib.sha256(body).hexdigest()
        self.bodies[name] = body
        return name

    def read(self, name: str) -> bytes:
        self.read_names.append(name)
        return self.bodies[name]

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.read(name))


class Orchard:
    """Writes versions one after another. `rows` are the parts that the last one wrote."""

    def __init__(self) -> None:
        self.objects: Any = Counted()
        self.rows: dict[str, bytes] = {}
        self.tally = Tally()

    def write(self, before: str, content: Mapping[int, int], *, sealed: bool = False) -> Root:
        world: Any = SimpleNamespace(objects=self.objects, state=self, encryption=None)
        self.rows, self.tally = {}, Tally()
        self.objects.read_names.clear()
        lines = sorted(line(i, value) for i, value in content.items())
        root, rows = write(world, None, before, iter(lines), sealed, self.tally)
        self._store(rows)
        return root

    def _store(self, rows: Any) -> None:
        self.rows.update(rows)
        self.objects.bodies.update(rows)

    # What waits too long in memory is written meanwhile.

    def transaction(self, _lease: Any, *, durable: bool) -> Orchard:
        assert not durable
        return self

    def __enter__(self) -> SimpleNamespace:
        return SimpleNamespace(objects=self._store)

    def __exit__(self, *_problem: object) -> None:
        pass

    def content(self, version: str) -> dict[int, int]:
        return {int(entry.key[1]): entry.size for entry in manifests.entries(self.objects, version)}

    def depth(self, version: str) -> int:
        """Levels of parts below the root."""
        named = manifests.named_parts(self.objects, version)
        return named[0].depth + 1 if named else 0


def line(i: int, value: int) -> Line:
    text = f'{{"digest":"sha256:{value:064x}","key":["row","{i:07d}"],"media_type":"text/plain","size":{value}}}\n'
    return ("row", f"{i:07d}"), text, 1, value
