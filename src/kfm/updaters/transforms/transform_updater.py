"""The updater that a configuration declares: one step per output, or per partition of an output."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.csv_format import holds_rows
from kfm.model.keys import digest
from kfm.model.ports import INLINE_MAX
from kfm.model.records import DataContract, Layout, SourceRef, Step, Trigger
from kfm.model.source_formats import COLUMNAR, GRIDS, VECTORS
from kfm.model.transform_config import OutputConfig, StepConfig, declaration
from kfm.model.updater import Output, Plan, Reader, Sources, Updater, check_updater
from kfm.parsing.characters import printable
from kfm.parsing.time_windows import within
from kfm.updaters.transforms import csv_arrow, json_steps, output_bytes, partition_rows, table_steps
from kfm.updaters.transforms.external_sort import Room
from kfm.updaters.transforms.join import Lookup
from kfm.updaters.transforms.json_rows import Members, Properties, rows_of
from kfm.updaters.transforms.transform_errors import Place

Steps = Sequence[tuple[StepConfig, Place]]
Lookups = Callable[[StepConfig, Place], Lookup]
T = TypeVar("T")


def load_declared(
    name: str, version: str, outputs: Mapping[str, OutputConfig], contracts: Mapping[str, DataContract]
) -> Updater:
    """Return the updater of a dataset that declares outputs instead of code."""
    return check_updater(DeclaredUpdater(name, version, outputs, contracts))


class DeclaredUpdater(Updater):
    declared = True

    def __init__(
        self,
        name: str,
        version: str,
        outputs: Mapping[str, OutputConfig],
        contracts: Mapping[str, DataContract],
        room: Callable[[Reader], Room] = lambda read: Room(read.scratch),
    ) -> None:
        self.id = name
        self.version = version
        self._outputs = {output: outputs[output] for output in sorted(outputs)}
        self._contracts = contracts
        self._room = room
        used = {output.from_ for output in outputs.values()}
        used |= {step.join.source for output in outputs.values() for step in output.steps if step.join is not None}
        self._sources = sorted(used)
        said = {output: self._declared(each) for output, each in self._outputs.items()}
        self.code_hash = digest(canonical({"declared": 1, "outputs": said}))
        self._lookups: dict[str, Lookup] = {}  # the last ones, which the next partition needs again
        self._parted: WeakKeyDictionary[Reader, dict[tuple[str, ...], Any]] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        # The inputs carry the window to plan(); older triggers may have one that is ignored here.
        windowed = trigger.window and all(output.window_by for output in self._outputs.values())
        partition = (trigger.window,) if windowed else ()
        return [sources.pin(name, partition=partition) for name in self._sources]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        """Return a step for each output and partition; with a window, only for the partitions in it, and the others are
        carried over."""
        return Plan(self._steps(inputs), complete=not any(source.partition for source in inputs))

    def _steps(self, inputs: Sequence[SourceRef]) -> Iterator[Step]:
        for name, output in self._outputs.items():
            params = {"output": name, "declared": self._declared(output)}
            if not output.partition_by:
                yield Step(id=name, key=(name,), params=params)
                continue
            source = inputs[self._sources.index(output.from_)]
            found: Sequence[str] = source.partitions
            if source.partition:
                found = [value for value in found if _lies_within(source.partition[0], value, name, output)]
            for n, value in enumerate(found):
                # Only the first step has the declaration, so that a plan of many partitions stays small.
                said = params if n == 0 else {"output": name}
                yield Step(id=f"{name}/{n}", key=(name, value), params={**said, "partition": value})

    def _declared(self, output: OutputConfig) -> dict[str, Any]:
        contract = self._contracts[output.from_]
        said: dict[str, Any] = declaration(output)
        said["format"] = output.format_from(contract.format)
        del said["allow_empty"]  # it decides what is held, not what is made
        return said

    def perform(self, step: Step, read: Reader) -> Output:
        name = step.params["output"]
        output = self._outputs[name]
        chunks = self._bytes(name, output, step.params.get("partition"), read)
        contract = self._contracts[output.from_]
        media_type = output_bytes.MEDIA_TYPES[output.format_from(contract.format)]
        if contract.format == "geotiff":
            media_type += _profile(read, output.from_)
        body = output_bytes.whole(chunks, INLINE_MAX)
        if self._contracts[output.from_].format in VECTORS and not output.steps and not output.partition_by:
            from kfm.updaters.transforms.parquet_input import box_of_accepted

            empty = not output.allow_empty and not read.inputs[self._sources.index(output.from_)].rows
            box = box_of_accepted(read, output.from_)
            return Output(body, media_type, rows=0 if empty else None, bbox=box)
        empty = isinstance(body, bytes) and not output.allow_empty and not holds_rows(media_type, body)
        return Output(body, media_type, rows=0 if empty else None)

    def _bytes(self, name: str, output: OutputConfig, partition: str | None, read: Reader) -> Iterator[bytes]:
        contract = self._contracts[output.from_]
        format_ = output.format_from(contract.format)
        steps = [
            (step, Place(name, output.from_, number, step.verbs()[0])) for number, step in enumerate(output.steps, 1)
        ]

        def lookup(step: StepConfig, place: Place) -> Lookup:
            return self._lookup(read, step, place)

        if contract.format in GRIDS:
            return output_bytes.copied(read.open(output.from_))
        if contract.format == "parquet" == format_ and not steps and partition is None:
            return output_bytes.copied(read.open(output.from_))
        if format_ in VECTORS:
            return output_bytes.copied(read.original(output.from_))
        if contract.format in COLUMNAR:
            made = self._of_columns(name, output, partition, read, steps, lookup, format_)
            if made is not None:
                return made
        if contract.format == "csv" == format_ and (made := self._of_texts(output, partition, read, steps)) is not None:
            return made
        if contract.format == "csv":
            return self._of_table(output, partition, read, steps, lookup, format_)
        return self._of_records(name, output, partition, read, steps, lookup, format_)

    def _once(self, read: Reader, what: tuple[str, ...], make: Callable[[], T]) -> T:
        """Return what `make` makes. It is called once for each run and forgotten with the reader of that run."""
        with self._lock:
            made = self._parted.setdefault(read, {})
            if what not in made:
                made[what] = make()
            found: T = made[what]
            return found

    def _of_columns(
        self, name: str, output: OutputConfig, partition: str | None, read: Reader, steps: Steps, lookup: Lookups,
        format_: str,
    ) -> Iterator[bytes] | None:  # fmt: skip
        """Return a Parquet output that was made from a Parquet source by columns. None for any other format: the record
        engine then makes the output."""
        from kfm.parsing.arrow import parquet_pieces
        from kfm.updaters.transforms import arrow_steps, parquet_input

        def added(source: str, column: str) -> str:
            return arrow_steps.word_for(read, source, self._contracts[source].format, column)

        if partition is not None and format_ == "parquet":
            parted = self._once(
                read,
                ("columns", output.from_, output.partition_by),
                lambda: partition_rows.of_columns(read, output.from_, output.partition_by),
            )
            pipeline = arrow_steps.Pipeline(parted.schema, steps, lookup, added)
            schema = arrow_steps.without_box(pipeline.schema)
            return parquet_pieces(schema, arrow_steps.shown(pipeline.run(parted.batches(partition))))
        if format_ != "parquet":
            schema = self._once(read, ("schema", output.from_), lambda: parquet_input.schema_of(read, output.from_))
            pipeline = arrow_steps.Pipeline(schema, steps, lookup, added)
            if format_ == "geojson":
                parquet_input.check_degrees(schema, name)
            arrow_steps.check_plain(pipeline.schema, name, ("geometry",) if format_ == "geojson" else ())
            return None
        source = parquet_input.Opened(read, output.from_)
        pipeline = arrow_steps.Pipeline(source.schema, steps, lookup, added)
        schema = arrow_steps.without_box(pipeline.schema) if steps else source.said_by_us()
        return parquet_pieces(schema, arrow_steps.shown(pipeline.run(source.batches())))

    def _of_texts(
        self, output: OutputConfig, partition: str | None, read: Reader, steps: Steps
    ) -> Iterator[bytes] | None:
        """Return a large CSV output, made by the Arrow engine, if that gives the same bytes as the text engine; else
        None."""
        source = read.inputs[self._sources.index(output.from_)]
        layout = source.layout or Layout()
        if not csv_arrow.is_for(source.size, layout, steps):
            return None
        if partition is None:
            found = csv_arrow.read_columns(lambda: read.open(output.from_), layout)
        else:
            parted = self._once(
                read,
                ("texts", output.from_, output.partition_by),
                lambda: csv_arrow.Parted.of(lambda: read.open(output.from_), layout, output.partition_by),
            )
            found = None if parted is None else parted.only(partition)
        return None if found is None else csv_arrow.table_as_csv(found, steps)

    def _of_table(
        self, output: OutputConfig, partition: str | None, read: Reader, steps: Steps, lookup: Lookups, format_: str
    ) -> Iterator[bytes]:
        if partition is None:
            table = read.table(output.from_)
            names, stream = table.names, table_steps.table_rows(table)
        else:
            parted = self._once(
                read,
                ("table", output.from_, output.partition_by),
                lambda: partition_rows.of_table(read, output.from_, output.partition_by),
            )
            names, stream = parted.names, parted.rows(partition)
        pipeline = table_steps.Pipeline(names, steps, lookup, self._room(read))
        rows = pipeline.run(stream)
        if format_ == "csv":
            return output_bytes.table_as_csv(pipeline.names, rows)
        if format_ == "parquet":
            from kfm.updaters.transforms.arrow_steps import table_as_parquet

            return table_as_parquet(pipeline.names, pipeline.types, rows)
        return output_bytes.table_as_json(pipeline.names, pipeline.types, rows, format_)

    def _of_records(
        self, name: str, output: OutputConfig, partition: str | None, read: Reader, steps: Steps, lookup: Lookups,
        format_: str,
    ) -> Iterator[bytes]:  # fmt: skip
        contract = self._contracts[output.from_]
        properties = Properties(contract.format)
        shapes = format_ == "geojson"
        if partition is None:
            members = Members()
            stream = rows_of(read, name, output.from_, contract, members, shapes=shapes)
        else:
            column = output.partition_by
            if contract.format in ("geojson", "stac"):
                column = properties.column(column)
            parted = self._once(
                read,
                ("records", output.from_, column, str(shapes)),
                lambda: partition_rows.of_records(read, name, output.from_, contract, column, shapes=shapes),
            )
            members, stream = parted.members, parted.rows(partition)
        pipeline = json_steps.Pipeline(members, steps, lookup, self._room(read))
        rows = pipeline.run(stream)
        if format_ == "csv":
            return output_bytes.records_as_csv(_columns(output), rows)
        if format_ == "geojson":
            return output_bytes.records_as_features(rows, properties, name, output.from_)
        return output_bytes.records_as_json(rows, format_)

    def _lookup(self, read: Reader, step: StepConfig, place: Place) -> Lookup:
        """Return the other source of a join by key. It is read once for all partitions, because a run reads the same
        bytes throughout."""
        assert step.join is not None
        ref = read.inputs[self._sources.index(step.join.source)]
        key = f"{place} {ref.accepted_hash or ref.content_hash}"
        with self._lock:
            if key not in self._lookups:
                found = Lookup(read, step.join, self._contracts[step.join.source], place)
                while len(self._lookups) >= 4:
                    self._lookups.pop(next(iter(self._lookups)))
                self._lookups[key] = found
            return self._lookups[key]


def _profile(read: Reader, source: str) -> str:
    from kfm.parsing.tiff import is_cloud_optimized

    with read.open(source) as file:
        begin = io.BytesIO(file.read(1 << 24))  # the directories of such a file are in its beginning
    return "; profile=cloud-optimized" if is_cloud_optimized(begin) else ""


def _lies_within(window: str, value: str, name: str, output: OutputConfig) -> bool:
    found = within(window, value)
    if found is None:
        raise BadInput(
            f"output {name}: a value of {printable(output.window_by)} is not a day, month, year or instant",
            hint="write them in ISO 8601, such as 2026-01-31, or leave --window out",
        )
    return found


def _columns(output: OutputConfig) -> list[str]:
    """Return the columns of an output as far as its steps name them: those of the last select and those added
    after it."""
    from kfm.updaters.transforms.step_columns import after

    found: list[str] = []
    for step in output.steps:
        found = after(found, step)
    return found
