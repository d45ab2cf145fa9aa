"""The state as repositories over any Tables: refs, journal, ledger, lineage, inbox, outbox, leases, runs, ticks, jobs,
change requests, protected data, breakers and budgets.

Every rule that must hold in the same transaction as its effect is implemented here once: fencing, freezing,
compare-and-swap of refs, write-once receipts, the chain of the ledger. A backend only stores bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from kfm.errors import Cancelled, Frozen
from kfm.model import refs
from kfm.model.ports import Notary, Tables
from kfm.model.records import Lease, Trigger
from kfm.store.change_request_table import Orders, OrdersTx
from kfm.store.codec import decode, encode
from kfm.store.inbox import Inbox, InboxTx
from kfm.store.journal import Journal, JournalTx
from kfm.store.leases import Leases, LeasesTx
from kfm.store.ledger import Ledger, LedgerTx
from kfm.store.lineage_index import Lineage, LineageTx
from kfm.store.outbox import Outbox, OutboxTx
from kfm.store.protected_records import Protected, ProtectedTx
from kfm.store.ref_history import Refs, RefsTx
from kfm.store.retention.aside_rows import KEY as ASIDE
from kfm.store.retention.aside_rows import Aside, aside_row, read_aside
from kfm.store.runs import Runs, RunsTx
from kfm.store.ticks import Ticks, TicksTx

if TYPE_CHECKING:
    from kfm.store.job_table import Jobs, JobsTx
    from kfm.store.retries.retry_tables import Breakers, BreakersTx, Budgets, BudgetsTx

PLACE = "place"  # the key in `meta` of the row that `kfm move` writes

# How often leases and refs were written through these tables, by any StoredState over them.
_writes: WeakKeyDictionary[Tables, dict[str, int]] = WeakKeyDictionary()


class StoredState:
    """Implements the State port over any Tables."""

    def __init__(self, tables: Tables, now_ms: Callable[[], int]) -> None:
        self.tables = tables
        # Leases are compared with one clock: that of the server, if the tables have one.
        self.now_ms: Callable[[], int] = getattr(tables, "now_ms", None) or now_ms
        self._fenced: tuple[Lease, int, int] | None = None  # the last lease that was valid, and when
        self._open: tuple[Sequence[str], int, int] | None = None  # the last freeze flags that were open, and when
        self._writes = _writes.setdefault(tables, {"leases": 0, "refs": 0})
        self.archive: Callable[[str], Iterable[tuple[str, bytes]]] | None = None  # reads compacted journals
        self.notary: Notary | None = None  # signs the head of the ledger, if set
        self.judge_place: Callable[[bytes], bool] | None = None  # see `check_place`
        self.judge_home: Callable[[], None] | None = None  # see `check_home`
        self.home = b""  # the row of a state that is in force and has its objects and files where kfm.yml says
        self._placed: int | None = None  # when the state was last found to be in force
        self._counters: dict[str, int] | None = None  # of the open transaction, once it used a counter
        self.on_kept: Callable[[Sequence[Trigger]], None] | None = None  # called after the commit, if set
        self._kept: list[Trigger] = []  # triggers that the open transaction stored
        self._untold: list[Trigger] = []  # triggers of commits that are not durable yet
        self.refs = Refs(self)
        self.journal = Journal(self)
        self.ledger = Ledger(self)
        self.lineage = Lineage(self)
        self.inbox = Inbox(self)
        self.orders = Orders(self)
        self.outbox = Outbox(self)
        self.leases = Leases(self)
        self.runs = Runs(self)
        self.protected = Protected(self)
        self.ticks = Ticks(self)
        self.tx = StoredTx(self)  # the writes of the open transaction; there is one at a time

    @cached_property
    def jobs(self) -> Jobs:
        from kfm.store.job_table import Jobs  # most installations have no job

        return Jobs(self)

    @cached_property
    def breakers(self) -> Breakers:
        from kfm.store.retries.retry_tables import Breakers  # most commands retry nothing

        return Breakers(self)

    @cached_property
    def budgets(self) -> Budgets:
        from kfm.store.retries.retry_tables import Budgets

        return Budgets(self)

    def has_jobs(self) -> bool:
        return next(iter(self.tables.scan("jobs", limit=1)), None) is not None

    # -- one transaction

    def transaction(
        self, lease: Lease | None = None, *, durable: bool = True, switches: Sequence[str] = ()
    ) -> Transaction:
        return Transaction(self, lease, durable, switches)

    def check(self, lease: Lease | None, switches: Sequence[str]) -> None:
        """Inside a transaction: raise Fenced if the lease was taken over, Frozen if a freeze flag is set.

        It checks again only if another process wrote since, or this one wrote leases or refs.
        """
        foreign = self.tables.foreign()
        if lease is not None and (fenced := (lease, foreign, self._writes["leases"])) != self._fenced:
            self._check_fence(lease)
            self._fenced = fenced
        if switches and (open_ := (switches, foreign, self._writes["refs"])) != self._open:
            self._check_open(switches)
            self._open = open_

    def check_place(self) -> None:
        """Inside a transaction: let `judge_place` raise if the row that says where the state, its objects and its
        published files are is not `home`; write the row if there is none. It is read again whenever another process
        wrote, and until the judge returns True."""
        foreign = self.tables.foreign()
        if foreign == self._placed:
            return
        body = self.tables.get("meta", PLACE)
        if body is None:
            self.tables.put("meta", PLACE, self.home)  # this transaction may be rolled back
        elif body == self.home or self.judge_place is None or self.judge_place(body):
            self._placed = foreign

    def check_home(self) -> None:
        """Outside a transaction: let `judge_home` raise if objects or published files are elsewhere by now."""
        if self.judge_home is not None and self.tables.get("meta", PLACE) not in (None, self.home):
            self.judge_home()

    def recheck(self, *tables: Literal["leases", "refs"]) -> None:
        """Make the next check look at leases and freeze flags again, because these tables are being written."""
        for table in tables:
            self._writes[table] += 1

    def _check_open(self, switches: Sequence[str]) -> None:
        for switch in switches:
            value = self.refs.at(switch)
            if refs.is_frozen(value):  # any value but `open` means frozen
                if switch.startswith(refs.RUN_SWITCH):
                    said = next(iter(self.refs.history(switch, reverse=True, limit=1)), None)
                    raise Cancelled(f"the run was cancelled by {said.actor if said else 'an operator'}")
                if switch.startswith(refs.AMBER):
                    raise _at_amber(switch)
                name = switch.removeprefix(refs.SWITCH).removeprefix("dataset/")
                thaw = "kfm thaw --reason …" if switch == refs.switch("global") else f"kfm thaw {name} --reason …"
                raise Frozen(f"{name} is frozen", hint=f"see `kfm refs history {switch}`; `{thaw}` opens it")

    def _check_fence(self, lease: Lease) -> None:
        self.tx.leases.check(lease)

    def reading(self) -> AbstractContextManager[object]:
        return self.tables.reading()

    def recent(self) -> AbstractContextManager[object]:
        """A context in which reads outside transactions may be as old as a moment, where the tables are on a server.
        Transactions may begin inside; refs, leases, waiting triggers and classifications are read as of now."""
        recent: Callable[[], AbstractContextManager[object]] | None = getattr(self.tables, "recent", None)
        return nullcontext() if recent is None else recent()

    def sync(self) -> None:
        """Make all commits so far durable."""
        with self.transaction() as tx:
            tx.touch()

    # -- triggers

    def note_kept(self, trigger: Trigger) -> None:
        """Inside a transaction: remember that it stored a trigger, for `on_kept`."""
        if self.on_kept is not None:
            self._kept.append(trigger)

    def take_kept(self) -> list[Trigger]:
        """Inside a transaction: return the triggers that it stored, and forget them."""
        if not self._kept:
            return self._kept
        kept, self._kept = self._kept, []
        return kept

    def tell_kept(self, kept: list[Trigger], durable: bool) -> None:
        """After a commit: tell of the triggers that it stored. Those of a commit that is not durable are told with the
        next durable one."""
        self._untold.extend(kept)
        if durable and self._untold and self.on_kept is not None:
            untold, self._untold = self._untold, []
            self.on_kept(untold)

    # -- counters

    def begin_counting(self) -> None:
        self._counters = None

    def last(self, counter: str) -> int:
        """Inside a transaction: return the last number that this counter gave out; 0 if none."""
        if self._counters is None:
            self._counters = self.counters()
        return self._counters.get(counter, 0)

    def next(self, counter: str) -> int:
        value = self.last(counter) + 1
        assert self._counters is not None
        self._counters[counter] = value
        return value

    def keep_counters(self) -> None:
        if self._counters is not None:
            self.tables.put("meta", "counters", encode(self._counters))

    # -- reading

    def meta(self, key: str) -> str:
        return (self.tables.get("meta", key) or b"").decode()

    def counters(self) -> dict[str, int]:
        body = self.tables.get("meta", "counters")
        return {} if body is None else decode(body, dict[str, int], "meta/counters")

    def inline_object(self, name: str) -> bytes | None:
        return self.tables.get("objects", name)

    def inline_objects(self) -> Iterator[tuple[str, bytes]]:
        return self.tables.scan("objects", "sha256:")

    def aside_object(self, name: str) -> Aside | None:
        """Return an object that `kfm gc` set aside; None if it is not."""
        row = self.tables.get("objects", ASIDE + name)
        return None if row is None else read_aside(name, row)

    def aside_objects(self) -> Iterator[tuple[str, Aside]]:
        for key, row in self.tables.scan("objects", ASIDE):
            yield key.removeprefix(ASIDE), read_aside(key, row)

    def close(self) -> None:
        self.tables.close()


class Transaction:
    """A transaction of the state as a context manager: it checks the lease and the freeze flags at the start, and
    commits all writes at the end, or none if an error is raised."""

    __slots__ = ("_durable", "_lease", "_state", "_switches")

    def __init__(self, state: StoredState, lease: Lease | None, durable: bool, switches: Sequence[str]) -> None:
        self._state = state
        self._lease = lease
        self._durable = durable
        self._switches = switches

    def __enter__(self) -> StoredTx:
        state = self._state
        state.tables.begin(self._durable)
        try:
            if state.judge_place is not None:
                state.check_place()
            if self._lease is not None or self._switches:
                state.check(self._lease, self._switches)
        except BaseException:
            state.tables.rollback()
            raise
        state.begin_counting()
        return state.tx

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: object) -> None:
        state = self._state
        if problem is None:
            try:
                state.tx.flush()
            except BaseException:
                self._undo()
                raise
            kept = state.take_kept()  # before another thread may begin its transaction
            state.tables.commit()
            if kept or self._durable:
                state.tell_kept(kept, self._durable)
        else:
            self._undo()

    def _undo(self) -> None:
        self._state.recheck("leases", "refs")
        self._state.take_kept()
        self._state.tables.rollback()


class StoredTx:
    """The repositories of the state with their write methods, inside one transaction."""

    __slots__ = (
        "_state", "_tables", "inbox", "journal", "leases", "ledger", "lineage", "orders", "outbox", "protected",
        "refs", "runs", "ticks",
    )  # fmt: skip

    def __init__(self, state: StoredState) -> None:
        self._state = state
        self._tables = state.tables
        self.refs = RefsTx(state)
        self.journal = JournalTx(state)
        self.ledger = LedgerTx(state)
        self.lineage = LineageTx(state)
        self.inbox = InboxTx(state)
        self.orders = OrdersTx(state)
        self.outbox = OutboxTx(state)
        self.leases = LeasesTx(state)
        self.runs = RunsTx(state)
        self.protected = ProtectedTx(state)
        self.ticks = TicksTx(state)

    @property
    def jobs(self) -> JobsTx:
        from kfm.store.job_table import JobsTx

        return JobsTx(self._state)

    @property
    def breakers(self) -> BreakersTx:
        from kfm.store.retries.retry_tables import BreakersTx

        return BreakersTx(self._state)

    @property
    def budgets(self) -> BudgetsTx:
        from kfm.store.retries.retry_tables import BudgetsTx

        return BudgetsTx(self._state)

    def flush(self) -> None:
        self._state.keep_counters()

    def touch(self) -> None:
        self._tables.put("meta", "synced", b"")

    def objects(self, rows: Iterable[tuple[str, bytes]]) -> None:
        rows = sorted(rows)  # in table order, because neighbours share pages
        if len(rows) == 1:
            self._tables.put("objects", *rows[0])
        else:
            self._tables.put_many("objects", rows)

    def drop_object(self, name: str) -> None:
        self._tables.delete("objects", name)

    def set_aside(self, name: str, aside: Aside) -> None:
        self._tables.put("objects", ASIDE + name, aside_row(aside))

    def drop_aside(self, name: str) -> None:
        self._tables.delete("objects", ASIDE + name)


def _at_amber(flag: str) -> Frozen:
    """Return the error for risky work that a flag at amber stops."""
    name = flag.removeprefix(refs.AMBER).removeprefix("dataset/")
    thaw = "kfm thaw --reason …" if name == "global" else f"kfm thaw {name} --reason …"
    return Frozen(
        f"{'everything' if name == 'global' else name} is at amber: no backfill, hotfix or automatic promotion",
        hint=f"see `kfm refs history {flag}`; `{thaw}` opens it",
    )
