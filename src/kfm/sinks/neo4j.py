"""Send runs to Neo4j with its official driver: statements with parameters, up to ROWS rows per transaction. A
transaction is stored whole or not at all.

Messages may be repeated and may arrive in any order: the statements merge, and an older run changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from kfm.errors import Conflict, Denied, KfmError, Refused, Unavailable
from kfm.model.outbox_messages import Letter

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction

ROWS = 10_000  # rows per transaction; a larger run needs several, and is sent again if one of them fails
RETRIED_S = 5.0  # how long the driver retries a failed transaction before the follower waits

Batch = dict[str, dict[str, list[Any]]]  # rows by statement and by parameter name
Stage = Literal["connect", "constrain", "write"]
Credentials = Callable[[], tuple[str, str]]


class GraphSink:
    """Sends statements to Neo4j, with one connection per call: calls are rare, and a broken connection must not affect
    the next call."""

    name = "graph"

    def __init__(
        self, url: str, credentials: Credentials, *, database: str, constraints: Iterable[str], seconds: float
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._database = database
        self._constraints: Sequence[str] = tuple(constraints)  # constraints that must still be created
        self._seconds = seconds  # longest silence of the server
        self._retried = min(RETRIED_S, seconds)

    def send(self, letters: Sequence[Letter]) -> None:
        """Write the messages to the graph. The body of each holds statements with their parameters; a parameter is a
        list of rows."""
        import asyncio

        try:
            known = self._credentials()
        except Refused as problem:  # the message itself is not at fault
            raise Denied(problem.message, hint=problem.hint) from None
        asyncio.run(self._deliver(known, batches(letters)))

    def ask(self, questions: Sequence[tuple[str, dict[str, list[Any]]]]) -> list[list[dict[str, Any]]]:
        """Run read-only queries and return the rows of each."""
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
                "the Neo4j driver is not installed", hint="pip install 'kansas-frontier-matrix[graph]'"
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

        getLogger("neo4j").addHandler(NullHandler())  # otherwise the driver prints its warnings
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

        @unit_of_work(timeout=self._seconds)  # the server's own limit: it stops a transaction that KFM has given up
        async def write(tx: AsyncManagedTransaction) -> None:
            for statement, parameters in batch.items():
                result = await tx.run(statement, parameters)
                await result.consume()

        async with driver.session(database=self._database) as session:
            await self._in_time(session.execute_write(write), "write")

    async def _in_time(self, work: Any, what: Stage = "connect") -> Any:
        """Run a driver call with a time limit: the driver itself waits for ever once a server has begun to answer."""
        import asyncio

        try:
            async with asyncio.timeout(self._seconds + self._retried):
                return await work
        except TimeoutError:
            raise Unavailable(f"{self._url} was silent for {self._seconds:g} s", hint="check the server") from None
        except Exception as problem:
            raise self._told(problem, what) from None

    async def _close(self, driver: AsyncDriver) -> None:
        import asyncio
        from contextlib import suppress

        with suppress(Exception):  # failing to close loses nothing
            async with asyncio.timeout(1):
                await driver.close()

    def _told(self, problem: Exception, what: Stage) -> KfmError:
        """Return the error to raise for a problem of the driver. It names the server's code and not its text, because
        the text holds values."""
        from neo4j.exceptions import AuthError, ClientError, Neo4jError

        code = str(getattr(problem, "code", None) or type(problem).__name__)
        if not code.replace(".", "").isalpha() or not code.isascii() or len(code) > 100:
            code = "unknown code"
        final = isinstance(problem, Neo4jError) and not problem.is_retryable()
        if isinstance(problem, AuthError) or code.startswith("Neo.ClientError.Security."):
            return Denied(
                f"{self._url} denies access ({code})",
                hint="check neo4j.user, neo4j.password and the rights of this user",
            )
        if ".Database." in code:
            return Unavailable(
                f"{self._url} cannot open the database {self._database} ({code})",
                hint="check neo4j.database",
            )
        if what == "constrain" and final:
            return Conflict(
                f"{self._url} cannot create the uniqueness constraints ({code})",
                hint="the database holds other nodes labelled Run, Asset or Dataset: use a separate database",
            )
        if what == "write" and final and isinstance(problem, ClientError):
            return Refused(f"{self._url} refuses a statement ({code})", hint="check the constraints of the database")
        return Unavailable(f"{self._url} fails ({code})", hint="check the server")


def batches(letters: Sequence[Letter]) -> Iterator[Batch]:
    """Group the rows of many messages under the statements they share. A message stays in one batch if it fits."""
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
