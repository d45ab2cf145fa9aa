"""The interface between an author's updater and the engine."""

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

Read = (
    int | str | tuple[str, ...]
)  # an input by position or name, a needed step by id, or an input's name with one of its keys


class Output(msgspec.Struct, frozen=True):
    """The output of a step: bytes (or a stream of them), their media type, and the place and time they are about.

    For GeoJSON (`application/geo+json`) and STAC items up to 1 MiB, missing fields are read from the bytes.
    """

    body: bytes | Iterable[bytes]
    media_type: str = "application/octet-stream"
    rows: int | None = None  # 0: none, which holds the run if the version before had rows; None: not counted
    bbox: Sequence[float] | None = None  # west, south, east, north in degrees; six numbers with heights
    datetime: str | None = None  # RFC 3339 in UTC, or an interval start/end with .. for an open side
    stac_id: str | None = None

    @classmethod
    def text(cls, text: str, media_type: str = "text/plain; charset=utf-8") -> Output:
        return cls(text.encode(), media_type)

    @classmethod
    def json(cls, value: Any, media_type: str = "application/json") -> Output:
        """Return canonical JSON (RFC 8785), so that equal values give equal bytes."""
        return cls(canonical(value), media_type)

    @classmethod
    def ndjson(cls, rows: Iterable[Any]) -> Output:
        return cls(b"".join(canonical(row) + b"\n" for row in rows), "application/x-ndjson")

    @classmethod
    def csv(cls, rows: Iterable[dict[str, Any]], columns: Sequence[str] | None = None) -> Output:
        """Return CSV with commas and `\\n`. The columns are in the given order, else in the order of the first row."""
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
    """Collects the lines of a csv writer and ends them with `\\n`. The writer must end them with `\\r\\n`, because
    before Python 3.13 it quotes a lone `\\r` in a field only then."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, line: str) -> None:
        self._lines.append(line[:-2] + "\n")


class Plan:
    """A DAG of steps. `steps` may be a generator, so that a plan of a million steps is never in memory at once.

    complete: the steps cover everything the dataset should hold, so a key that only the earlier version has is deleted.
    It counts only if every input is complete, and only within the deletion budget. Otherwise missing keys are carried
    over. In a run of a partition it applies to that partition alone: keys of other partitions are carried over.
    """

    __slots__ = ("complete", "steps")

    def __init__(self, steps: Iterable[Step], *, complete: bool = False) -> None:
        self.steps = steps
        self.complete = complete


class Sources(Protocol):
    """The object that `inputs` gets: it pins sources to their bytes."""

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
        """Fetch a URL, a file path or a source named in the configuration into the object store, and return it pinned
        to its digest."""

    def names(self) -> list[str]:
        """Return the names of the sources that the configuration has for this dataset, sorted."""

    def bytes(self, ref: SourceRef) -> bytes:
        """Return the bytes of a pinned listing, up to 16 MiB, before its contract is checked. The updater must return
        the ref among its inputs, or a change of the listing goes unnoticed. Restricted data cannot be read this way."""

    def ref(self, name: str) -> SourceRef:
        """Pin the version that a ref points to, such as processed/noaa-stations; content_hash is empty if there is
        none."""

    def history(self, name: str) -> list[RefEntry]:
        """Return the moves of a ref, oldest first."""


class Reader(Protocol):
    """Passed to `perform`: reads the accepted bytes of the inputs and the outputs of needed steps. An input is named by
    position or name, a key of a dataset by both: `read.csv(("tops", "KS"))`."""

    @property
    def inputs(self) -> Sequence[SourceRef]: ...

    def bytes(self, source: Read) -> bytes:
        """Return all bytes, checked against their digest. `source` is an input by position or name, or a needed step by
        id."""

    def open(self, source: Read) -> BinaryIO:
        """Return the bytes of an input or of a needed step as a stream, which raises at its end if they do not match
        the digest."""

    def original(self, source: int | str) -> BinaryIO:
        """Return the file as fetched, for a vector format; the other methods read its accepted rows as GeoParquet.
        Raise Refused if a row or value of it was quarantined."""

    def text(self, source: Read) -> str:
        """Return the whole text, decoded by the source's contract."""

    def csv(
        self, source: Read, *, delimiter: str | None = None, encoding: str | None = None
    ) -> Iterator[dict[str, str]]:
        """Yield the rows by column name. Delimiter, encoding and, without a header, the names come from the source's
        contract unless given."""

    def json(self, source: Read) -> Any:
        """Return the parsed document. Raise Refused for a repeated key, NaN or half a surrogate pair."""

    def ndjson(self, source: Read) -> Iterator[Any]:
        """Yield the parsed lines, each read as strictly as `json`; blank lines are skipped."""

    def table(self, source: Read) -> Table:
        """Return the column names of a csv and its rows in blocks: for files that are too large for `csv`."""

    def records(self, source: Read, root: str = "", *, alone: bool = False) -> Iterator[Any]:
        """Yield the records of a list in a JSON document, one by one: the list in the member `root`, or the list at the
        top. A document without such a list is one record; with a `root` it must allow that with `alone`."""

    def keys(self, source: int | str) -> Iterator[tuple[str, ...]]:
        """Yield the keys of an input that is a dataset version, sorted."""

    def scratch(self) -> BinaryIO:
        """Return a temporary file without a name, which disappears when it is closed. A dry run gets memory instead,
        because it writes nothing."""


