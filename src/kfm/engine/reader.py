"""What perform() reads: the accepted bytes of the inputs, and the outputs of the steps it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from kfm.contract.records import Layout, SourceRef
from kfm.contract.tables import Table
from kfm.documents.characters import printable
from kfm.documents.encodings import codec_of
from kfm.documents.strict_json import decode
from kfm.engine.plan import StepIndex
from kfm.engine.results import Results
from kfm.engine.walk import Ports
from kfm.errors import BadInput, Refused


class StepReader:
    def __init__(self, ports: Ports, inputs: Sequence[SourceRef], index: StepIndex, results: Results) -> None:
        self._inputs = tuple(inputs)
        self._objects = ports.objects
        self._index = index
        self._results = results
        self._ports = ports
        self._by_name = {ref.name: ref for ref in inputs if ref.name}

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
        name = str(source)  # a number that is no input was refused
        position = self._index.find(name)
        if position < 0 or not self._results.is_done(position):
            raise Refused(
                f"{printable(name)} is neither an input nor a finished step",
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
        return self.bytes(source).decode(codec_of(self._layout(source).encoding))

    def csv(
        self, source: int | str, *, delimiter: str | None = None, encoding: str | None = None
    ) -> Iterator[dict[str, str]]:
        import csv
        import io

        from kfm.inspection.rows import allow_long_fields

        layout = self._layout(source)
        allow_long_fields()
        codec = codec_of(encoding or layout.encoding)
        with self.open(source) as file, io.TextIOWrapper(file, codec, newline="") as text:
            yield from csv.DictReader(text, layout.columns or None, delimiter=delimiter or layout.delimiter)

    def table(self, source: int | str) -> Table:
        from kfm.inspection.rows import read_table

        return read_table(self.open(source), self._layout(source), str(source))

    def records(self, source: int | str, root: str = "", *, alone: bool = False) -> Iterator[Any]:
        from kfm.inspection.findings import Unreadable
        from kfm.inspection.split import ListInJson

        with self.open(source) as file:
            found = ListInJson(file, root, alone=alone)
            try:
                for number, record in enumerate(found.records(), 1):
                    yield decode(record, f"{source}, record {number}")
            except Unreadable as flaw:
                raise BadInput(f"{source}: {flaw.message}") from None
            if found.alone is not None:
                yield decode(found.alone, str(source))

    def scratch(self) -> BinaryIO:
        return self._ports.scratch()

    def json(self, source: int | str) -> Any:
        return decode(self.bytes(source), str(source))

    def ndjson(self, source: int | str) -> Iterator[Any]:
        with self.open(source) as file:
            for number, line in enumerate(file, 1):
                if line := line.strip():
                    yield decode(line, f"{source}, line {number}")
