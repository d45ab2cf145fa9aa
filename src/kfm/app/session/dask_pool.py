"""Lets the workers of a Dask cluster perform steps.

Dask gets the name of one function of KFM, and bytes. Answers are bytes too: this process reads no pickled object of a
worker. But whoever reaches a scheduler can run code on its workers: Dask itself asks for nothing but, with tls://, a
certificate.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from kfm.app.session.step_host import answer
from kfm.errors import ClusterLost, Unavailable

CONNECT_S = 10.0
WITHOUT_WORKERS_S = 60.0  # how long a run waits for a first or another worker
SERIALIZERS = ["dask", "msgpack"]


class DaskPool:
    """A connection to a scheduler, for the steps of one run."""

    def __init__(self, address: str, run: bytes, *, patience_s: float = WITHOUT_WORKERS_S) -> None:
        """ClusterLost if no scheduler answers, or if it has no workers for `patience_s`."""
        distributed = _library()
        self._address = address
        self._run = run
        self._patience_s = patience_s
        self._silent_s = 0.0
        self._futures: dict[str, tuple[int, Any]] = {}  # by key: the position and the future
        self._ready: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._gone: list[str] = []  # answers that died with their worker
        self._killed = distributed.scheduler.KilledWorker
        try:
            self._client: Any = distributed.Client(
                address,
                timeout=CONNECT_S,
                set_as_default=False,
                name="kfm",
                serializers=SERIALIZERS,
                deserializers=[*SERIALIZERS, "error"],
            )
        except Exception as problem:  # Dask raises its own, those of its loop, and those of the system
            raise self._lost("no Dask scheduler answers") from problem
        try:
            self._client.wait_for_workers(1, timeout=patience_s)
        except Exception as problem:
            self.close()
            raise self._lost("no worker is there at the Dask scheduler") from problem

    def submit(self, steps: Sequence[tuple[int, bytes]]) -> None:
        keys = [f"kfm-step-{uuid4().hex}-{position}" for position, _ in steps]
        bodies = [body for _, body in steps]
        try:
            futures = self._client.map(answer, bodies, run=self._run, key=keys, pure=False, retries=0)
        except Exception as problem:
            raise self._lost("the connection was lost to the Dask scheduler") from problem
        for key, (position, _), future in zip(keys, steps, futures, strict=True):
            self._futures[key] = position, future
        for future in futures:
            future.add_done_callback(self._done)

    def _done(self, future: Any) -> None:
        self._ready.put(future.key)

    def answers(self, timeout_s: float) -> list[tuple[int, bytes | str]]:
        keys = []
        with suppress(queue.Empty):
            keys.append(self._ready.get(timeout=timeout_s) if timeout_s else self._ready.get_nowait())
            while True:
                keys.append(self._ready.get_nowait())
        gone, self._gone = self._gone, []
        found = self._gathered([key for key in dict.fromkeys(keys + gone) if key in self._futures])
        if found:
            self._silent_s = 0.0
        else:
            self._check(timeout_s)
        return found

    def _gathered(self, keys: list[str]) -> list[tuple[int, bytes | str]]:
        """Return what came back. An answer that died with its worker is awaited again: Dask performs the step once
        more. After a lost connection all are cancelled."""
        whole: list[tuple[int, Any]] = []
        answers: list[tuple[int, bytes | str]] = []
        for key in keys:
            position, future = self._futures[key]
            status = future.status
            if status == "cancelled":
                raise self._lost("the connection was lost to the Dask scheduler")
            if status not in ("finished", "error"):
                self._gone.append(key)
                continue
            del self._futures[key]
            if status == "finished":
                whole.append((position, future))
            else:
                answers.append((position, self._why(future)))
        try:
            bodies = self._client.gather([future for _, future in whole]) if whole else []
        except Exception as problem:
            raise self._lost("the connection was lost to the Dask scheduler") from problem
        for (position, _), body in zip(whole, bodies, strict=True):
            answers.append((position, body if type(body) is bytes else "a worker answered with no bytes"))
        return answers

    def _why(self, future: Any) -> str:
        try:
            problem = future.exception(timeout=CONNECT_S)
        except Exception as lost:
            raise self._lost("the connection was lost to the Dask scheduler") from lost
        if isinstance(problem, self._killed):
            return f"every worker that performed it died, {problem.allowed_failures + 1} in all"
        return f"a worker cannot perform it ({type(problem).__name__})"

    def _check(self, waited_s: float) -> None:
        if self._client.status != "running":
            raise self._lost("the connection was lost to the Dask scheduler")
        if not self._futures:
            return
        self._silent_s += waited_s
        if self._silent_s >= self._patience_s:
            self._silent_s = 0.0
            if not self._client.scheduler_info()["workers"]:
                raise self._lost("no worker is left at the Dask scheduler")

    def _lost(self, what: str) -> ClusterLost:
        return ClusterLost(
            f"{what} at {self._address}",
            hint="what is done is kept: start the cluster again, then `kfm resume`; without `execute.cluster` the "
            "steps run here",
        )

    def close(self) -> None:
        with suppress(Exception):
            if self._futures and self._client.status == "running":
                self._client.cancel([future for _, future in self._futures.values()], force=True)
        self._futures.clear()
        with suppress(Exception):
            self._client.close(timeout=1)


def _library() -> Any:
    """Return Dask's client library, whose own log says nothing: what a run must know is raised."""
    try:
        import distributed
    except ModuleNotFoundError as problem:
        raise Unavailable(
            "performing steps on a cluster needs a library that is not installed",
            hint="pip install 'kansas-frontier-matrix[dask]'",
        ) from problem
    for name in ("distributed", "distributed.client", "distributed.core", "tornado.application"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    return distributed
