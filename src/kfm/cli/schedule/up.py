"""kfm up: one process that keeps an installation running, and how it stops."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from kfm.app.daemon.act_thread import ActThread
from kfm.app.daemon.daemon_loop import Daemon, TickThread
from kfm.app.runs.execution import Outcome, undelivered
from kfm.app.runs.settlement import settle_session
from kfm.app.session.session import open_session
from kfm.cli import Stopped
from kfm.cli.listener import index_file, reopened, rules_of, secured, server_module, tell_listening, teller
from kfm.cli.parser import address
from kfm.cli.render import Screen
from kfm.cli.run_report import artifacts_folder, tell_elsewhere
from kfm.cli.session import Tally, known_dataset, opened, settings
from kfm.cli.work.run import add_jobs, requested_jobs
from kfm.errors import BadInput, KfmError

if TYPE_CHECKING:
    import argparse

    from kfm.app.session.session import Session
    from kfm.cli.parser import Parser
    from kfm.config import Resolved
    from kfm.model.records import Receipt


WAIT_S = 0.2  # pause of --once while it waits for a slot of a pool


MORE = """\
Stop it with Ctrl-C: the current run is finished first; a second Ctrl-C leaves it to `kfm resume`. A second
process on the same state stands by and takes over when the first is gone. With --once it does what is
pending now and ends, for cron, systemd timers and workflows.

At --listen Prometheus reads /metrics, which name the datasets. Where webhooks come in, others may reach that address,
so there it takes --metrics."""


def arguments(parser: Parser) -> None:
    parser.add_argument("dataset", nargs="*", metavar="DATASET", help="its name in kfm.yml (default: all)")
    parser.add_argument("--once", action="store_true", help="do what is pending now, and end")
    parser.add_argument("--listen", metavar="ADDRESS", type=address, help="serve the API, the pages and webhooks there")
    parser.add_argument(
        "--metrics", action="store_true", help="answer /metrics at --listen, too; without webhooks it always does"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM, of --listen")
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front of KFM ends TLS")
    parser.add_argument(
        "--artifacts", default=None, metavar="DIR", help="with --once: write artifacts of the runs here"
    )
    add_jobs(parser)
    parser.set_defaults(handler=up)


class Patience:
    """Handles Ctrl-C and SIGTERM. During a pause they end the pause. During work they are remembered until the work is
    done; a second signal stops at once."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._resting = False
        self.asked = False
        self.code = 0  # the exit code after a signal

    def goes_on(self) -> bool:
        return not self.asked

    def rest(self, seconds: float) -> None:
        self._resting = True
        try:
            if not self.asked:
                time.sleep(seconds)
        finally:
            self._resting = False

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self.code = 128 + number
        if self._resting or self.asked:
            self.asked = True
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped
        self.asked = True
        with suppress(RuntimeError):  # the signal came while a line was being written
            self._screen.say("stopping: the run at work is finished first; once more leaves it to `kfm resume`")

    @contextmanager
    def hearing(self) -> Iterator[None]:
        before = {}
        with suppress(ValueError):  # not the main thread: the caller handles its own signals
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, self._hear)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def up(options: argparse.Namespace, screen: Screen) -> int:
    """Run until SIGTERM or Ctrl-C, or with --once until nothing is pending. Everything that it reports is durable."""
    resolved = settings(options)
    names = [known_dataset(options, screen, resolved, name) for name in options.dataset]
    names = names or sorted(resolved.config.datasets)
    jobs = requested_jobs(options, resolved, names)
    if options.metrics and not options.listen:
        raise BadInput("--metrics needs an address", hint="give --listen 127.0.0.1:8750, too")
    tls = secured(options, options.listen[0]) if options.listen else None
    folder, events = _artifacts(options, resolved)
    patience = Patience(screen)
    with ExitStack() as stack:
        session = stack.enter_context(opened(options, screen, "write", resolved, events))
        tally = Tally(screen)
        upkeep = Daemon(session, names, tally.failed, goes_on=patience.goes_on, jobs=jobs, advanced=tally.advanced)
        stack.callback(upkeep.end)
        if options.listen:
            metrics = options.metrics or not resolved.config.webhooks
            server, opens = server_module(), partial(open_session, resolved)
            rules = rules_of(server, options.listen[0], behind_proxy=options.behind_proxy)
            served = server.Served(partial(reopened, resolved), resolved.path, index_file(resolved), rules)
            port = stack.enter_context(server.listening(opens, *options.listen, tls, metrics=metrics, served=served))
            tell_listening(screen, resolved, options.listen[0], port, tls=tls is not None, metrics=metrics, pages=True)
        if not options.once:
            screen.say(f"up: schedules {upkeep.schedules}, datasets {len(names)}; Ctrl-C ends it")
        if upkeep.schedules and not options.once:
            beside = TickThread(partial(open_session, resolved, log=session.log, clock=session.clock), upkeep, names)
            beside.start()
            stack.callback(beside.end)
        if not options.once:
            acts = ActThread(partial(open_session, resolved, log=session.log, clock=session.clock), upkeep, names)
            acts.start()
            stack.callback(acts.end)
        push = _pushing(stack, session, upkeep, once=options.once)
        if resolved.config.notify and not options.once:
            _notify_beside(session, upkeep, stack)
        kept = Outcome() if options.once else None
        told, follow = teller(session, upkeep.watching, screen, tally, kept), _following(session, upkeep, tally)
        with patience.hearing():
            if kept is None:
                return _keep_up(upkeep, told, follow, screen, patience)
            if not upkeep.wait_for_turn():
                screen.say("another `kfm up` has the leader lease, and does the pending work")
                return tally.code
            if _once(upkeep, told, patience):
                follow()
                push()
                tell_elsewhere(session, tally, kept, events or [], folder)
                return tally.code
            screen.say("stopped; what waits is kept")
            return patience.code


