# ruff: noqa: S608 - the names in the statements come from the catalogue and from a checked setting
"""The SQL of the Postgres backend. Every name carries its schema, because a pooler keeps no search_path.

Keys are `bytea`: text refuses NUL, and bytes of UTF-8 sort like code points under every collation. An index entry may
have 2,700 bytes, and a key may be longer; so `key` holds its first 1,024 bytes, `rest` what follows, and `tail` the
digest of `rest`. Of almost all keys the last two are empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

from kfm.store.postgres.connection import Statement, blob, blobs, number, numbers, text
from kfm.store.state_tables import CATALOGUE

TABLES = tuple(table.name for table in CATALOGUE)
HEAD = 1024  # bytes of a key in the index
RING = 16_384  # commits that can still be looked up: more than any number that others make while one reconnects
SMALL = 60  # rows of a table that is read as a whole
# Tables that runs look at in many places, and that are small in a small installation: they are read together.
AHEAD = (
    "meta", "leases", "ledger_tree", "refs", "open_runs", "inbox", "standings", "outbox", "claims", "plan_locks",
    "checkpoints", "fingerprints", "first_cells", "versions", "triggers", "orders", "ticks", "history", "ended_runs",
    "deliveries", "ledger_checkpoints",
)  # fmt: skip
FRESH = frozenset({"refs", "leases", "inbox", "standings"})  # tables that are never read from a moment ago
_BATCH = 8 << 20  # bytes of rows in one statement
_IDLE = "20s"  # after which the server ends a transaction whose process no longer works, and with it the write lock
_IDLE_READ = "10min"


class SplitKey(NamedTuple):
    head: bytes
    tail: bytes
    rest: bytes


def split(key: bytes) -> SplitKey:
    if len(key) < HEAD:
        return SplitKey(key, b"", b"")
    rest = key[HEAD:]
    return SplitKey(key[:HEAD], sha256(rest).digest() if rest else b"", rest)


def sum_of(table: str, key: bytes, value: bytes) -> int:
    return crc32(value, crc32(table.encode() + b"/" + key))


class Sql:
    """The statements for one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._in = f'"{schema}".'
        lock = sha256(f"kfm/{schema}".encode()).digest()[:8]
        # Advisory locks belong to one database, so its name need not be in the number; a pooler may give it another.
        self.lock = Statement("SELECT pg_advisory_xact_lock($1)", [(20, lock)])

    # -- a transaction

    def begin(self, wait_s: float, durable: bool) -> list[Statement]:
        """Begin a transaction that writes, and take the write lock. Each later statement sees what was committed before
        the lock was taken, so the isolation must be READ COMMITTED."""
        wait_ms = max(1, round(wait_s * 1000))
        setting = (
            "SELECT set_config('lock_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)"
        )
        commit = "SELECT set_config('synchronous_commit', 'off', true)"
        if durable:  # some servers have it off for all
            commit = (
                "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit')='off'"
            )
        return [
            Statement("BEGIN ISOLATION LEVEL READ COMMITTED"),
            Statement(setting, [text(str(wait_ms)), text(_IDLE)]),
            Statement(commit),
            self.lock,
        ]

    def snapshot(self) -> tuple[Statement, Statement]:
        """Begin a transaction that only reads, from one snapshot. The server ends it if its reader waits for long,
        because it keeps old rows from being removed."""
        return (
            Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            Statement("SELECT set_config('idle_in_transaction_session_timeout', $1, true)", [text(_IDLE_READ)]),
        )

    def status(self, *slots: int) -> tuple[Statement, Statement, Statement]:
        """Read the server's clock and whether it takes writes; the mark of the last commit and the format; places of
        the ring. Three plain statements are planned faster than one that joins them."""
        return (
            Statement(
                "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, pg_is_in_recovery()::int::bigint, "
                "(current_setting('transaction_read_only') = 'on')::int::bigint"
            ),
            Statement(f"SELECT key, value, sum FROM {self._in}guard WHERE tail='' AND key IN ('commits', 'format')"),
            Statement(
                f"SELECT number, token FROM {self._in}commit_ring WHERE slot = ANY($1)", [numbers(list({*slots}))]
            ),
        )

    def ahead(self, tables: Iterable[str]) -> Statement:
        """Read these tables together, each up to one row more than a small table has."""
        return Statement(
            " UNION ALL ".join(
                f"(SELECT '{table}'::text, key, rest, value, sum FROM {self._in}{table} LIMIT {SMALL + 1})"
                for table in tables
            )
        )

    def note(self, count: int, token: bytes, mark: bytes) -> list[Statement]:
        """Write the mark of this commit, with which it can be found again if its answer is lost."""
        return [
            *self.put("guard", {"commits": mark}),
            Statement(
                f"INSERT INTO {self._in}commit_ring VALUES ($1, $2, $3) "
                "ON CONFLICT (slot) DO UPDATE SET number=excluded.number, token=excluded.token",
                [number(count % RING), number(count), blob(token)],
            ),
        ]

    # -- rows

    def get(self, table: str, key: bytes) -> Statement:
        head, tail, _ = split(key)
        return Statement(f"SELECT value, sum FROM {self._in}{table} WHERE key=$1 AND tail=$2", [blob(head), blob(tail)])

    def page(self, table: str, low: bytes, high: bytes | None, reverse: bool, limit: int) -> Statement:
        """Read the rows from `low`, before `high`."""
        head, _, rest = split(low)
        where, values = "key >= $1", [blob(head)]
        if rest:
            where += " AND (key > $1 OR rest >= $2)"
            values.append(blob(rest))
        if high is not None:
            head, _, rest = split(high)
            n = len(values) + 1
            values.append(blob(head))
            if rest:
                where += f" AND key <= ${n} AND (key < ${n} OR rest < ${n + 1})"
                values.append(blob(rest))
            else:
                where += f" AND key < ${n}"
        order = "key DESC, rest DESC" if reverse else "key, rest"
        return Statement(
            f"SELECT key, rest, value, sum FROM {self._in}{table} WHERE {where} ORDER BY {order} LIMIT {limit}", values
        )

    def put(self, table: str, rows: dict[str, bytes]) -> list[Statement]:
        """Write rows. An unchanged row is not written."""
        found: list[Statement] = []
        batch: list[tuple[SplitKey, bytes, int]] = []
        size = 0
        for name, value in rows.items():
            key = name.encode()
            batch.append((split(key), value, sum_of(table, key, value)))
            size += len(value) + len(key)
            if size > _BATCH:
                found.append(self._put(table, batch))
                batch, size = [], 0
        if batch:
            found.append(self._put(table, batch))
        return found

    def _put(self, table: str, rows: list[tuple[SplitKey, bytes, int]]) -> Statement:
        return Statement(
            f"INSERT INTO {self._in}{table} AS old (key, tail, rest, value, sum) SELECT * FROM unnest($1,$2,$3,$4,$5) "
            "ON CONFLICT (key, tail) DO UPDATE SET value=excluded.value, sum=excluded.sum "
            "WHERE old.sum <> excluded.sum OR old.value <> excluded.value",
            [
                blobs([key.head for key, _, _ in rows]),
                blobs([key.tail for key, _, _ in rows]),
                blobs([key.rest for key, _, _ in rows]),
                blobs([value for _, value, _ in rows]),
                numbers([total for _, _, total in rows]),
            ],
        )

    def delete(self, table: str, names: list[str]) -> Statement:
        keys = [split(name.encode()) for name in names]
        return Statement(
            f"DELETE FROM {self._in}{table} AS old USING unnest($1,$2) AS gone (key, tail) "
            "WHERE old.key=gone.key AND old.tail=gone.tail",
            [blobs([key.head for key in keys]), blobs([key.tail for key in keys])],
        )

    # -- the schema

    def relations(self) -> Statement:
        """List the tables and views of the schema with their columns."""
        return Statement(
            "SELECT c.relname::text, coalesce(string_agg(a.attname::text, ',' ORDER BY a.attnum), '') "
            "FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace=n.oid "
            "LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid=c.oid AND a.attnum>0 AND NOT a.attisdropped "
            "WHERE n.nspname=$1 AND c.relkind IN ('r','p','v','m','f') GROUP BY c.relname",
            [text(self.schema)],
        )

    def has_schema(self) -> Statement:
        return Statement("SELECT 1::bigint FROM pg_catalog.pg_namespace WHERE nspname=$1", [text(self.schema)])

    def make_schema(self) -> Statement:
        return Statement(f'CREATE SCHEMA "{self.schema}"')

    def make(self, table: str) -> Statement:
        few = " WITH (fillfactor=50)" if table in ("guard", "meta", "leases") else ""
        return Statement(
            f"CREATE TABLE {self._in}{table} (key bytea NOT NULL, tail bytea NOT NULL, rest bytea NOT NULL, "
            f"value bytea NOT NULL, sum bigint NOT NULL, PRIMARY KEY (key, tail)){few}"
        )

    def make_ring(self) -> Statement:
        return Statement(
            f"CREATE TABLE {self._in}commit_ring (slot bigint PRIMARY KEY, number bigint NOT NULL, "
            "token bytea NOT NULL) WITH (fillfactor=50)"
        )


COLUMNS = "key,tail,rest,value,sum"
EVERY = {**dict.fromkeys(TABLES, COLUMNS), "commit_ring": "slot,number,token"}
