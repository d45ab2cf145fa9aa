"""What an author writes, and what the walk hands to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Protocol

import msgspec

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.csv_format import Table
from kfm.model.names import check_id, is_file_name, is_semantic
from kfm.model.records import (
    DataContract,
    DatasetVersion,
    Item,
    RefEntry,
    RunTelemetry,
    SourceRef,
    Step,
    Trigger,
)
from kfm.parsing.characters import is_printable, printable

Read = int | str | tuple[str, ...]  # an input by position or name, a needed step by id, or a name and a key of it


class Output(msgspec.Struct, frozen=True):
    """What a step gives: bytes (or a stream of them), their media type, and where and when they are about.

    What is not given is read from the bytes of GeoJSON (`application/geo+json`) and STAC items up to 1 MiB.
    """

    body: bytes | Iterable[bytes]
    media_type: str = "application/octet-stream"
    rows: int | None = None  # 0: it holds none, which is held back if the version before had some; None: not counted
    bbox: Sequence[float] | None = None  # west, south, east, north in degrees; with heights six numbers
    datetime: str | None = None  # RFC 3339 in UTC, or an interval start/end, .. where it is open
    stac_id: str | None = None

    @classmethod
    def text(cls, text: str, media_type: str = "text/plain; charset=utf-8") -> Output:
        return cls(text.encode(), media_type)

    @classmethod
    def json(cls, value: Any, media_type: str = "application/json") -> Output:
        """Canonical JSON (RFC 8785), so that equal values are equal bytes."""
        return cls(canonical(value), media_type)

    @classmethod
    def ndjson(cls, rows: Iterable[Any]) -> Output:
        return cls(b"".join(canonical(row) + b"\n" for row in rows), "application/x-ndjson")

    @classmethod
    def csv(cls, rows: Iterable[dict[str, Any]], columns: Sequence[str] | None = None) -> Output:
        """Comma-separated with `\\n`. Columns in the order given, else in the order of the first row."""
        import csv

        lines: list[str] = []
        names = list(columns) if columns is not None else None
        writer = None
        for row in rows:
            if writer is None:
                names = names if names is not None else list(row)
                writer = csv.DictWriter(_Lines(lines), names, lineterminator="\r\n")
                writer.writeheader()
            writer.writerow(row)
        if writer is None and names is not None:
            csv.DictWriter(_Lines(lines), names, lineterminator="\r\n").writeheader()
        return cls("".join(lines).encode(), "text/csv; charset=utf-8")


class _Lines:
    """Takes lines from a csv writer. They end in `\\r\\n` there, because until Python 3.13 a lone `\\r` in a
    field is quoted only then; here they end in `\\n`."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, line: str) -> None:
        self._lines.append(line[:-2] + "\n")


class Plan:
    """A DAG of steps. `steps` may be a generator: a plan of a million steps is never held whole.

    complete: the steps cover everything the dataset should hold, so a key that an earlier version
    had and this plan has not is a deletion. It counts only if every input was sealed, and only
    within the deletion budget. Otherwise absent keys are carried over. Of a run of a partition it speaks of
    that partition alone: keys that begin with another text are carried over whatever it says.
    """

    __slots__ = ("complete", "steps")

    def __init__(self, steps: Iterable[Step], *, complete: bool = False) -> None:
        self.steps = steps
        self.complete = complete


class Sources(Protocol):
    """Handed to `inputs`: pins sources to their bytes."""

    def pin(
        self,
        source: str,
        *,
        partition: Sequence[str] = (),
        partition_by: str = "",
        contract: DataContract | None = None,
        complete: bool | None = None,
        expect_hash: str = "",
    ) -> SourceRef:
        """Fetch a URL, a file path or a source named in the configuration; hashed on the way."""

    def names(self) -> list[str]:
        """Of the sources that the configuration has for this dataset, sorted."""

    def bytes(self, ref: SourceRef) -> bytes:
        """Of a listing that was pinned here, what it says: up to 16 MiB, before its contract was asked. Return the
        ref among the inputs, or a change of it goes unseen. Nothing that is restricted is read this way."""

    def ref(self, name: str) -> SourceRef:
        """Pin the version a ref points to, e.g. processed/noaa-stations; empty content_hash if there is none."""

    def history(self, name: str) -> list[RefEntry]:
        """Where a ref has been, oldest first."""


