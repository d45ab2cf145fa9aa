"""`kfm.open`: an installation for a program. Thin over the house, and it prints nothing.

Every call opens the house and closes it again, as every command does: settings, labels, policies and state are those
of the moment of the call, nothing is held in between, and threads have nothing to share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kfm.app.core import input_checks
from kfm.app.core.session import Mode, Session, open_session
from kfm.app.data import version_reader
from kfm.app.maintenance.status import status
from kfm.app.provenance.explain import explain
from kfm.app.runs import execution, queries
from kfm.app.runs.visibility import plainly_public
from kfm.client.answer_records import Explained, Overview, Planned, Ran, Refs, shown_as
from kfm.client.display import Shown
from kfm.client.pinned_version import Reading
from kfm.config import Resolved, file_in, load
from kfm.errors import BadInput, KfmError
from kfm.fsio import failing_as_storage
from kfm.model.names import check_ref
from kfm.model.records import Receipt, RefEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kfm.app.runs.execution import Request, Undelivered


def open(path: str | os.PathLike[str] | None = None) -> Installation:
    """The installation in a folder, or of a kfm.yml; without a path that of KFM_CONFIG, or the nearest one upward."""
    if path is None:
        return Installation(load(None, os.environ).path)
    try:
        where = os.fspath(path)
    except TypeError:
        raise BadInput("that is no path", hint="name the folder of an installation, or its kfm.yml") from None
    if not isinstance(where, str) or not where:
        raise BadInput("that is no path", hint="name the folder of an installation, or its kfm.yml")
    return Installation(load(file_in(where) if os.path.isdir(where) else where, os.environ).path)


class Installation(Shown):
    """An installation. Usable in a `with`, and by several threads; what is closed answers nothing any more."""

    def __init__(self, path: str) -> None:
        """`path` is that of its kfm.yml. Use `kfm.open`, which finds it."""
        self.path = path
        self._closed = False

    def __enter__(self) -> Installation:
        self._settings()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True

    def _settings(self) -> Resolved:
        if self._closed:
            raise BadInput("the installation is closed", hint="open it again with kfm.open(…)")
        return load(self.path, os.environ)

    @contextmanager
    def _opened(self, mode: Mode, resolved: Resolved | None = None) -> Iterator[Session]:
        resolved = resolved or self._settings()
        with failing_as_storage("use the installation"), open_session(resolved, mode=mode) as session:
            yield session

    # -- looking

    @property
    def datasets(self) -> list[str]:
        """That kfm.yml names."""
        return sorted(self._settings().config.datasets)

    @property
    def refs(self) -> Refs:
        """Where every ref is now: `refs["published/NAME"]`, `refs.history(…)`."""
        with self._opened("read") as session:
            return Refs(dict(session.state.refs.all("")), self._history)

    def _history(self, ref: str) -> list[RefEntry]:
        name = check_ref(ref)
        with self._opened("read") as session:
            return queries.ref_history(session, name)

    def status(self, *datasets: str) -> Overview:
        """How these datasets stand, or all; what to do next; and what a doctor sees without touching anything."""
        resolved = self._settings()
        said = [input_checks.known_dataset(resolved, input_checks.one_line("dataset", name)) for name in datasets]
        with self._opened("read", resolved) as session:
            return shown_as(Overview, status(session, list(dict.fromkeys(said))))

    def plan(self, dataset: str, *, window: str = "", partition: str = "") -> Planned:
        """The plan that a run would make now, and how it differs from the last. Changes nothing."""
        asked = {
            "window": input_checks.one_line("window", window),
            "partition": input_checks.one_line("partition", partition),
        }
        resolved = self._settings()
        name = input_checks.known_dataset(resolved, input_checks.one_line("dataset", dataset))
        with self._opened("dry", resolved) as session:
            return shown_as(Planned, queries.preview(session, name, **asked))

    def explain(self, thing: str) -> Explained:
        """How a dataset, version, file, ref, object or run came to be."""
        with self._opened("read") as session:
            return shown_as(Explained, explain(session, input_checks.one_line("thing", thing, 4096))[0])

    def read(self, dataset: str, key: str | tuple[str, ...] = "", *, version: str = "", ref: str = "") -> Reading:
        """What is published of a dataset, else what is processed; or a version of it, by its digest or the start of it;
        or what a ref is at, `processed` or `published`. With a key one entry, as `kfm cat` takes it or as a tuple."""
        if isinstance(key, tuple):
            key = tuple(input_checks.one_line("a part of the key", part, 4096) for part in key)
        else:
            input_checks.one_line("key", key, 4096)
        named = {"version": input_checks.one_line("version", version), "ref": input_checks.one_line("ref", ref)}
        with self._opened("read") as session:
            found = version_reader.find(session, input_checks.one_line("dataset", dataset, 4096), key, **named)
            public = bool(plainly_public(session, [found.dataset]))
        return Reading(found, lambda: self._opened("read"), public=public)

    # -- working

    def run(
        self,
        *datasets: str,
        window: str = "",
        partition: str = "",
        dry_run: bool = False,
        force: bool = False,
        abandon: bool = False,
        allow_deletions: int = 0,
        reason: str = "",
        actor: str = "",
        check: bool = True,
    ) -> Ran:
        """Run these datasets, or all. Durable and told to the outside when it returns.

        What went wrong is raised when all had their turn, the worst of it; with `check=False` it is in `problems`.
        """
        who = input_checks.person(reason, actor, str)
        meant = {
            "window": input_checks.one_line("window", window),
            "partition": input_checks.one_line("partition", partition),
        }
        overrides = input_checks.set_aside(
            force=force, abandon=abandon, allow_deletions=allow_deletions, reason=reason, spelled=str
        )
        resolved = self._settings()
        said = tuple(input_checks.one_line("dataset", name) for name in datasets)
        names = input_checks.several(resolved, said, partition, str)
        with self._opened("dry" if dry_run else "write", resolved) as session:
            return _work(session, [execution.running(name, **meant, **overrides, **who) for name in names], check=check)

    def resume(self, run: str = "", *, check: bool = True) -> Ran:
        """Take up what was left unfinished, and deliver what waits; with the id of a run, that one."""
        resolved, run_id = self._settings(), ""
        if input_checks.one_line("run", run):
            with self._opened("read", resolved) as session:
                run_id = queries.find_run(session, run)
        with self._opened("write", resolved) as session:
            return _work(session, [execution.resuming(run_id)], check=check, all_are_ours=True)

    def _title(self) -> str:
        return f"installation {self.path}" + (", closed" if self._closed else "")


def _work(session: Session, requests: Sequence[Request], *, check: bool, all_are_ours: bool = False) -> Ran:
    outcome = execution.work(session, requests, _Nobody(), all_are_ours=all_are_ours)
    versions = [queries.version_of(session, receipt) for receipt in outcome.receipts]
    public = plainly_public(session, (receipt.dataset for receipt in outcome.receipts))
    ran = Ran(outcome, versions, public=public, dry_run=session.mode == "dry")
    if check and ran.problems:
        first = ran.problems[0]
        if len(ran.problems) > 1:
            first.add_note(f"and {len(ran.problems) - 1} more; check=False gives all of them, with the receipts")
        raise first
    return ran


class _Nobody:
    """Hears it, and says nothing."""

    def begins(self, about: str) -> None: ...

    def ended(self, receipt: Receipt) -> None: ...

    def failed(self, about: str, problem: KfmError) -> None: ...

    def settles(self) -> None: ...

    def undelivered(self, what: Undelivered) -> None: ...
