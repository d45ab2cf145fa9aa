"""A bell through Redis or Valkey: a message is a Celery task that names a trigger, so that any Celery client can read
the queue. A worker takes a message off the list before it acts: the state decides what is done, so that no visibility
timeout and no result is needed.

No text of an error of these libraries is ever shown, because they put addresses and values into it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kfm.errors import Denied, KfmError, Refused, Unavailable
from kfm.queues.wake_message import TASK, trigger_of

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection
    from redis import Redis

    from kfm.queues.broker_address import BrokerAddress

CONNECT_S = 2.0  # for a connection, and for each answer
MOST_WAITING = 10_000  # messages: with so many, no worker sleeps, and one more would wake nobody
EXTRA = "pip install 'kansas-frontier-matrix[queue]'"


class CeleryBell:
    """Implements the Bell port over a list in Redis. Several threads may use it."""

    def __init__(self, address: BrokerAddress, name: str) -> None:
        """Raise Refused if the libraries are not installed. Nothing is connected yet."""
        from importlib.util import find_spec
        from logging import NullHandler, getLogger

        if find_spec("celery") is None or find_spec("redis") is None:
            raise Refused("a queue needs celery and redis", hint=EXTRA)
        for library in ("celery", "kombu"):
            getLogger(library).addHandler(NullHandler())  # otherwise they print their warnings
        self._address = address
        self._name = name
        self._lock = threading.Lock()  # of the sender; the connection pool of the reader has its own
        self._app: Celery | None = None
        self._sender: tuple[Connection, Any] | None = None
        self._reader: Redis | None = None
        self.discarded = 0

    def ring(self, trigger_ids: Iterable[str]) -> None:
        ids = list(trigger_ids)
        if not ids or self.depth() >= MOST_WAITING:
            return
        with self._lock:
            try:
                app, producer = self._sending()
                for trigger_id in ids:
                    app.send_task(
                        TASK, (trigger_id,), producer=producer, queue=self._name, retry=False, ignore_result=True
                    )
            except Exception as problem:
                self._hang_up()
                raise self._told(problem) from None

    def wait(self, timeout_s: float) -> set[str]:
        """Take one message, so that the next one wakes another worker."""
        reader = self._reading()
        try:
            if timeout_s > 0:
                found = reader.brpop([self._name], timeout=min(timeout_s, CONNECT_S / 2))
                message = None if found is None else found[1]
            else:
                message = reader.rpop(self._name)
        except Exception as problem:
            raise self._told(problem) from None
        if message is None:
            return set()
        trigger_id = trigger_of(message)
        if trigger_id is None:
            self.discarded += 1
            return set()
        return {trigger_id}

    def depth(self) -> int:
        try:
            return int(self._reading().llen(self._name))
        except Exception as problem:
            raise self._told(problem) from None

    def try_out(self) -> int:
        """Insert before a message that does not exist: this changes nothing, and a server without memory refuses it."""
        from redis.exceptions import NoPermissionError

        count = self.depth()
        try:
            self._reading().linsert(self._name, "BEFORE", "", "")
        except NoPermissionError:  # a user who may only send and take messages
            pass
        except Exception as problem:
            raise self._told(problem) from None
        return count

    def close(self) -> None:
        with self._lock:
            self._hang_up()
            if self._app is not None:
                with suppress(Exception):
                    self._app.close()
            if self._reader is not None:
                with suppress(Exception):
                    self._reader.close()
            self._app = self._reader = None

    def _hang_up(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            with suppress(Exception):
                sender[0].release()

    def _sending(self) -> tuple[Celery, Any]:
        """Return the app and the producer. The app reads no setting from the environment or from a module: they could
        send messages elsewhere, or in another form."""
        if self._app is None:
            from celery import Celery

            app = Celery("kfm", backend="disabled://", loader="app", fixups=[], set_as_current=False)
            app.conf.update(
                accept_content=["json"],
                task_serializer="json",
                task_ignore_result=True,
                task_default_queue=self._name,
                task_publish_retry=False,
                task_compression=None,
            )
            self._app = app
        if self._sender is None:
            from kombu import Connection

            address, patience = self._address, {"socket_connect_timeout": CONNECT_S, "socket_timeout": CONNECT_S}
            once = {"max_retries": 0, "interval_start": 0, "priority_steps": [0]}
            connection = Connection(
                address.host,
                userid=address.user or None,
                password=address.secret,
                virtual_host=str(address.database),
                port=address.port,
                transport="redis",
                ssl=_tls() if address.tls else False,
                connect_timeout=CONNECT_S,
                transport_options={**patience, **once},
            )
            self._sender = connection, self._app.amqp.Producer(connection)
        return self._app, self._sender[1]

    def _reading(self) -> Redis:
        if self._reader is None:
            from redis import Redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry

            address = self._address
            self._reader = Redis(
                host=address.host,
                port=address.port,
                db=address.database,
                username=address.user or None,
                password=address.secret,
                socket_connect_timeout=CONNECT_S,
                socket_timeout=CONNECT_S,
                retry=Retry(NoBackoff(), 0),
                **({"ssl": True, **_tls()} if address.tls else {}),
            )
        return self._reader

    def _told(self, problem: BaseException) -> KfmError:
        """Return the error to raise for a problem of the libraries. It never quotes them."""
        from redis import exceptions

        cause: BaseException | None = problem
        while cause is not None and not isinstance(cause, (exceptions.RedisError, OSError)):
            cause = cause.__cause__
        where = f"the broker at {self._address.shown}"
        if isinstance(cause, (exceptions.AuthenticationError, exceptions.NoPermissionError)):
            return Denied(f"{where} refuses the password or the user", hint="correct `redis.password` or `queue`")
        if isinstance(cause, exceptions.BusyLoadingError):
            return Unavailable(f"{where} is still loading its data", hint="wait for it")
        if isinstance(cause, exceptions.OutOfMemoryError):
            return Unavailable(f"{where} has no memory left", hint="raise its maxmemory, or remove what else is in it")
        if isinstance(cause, exceptions.ReadOnlyError):
            return Unavailable(f"{where} is a replica that cannot be written", hint="name the primary in `queue`")
        if _is_unproved(cause):
            return Denied(f"{where} does not prove its name", hint="correct its certificate, or trust its authority")
        if isinstance(cause, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
            return Unavailable(f"{where} does not answer", hint="start it, or correct `queue`")
        if isinstance(cause, exceptions.ResponseError):
            return Unavailable(
                f"{where} answers with an error", hint="is it Redis 6 or Valkey, the number of its database right?"
            )
        return Unavailable(f"{where} cannot be used ({type(problem).__name__})", hint="correct `queue`")


def _is_unproved(problem: BaseException | None) -> bool:
    """Return whether a certificate was the problem."""
    import ssl

    while problem is not None:
        if isinstance(problem, ssl.SSLCertVerificationError):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def _tls() -> dict[str, Any]:
    """Return the settings of a connection with TLS: certificate and name of the server are checked."""
    return {"ssl_cert_reqs": "required", "ssl_check_hostname": True}
