"""Kill a run at each of its boundaries, in a child process, and let another process resume it.

A boundary is a point before or after each commit, each delivery to the outside and each step. The ports of the session
are wrapped to count them; the product has no hook for it.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import msgspec

from kfm.app.session.session import Mode, Session, load, open_tables, session_on
from kfm.config import DatasetConfig, Resolved
from kfm.model.updater import Updater

_DELIVERIES = ("write_file", "write_files", "update_metadata", "emit_event", "remove_file")


class Boundaries:
    """Counts boundaries; at number `at` the process kills itself. 0 never kills."""

    def __init__(self, at: int = 0) -> None:
        self.names: list[str] = []
        self._at = at

    def here(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, owner: object, method: str, name: str) -> None:
        """Wrap a method of this one object, so that a boundary is counted before and after each call."""
        real = getattr(owner, method)

        def counted(*args: Any, **kwargs: Any) -> Any:
            shown = f"{name} {args[0].id}" if method == "perform" else name
            self.here(f"before {shown}")
            result = real(*args, **kwargs)
            self.here(f"after {shown}")
            return result

        setattr(owner, method, counted)


def trial_session(
    resolved: Resolved, mode: Mode, make: Callable[[], Updater] | None, boundaries: Boundaries | None = None
) -> Session:
    """Open an installation whose updater `make` creates, or that of the configuration if `make` is None. With
    `boundaries`, its commits, deliveries and steps are counted."""

    def load_trial(resolved: Resolved, name: str, dataset: DatasetConfig) -> Updater:
        updater = make() if make is not None else load(resolved, name, dataset)
        if boundaries is not None:
            boundaries.around(updater, "perform", "step")
        return updater

    tables = open_tables(resolved, mode)
    if boundaries is not None:
        boundaries.around(tables, "commit", "the commit of a transaction")
    session = session_on(resolved, mode, tables)
    session.load = load_trial
    if boundaries is not None:
        for method in _DELIVERIES:
            boundaries.around(session.publisher, method, "telling the outside")
    return session


class ChildKilled(Exception):
    """Raised in the parent if the child was killed, as intended."""


def in_child(work: Callable[[], Any]) -> Any:
    """Run `work` in a forked child and return its result. Raise ChildKilled if the child was killed, and AssertionError
    with the text of an exception in it."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child uses no thread of the parent
        pid = os.fork()
    if not pid:
        code = 70
        try:
            gc.disable()
            os.close(read)
            try:
                said = msgspec.json.encode({"answer": work()})
                code = 0
            except BaseException as problem:
                said = msgspec.json.encode({"problem": f"{type(problem).__name__}: {problem}"})
            with open(write, "wb") as pipe:
                pipe.write(said)
        finally:
            os._exit(code)
    os.close(write)
    with open(read, "rb") as pipe:
        body = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise ChildKilled
    said = msgspec.json.decode(body)
    if "problem" in said:
        raise AssertionError(said["problem"])
    return said["answer"]


def spread(total: int, most: int) -> list[int]:
    """Return boundary numbers from the first to the last, evenly spread if there are more than `most`."""
    if total <= most:
        return list(range(1, total + 1))
    return sorted({1 + round(n * (total - 1) / (most - 1)) for n in range(most)})