def check_updater(updater: Updater) -> Updater:
    """Return the updater. Raise BadInput if one of its fields cannot be used in records and paths."""
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
    for name in ("op", "job_type"):  # these become part of a path
        if not is_file_name(getattr(updater, name)):
            raise _wrong(updater, name, "a plain name")
    if not updater.version:
        raise BadInput(f"updater {updater.id} has no version", hint='give the class a line like version = "1.0.0"')
    check_id(updater.id, "updater")
    return updater


def check_version(updater: Updater) -> None:
    """Raise BadInput if a new run may not start under this version. Loading does not check it, so that a run begun
    under another version can be finished."""
    if not is_semantic(updater.version):
        raise BadInput(
            f"version {printable(updater.version)} of updater {updater.id} is not a semantic version",
            hint='write one like "1.0.0" (semver.org); finish unfinished runs with `kfm resume` before you change it',
        )


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


def _wrong(updater: Updater, name: str, wanted: str) -> BadInput:
    return BadInput(f"updater {type(updater).__name__}: its {name} is not {wanted}", hint="correct it in its class")


class RunTraits:
    """How the engine treats a run. Operations describe themselves here; an author of an updater changes nothing."""

    heeds_freeze: bool = True  # a freeze flag stops it
    needs_labels: bool = True  # it is refused while masks and labels do not fit together
    source_zone: str = ""  # the zone of the version that a ref is moved to; empty: that of the ref itself

    def takes_away(self, trigger: Trigger) -> bool:  # noqa: ARG002
        """Return whether this run only withdraws or cancels: then neither a freeze nor missing labels stop it."""
        return False

    def is_risky(self, trigger: Trigger) -> bool:
        """Return whether this run is work that waits at amber: a partition of a backfill, a hotfix, or a promotion that
        no person looked at. A burnt error budget closes such operations."""
        return trigger.low

    def asks_gates(self, trigger: Trigger) -> bool:  # noqa: ARG002
        """Return whether this run passes a gate, so that it needs the policies and the key to attest with."""
        return True


class Updater(RunTraits):
    """The base class of everything that changes data. Implement `inputs`, a pure `plan`, and `perform`; the other
    methods have defaults. In every case intents are durable before effects, and one transaction commits.

    Change `version` whenever plan() or perform() would give another result for the same inputs.
    """

    id: str = ""  # lower-case letters, digits, `-`, `_`, `.`; empty: the name of the dataset
    version: str = ""  # required: a semantic version that changes with the results
    dataset: str = ""  # the dataset it makes; set by the configuration
    op: str = "ingest"  # the verb in ledgers and receipts
    job_type: str = "ingest.pull_source"  # the folder of its receipts
    code_hash: str = ""  # digest of its code, set by the loader; empty: unknown
    code_listing: bytes = b""  # the modules and packages behind that digest; empty: a declared updater
    declared: bool = False  # the configuration defines it, so a changed plan is noticed without a run
    reads_keys: bool = False  # declared, and it reads every key of the versions that it reads
    moves_only: bool = False  # an operation: its plan moves refs and makes no version of its own
    slo_target_latency_ms: int = 900_000  # the target latency of a run
    retries: int = 0  # how often a step is repeated after Unavailable or an exception in `retry_on`
    backoff_s: float = 1.0  # the wait before the first repeat; it doubles each time, up to a minute
    retry_on: tuple[type[Exception], ...] = ()  # exceptions of perform() that are temporary
    lease_by: str = "dataset"  # or "partition": runs of different partitions may run at once

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        """Return the inputs, each pinned to its bytes."""
        raise NotImplementedError

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        """Return the steps. It is pure: the same inputs give the same steps byte for byte, without clock, files,
        network, randomness or environment."""
        raise NotImplementedError

    def perform(self, step: Step, read: Reader) -> Output:
        """Return the output of one step. The engine may call it again for the same step, and it must return the same
        bytes."""
        raise NotImplementedError

    def execute(self, step: Step, read: Reader) -> Output:
        """Perform a step: the engine calls `execute`, and `execute` calls perform(). Override it for work that all
        steps have in common; the rules of perform() apply."""
        return self.perform(step, read)

    def upsert(self, version: DatasetVersion) -> DatasetVersion:
        """Return the version before it is committed, with more `metadata` if wanted, or raise Refused to commit
        nothing. The engine calls it again if it repeats the commit."""
        return version

    def conclude(
        self,
        version: DatasetVersion,
        inputs: Sequence[SourceRef],  # noqa: ARG002
        made: Callable[[str], bytes],  # noqa: ARG002
    ) -> DatasetVersion:
        """Return the version before it is committed: the engine calls `conclude`, and `conclude` calls upsert(). It
        also gets the inputs and, by step id, the outputs; the rules of upsert() apply."""
        return self.upsert(version)

    def lineage(self, inputs: Sequence[Item]) -> Sequence[Item]:
        """Return everything that the version was made of: all inputs, and further sources to name, such as a model."""
        return inputs

    def telemetry(self, measured: RunTelemetry) -> RunTelemetry:
        """Return the telemetry of the run, for example with energy: `energy_kwh`, `co2e_g`, `energy_method`. It should
        be quick; if it raises, the measured values are kept. The method of what it changes begins with `reported:`."""
        return measured

    def kept(self, trigger: Trigger, inputs: Sequence[SourceRef]) -> Trigger:  # noqa: ARG002
        """Return the trigger to store until a thaw: an operation keeps the move it planned, others plan again."""
        return trigger
