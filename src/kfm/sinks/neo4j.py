"""A Neo4j that is told of runs, with the official driver: whole statements with parameters, some thousand rows of them
in one transaction, which is there as a whole or not at all.

Everything may come again and in any order: the statements merge, and what is older than what is there changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kfm.errors import Conflict, Denied, KfmError, Refused, Unavailable
from kfm.model.outbox_messages import Letter

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction

ROWS = 10_000  # of one transaction; a run with more is told in several, and is told again if one of them fails
RETRIED_S = 5.0  # how long a transaction that the server takes back is tried again, before the follower waits

Batch = dict[str, dict[str, list[Any]]]  # the rows by the statement and the name of its parameter
Stage = Literal["connect", "constrain", "write"]
Credentials = Callable[[], tuple[str, str]]


class GraphSink:
    """A connection for each call: a call is rare, and one that broke must not spoil the next."""

    name = "graph"

    def __init__(
        self, url: str, credentials: Credentials, *, database: str, constraints: Iterable[str], seconds: float
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._database = database
        self._constraints: Sequence[str] = tuple(constraints)  # still to be made
        self._seconds = seconds  # that a server may be silent
        self._retried = min(RETRIED_S, seconds)

    def send(self, letters: Sequence[Letter]) -> None:
        """The body of each: statements and their parameters, each parameter a list of rows."""
        import asyncio

        try:
            known = self._credentials()
        except Refused as problem:  # no fault of what is to be told
            raise Denied(problem.message, hint=problem.hint) from None
        asyncio.run(self._deliver(known, batches(letters)))

    def ask(self, questions: Sequence[tuple[str, dict[str, list[Any]]]]) -> list[list[dict[str, Any]]]:
        """What there is: of each question its rows. Nothing is changed."""
        import asyncio

        try:
            known = self._credentials()
        except Refused as problem:
            raise Denied(problem.message, hint=problem.hint) from None
        return asyncio.run(self._asked(known, questions))

    async def _asked(
        self, known: tuple[str, str], questions: Sequence[tuple[str, dict[str, list[Any]]]]
    ) -> list[list[dict[str, Any]]]:
        driver = self._opened(known)
        found = []
        try:
            await self._in_time(driver.verify_connectivity())
            for text, parameters in questions:
                answer = await self._in_time(
                    driver.execute_query(text, parameters, database_=self._database, routing_="r")
                )
                found.append([record.data() for record in answer.records])
        finally:
            await self._close(driver)
        return found

    def _opened(self, known: tuple[str, str]) -> AsyncDriver:
        try:
            return self._driver(known)
        except ImportError:
            raise Unavailable(
                "the driver of Neo4j is not installed", hint="pip install 'kansas-frontier-matrix[graph]'"
            ) from None

    async def _deliver(self, known: tuple[str, str], work: Iterable[Batch]) -> None:
        driver = self._opened(known)
        try:
            await self._in_time(driver.verify_connectivity())
            for constraint in self._constraints:
                await self._in_time(driver.execute_query(constraint, database_=self._database), "constrain")
            self._constraints = ()
            for batch in work:
                await self._write(driver, batch)
        finally:
            await self._close(driver)

    def _driver(self, known: tuple[str, str]) -> AsyncDriver:
        from logging import NullHandler, getLogger

        from neo4j import AsyncGraphDatabase

        getLogger("neo4j").addHandler(NullHandler())  # or its warnings are printed
        return AsyncGraphDatabase.driver(
            self._url,
            auth=known,
            user_agent="kfm",
            connection_timeout=self._seconds,
            connection_acquisition_timeout=self._seconds,
            max_transaction_retry_time=self._retried,
            max_connection_pool_size=2,
            telemetry_disabled=True,
        )

    async def _write(self, driver: AsyncDriver, batch: Batch) -> None:
        from neo4j import unit_of_work

        @unit_of_work(timeout=self._seconds)  # the server's own: what we have given up ends there, too
        async def write(tx: AsyncManagedTransaction) -> None:
            for statement, parameters in batch.items():
                result = await tx.run(statement, parameters)
                await result.consume()

        async with driver.session(database=self._database) as session:
            await self._in_time(session.execute_write(write), "write")

    async def _in_time(self, work: Any, what: Stage = "connect") -> Any:
        """The driver waits for ever for an answer, once a server has begun to speak."""
        import asyncio

        try:
            async with asyncio.timeout(self._seconds + self._retried):
                return await work
        except TimeoutError:
            raise Unavailable(f"{self._url} was silent for {self._seconds:g} s", hint="look at the server") from None
        except Exception as problem:
            raise self._told(problem, what) from None

    async def _close(self, driver: AsyncDriver) -> None:
        import asyncio
        from contextlib import suppress

        with suppress(Exception):  # nothing is lost with a goodbye
            async with asyncio.timeout(1):
                await driver.close()

    def _told(self, problem: Exception, what: Stage) -> KfmError:
        """Not in the server's words: they hold values. Its code says enough."""
        from neo4j.exceptions import AuthError, ClientError, Neo4jError

        code = str(getattr(problem, "code", None) or type(problem).__name__)
        if not code.replace(".", "").isalpha() or not code.isascii() or len(code) > 100:
            code = "no code of a Neo4j"
        final = isinstance(problem, Neo4jError) and not problem.is_retryable()
        if isinstance(problem, AuthError) or code.startswith("Neo.ClientError.Security."):
            return Denied(
                f"{self._url} does not let us in ({code})",
                hint="look at neo4j.user and neo4j.password, and at what this user may do",
            )
        if ".Database." in code:
            return Unavailable(
                f"{self._url} does not have the database {self._database} at hand ({code})",
                hint="look at neo4j.database",
            )
        if what == "constrain" and final:
            return Conflict(
                f"{self._url} cannot hold nodes to be unique ({code})",
                hint="it has nodes of the labels Run, Asset or Dataset from elsewhere: use a database of its own",
            )
        if what == "write" and final and isinstance(problem, ClientError):
            return Refused(f"{self._url} refuses what it is told ({code})", hint="look at the constraints it has")
        return Unavailable(f"{self._url} does not answer as it should ({code})", hint="look at the server")


def batches(letters: Sequence[Letter]) -> Iterator[Batch]:
    """The rows of many letters under the few statements they share. A letter is in one batch if it fits into one."""
    batch: Batch = {}
    size = 0
    for letter in letters:
        own = sum(len(rows) for _, parameters in letter.body for rows in parameters.values())
        if size and size + own > ROWS:
            yield batch
            batch, size = {}, 0
        for statement, parameters in letter.body:
            for name, rows in parameters.items():
                batch.setdefault(statement, {}).setdefault(name, []).extend(rows)
                size += len(rows)
            if size > ROWS:
                yield batch
                batch, size = {}, 0
    if batch:
        yield batch
