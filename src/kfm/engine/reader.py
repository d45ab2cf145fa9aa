"""What perform() reads: the accepted bytes of the inputs, and the outputs of the steps it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from kfm.contract.canonical import decode
from kfm.contract.records import DataContract, SourceRef
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
        self._sources = walk.ports.sources
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

    def csv(
        self, source: int | str, *, delimiter: str | None = None, encoding: str | None = None
    ) -> Iterator[dict[str, str]]:
        import csv
        import io

        from kfm.engine.inspect_csv import allow_long_fields

        contract = self._contract(source)
        delimiter = delimiter or (contract.delimiter if contract is not None else ",")
        encoding = encoding or (contract.encoding if contract is not None else "utf-8")
        if encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
            encoding = "utf-8-sig"  # with or without a byte order mark
        allow_long_fields()
        with self.open(source) as file, io.TextIOWrapper(file, encoding, newline="") as text:
            yield from csv.DictReader(text, delimiter=delimiter)

    def _contract(self, source: int | str) -> DataContract | None:
        """The contract kfm.yml declares for an input; a resumed run knows it too."""
        name = source
        if isinstance(source, int) and 0 <= source < len(self._inputs):
            name = self._inputs[source].name
        declared = self._sources.get(str(name))
        return declared[1] if declared is not None else None

    def json(self, source: int | str) -> Any:
        return decode(self.bytes(source), str(source))
