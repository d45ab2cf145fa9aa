"""What every command does first and last: open the session, and turn a receipt into an exit code."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from kfm import config
from kfm.app.session import input_checks
from kfm.app.session.input_checks import one_line as one_line
from kfm.cli.render import Screen
from kfm.errors import EXIT_CODES, BadInput, Denied, KfmError
from kfm.parsing.characters import is_printable

if TYPE_CHECKING:
    import argparse

    from kfm.app.runs.execution import Undelivered
    from kfm.app.session.session import Mode, Session
    from kfm.cli.job_lines import JobLines
    from kfm.config import Resolved
    from kfm.model.records import Receipt


def settings(options: argparse.Namespace) -> Resolved:
    """Return the configuration that was named or found. Raise BadInput with all its mistakes, unless the command only
    takes away or closes (`options.closes`)."""
    try:
        if getattr(options, "closes", False):
            from kfm.config.config_mistakes import load_to_close

            return load_to_close(options.config, os.environ)
        return config.load(options.config, os.environ)
    except BadInput as problem:
        from kfm.app.maintenance.config_check import with_others

        raise with_others(problem, options.config, os.environ) from None


@contextmanager
def opened(
    options: argparse.Namespace,
    screen: Screen,
    mode: Mode,
    resolved: Resolved | None = None,
    events: list[dict[str, Any]] | None = None,
    *,
    withdraws: bool = True,
    in_place: bool | None = None,
) -> Iterator[Session]:
    """Open the session of the configuration that was named or found. A session that writes first withdraws what was
    closed since it was published, unless the caller does that itself (`withdraws`). At the end this prints what was
    withdrawn, which rules a run took into force, and which files of the archive the pages left as they are.

    A session that writes creates the store if there is none, so the caller checks the arguments before.
    """
    from kfm.app.session.backends import open_log
    from kfm.app.session.protection_files import can_close
    from kfm.app.session.session import open_session

    resolved = resolved or settings(options)
    log = None
    loud = options.verbose and not options.quiet
    wanted = os.environ.get("KFM_LOG")
    debug = sys.stderr if wanted == "debug" else None
    if loud or events is not None or debug is not None:
        lines: Literal["human", "jsonl"] = "jsonl" if wanted == "jsonl" else "human"
        log = open_log(sys.stderr if loud else None, lines=lines, events=events, causes=debug)
    if screen.is_kfm:
        tell_clock(screen)
    if resolved.mistakes:
        many = len(resolved.mistakes)
        where = resolved.document.where
        screen.say_once(
            f"{where} has {many} mistake{'s' * (many > 1)}, see `kfm config check`; this command only "
            "takes away or closes, so it goes on; nothing is published until they are corrected"
        )
    if getattr(options, "dry_run", False):  # it leaves no side file of the database
        in_place = False
    with open_session(resolved, mode=mode, log=log, progress=screen.progress, in_place=in_place) as session:
        if session.moved:
            screen.say_once(session.moved)
        if resolved.only_closes:
            _tell_key_list(session, screen)
        try:
            if mode != "read" and withdraws and can_close(resolved, session.state):
                from kfm.app.stewards.public_repair import withdraw_closed

                withdraw_closed(session)
            yield session
        finally:
            if session.recalled:
                from kfm.app.authority.recall import recalled_line

                for one in session.recalled:
                    screen.say(recalled_line(one, predicted=mode == "dry"))
            if session.adopted:
                from kfm.app.authority.rule_adoption import adopted_line

                for receipt in session.adopted:
                    screen.say(adopted_line(session, receipt))
            bell = session.made_wake_up
            if bell is not None and bell.unrung and bell.problem is not None:
                screen.say(
                    f"no worker was woken: {bell.problem}; a worker finds the work when it next looks into the inbox"
                )
            if session.left_files:
                from kfm.app.metadata.pages_sink import LEFT_CURE, left_line

                screen.say(f"{left_line(session.left_files)}; {LEFT_CURE}")
        screen.finish()  # everything reported is durable, even if closing fails later


def _tell_key_list(session: Session, screen: Screen) -> None:
    """Say that keys.json is not the list in force, and that signatures are checked against the copy in the state."""
    from kfm.app.session.key_list_file import key_list_of_file

    try:
        key_list_of_file(session.resolved, session.state)
    except Denied as problem:
        screen.say_once(
            f"{problem.message}: {problem.hint}; this command only takes away or closes, so it goes on with the copy "
            "in the state"
        )


def tell_clock(screen: Screen) -> None:
    """Warn a person at a terminal that the clock is fixed, because ages, schedules and receipts depend on it. A program
    that fixed the clock needs no warning."""
    if not screen.err.isatty():
        return
    for name in ("KFM_NOW", "SOURCE_DATE_EPOCH"):
        if os.environ.get(name):
            screen.say_once(f"the clock is fixed at {os.environ[name][:40]}: {name} is set")
            return


def known_dataset(options: argparse.Namespace, _screen: Screen, resolved: Resolved, text: str) -> str:
    """Return the name of a dataset of the configuration, or of one that was removed from it and still has refs."""
    return input_checks.known_dataset(resolved, text, in_place=not getattr(options, "dry_run", False))


def person(options: argparse.Namespace) -> dict[str, str]:
    """Return actor and reason as they go into the ledger: one line each. BadInput if the command wants a reason, and
    neither --reason nor KFM_REASON has one; a dry run needs none."""
    said = input_checks.person(options.reason, options.actor or "", input_checks.as_flag)
    default = getattr(options, "default_reason", None)
    if default is None or said["reason"].strip():
        return said
    said["reason"] = input_checks.reason_given("", os.environ) or default
    if not said["reason"] and not getattr(options, "dry_run", False):
        words = " ".join(word for word in (options.command, getattr(options, "subcommand", None)) if word)
        typed = shlex.join(options.typed)
        shown = typed if is_printable(typed) and len(typed) < 200 else words
        raise BadInput(f"kfm {words} needs a reason, which goes into the ledger", hint=f'kfm {shown} --reason "why"')
    return said


def code_of(receipt: Receipt, *, tell_noop: bool = False) -> int:
    """Return the exit code for a receipt."""
    from kfm.app.runs.execution import problem_of

    if receipt.outcome in ("noop", "unchanged"):
        return EXIT_CODES["noop"] if tell_noop else EXIT_CODES["done"]
    problem = problem_of(receipt)
    return EXIT_CODES["done"] if problem is None else problem.exit_code


def together(codes: list[int]) -> int:
    """Return one exit code for several: the first failure; NOOP only if all were NOOP."""
    for code in codes:
        if code not in (EXIT_CODES["done"], EXIT_CODES["noop"]):
            return code
    return EXIT_CODES["noop"] if codes and all(code == EXIT_CODES["noop"] for code in codes) else EXIT_CODES["done"]


def today() -> str:
    from kfm.clock import from_environment, rfc3339

    return rfc3339(from_environment().now_ms())[:10]


def advice_of(receipt: Receipt) -> list[str]:
    """Return what the policies advise about a version that was published, without the name of the gate."""
    if not receipt.policy_decisions or receipt.status != "SUCCESS":
        return []
    from kfm.model.zone_requests import PUBLISHED_GATE

    decisions = [each for each in receipt.policy_decisions if each.gate == PUBLISHED_GATE and each.allow is True]
    return list(dict.fromkeys(line for each in decisions for line in each.warnings))


class Tally:
    """Reports receipts and errors as they come, and keeps the errors and the exit code."""

    def __init__(self, screen: Screen, *, tell_noop: bool = False) -> None:
        self._screen = screen
        self._tell_noop = tell_noop
        self.errors: list[dict[str, Any]] = []
        self._codes: list[tuple[str, int]] = []  # with the dataset
        self._lines: JobLines | None = None
        self._expected = 0  # datasets in parallel

    def begins(self, about: str) -> None:
        self._screen.subject = about

    def ended(self, receipt: Receipt) -> None:
        self._codes.append((receipt.dataset, code_of(receipt, tell_noop=self._tell_noop)))
        for note in receipt.errors:
            self._screen.fail(_about(receipt.dataset, note.message))
        for note in receipt.warnings:
            self._screen.say(_about(receipt.dataset, note.message))
        for line in advice_of(receipt):
            self._screen.say(_about(receipt.dataset, f"advice: {line}"))

    def failed(self, about: str, problem: KfmError) -> None:
        self._codes.append((about, problem.exit_code))
        self.errors.append({"dataset": about, "code": problem.code, "message": problem.message, "hint": problem.hint})
        self._screen.fail(_about(about, str(problem)))

    def mistake(self, problem: KfmError) -> None:
        """Report a mistake of the configuration that the failure of a run did not name."""
        self.errors.append({"dataset": "", "code": problem.code, "message": problem.message, "hint": problem.hint})
        self._screen.fail(str(problem))

    def settles(self) -> None:
        self._screen.subject = ""
        self._screen.progress("publish", 0, 0)

    def undelivered(self, what: Undelivered) -> None:
        dataset, problem = what.dataset, what.problem
        if what.ours:
            self._codes.insert(0, (dataset, problem.exit_code))  # this outweighs the results of runs
        told = what.message
        self.errors.append({"dataset": dataset, "code": problem.code, "message": told, "hint": problem.hint})
        self._screen.fail(f"{dataset}: {told}; {problem.hint}" if dataset else f"{told}; {problem.hint}")

    def expects(self, total: int) -> None:
        self._expected = total

    def advanced(self, about: str, stage: str, done: int, total: int) -> None:
        """Show the progress of one of several datasets at work, a line each on a terminal."""
        if not self._screen.is_live:
            return
        if self._lines is None:
            from kfm.cli.job_lines import JobLines
            from kfm.clock import SystemClock

            screen, monotonic = self._screen, SystemClock().monotonic
            self._lines = screen.live = JobLines(screen.err, screen.words, monotonic, self._expected)
        self._lines.show(about, stage, done, total)

    def pauses(self) -> None:
        if self._lines is not None:
            self._lines.refresh()

    def stops(self) -> None:
        self._screen.say("stopping at the next step of each run; once more ends at once")

    def ordered(self, about: Sequence[str]) -> None:
        """Put codes and errors into the order of these datasets, as if they had run one after another."""
        at = {name: position for position, name in enumerate(about)}
        self._codes.sort(key=lambda each: at.get(each[0], len(at)))
        self.errors.sort(key=lambda each: at.get(each["dataset"], len(at)))

    @property
    def code(self) -> int:
        return together([code for _, code in self._codes])


def await_sinks(options: argparse.Namespace, session: Session, tally: Tally, datasets: list[str]) -> None:
    """With --wait, wait until every sink has followed these datasets, and report those that have not."""
    if not getattr(options, "wait", False) or session.mode != "write":
        return
    from kfm.app.runs.sink_wait import not_followed, wait_for_sinks

    for each in wait_for_sinks(session, datasets, options.wait_limit):
        tally.failed(each.dataset, not_followed(each, options.wait_limit))


def _about(name: str, message: str) -> str:
    """Return the message with the dataset before it, unless there is none or the message begins with it."""
    return message if not name or message.startswith((f"{name} ", f"run {name} ")) else f"{name}: {message}"
