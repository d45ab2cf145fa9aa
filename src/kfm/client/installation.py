"""`kfm.open`: an installation for a program. It is thin over kfm.app and prints nothing.

Every call opens a session and closes it again, as every command does. It uses the settings, labels, policies and state
of that moment; nothing is kept between calls, so threads share nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kfm.app.authority.keyring import signer_with
from kfm.app.authority.named_versions import version_of_ref, version_to_publish
from kfm.app.data import text_search, version_reader
from kfm.app.data.version_diff import difference
from kfm.app.maintenance.status import status
from kfm.app.provenance.explain import explain
from kfm.app.provenance.lineage import Direction, lineage
from kfm.app.runs import execution, queries
from kfm.app.runs.resolve import moved_ref
from kfm.app.runs.visibility import plainly_public
from kfm.app.session import input_checks
from kfm.app.session.protection_files import can_close
from kfm.app.session.session import Mode, Session, open_session
from kfm.client.answer_records import (
    Compared,
    Explained,
    Found,
    Overview,
    Planned,
    Quarantined,
    Ran,
    Refs,
    Traced,
    shown_as,
)
from kfm.client.display import Displayable
from kfm.client.pinned_version import Reading
from kfm.config import Resolved, file_in, load
from kfm.config.config_mistakes import load_to_close
from kfm.errors import BadInput, Denied, KfmError
from kfm.fsio import failing_as_storage
from kfm.model import refs
from kfm.model.names import check_ref
from kfm.model.records import Receipt, RefEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kfm.app.runs.execution import Request, Undelivered


def open(path: str | os.PathLike[str] | None = None) -> Installation:
    """Open the installation in a folder, or that of a kfm.yml. Without a path, KFM_CONFIG or the nearest kfm.yml upward
    is used.
    """
    if path is None:
        return Installation(load(None, os.environ).path)
    try:
        where = os.fspath(path)
    except TypeError:
        raise BadInput(
            "the path is not a text or path object", hint="name the folder of an installation, or its kfm.yml"
        ) from None
    if not isinstance(where, str) or not where:
        raise BadInput(
            "the path is not a text or path object", hint="name the folder of an installation, or its kfm.yml"
        )
    return Installation(load(file_in(where) if os.path.isdir(where) else where, os.environ).path)


class Installation(Displayable):
    """An installation, usable in a `with` block and by several threads. After `close` every call raises BadInput."""

    def __init__(self, path: str) -> None:
        """`path` is the kfm.yml of the installation. Callers use `kfm.open`, which finds it."""
        self.path = path
        self._closed = False

    def __enter__(self) -> Installation:
        self._settings()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True

    def _settings(self, *, closes: bool = False) -> Resolved:
        """Return the settings of now. What only takes away or closes works with settings that have mistakes."""
        if self._closed:
            raise BadInput("the installation is closed", hint="open it again with kfm.open(…)")
        return load_to_close(self.path, os.environ) if closes else load(self.path, os.environ)

    @contextmanager
    def _opened(self, mode: Mode, resolved: Resolved | None = None) -> Iterator[Session]:
        resolved = resolved or self._settings()
        with failing_as_storage("use the installation"), open_session(resolved, mode=mode) as session:
            yield session

    # -- queries

    @property
    def datasets(self) -> list[str]:
        """The datasets that kfm.yml names."""
        return sorted(self._settings().config.datasets)

    @property
    def refs(self) -> Refs:
        """The version of every ref now: `refs["published/NAME"]`, `refs.history(…)`."""
        with self._opened("read") as session:
            return Refs(dict(session.state.refs.all("")), self._history)

    def _history(self, ref: str) -> list[RefEntry]:
        with self._opened("read") as session:
            return queries.ref_history(session, check_ref(moved_ref(session, input_checks.one_line("ref", ref))))

    def status(self, *datasets: str) -> Overview:
        """Return the status of these datasets, or of all, the next commands, and the quick checks of `kfm doctor`."""
        resolved = self._settings()
        said = [input_checks.known_dataset(resolved, input_checks.one_line("dataset", name)) for name in datasets]
        with self._opened("read", resolved) as session:
            return shown_as(Overview, status(session, list(dict.fromkeys(said))))

    def plan(self, dataset: str, *, window: str = "", partition: str = "") -> Planned:
        """Return the plan that a run would make now, and how it differs from the last one. Changes nothing."""
        asked = {
            "window": input_checks.one_line("window", window),
            "partition": input_checks.one_line("partition", partition),
        }
        resolved = self._settings()
        name = input_checks.known_dataset(resolved, input_checks.one_line("dataset", dataset))
        with self._opened("dry", resolved) as session:
            return shown_as(Planned, queries.preview(session, name, **asked))

    def explain(self, thing: str) -> Explained:
        """Return how a dataset, version, file, ref, object or run came to be."""
        with self._opened("read") as session:
            return shown_as(Explained, explain(session, input_checks.one_line("thing", thing, 4096))[0])

    def read(self, dataset: str, key: str | tuple[str, ...] = "", *, version: str = "", ref: str = "") -> Reading:
        """Return the published version of a dataset, or else the processed one; or a version by its digest or a prefix
        of it; or the version at a ref, `processed` or `published`. A key selects one entry, as text like in `kfm
        cat` or as a tuple.
        """
        if isinstance(key, tuple):
            key = tuple(input_checks.one_line("a part of the key", part, 4096) for part in key)
        else:
            input_checks.one_line("key", key, 4096)
        named = {"version": input_checks.one_line("version", version), "ref": input_checks.one_line("ref", ref)}
        with self._opened("read") as session:
            found = version_reader.find(session, input_checks.one_line("dataset", dataset, 4096), key, **named)
            public = bool(plainly_public(session, [found.dataset]))
        return Reading(found, lambda: self._opened("read"), public=public)

    def diff(
        self,
        a: str,
        b: str | None = None,
        *,
        leaves: str | None = None,
        to: str | None = None,
        key: Sequence[str] = (),
        rows: int = 0,
        keys_only: bool = False,
    ) -> Compared:
        """Return the difference between two versions, as `kfm diff` names them: DATASET, DATASET@VERSION,
        DATASET@DATE, a ref or a digest. Without `b`, the first is the version before `a`, or `leaves`.

        `rows` is the most rows to list for each key, `key` the columns that identify a row. Versions of masked data are
        only counted. Denied for protected data.
        """
        texts = {"a": a, "b": b, "leaves": leaves, "to": to}
        for name, text in texts.items():
            if text is not None:
                input_checks.one_line(name, text, 4096)
        columns = (key,) if isinstance(key, str) else tuple(key)
        with self._opened("read") as session:
            found = difference(session, a, b, leaves=leaves, to=to, key=columns, limit=rows, keys_only=keys_only)
        return shown_as(Compared, found)

    def search(self, words: str, *, index: str = "", limit: int = 10) -> Found:
        """Return the published documents that fit these words best, each with the version that it comes from. Nothing
        is shown of a version that is not public now.
        """
        asked = input_checks.one_line("words", words, text_search.LONGEST)
        with self._opened("read") as session:
            found = text_search.search(session, asked, index=input_checks.one_line("index", index), limit=limit)
        return shown_as(Found, found)

    def quarantined(self, dataset: str) -> Quarantined:
        """Return which sources and rows of a dataset are quarantined now, and why."""
        resolved = self._settings()
        name = input_checks.known_dataset(resolved, input_checks.one_line("dataset", dataset))
        with self._opened("read", resolved) as session:
            sources = queries.held_sources(session, name)
            public = bool(plainly_public(session, [name]))
        return Quarantined(name, sources, self._held_rows, public=public)

    def _held_rows(self, sources: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with self._opened("read") as session:
            return list(queries.held_rows(session, sources))

    def lineage(self, thing: str, direction: Direction = "upstream", *, depth: int = -1) -> Traced:
        """Return what a dataset, version, ref or source was made of (`upstream`), or what was made of it
        (`downstream`), at most `depth` runs away."""
        if direction not in ("upstream", "downstream"):
            raise BadInput("the direction of a lineage is upstream or downstream", hint='e.g. direction="downstream"')
        if type(depth) is not int or depth == 0 or depth < -1:
            raise BadInput("depth is not a number of runs", hint="give one from 1 on")
        with self._opened("read") as session:
            found = lineage(session, input_checks.one_line("thing", thing, 4096), direction, depth)
        return shown_as(Traced, found)

    # -- runs

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
        """Run these datasets, or all. When it returns, the results are durable and delivered.

        The worst error is raised after all datasets had their turn; with `check=False` all errors are in `problems`.
        """
        who = input_checks.person(reason, actor, str)
        meant = {
            "window": input_checks.one_line("window", window),
            "partition": input_checks.one_line("partition", partition),
        }
        overrides = input_checks.checked_overrides(
            force=force, abandon=abandon, allow_deletions=allow_deletions, reason=reason, spelled=str
        )
        resolved = self._settings()
        said = tuple(input_checks.one_line("dataset", name) for name in datasets)
        names = input_checks.requested_datasets(resolved, said, partition, str)
        with self._opened("dry" if dry_run else "write", resolved) as session:
            return _work(
                session, [execution.run_request(name, **meant, **overrides, **who) for name in names], check=check
            )

    def resume(self, run: str = "", *, today: bool = False, check: bool = True) -> Ran:
        """Resume unfinished runs and deliver pending messages; with the id of a run, resume that one. A planned run is
        finished with the settings it was planned with; with `today`, with those of kfm.yml."""
        resolved, run_id = self._settings(), ""
        if input_checks.one_line("run", run):
            with self._opened("read", resolved) as session:
                run_id = queries.find_run(session, run)
        with self._opened("write", resolved) as session:
            return _work(session, [execution.resume_request(run_id, today=today)], check=check, all_are_ours=True)

    # -- operations

    def publish(
        self,
        dataset: str,
        *,
        to: str = "",
        reason: str = "",
        actor: str = "",
        key: str | os.PathLike[str] = "",
        dry_run: bool = False,
        check: bool = True,
    ) -> Ran:
        """Publish the processed version of a dataset, or with `to` a withdrawn version, as `kfm publish` does. It needs
        a reason, unless it is a dry run; `key` is the file of the private key that signs it.

        Denied if a gate or the authority refuses, Frozen if a freeze flag is set. Denied also if others must sign
        before anything moves; with `check=False` all errors are in `problems`.
        """
        resolved = self._settings()
        name = input_checks.known_dataset(resolved, input_checks.one_line("dataset", dataset))
        params = {}
        if input_checks.one_line("to", to):
            with self._opened("read", resolved) as session:
                params["to"] = version_to_publish(session, name, to)
        who = _person("publish", reason, actor, dry_run=dry_run)
        return self._operate(resolved, "promote", name, params, who, key, dry_run=dry_run, check=check)

    promote = publish

    def rollback(
        self,
        dataset: str,
        *,
        to: str = "",
        leaves: str = "",
        ref: str = "",
        reason: str = "",
        actor: str = "",
        key: str | os.PathLike[str] = "",
        dry_run: bool = False,
        check: bool = True,
    ) -> Ran:
        """Move a ref, by default the published one, back to the version before, or to the version `to`; `nothing`
        withdraws it. With `leaves` only if the ref is at that version now. Reason, key and errors are as for `publish`.
        """
        asked = {"to": input_checks.one_line("to", to), "before": input_checks.one_line("leaves", leaves)}
        resolved = self._settings(closes=to == "nothing")
        name = input_checks.known_dataset(resolved, input_checks.one_line("dataset", dataset))
        params = {"ref": check_ref(ref)} if input_checks.one_line("ref", ref) else {}
        with self._opened("read", resolved) as session:
            at = ref or refs.published(name)
            params |= {what: version_of_ref(session, at, text) for what, text in asked.items() if text}
        who = _person("rollback", reason, actor, dry_run=dry_run)
        return self._operate(resolved, "rollback", name, params, who, key, dry_run=dry_run, check=check)

    def _operate(
        self,
        resolved: Resolved,
        operation: str,
        dataset: str,
        params: dict[str, str],
        who: dict[str, str],
        key: str | os.PathLike[str],
        *,
        dry_run: bool,
        check: bool,
    ) -> Ran:
        signer = signer_with([os.fspath(key)], who["reason"], spelled="reason=…") if key else None
        with self._opened("dry" if dry_run else "write", resolved) as session:
            if can_close(resolved, session.state):
                from kfm.app.stewards.public_repair import withdraw_closed

                withdraw_closed(session)
            request = execution.operation_request(operation, dataset, params, signer=signer, **who)
            return _work(session, [request], check=check)

    def _title(self) -> str:
        return f"installation {self.path}" + (", closed" if self._closed else "")


def _work(session: Session, requests: Sequence[Request], *, check: bool, all_are_ours: bool = False) -> Ran:
    outcome = execution.work(session, requests, _NoProgress(), all_are_ours=all_are_ours)
    versions = [queries.version_of(session, receipt) for receipt in outcome.receipts]
    public = plainly_public(session, (receipt.dataset for receipt in outcome.receipts))
    ran = Ran(outcome, versions, public=public, dry_run=session.mode == "dry")
    if ran.requested:
        asked = Denied("the change is requested, and nothing moved", hint="`kfm review list` says who signs next")
        ran.problems = (*ran.problems, asked)
    if check and ran.problems:
        first = ran.problems[0]
        if len(ran.problems) > 1:
            first.add_note(f"and {len(ran.problems) - 1} more; check=False gives all of them, with the receipts")
        raise first
    return ran


def _person(operation: str, reason: str, actor: str, *, dry_run: bool) -> dict[str, str]:
    """Return actor and reason of an operation. BadInput without a reason, unless it is a dry run."""
    said = input_checks.person(reason, actor, str)
    said["reason"] = input_checks.reason_given(said["reason"], os.environ)
    if not said["reason"] and not dry_run:
        raise BadInput(f"{operation} needs a reason, which goes into the ledger", hint='give reason="why"')
    return said


class _NoProgress:
    """Ignores the progress of the work."""

    def begins(self, about: str) -> None: ...

    def ended(self, receipt: Receipt) -> None: ...

    def failed(self, about: str, problem: KfmError) -> None: ...

    def settles(self) -> None: ...

    def undelivered(self, what: Undelivered) -> None: ...