def _pushing(stack: ExitStack, session: Session, upkeep: Daemon, *, once: bool) -> Callable[[], None]:
    """Send metrics to the collector of OpenTelemetry, if there is one: once a minute from a thread of its own. Return
    a function that sends them once at the end of one round. A failure is in the log and delays nothing."""
    resolved = session.resolved
    if not resolved.config.otel.endpoint:
        return lambda: None
    from kfm.app.maintenance.metrics_push import MetricsPush, are_pushed

    def push() -> None:
        try:
            MetricsPush(session).send()
        except KfmError as problem:
            session.log.event("metrics.unsent", error=problem)

    if not are_pushed(resolved):
        return lambda: None
    if not once:
        from kfm.app.daemon.metrics_thread import MetricsThread

        opener = partial(open_session, resolved, log=session.log, clock=session.clock)
        thread = MetricsThread(opener, lambda: not upkeep.stands_by, session.log)
        thread.start()
        stack.callback(thread.end)
    return push


def _notify_beside(session: Session, upkeep: Daemon, stack: ExitStack) -> None:
    """Send notices until the end, in a thread for each receiver."""
    from kfm.app.daemon.notice_thread import NoticeThread, end_all

    session.notices_apart = True
    opened = partial(open_session, session.resolved, log=session.log, clock=session.clock)
    threads = [NoticeThread(name, opened, lambda: upkeep.stands_by, upkeep.add_news) for name in session.config.notify]
    for thread in threads:
        thread.start()
    stack.callback(end_all, threads)


def _artifacts(options: argparse.Namespace, resolved: Resolved) -> tuple[str, list[dict[str, Any]] | None]:
    """Return the folder of artifacts and the list of events for it, if they were requested."""
    if options.artifacts is None:
        return "", None
    if not options.once:
        raise BadInput("--artifacts is of one round", hint="use it with --once")
    return artifacts_folder(options, resolved), []


def _once(upkeep: Daemon, told: Callable[[Iterator[Receipt]], int], patience: Patience) -> bool:
    """Work until a round produces nothing: a new version can trigger the datasets that come after it. Return False if a
    signal stopped it."""
    told(upkeep.begin())
    while patience.goes_on():
        if told(upkeep.turn(patient=False)) or upkeep.more():
            continue
        if not upkeep.waits():
            return patience.goes_on()
        patience.rest(WAIT_S)
    return False


def _keep_up(
    upkeep: Daemon,
    told: Callable[[Iterator[Receipt]], int],
    follow: Callable[[], None],
    screen: Screen,
    patience: Patience,
) -> int:
    waited = False
    try:
        while patience.goes_on():
            changed = upkeep.my_turn()
            if changed is False:
                screen.say("another `kfm up` has the leader lease: this one stands by until that one ends")
                waited = True
            elif changed:
                if waited:
                    screen.say("took over: this one has the leader lease now")
                told(upkeep.begin())
            if not upkeep.stands_by:
                told(upkeep.turn())
                for line in upkeep.news():
                    screen.say(line)
                follow()
            patience.rest(upkeep.pause_ms() / 1000)
    except (KeyboardInterrupt, Stopped):
        if upkeep.watching.busy:
            raise
    screen.say("stopped; nothing is at work")
    return 0


def _following(session: Session, upkeep: Daemon, tally: Tally) -> Callable[[], None]:
    """Return a function that notifies sinks and publishes what other processes ran, or what is still pending. It
    reports the same problem only once."""
    said: set[tuple[str, str]] = set()

    def follow() -> None:
        if not upkeep.settles():
            return
        try:
            settle_session(session)
        except KfmError:
            if not session.undelivered:
                raise
        troubles = list(undelivered(session, lambda _dataset: False))
        for what in troubles:
            if (what.dataset, what.problem.code) not in said:
                tally.undelivered(what)
        said.clear()
        said.update((what.dataset, what.problem.code) for what in troubles)
        tally.errors.clear()

    return follow