class Reader(Protocol):
    """Handed to `perform`: the accepted bytes of the inputs and of the steps it needs. What is read is named by its
    position or name, a key of a dataset by both: `read.csv(("tops", "KS"))`."""

    @property
    def inputs(self) -> Sequence[SourceRef]: ...

    def bytes(self, source: Read) -> bytes:
        """Whole, checked against its digest. An input by position or name, or a needed step by id."""

    def open(self, source: Read) -> BinaryIO:
        """The same as a stream, checked when it was read to its end."""

    def original(self, source: int | str) -> BinaryIO:
        """The file as it came, of a format of shapes: what is accepted of it is GeoParquet, which the others here read.
        Refused if a row or value of it was held back."""

    def text(self, source: Read) -> str:
        """Whole, in the encoding of the source's contract."""

    def csv(
        self, source: Read, *, delimiter: str | None = None, encoding: str | None = None
    ) -> Iterator[dict[str, str]]:
        """Row by row, by the names of the columns. Delimiter, encoding and, where there is no header, the
        names are those of the source's contract unless given."""

    def json(self, source: Read) -> Any:
        """Whole, read strictly: a key twice, NaN or half a surrogate pair is refused."""

    def ndjson(self, source: Read) -> Iterator[Any]:
        """Line by line, each read strictly; blank lines are passed over."""

    def table(self, source: Read) -> Table:
        """The names of the columns of a csv, and its rows block by block: for what is too large for `csv`."""

    def records(self, source: Read, root: str = "", *, alone: bool = False) -> Iterator[Any]:
        """The records of a list in a JSON document, one by one, each read strictly: the list in the member
        `root`, or the list at the top. A document without such a list is the one record, under a `root`
        only if it may stand `alone`."""

    def keys(self, source: int | str) -> Iterator[tuple[str, ...]]:
        """Of an input that is a version of a dataset: its keys, sorted."""

    def scratch(self) -> BinaryIO:
        """A file for what does not fit into memory; it has no name and is gone when it is closed. A dry run
        gets memory instead: it writes nothing."""


def check_updater(updater: Updater) -> Updater:
    """Whether the fields of an author's updater are what every record and path made from them needs."""
    for name in ("id", "version", "op", "job_type"):
        value: object = getattr(updater, name)
        if type(value) is not str or len(value) > 100 or not is_printable(value):
            raise _wrong(updater, name, "a short printable text")
    if type(updater.slo_target_latency_ms) is not int:
        raise _wrong(updater, "slo_target_latency_ms", "a number")
    if type(updater.retries) is not int or not 0 <= updater.retries <= 100:
        raise _wrong(updater, "retries", "a number from 0 to 100")
    if type(updater.backoff_s) not in (int, float) or not 0 <= updater.backoff_s <= 3600:
        raise _wrong(updater, "backoff_s", "a number of seconds from 0 to 3600")
    if type(updater.retry_on) is not tuple or not all(map(_is_exception, updater.retry_on)):
        raise _wrong(updater, "retry_on", "a tuple of exceptions")
    if updater.lease_by not in ("dataset", "partition"):
        raise _wrong(updater, "lease_by", '"dataset" or "partition"')
    for name in ("op", "job_type"):  # they become part of a path
        if not is_file_name(getattr(updater, name)):
            raise _wrong(updater, name, "a plain name")
    if not updater.version:
        raise BadInput(f"updater {updater.id} has no version", hint='give the class a line like version = "1.0.0"')
    check_id(updater.id, "updater")
    return updater


