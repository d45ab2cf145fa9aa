"""Postgres is restarted, connections are cut and answers are lost: each acknowledged change is there once."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kfm.errors import Busy, Corrupt, Unavailable
from kfm.store.postgres import PostgresTables, open_postgres_reader
from kfm.store.postgres.connection import Statement
from tests.sampling import sampled
from tests.servers import postgres
from tests.servers.fault_proxy import FaultProxy
from tests.servers.postgres import Cluster
from tests.store.backends import keys, write


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
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    one = FaultProxy(cluster.port)
    yield one
    one.close()


class Counter:
    """Counts in a row, and writes a row for each count, as whoever tries again after an error does."""

    def __init__(self, tables: PostgresTables, name: str) -> None:
        self.tables = tables
        self._name = name
        self._numbers = itertools.count()
        self.acknowledged = 0
        self.lost = 0  # commits that certainly did nothing
        self.unknown = 0
        self.read_back = 0  # commits whose answer was lost, and which were found

    def add(self, durable: bool = True) -> None:
        """One more, whatever happens on the way."""
        row = f"{self._name}/{next(self._numbers):06d}"
        while True:
            try:
                self._try(row, durable)
            except Unavailable as problem:
                stored = problem.fields.get("stored", "no")
                if stored == "unknown":
                    self.unknown += 1
                    if self._has(row):
                        break
                else:
                    self.lost += 1
            except Busy:
                continue
            else:
                break
        self.acknowledged += 1

    def _try(self, row: str, durable: bool) -> None:
        tables = self.tables
        tables.begin(durable)
        try:
            count = int(tables.get("runs", "count") or b"0") + 1
            assert tables.add("ledger", row, b"%d" % count), "a change that was said to be lost is there"
            tables.put("runs", "count", b"%d" % count)
        except BaseException:
            tables.rollback()
            raise
        tables.commit()

    def _has(self, row: str) -> bool:
        while True:
            try:
                return self.tables.get("ledger", row) is not None
            except Unavailable:
                continue


def check(tables: PostgresTables, expected: int) -> None:
    assert tables.get("runs", "count") == b"%d" % expected
    counts = sorted(int(value) for _, value in tables.scan("ledger"))
    assert counts == list(range(1, expected + 1)), "a change is missing, or there twice"


@pytest.mark.parametrize("mode", sampled(["before", "after", "unheard"], 2))
def test_a_commit_whose_answer_is_lost_is_decided_by_looking(
    mode: str, cluster: Cluster, schema: str, proxy: FaultProxy
) -> None:
    tables = PostgresTables(cluster.dsn(port=proxy.port), schema, 20)
    counter = Counter(tables, "a")
    for n in range(12):
        counter.add(durable=n % 3 > 0)
        proxy.lose(mode)
        counter.add(durable=n % 2 > 0)
    assert proxy.fired == 12
    assert counter.unknown == 0
    if mode == "before":
        assert counter.lost == 12, "each was tried again, because it was said that it did nothing"
    if mode == "after":
        assert counter.lost == 0, "each was found, and nothing had to be tried again"
    check(tables, 24)
    tables.close()


def test_an_answer_may_be_lost_while_others_go_on(cluster: Cluster, schema: str, proxy: FaultProxy) -> None:
    """The mark of the lost commit is not the last one any more when it is looked up."""
    straight = PostgresTables(cluster.dsn(), schema, 20)
    counters = [Counter(PostgresTables(cluster.dsn(port=proxy.port), schema, 20), f"{n}") for n in range(2)]
    counters.append(Counter(straight, "2"))
    random_ = random.Random(5)
    failed: list[BaseException] = []

    def count(counter: Counter) -> None:
        try:
            for n in range(15):
                counter.add(durable=n % 2 > 0)
        except BaseException as problem:
            failed.append(problem)

    threads = [threading.Thread(target=count, args=(counter,)) for counter in counters]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        proxy.lose(random_.choice(["before", "after", "unheard"]))
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert not failed
    assert proxy.fired > 3
    check(straight, 45)


def test_a_connection_that_is_cut_between_transactions_is_made_again(
    cluster: Cluster, schema: str, proxy: FaultProxy
) -> None:
    tables = PostgresTables(cluster.dsn(port=proxy.port), schema, 20)
    write(tables, {"a": b"1"})
    for n in range(5):
        proxy.cut()
        assert tables.get("runs", "a") == b"1"
        proxy.cut()
        assert keys(tables.scan("runs"))[0] == "a"
        proxy.cut()
        with tables.reading():
            assert tables.get("runs", "a") == b"1"
        proxy.cut()
        write(tables, {f"b{n}": b"2"})
    assert tables._link.connections == 1 + 4 * 5
    tables.close()


def test_a_connection_that_is_cut_in_a_transaction_undoes_it(cluster: Cluster, schema: str, proxy: FaultProxy) -> None:
    tables = PostgresTables(cluster.dsn(port=proxy.port), schema, 20)
    write(tables, {"a": b"1"})
    for ends in ("get", "commit"):
        tables.begin()
        tables.put("runs", "a", b"2")
        proxy.cut()
        with pytest.raises(Unavailable):
            if ends == "get":
                tables.get("objects", "x")
            else:
                tables.commit()
        if ends == "get":
            with pytest.raises(Unavailable):
                tables.commit()
        assert tables.get("runs", "a") == b"1"
        write(tables, {"b": b"3"})
    tables.close()


def test_a_reader_goes_on_after_a_cut_if_nothing_was_written_meanwhile(
    cluster: Cluster, schema: str, proxy: FaultProxy
) -> None:
    tables = PostgresTables(cluster.dsn(), schema, 20)
    write(tables, {"a": b"1", "b": b"2"})
    reader = open_postgres_reader(cluster.dsn(port=proxy.port), schema, 20)
    assert reader.get("runs", "a") == b"1"
    proxy.cut()
    assert reader.get("runs", "b") == b"2"
    write(tables, {"c": b"3"})
    assert reader.get("runs", "c") is None, "it reads as of the moment of opening"
    proxy.cut()
    with pytest.raises(Unavailable, match="changed while it was read"):
        reader.get("objects", "x")
    reader.close()
    tables.close()


def test_a_session_that_an_administrator_ends_costs_at_most_its_transaction(cluster: Cluster, schema: str) -> None:
    tables = PostgresTables(cluster.dsn(application_name=schema), schema, 20)
    write(tables, {"a": b"1"})

    def end() -> None:
        ended = cluster.execute(
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name='{schema}'"
        )
        assert ended == [(True,)]

    end()
    assert tables.get("runs", "a") == b"1"
    end()
    write(tables, {"a": b"2"})
    tables.begin()
    tables.put("runs", "a", b"3")
    assert tables.get("objects", "x") is None
    end()
    with pytest.raises(Unavailable, match="was lost") as raised:
        tables.commit()
    assert raised.value.fields["stored"] == "no"
    assert tables.get("runs", "a") == b"2"
    tables.close()


def restarted(rounds: int, how: str, *, fsync: bool) -> None:
    """Without fsync it is quicker; a server that dies without its machine loses nothing by that."""
    with postgres.private(fsync=fsync) as cluster:
        tables = PostgresTables(cluster.dsn(), "kfm", 60)
        counters = [Counter(tables, "a"), Counter(PostgresTables(cluster.dsn(), "kfm", 60), "b")]
        ended, failed = threading.Event(), []

        def count(counter: Counter) -> None:
            try:
                while not ended.is_set():
                    counter.add()
            except BaseException as problem:
                failed.append(problem)

        threads = [threading.Thread(target=count, args=(counter,)) for counter in counters]
        for thread in threads:
            thread.start()
        random_ = random.Random(how)
        try:
            for _ in range(rounds):
                before = sum(counter.acknowledged for counter in counters)
                while sum(counter.acknowledged for counter in counters) < before + 5 and not failed:
                    time.sleep(0.002)
                time.sleep(random_.random() / 100)
                if how == "kill":
                    cluster.kill()
                    cluster.start()
                else:
                    cluster.restart()
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert not failed
        connections = sum(counter.tables._link.connections for counter in counters)
        assert connections > rounds, "the restarts were not noticed"
        check(tables, sum(counter.acknowledged for counter in counters))


@pytest.mark.parametrize("how", sampled(["kill", "immediate"]))
def test_a_server_that_restarts_in_the_middle_loses_nothing_and_does_nothing_twice(how: str) -> None:
    restarted(5, how, fsync=False)


@pytest.mark.long
@pytest.mark.parametrize("how", ["kill", "immediate"])
def test_a_hundred_restarts_lose_nothing(how: str) -> None:
    restarted(100, how, fsync=True)


@pytest.mark.long
def test_a_server_that_lost_acknowledged_commits_is_refused() -> None:
    """An older copy of its data takes its place, as a standby that lagged does after a failover."""
    with postgres.private() as cluster:
        tables = PostgresTables(cluster.dsn(), "kfm", 20)
        write(tables, {"a": b"1"})
        cluster.stop("fast")
        older = cluster.folder / "older"
        shutil.copytree(cluster.data, older)
        cluster.start()
        for n in range(3):
            write(tables, {"a": b"%d" % n})
        cluster.stop()
        shutil.rmtree(cluster.data)
        older.rename(cluster.data)
        postgres.own(cluster.data, *cluster.data.rglob("*"))
        cluster.start()
        for attempt in (lambda: tables.get("runs", "a"), tables.begin, lambda: list(tables.scan("runs"))):
            with pytest.raises(Corrupt, match="the last 3 acknowledged commits are missing"):
                attempt()
        others = PostgresTables(cluster.dsn(), "kfm", 20)
        for n in range(5):  # others do not know, and write on: the count is as high again, but ours are not there
            write(others, {"b": b"%d" % n})
        with pytest.raises(Corrupt, match="acknowledged commits are missing"):
            tables.begin()
        others.close()


def test_undurable_changes_that_a_restart_lost_are_reported_once() -> None:
    settings = ("wal_writer_delay=10s",)
    with postgres.private(fsync=False, settings=settings) as cluster:
        tables = PostgresTables(cluster.dsn(), "kfm", 20)
        write(tables, {"a": b"1"})
        write(tables, {"b": b"2"}, durable=False)
        others = tables.foreign()
        cluster.kill()
        cluster.start()
        with pytest.raises(Unavailable, match="lost changes that were not yet durable"):
            tables.begin()
        tables.begin()
        assert tables.foreign() > others, "what was known about the lost changes is looked up again"
        assert (tables.get("runs", "a"), tables.get("runs", "b")) == (b"1", None)
        tables.rollback()
        tables.close()


@pytest.mark.parametrize("where", ["begin", "after begin", "commit", "after commit"])
def test_an_interrupt_leaves_no_lock_and_no_doubt(
    where: str, cluster: Cluster, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = PostgresTables(cluster.dsn(), schema, 20), PostgresTables(cluster.dsn(), schema, 5)
    write(one, {"a": b"1"})
    run, fired = one._link.run, []

    def interrupted(*statements: Statement) -> Any:
        texts = [statement.text for statement in statements]
        if not fired and any(text.startswith("BEGIN" if "begin" in where else "COMMIT") for text in texts):
            fired.append(where)
            if "after" in where:
                run(*statements)
            else:
                one._link._send(statements)
                one._link.drop()
            raise KeyboardInterrupt
        return run(*statements)

    with monkeypatch.context() as patch:
        patch.setattr(one._link, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(one, {"a": b"2"})
    assert fired == [where]
    assert one.get("runs", "a") in {"begin": (b"1",), "after begin": (b"1",), "after commit": (b"2",)}.get(
        where, (b"1", b"2")
    )
    write(other, {"b": b"3"})
    write(one, {"a": b"4"})
    one.begin()
    assert (one.get("runs", "a"), one.get("runs", "b")) == (b"4", b"3")
    one.rollback()
