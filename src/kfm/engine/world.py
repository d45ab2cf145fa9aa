"""The world of a run: the stores, the clock, the log and the sources that its stages may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from msgspec import Struct, field

from kfm.clock import Clock
from kfm.engine.stage_results import Wanted
from kfm.model.ports import Log, Objects, Source, State, Tx
from kfm.model.records import DataContract, FetchRequest

if TYPE_CHECKING:  # a run of public data does not load it
    from kfm.engine.protected.encrypted_objects import Encryption
    from kfm.engine.protected.unjudged_objects import UnjudgedObjects


class Settings(Struct, frozen=True):
    """The settings of the engine that an installation may tune, such as threads and leases."""

    threads: int = 4
    window: int = 4096  # the most steps in flight at once, which is how many a crash can leave in doubt
    lease_ms: int = 60_000
    deletion_budget: float = 0.1  # the share of a version's keys that one run may delete
    holder: str = ""  # the name of this worker in its leases
    dry_run: bool = False
    worker_image: str = ""  # the image of the container that this process runs in, for the telemetry; empty: unknown
    sinks: tuple[str, ...] = ()  # the configured sinks that follow the ledger


class Metering(Protocol):
    """What one run uses, from its begin to its end."""

    def used(self, now_ms: int, *, is_resumed: bool) -> tuple[float | None, float | None, str]:
        """Return the kilowatt-hours and the grams of CO2e so far, None if unknown, and the method."""

    def end(self) -> None: ...


class Meter(Protocol):
    """Meters the energy of runs."""

    def begin(self) -> Metering: ...

    def sample(self) -> None:
        """Read counters that wrap around. Called now and then while a run is active."""


def _silent(_stage: str, _done: int, _total: int) -> None:
    """Report no progress."""


class World(Struct):
    """The stores, clock, log and sources of a run. A dry run gets stores that write nothing lasting."""

    state: State
    objects: Objects
    clock: Clock
    log: Log
    open_source: Callable[[str], Source]  # the reader of an address
    settings: Settings = field(default_factory=Settings)
    sources: Mapping[str, tuple[FetchRequest, DataContract | None]] = field(default_factory=dict)  # by name
    datasets: Mapping[str, tuple[Wanted, DataContract | None]] = field(default_factory=dict)  # sources too
    request: FetchRequest = field(default_factory=lambda: FetchRequest(uri=""))  # the limits for sources without a name
    progress: Callable[[str, int, int], None] = _silent
    crew: Callable[..., Any] | None = None  # performs the steps elsewhere; None: threads of this process
    meter: Meter | None = None  # None: the energy of the run is unknown
    encryption: Encryption | None = None  # encrypts everything that a restricted run stores
    unjudged: UnjudgedObjects | None = None  # its objects, while the leak check has yet to judge them

    def stored(self, body: bytes) -> bytes:
        """Return the body of a row as the state stores it: encrypted if the run is restricted."""
        return body if self.encryption is None else self.encryption.encrypted(body)

    def plain(self, body: bytes) -> bytes:
        """Return the body of a stored row, decrypted if it is encrypted."""
        return body if self.encryption is None else self.encryption.decrypted(body)

    def keep_rows(self, tx: Tx, rows: list[tuple[str, bytes]]) -> None:
        """Store small objects in this transaction: encrypted while the leak check has yet to judge them."""
        if self.unjudged is None:
            tx.objects(rows)
        else:
            self.unjudged.keep_rows(tx, rows)

    def hidden(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return a description of an output as the journal stores it: encrypted before the leak check."""
        return said if self.unjudged is None else self.unjudged.hidden(said)

    def shown(self, said: dict[str, Any]) -> dict[str, Any]:
        """Return a description of an output from the journal, decrypted if it is encrypted."""
        return said if self.unjudged is None else self.unjudged.shown(said)

    def scratch(self) -> BinaryIO:
        """Return a temporary file without a name, for content that does not fit into memory.

        A restricted run gets a file that is encrypted with a key that is kept nowhere. A dry run gets memory, because
        it writes nothing.
        """
        if self.settings.dry_run:
            import io

            return io.BytesIO()
        import tempfile

        if self.encryption is None:
            return tempfile.TemporaryFile()
        from kfm.crypto.encrypted_scratch import encrypted_file

        return encrypted_file(tempfile.TemporaryFile(buffering=0))
