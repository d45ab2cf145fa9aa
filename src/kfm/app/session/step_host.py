"""Performs steps in a worker of a cluster, for runs of another process.

The worker opens the installation that its own KFM_CONFIG names, or the kfm.yml above its working directory. Release,
settings and code must be those of the plan, or every step is refused. It writes nothing but large outputs, into the
object store. It reads the state only for rows that did not come with the step, such as the keys of another dataset.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kfm import __version__
from kfm.app.session.backends import open_objects_at, open_tables
from kfm.app.session.session import load
from kfm.app.session.source_requests import dataset_settings
from kfm.clock import from_environment
from kfm.config import load as load_config
from kfm.engine.cluster.cluster_steps import ClusterAnswer, ClusterRun, decode_run, decode_step, encode, told
from kfm.engine.cluster.cluster_worker import answer_of
from kfm.engine.guards import Guards
from kfm.engine.run_context import RunContext, Work
from kfm.engine.world import World
from kfm.errors import Denied, KfmError, Refused
from kfm.model.operation_target import REF
from kfm.model.ports import INLINE_MAX
from kfm.model.records import Trigger
from kfm.store.state import StoredState
from kfm.telemetry.log import NullLog
from kfm.updaters.updater_loader import at_work

MOST_RUNS = 4  # that a worker remembers

_lock = threading.Lock()
_runs: OrderedDict[bytes, StepHost] = OrderedDict()


def answer(step: bytes, run: bytes) -> bytes:
    """Perform a step of a run and return the answer, encoded. An error is in the answer, too."""
    try:
        host = _host_of(run)
    except KfmError as problem:
        return encode(ClusterAnswer(problem=told(problem)))
    return host.answer(step)


def _host_of(run: bytes) -> StepHost:
    with _lock:
        host = _runs.pop(run, None) or StepHost(run)
        _runs[run] = host
        while len(_runs) > MOST_RUNS:
            _runs.popitem(last=False)
        return host


class StepHost:
    """One run, as a worker knows it."""

    def __init__(self, encoded: bytes) -> None:
        """Refused unless release, settings and code of this worker are those of the plan."""
        try:
            self._run = run = decode_run(encoded)
        except msgspec.MsgspecError:
            raise _other("another release of KFM") from None
        if run.kfm != __version__:
            raise _other("another release of KFM")
        resolved = load_config(None, os.environ)
        declared = resolved.config.datasets.get(run.dataset)
        known = dataset_settings(resolved, resolved.config, run.dataset, dry=False)
        if declared is None or known.config_hash != run.config_hash:
            raise _other(f"other settings of {run.dataset}")
        updater = load(resolved, run.dataset, declared)
        if (updater.version, updater.code_hash) != (run.updater_version, run.code_hash):
            raise _other(f"other code of {run.dataset}")
        self._tree = resolved.in_tree("") if updater.code_listing else ""
        self._state = _Rows(resolved, run)
        state: Any = self._state  # the few methods that an object store calls
        clock = from_environment()
        world = World(
            state=state,
            objects=open_objects_at(resolved, resolved.config.objects, state),
            clock=clock,
            log=NullLog(),
            open_source=_no_source,
            settings=known.settings,
            datasets=known.datasets,
        )
        trigger = Trigger(kind="job", updater_id=updater.id, dataset=run.dataset, correlation_id="cluster")
        work = Work(trigger, updater, {"sensitivity": "public"} if run.is_public else {})
        self._context = RunContext(work, world, Guards(gate=_no_gate, step_gate=_no_gate))

    def answer(self, encoded: bytes) -> bytes:
        asked = decode_step(encoded)
        if self._tree:
            at_work(self._tree)
        with self._state.sent(asked.rows, asked.needs):
            return encode(answer_of(self._context, self._run, asked))


class _Rows:
    """The small objects that a step may read: those that came with the step or its run, and those of the state, which
    is opened when first needed and closed with the last step at work."""

    def __init__(self, resolved: Any, run: ClusterRun) -> None:
        self._resolved = resolved
        self._of_run = run.rows
        fetched = [ref for ref in run.inputs if not ref.uri.startswith(REF)]  # the size of a version is not a file's
        self._large = {ref.content_hash for ref in fetched if ref.size > INLINE_MAX}
        self._sent: dict[str, bytes] = {}
        self._at_work = 0
        self._lock = threading.Lock()
        self._state: StoredState | None = None

    @contextmanager
    def sent(self, rows: dict[str, bytes], needs: dict[str, tuple[str, int]]) -> Iterator[None]:
        """Know these rows, and the sizes of these outputs, while the block runs."""
        with self._lock:
            self._at_work += 1
            self._sent.update(rows)
            self._large.update(digest for digest, size in needs.values() if size > INLINE_MAX)
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
                if not self._at_work:
                    self._sent.clear()
                    self._close()

    def inline_object(self, name: str) -> bytes | None:
        if name in self._large:
            return None
        body = self._of_run.get(name) or self._sent.get(name)
        if body is not None:
            return body
        with self._lock:
            if self._state is None:
                clock = from_environment()
                self._state = StoredState(open_tables(self._resolved, "read"), clock.now_ms)
            return self._state.inline_object(name)

    def _close(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            state.close()


def _other(what: str) -> Refused:
    return Refused(
        f"a worker of the cluster has {what} than the plan",
        hint="install the same release, kfm.yml and code on all workers, restart them, and run again",
    )


def _no_source(_uri: str) -> Any:
    raise Denied("a step fetches nothing", hint="pin the source in inputs()")


def _no_gate(*_asked: Any, **_asking: Any) -> Any:
    raise Denied("a step passes no gate", hint="only the run itself does")
