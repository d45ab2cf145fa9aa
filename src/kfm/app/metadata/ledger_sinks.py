"""The configured sinks that follow the ledger, and reporting to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from kfm.app.session.backends import sink_lock
from kfm.app.session.session import Session
from kfm.errors import BadInput, KfmError
from kfm.model.outbox_messages import NOTIFY, described, is_followed

if TYPE_CHECKING:
    from kfm.delivery.followers import Follower, Progress
    from kfm.model.outbox_messages import Letter
    from kfm.model.ports import Sink
    from kfm.model.records import Effect

_FEW = 64  # runs that are looked at before a sink is opened; an installation with more is behind


def followers(session: Session, without: Collection[str] = ()) -> Iterator[Follower]:
    """Yield the followers in the order of reporting. Each sink is opened when reached, and only if it is configured."""
    if session.resolved.config.catalog and "catalog" not in without:
        from kfm.app.metadata.catalogs import catalog_follower

        yield catalog_follower(session)
    if session.resolved.config.pages and "pages" not in without:
        from kfm.app.metadata.pages_sink import pages_follower

        yield pages_follower(session)
    if session.resolved.config.worker_receipts:
        from kfm.app.metadata.worker_receipts_sink import worker_receipts_follower

        yield worker_receipts_follower(session)
    if session.resolved.config.graph:
        from kfm.app.metadata.graph_sink import graph_follower

        yield graph_follower(
            session.resolved, session.state, session.objects, sink_lock(session.resolved, session.state, "graph")
        )
    if session.resolved.config.openlineage.file or session.resolved.config.openlineage.url:
        from functools import partial

        from kfm.app.metadata.openlineage_sink import openlineage_followers

        yield from openlineage_followers(
            session.resolved, session.state, session.objects, partial(sink_lock, session.resolved, session.state)
        )
    if session.resolved.config.notify and NOTIFY not in without:
        from kfm.app.metadata.notice_sinks import notice_followers

        yield from notice_followers(session)


def _pass_over(session: Session) -> set[str]:
    """Advance the catalog and the pages over runs that published nothing, and return which of the two have nothing
    else to do. Most runs are such, and neither is opened for them. A catalog with proofs follows every run."""
    outbox, ledger, config = session.state.outbox, session.state.ledger, session.resolved.config
    wanted = {"catalog": bool(config.catalog) and not config.ledger.sign_with, "pages": config.pages}
    cursors: dict[str, int] = {}
    for name in (name for name, is_wanted in wanted.items() if is_wanted):
        if outbox.stopped(name) is None and next(outbox.waiting(name), None) is None:
            cursors[name] = outbox.cursor(name)
    newest = 0
    for entry in ledger.entries(after=min(cursors.values()), limit=_FEW + 1) if cursors else ():
        newest = entry.index if is_followed(entry) else newest
        if described(entry) or entry.index > min(cursors.values()) + _FEW:
            cursors = {name: cursor for name, cursor in cursors.items() if cursor >= entry.index}
            if not cursors:
                return set()
    behind = [name for name, cursor in cursors.items() if cursor < newest]
    if behind:
        with session.state.transaction(durable=False) as tx:
            for name in behind:
                tx.outbox.advance(name, newest)
    return set(cursors)


def report_to_sinks(
    session: Session, *, again: bool = False, only: str = "", effects: list[Effect] | None = None
) -> list[KfmError]:
    """Report to each sink what it has not received yet, and append its effects to `effects`. Return the problems of
    the sinks that failed. A dry run only collects the effects. People are notified last, when all sinks are done."""
    problems: list[KfmError] = []
    noted = [] if effects is None else effects
    passed = {NOTIFY, *(() if again or only else _pass_over(session))}
    for follower in followers(session, passed):
        if only in ("", follower.sink.name):
            from kfm.app.metadata.sink_trace import traced
            from kfm.delivery.followers import follow

            sink = traced(follower, noted, dry_run=session.mode != "write")
            problem = follow(session.state, sink, session.clock, session.log, again=again)
            if problem is not None:
                problems.append(problem)
    if not session.resolved.config.pages and next(session.state.outbox.notes("pages"), None) is not None:
        from kfm.app.metadata.pages_sink import remove_pages

        if (problem := remove_pages(session, noted)) is not None:
            problems.append(problem)
    if not session.resolved.config.catalog and next(session.state.outbox.notes("catalog"), None) is not None:
        from kfm.app.metadata.catalogs import remove_catalog

        if (problem := remove_catalog(session, noted)) is not None:
            problems.append(problem)
    if next(session.state.outbox.pending(), None) is not None:
        from kfm.app.metadata.completion_records import complete

        if (problem := complete(session)) is not None:
            problems.append(problem)
    if session.resolved.config.notify and not session.notices_apart:
        from kfm.app.metadata.notice_sinks import report_notices

        problems += report_notices(session, noted)
    return problems


def sink_progress(session: Session) -> list[Progress]:
    """Return the progress of every configured sink."""
    from kfm.delivery.followers import progress

    return [progress(session.state, follower.sink.name) for follower in followers(session)]


def retry(session: Session, name: str) -> tuple[list[KfmError], int]:
    """Report to a sink now, also what it refused before. Return its problems, and how many files or messages changed
    there. BadInput if there is no such sink."""
    from kfm.delivery.followers import follow

    known = {follower.sink.name: follower for follower in followers(session)}
    if name not in known:
        names = ", ".join(known) or "none"
        raise BadInput("there is no sink of this name", hint=f"the configuration has: {names}")
    counted = _CountedSink(known[name].sink)
    follower = known[name]._replace(sink=counted)
    problem = follow(session.state, follower, session.clock, session.log, again=True)
    return [] if problem is None else [problem], counted.changes


class _CountedSink:
    """A sink that counts its changes: of files where the sink knows them, else the messages that it accepted."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._accepted = 0
        self.name = sink.name

    def send(self, letters: Sequence[Letter]) -> None:
        self._sink.send(letters)
        self._accepted += len(letters)

    @property
    def changes(self) -> int:
        written = getattr(self._sink, "written", None)
        return self._accepted if written is None else written + getattr(self._sink, "removed", 0)
