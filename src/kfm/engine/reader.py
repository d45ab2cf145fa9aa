"""What perform() reads: the accepted bytes of the inputs, and the outputs of the steps it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from kfm.contract.canonical import decode
from kfm.contract.records import SourceRef
from kfm.engine.plan import StepIndex
from kfm.engine.results import Results
from kfm.engine.walk import Walk
from kfm.errors import Refused


class StepReader:
    def __init__(self, walk: Walk, index: StepIndex | None, results: Results) -> None:
        self._inputs = tuple(walk.inputs)
        self._objects = walk.ports.objects
        self._index = index
        self._results = results
        self._by_name = {ref.name: ref for ref in walk.inputs if ref.name}

    @property
    def inputs(self) -> Sequence[SourceRef]:
        return self._inputs

    def _digest(self, source: int | str) -> str:
        if isinstance(source, int):
            if not 0 <= source < len(self._inputs):
                raise Refused(f"there is no input {source}", hint=f"the run has {len(self._inputs)}")
            ref = self._inputs[source]
            return ref.accepted_hash or ref.content_hash
        named = self._by_name.get(source)
        if named is not None:
            return named.accepted_hash or named.content_hash
        position = self._index.find(source) if self._index is not None else -1
        if position < 0 or not self._results.is_done(position):
            raise Refused(
                f"{source!r} is neither an input nor a finished step",
                hint="name the step in `needs` to read its output",
            )
        return self._results.get(position)[1]

    def bytes(self, source: int | str) -> bytes:
        return self._objects.read(self._digest(source))

    def open(self, source: int | str) -> BinaryIO:
        return self._objects.open(self._digest(source))

    def text(self, source: int | str) -> str:
        return self.bytes(source).decode()

    def csv(self, source: int | str) -> Iterator[dict[str, str]]:
        import csv
        import io

        with self.open(source) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as text:
            yield from csv.DictReader(text)

    def json(self, source: int | str) -> Any:
        return decode(self.bytes(source), str(source))
