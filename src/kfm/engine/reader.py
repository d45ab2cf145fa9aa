"""What perform() reads: the accepted bytes of the inputs, and the outputs of the steps it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from kfm.contract.canonical import decode
from kfm.contract.names import printable
from kfm.contract.records import Layout, SourceRef
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

    def _input(self, source: int | str) -> SourceRef | None:
        if isinstance(source, str):
            return self._by_name.get(source)
        if not 0 <= source < len(self._inputs):
            raise Refused(f"there is no input {source}", hint=f"the run has {len(self._inputs)}, counted from 0")
        return self._inputs[source]

    def _digest(self, source: int | str) -> str:
        if not isinstance(source, (int, str)):
            raise Refused(
                "perform() reads what is neither the number nor the name of an input", hint="e.g. read.csv(0)"
            )
        ref = self._input(source)
        if ref is not None:
            return ref.accepted_hash or ref.content_hash
        assert isinstance(source, str)
        position = self._index.find(source) if self._index is not None else -1
        if position < 0 or not self._results.is_done(position):
            raise Refused(
                f"{printable(source)} is neither an input nor a finished step",
                hint="name the step in `needs` to read its output",
                discreet="perform() reads what is neither an input nor a finished step",
            )
        return self._results.get(position)[1]

    def bytes(self, source: int | str) -> bytes:
        return self._objects.read(self._digest(source))

    def open(self, source: int | str) -> BinaryIO:
        return self._objects.open(self._digest(source))

    def _layout(self, source: int | str) -> Layout:
        ref = self._input(source)
        return (ref.layout if ref is not None else None) or Layout()

    def text(self, source: int | str) -> str:
        return self.bytes(source).decode(_codec(self._layout(source).encoding))

    def csv(
        self, source: int | str, *, delimiter: str | None = None, encoding: str | None = None
    ) -> Iterator[dict[str, str]]:
        import csv
        import io

        from kfm.engine.inspect_csv import allow_long_fields

        layout = self._layout(source)
        allow_long_fields()
        codec = _codec(encoding or layout.encoding)
        with self.open(source) as file, io.TextIOWrapper(file, codec, newline="") as text:
            yield from csv.DictReader(text, layout.columns or None, delimiter=delimiter or layout.delimiter)

    def json(self, source: int | str) -> Any:
        return decode(self.bytes(source), str(source))

    def ndjson(self, source: int | str) -> Iterator[Any]:
        with self.open(source) as file:
            for number, line in enumerate(file, 1):
                if line := line.strip():
                    yield decode(line, f"{source}, line {number}")


def _codec(encoding: str) -> str:
    """A byte order mark before UTF-8 is no part of the text."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