def check_version(updater: Updater) -> None:
    """Whether a new run may be asked for under this version. Not asked when it is loaded: what an earlier program
    began under another one is finished."""
    if not is_semantic(updater.version):
        raise BadInput(
            f"version {printable(updater.version)} of updater {updater.id} is not a semantic version",
            hint='write one like "1.0.0" (semver.org); what was begun is finished by `kfm resume` before it changes',
        )


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _wrong(updater: Updater, name: str, wanted: str) -> BadInput:
    return BadInput(f"updater {type(updater).__name__}: its {name} is not {wanted}", hint="correct it in its class")


class Updater:
    """Everything that changes anything. Write `inputs`, a pure `plan`, and `perform`; the rest is right as it is, and
    may be overridden. Whoever does: intents are durable before effects, and one transaction commits.

    `version` changes whenever plan() or perform() would answer differently for the same inputs.
    """

    id: str = ""  # lower-case letters, digits, `-`, `_`, `.`; empty: the name of the dataset
    version: str = ""  # required, a semantic version: changes whenever it would answer differently
    dataset: str = ""  # what it makes; as the configuration says
    op: str = "ingest"  # the verb in ledgers and receipts
    job_type: str = "ingest.pull_source"  # under which its receipts lie
    code_hash: str = ""  # of what it is made of, by whoever loaded it; empty: not known
    code_listing: bytes = b""  # what that is the digest of: modules and packages by name; empty: what is declared
    declared: bool = False  # the configuration says what it does, so a plan that changed is noticed without a run
    moves_only: bool = False  # an operation: its plan moves refs and makes no version of its own
    slo_target_latency_ms: int = 900_000  # within which a run should be done
    retries: int = 0  # how often a step is tried again; only after Unavailable, or what `retry_on` names
    backoff_s: float = 1.0  # before the first of these; twice as long before each next, up to a minute
    retry_on: tuple[type[Exception], ...] = ()  # what perform() may raise that passes by itself
    lease_by: str = "dataset"  # or "partition": runs of different partitions may be at work at once

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        """What is read, each pinned to its bytes."""
        raise NotImplementedError

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        """Pure: the same inputs give the same steps, byte for byte; no clock, files, network, chance, environment."""
        raise NotImplementedError

    def perform(self, step: Step, read: Reader) -> Output:
        """One step. It may be called again for the same step, and then gives the same bytes."""
        raise NotImplementedError

    def execute(self, step: Step, read: Reader) -> Output:
        """Around every perform(): for what all steps have in common. The same holds for it."""
        return self.perform(step, read)

    def upsert(self, version: DatasetVersion) -> DatasetVersion:
        """The last word on a version before it is committed. It may say more in `metadata`, or raise Refused: then
        nothing is. Called again if the commit has to be."""
        return version

    def conclude(
        self,
        version: DatasetVersion,
        inputs: Sequence[SourceRef],  # noqa: ARG002
        made: Callable[[str], bytes],  # noqa: ARG002
    ) -> DatasetVersion:
        """Around every upsert(): with what was read, and with what the steps gave, by their ids. The same holds."""
        return self.upsert(version)

    def lineage(self, inputs: Sequence[Item]) -> Sequence[Item]:
        """What the version was made of: all that was read, and whatever else there is to name, such as a model."""
        return inputs

    def telemetry(self, measured: RunTelemetry) -> RunTelemetry:
        """What the run cost. It may say what energy it took: `energy_kwh`, `co2e_g`, `energy_method`. Should be quick;
        if it raises, what was measured is kept as it is."""
        return measured

    def kept(self, trigger: Trigger, inputs: Sequence[SourceRef]) -> Trigger:  # noqa: ARG002
        """The trigger as it waits for a thaw: an operation keeps the move it was to make, others look again."""
        return trigger
