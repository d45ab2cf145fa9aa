"""What a Postgres server may be like, and how KFM answers: one line, the right class, the cure, no secret."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kfm.clock import SystemClock
from kfm.errors import Busy, Corrupt, Denied, KfmError, Refused, StorageFailed, Unavailable
from kfm.store import state_formats
from kfm.store.overlay import OverlayTables
from kfm.store.postgres import PostgresTables, open_postgres_reader
from kfm.store.postgres.connection import PostgresConnection
from kfm.store.postgres.server_settings import server_verdicts
from kfm.store.state import StoredState
from kfm.store.state_formats import FORMAT
from tests.sampling import sampled
from tests.servers import postgres
from tests.servers.postgres import PASSWORD, Cluster
from tests.store.backends import keys, pooler_of, write


@pytest.fixture
def cluster() -> Cluster:
    try:
        return postgres.shared()
    except postgres.Absent as problem:
        postgres.absent(problem)


@pytest.fixture
def schema() -> str:
    return postgres.new_schema()


@pytest.fixture
def tables(cluster: Cluster, schema: str) -> Iterator[PostgresTables]:
    opened = PostgresTables(cluster.dsn(), schema, 5)
    yield opened
    opened.close()


class Skewed(SystemClock):
    """A machine whose date is wrong."""

    def __init__(self, by_ms: int) -> None:
        self._by_ms = by_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._by_ms


def nowhere() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


BAD: dict[str, tuple[dict[str, Any], type[KfmError], str, str]] = {
    "password": ({"password": "wrong one"}, Denied, "refuses the password", "postgres: {password"),
    "no password": ({"password": ""}, Denied, "wants a password", "postgres: {password: env:NAME}"),
    "user": ({"user": "nobody"}, Denied, "refuses the password", "the user in `state`"),
    "database": ({"dbname": "nothing"}, Refused, "no such database", "correct `state`"),
    "port": ({"port": nowhere()}, Unavailable, "does not answer", "check that it runs"),
    "host": ({"host": "nowhere.invalid"}, Unavailable, "no address", "check the host in `state`"),
    "encryption": ({"sslmode": "require"}, Refused, "offers no encryption", "sslmode: prefer"),
    "socket": ({"host": "/nowhere"}, Unavailable, "does not answer", "check that it runs"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("opener", [PostgresTables, open_postgres_reader])
def test_an_address_that_leads_nowhere_is_one_line_with_the_cure(what: str, opener: Any, cluster: Cluster) -> None:
    wrong, kind, said, cure = BAD[what]
    with pytest.raises(kind) as raised:
        opener(cluster.dsn(**wrong), "s", 0.05)
    assert type(raised.value) is kind
    assert said in raised.value.message and cure in raised.value.hint
    line = str(raised.value)
    assert "\n" not in line
    assert PASSWORD not in line and "wrong one" not in line


def test_a_role_without_free_connections_is_waited_for(cluster: Cluster, schema: str) -> None:
    cluster.execute(f"CREATE ROLE {schema} LOGIN PASSWORD 'p' CONNECTION LIMIT 0")
    with pytest.raises(Unavailable, match="too many connections"):
        PostgresTables(cluster.dsn(user=schema, password="p"), schema, 0.05)
    timer = threading.Timer(0.3, cluster.execute, [f"ALTER ROLE {schema} CONNECTION LIMIT 9 SUPERUSER"])
    timer.start()
    PostgresTables(cluster.dsn(user=schema, password="p"), schema, 20).close()
    timer.join()


def test_a_role_that_may_not_create_a_schema_is_told_what_to_ask_for(cluster: Cluster, schema: str) -> None:
    cluster.execute(f"CREATE ROLE {schema} LOGIN PASSWORD 'p'")
    dsn = cluster.dsn(user=schema, password="p")
    with pytest.raises(Denied, match="does not grant") as raised:
        PostgresTables(dsn, schema, 1)
    assert "CREATE SCHEMA" in raised.value.hint
    cluster.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    tables = PostgresTables(dsn, schema, 1)
    write(tables, {"a": b"1"})
    tables.close()


@pytest.mark.parametrize("where", ["role", "transaction"])
def test_a_server_that_takes_no_writes_is_refused_for_writing_and_read(
    where: str, cluster: Cluster, schema: str, tables: PostgresTables
) -> None:
    write(tables, {"a": b"1"})
    role = f"{schema}_r"
    cluster.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'p'")
    cluster.execute(f"ALTER ROLE {role} SET default_transaction_read_only=on")
    dsn = cluster.dsn(user=role, password="p")
    reader = open_postgres_reader(dsn, schema, 1)
    assert reader.get("runs", "a") == b"1"
    reader.close()
    if where == "role":
        with pytest.raises(Refused, match="takes no writes") as raised:
            PostgresTables(dsn, schema, 1).begin()
    else:
        with pytest.raises(Refused, match="takes no writes") as raised:
            PostgresTables(dsn, schema + "_new", 1)
    assert "primary" in raised.value.hint


def test_an_old_server_is_refused_by_its_version(
    cluster: Cluster, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresConnection, "server_version", 120_009)
    with pytest.raises(Refused, match="is version 12, and KFM needs 13"):
        PostgresTables(cluster.dsn(), schema, 1)


REFUSALS: dict[str, tuple[type[KfmError], str]] = {
    "53100": (StorageFailed, "its disk is full"),
    "58030": (StorageFailed, "failed to read or write its disk"),
    "57014": (Unavailable, "took too long"),
    "53200": (Unavailable, "short of memory"),
    "XX001": (Corrupt, "damaged"),
    "42501": (Denied, "does not grant"),
    "22023": (KfmError, "error 22023"),
}


@pytest.mark.parametrize("state", sampled(REFUSALS, 2))
def test_a_statement_that_the_server_refuses_undoes_the_transaction(
    state: str, cluster: Cluster, schema: str, tables: PostgresTables
) -> None:
    kind, said = REFUSALS[state]
    write(tables, {"a": b"1"})
    cluster.execute(
        f"CREATE FUNCTION {schema}.fails() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN RAISE EXCEPTION 'a secret value' USING ERRCODE='{state}'; END$$"
    )
    cluster.execute(f"CREATE TRIGGER fails BEFORE INSERT ON {schema}.runs EXECUTE FUNCTION {schema}.fails()")
    tables.begin()
    tables.put("refs", "b", b"2")
    tables.put("runs", "b", b"2")
    with pytest.raises(kind, match=said) as raised:
        tables.commit()
    assert "secret value" not in str(raised.value)
    cluster.execute(f"DROP TRIGGER fails ON {schema}.runs")
    assert tables.get("refs", "b") is None
    write(tables, {"c": b"3"})
    assert keys(tables.scan("runs")) == ["a", "c"]


def test_a_schema_of_another_program_is_refused_and_left_alone(cluster: Cluster, schema: str) -> None:
    cluster.execute(f"CREATE SCHEMA {schema}")
    cluster.execute(f"CREATE TABLE {schema}.theirs (a int)")
    for opener in (PostgresTables, open_postgres_reader):
        if opener is PostgresTables:
            with pytest.raises(Refused, match="tables of another program") as raised:
                opener(cluster.dsn(), schema, 1)
            assert "schema" in raised.value.hint
    cluster.execute(f"CREATE TABLE {schema}.guard (id int)")
    with pytest.raises(Refused, match="tables of another program"):
        PostgresTables(cluster.dsn(), schema, 1)
    found = cluster.execute(f"SELECT tablename FROM pg_tables WHERE schemaname='{schema}' ORDER BY 1")
    assert found == [("guard",), ("theirs",)]


def test_two_processes_may_create_the_state_at_once(cluster: Cluster, schema: str) -> None:
    script = (
        "import sys; from kfm.store.postgres import PostgresTables; from tests.servers.postgres import Cluster; "
        "from pathlib import Path\n"
        "tables = PostgresTables(Cluster(Path(), port=int(sys.argv[1])).dsn(), sys.argv[2], 60)\n"
        "tables.begin(); tables.put('runs', sys.argv[3], b'1'); tables.commit(); tables.close()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(cluster.port), schema, str(n)],
            env={**os.environ, "PYTHONPATH": "src:."},
        )
        for n in range(2)
    ]
    assert [child.wait(120) for child in children] == [0] * 2
    assert keys(PostgresTables(cluster.dsn(), schema, 1).scan("runs")) == ["0", "1"]


def set_format(tables: PostgresTables, number: int) -> None:
    tables.begin()
    tables.put("guard", "format", b"%d" % number)
    tables.commit()


@pytest.mark.parametrize("opener", [PostgresTables, open_postgres_reader])
def test_a_newer_format_is_refused_by_its_number(
    opener: Any, cluster: Cluster, schema: str, tables: PostgresTables
) -> None:
    set_format(tables, FORMAT + 1)
    with pytest.raises(Refused, match=f"format {FORMAT + 1}, this kfm knows up to {FORMAT}"):
        opener(cluster.dsn(), schema, 1)
    with pytest.raises(Refused, match=f"format {FORMAT + 1}"):
        tables.begin()


def test_an_older_format_is_upgraded_with_its_tables_or_read_as_if_it_were(
    cluster: Cluster, schema: str, tables: PostgresTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tables, {"a": b"1"})
    set_format(tables, FORMAT - 1)
    tables.close()
    cluster.execute(f"DROP TABLE {schema}.ticks")
    monkeypatch.setitem(
        state_formats.STEPS, FORMAT, lambda tables: tables.put("claims", "made", tables.get("runs", "a"))
    )
    reader = open_postgres_reader(cluster.dsn(), schema, 1)
    assert isinstance(reader, OverlayTables)
    assert reader.get("claims", "made") == b"1"
    assert list(reader.scan("ticks")) == []
    reader.close()
    assert cluster.execute(f"SELECT count(*) FROM {schema}.claims") == [(0,)]
    for _ in range(2):
        upgraded = PostgresTables(cluster.dsn(), schema, 1)
        assert upgraded.get("claims", "made") == b"1"
        write(upgraded, {"t": b"1"}, "ticks")
        upgraded.close()


def test_a_state_that_does_not_exist_is_read_as_empty_and_not_made(cluster: Cluster, schema: str) -> None:
    reader = open_postgres_reader(cluster.dsn(), schema, 1)
    assert reader.get("runs", "a") is None
    assert list(reader.scan("runs")) == []
    reader.close()
    assert cluster.execute(f"SELECT 1 FROM pg_namespace WHERE nspname='{schema}'") == []


def test_keys_of_any_length_keep_their_order(tables: PostgresTables) -> None:
    long = "é" * 600  # 1,200 bytes: longer than what the index holds, and cut inside a character
    names = ["a", long[:511], long[:512], long, *(f"{long}{tail}" for tail in ("", "a", "b" * 4000, "c", "c/", "ça"))]
    names = sorted(set(names + [f"{long}{n:03d}" for n in range(70)]), key=str.encode)
    write(tables, {name: name.encode() for name in reversed(names)})
    assert keys(tables.scan("runs")) == names
    assert keys(tables.scan("runs", reverse=True)) == names[::-1]
    below = [name for name in names if name.startswith(long + "c")]
    assert keys(tables.scan("runs", long + "c")) == below
    for after in names:
        assert keys(tables.scan("runs", after=after)) == [name for name in names if name > after]
        assert keys(tables.scan("runs", long, after=after, reverse=True)) == [
            name for name in reversed(names) if name.startswith(long) and name < after
        ]
    write(tables, {names[-1]: None, names[3]: b"changed"})
    assert tables.get("runs", names[-1]) is None
    assert tables.get("runs", names[3]) == b"changed"


def test_a_damaged_row_is_noticed_wherever_it_is_read(cluster: Cluster, schema: str, tables: PostgresTables) -> None:
    write(tables, {"a": b"12345", "b": b"1"}, "objects")
    cluster.execute(f"UPDATE {schema}.objects SET value='x' WHERE key='a'")
    reader = open_postgres_reader(cluster.dsn(), schema, 1)
    for opened in (tables, reader):
        for attempt in (
            lambda opened=opened: opened.get("objects", "a"),
            lambda opened=opened: list(opened.scan("objects")),
            lambda opened=opened: opened.verify(),
        ):
            with pytest.raises(Corrupt, match="record objects/a is damaged"):
                attempt()
    assert tables.get("objects", "b") == b"1"
    reader.close()


def test_a_machine_with_a_wrong_date_steals_no_lease(cluster: Cluster, schema: str) -> None:
    """Its own clock says that the lease of the other ended long ago, and that its own has long to go."""
    states = []
    for by_ms in (0, 86_400_000, -86_400_000):
        clock = Skewed(by_ms)
        states.append(StoredState(PostgresTables(cluster.dsn(), schema, 1, clock=clock), clock.now_ms))
    right, ahead, behind = states
    lease = right.leases.acquire("scope", "elsewhere:1:1", 60_000)
    with pytest.raises(Busy):
        ahead.leases.acquire("scope", "here:1:1", 60_000)
    right.leases.release(lease)
    assert right.leases.acquire("other", "elsewhere:1:1", 1).ttl_ms == 1
    while True:  # a machine whose date is behind believes no longer in it than others
        try:
            behind.leases.acquire("other", "here:1:1", 60_000)
        except Busy:
            continue
        break
    assert all(abs(state.now_ms() - SystemClock().now_ms()) < 60_000 for state in states)


def test_two_writers_exclude_each_other_and_readers_see_whole_transactions(cluster: Cluster, schema: str) -> None:
    one, two = (PostgresTables(cluster.dsn(), schema, 0.2) for _ in range(2))
    one.begin()
    one.put("runs", "a", b"1")
    with pytest.raises(Busy, match="another process is writing"):
        two.begin()
    assert two.get("runs", "a") is None
    one.commit()
    write(two, {"b": b"2"})
    assert keys(one.scan("runs")) == ["a", "b"]
    with two.reading():
        assert two.get("runs", "c") is None
        write(one, {"c": b"3"}, "objects")
        assert two.get("objects", "c") is None, "it reads from one snapshot"
    assert two.get("objects", "c") == b"3"


def test_a_forked_child_uses_a_connection_of_its_own(tables: PostgresTables) -> None:
    write(tables, {"a": b"1"})
    child = os.fork()
    if not child:
        status = 1
        try:
            write(tables, {"b": tables.get("runs", "a") or b""})
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert keys(tables.scan("runs")) == ["a", "b"]
    write(tables, {"c": b"3"})
    assert tables._link.connections == 1, "the child left the connection of its parent alone"


def test_the_settings_of_the_server_are_judged(cluster: Cluster, schema: str, tables: PostgresTables) -> None:
    settings = tables.settings()
    verdicts = {verdict.check: verdict for verdict in server_verdicts(settings)}
    assert [name for name, verdict in verdicts.items() if not verdict.ok] == [
        "postgres.fsync", "postgres.full_page_writes",
    ]  # fmt: skip
    assert settings["pooler"] == "no" and settings["standby"] == "no"
    assert verdicts["postgres.clock"].why == ""
    late = PostgresTables(cluster.dsn(), schema, 1, clock=Skewed(-60_000))
    clock = {verdict.check: verdict for verdict in server_verdicts(late.settings())}["postgres.clock"]
    assert "ahead" in clock.found and "synchronise" in clock.why
    pooled = PostgresTables(cluster.dsn(port=pooler_of(cluster.port)), schema, 1)
    assert pooled.settings()["pooler"] == "yes"
    for opened in (late, pooled):
        opened.close()


@pytest.mark.long
def test_a_standby_is_read_and_takes_no_writes() -> None:
    with postgres.private(settings=("wal_level=replica", "max_wal_senders=4", "hot_standby=on")) as cluster:
        tables = PostgresTables(cluster.dsn(), "kfm", 5)
        write(tables, {"a": b"1"})
        standby = Cluster(cluster.folder / "standby")
        standby.folder.mkdir()
        postgres.own(standby.folder)
        source = f"host=127.0.0.1 port={cluster.port} user={postgres.USER} password='{PASSWORD}'"
        standby.copy_of(source)
        standby.start()
        try:
            reader = open_postgres_reader(standby.dsn(), "kfm", 20)
            assert reader.get("runs", "a") == b"1"
            reader.close()
            with pytest.raises(Refused, match="read-only replica"):
                PostgresTables(standby.dsn(), "kfm", 1)
            cluster.stop()
            standby.control("promote", "-w")
            promoted = PostgresTables(standby.dsn(), "kfm", 5)
            write(promoted, {"b": b"2"})
            promoted.close()
        finally:
            standby.stop()
            cluster.start()
