"""The reader that perform() gets: the accepted bytes of the inputs, and the outputs of the steps that it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from kfm.engine.dataset_inputs import version_of
from kfm.engine.plan import StepIndex
from kfm.engine.step_results import Results
from kfm.engine.world import World
from kfm.errors import BadInput, Refused
from kfm.model import manifests
from kfm.model.csv_format import Table
from kfm.model.operation_target import REF
from kfm.model.records import Layout, SourceRef
from kfm.model.updater import Read
from kfm.parsing.characters import printable
from kfm.parsing.encodings import codec_of
from kfm.parsing.parquet_footer import ALL_OF, MOST_FOOTER, footer_of
from kfm.parsing.strict_json import decode


class StepReader:
    def __init__(self, world: World, inputs: Sequence[SourceRef], index: StepIndex, results: Results) -> None:
        self._inputs = tuple(inputs)
        self._objects = world.objects
        self._index = index
        self._results = results
        self._world = world
        self._whole = world.datasets.keys()  # sources that are datasets; one with a single key has accepted bytes
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

    def keys(self, source: int | str) -> Iterator[tuple[str, ...]]:
        for entry in manifests.entries(self._objects, self._version(source)):
            yield entry.key

    def _version(self, source: int | str) -> str:
        ref = self._input(source)
        if ref is None or not ref.uri.startswith(REF):
            raise Refused(f"{printable(str(source))} is not a dataset", hint="only an input that is a dataset has keys")
        return ref.content_hash

    def _digest(self, source: Read) -> str:
        if isinstance(source, tuple) and len(source) > 1 and all(isinstance(part, str) for part in source):
            entry = manifests.find(self._objects, self._version(source[0]), source[1:])
            if entry is None:
                raise Refused(
                    f"{printable(source[0])} has no key {printable('/'.join(source[1:]))}",
                    hint="read.keys() lists its keys",
                    discreet="perform() reads a key that a version does not have",
                )
            return entry.digest
        if not isinstance(source, (int, str)):
            raise Refused(
                "perform() reads something that is neither the number nor the name of an input", hint="e.g. read.csv(0)"
            )
        ref = self._input(source)
        if ref is not None and version_of(ref) and ref.accepted_hash == ref.content_hash and ref.name in self._whole:
            raise Refused(
                f"{printable(ref.name)} is a dataset with several keys",
                hint="read one of them: read.bytes((name, key)); read.keys(name) lists them",
            )
        if ref is not None:
            return ref.accepted_hash or ref.content_hash
        name = str(source)  # a number that is not an input was refused above
        position = self._index.find(name)
        if position < 0 or not self._results.is_done(position):
            raise Refused(
                f"{printable(name)} is neither an input nor a finished step",
                hint="name the step in `needs` to read its output",
                discreet="perform() reads something that is neither an input nor a finished step",
            )
        return self._results.get(position)[1]

    def bytes(self, source: Read) -> bytes:
        return self._objects.read(self._digest(source))

    def open(self, source: Read) -> BinaryIO:
        return self._objects.open(self._digest(source))

    def original(self, source: int | str) -> BinaryIO:
        ref = self._input(source)
        if ref is None:
            raise Refused(f"{printable(str(source))} is not an input", hint="only an input has an original")
        with self.open(source) as file:
            tail = b""
            while piece := file.read(MOST_FOOTER):
                tail = (tail + piece)[-2 * MOST_FOOTER :]
        footer = footer_of(tail)
        if footer is None or footer.metadata.get(ALL_OF) != ref.content_hash.encode():
            raise Refused(
                f"source {ref.name} cannot be read unchanged: rows or values of it are quarantined",
                hint="write parquet, geojson or csv from it, which contain the rows that passed",
            )
        return self._objects.open(ref.content_hash)

    def _layout(self, source: Read) -> Layout:
        ref = None if isinstance(source, tuple) else self._input(source)
        return (ref.layout if ref is not None else None) or Layout()

    def text(self, source: Read) -> str:
        return self.bytes(source).decode(codec_of(self._layout(source).encoding))

    def csv(
        self, source: Read, *, delimiter: str | None = None, encoding: str | None = None
    ) -> Iterator[dict[str, str]]:
        import csv
        import io

        from kfm.validation.text_rows import allow_long_fields

        layout = self._layout(source)
        allow_long_fields()
        codec = codec_of(encoding or layout.encoding)
        with self.open(source) as file, io.TextIOWrapper(file, codec, newline="") as text:
            yield from csv.DictReader(text, layout.columns or None, delimiter=delimiter or layout.delimiter)

    def table(self, source: Read) -> Table:
        from kfm.validation.text_rows import read_table

        return read_table(self.open(source), self._layout(source), str(source))

    def records(self, source: Read, root: str = "", *, alone: bool = False) -> Iterator[Any]:
        from kfm.validation.findings import Unreadable
        from kfm.validation.json_records import ListInJson

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
        return self._world.scratch()

    def json(self, source: Read) -> Any:
        return decode(self.bytes(source), str(source))

    def ndjson(self, source: Read) -> Iterator[Any]:
        with self.open(source) as file:
            for number, line in enumerate(file, 1):
                if line := line.strip():
                    yield decode(line, f"{source}, line {number}")
