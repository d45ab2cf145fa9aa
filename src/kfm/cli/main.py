"""The entry point of the program: parses the arguments, calls the command, and turns every error into one line and an
exit code."""

from __future__ import annotations

import sys

from kfm.cli import Stopped, load_msgspec

TYPE_CHECKING = False  # `from typing import` would cost more than all else that `kfm --version` does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from types import FrameType
    from typing import Any, NoReturn

    from kfm.cli.render import Screen
    from kfm.errors import KfmError


WRITING = frozenset(
    {
        "run",
        "add",
        "remove",
        "resume",
        "attest",
        "promote",
        "publish",
        "rollback",
        "freeze",
        "thaw",
        "kill-switch",
        "apply",
        "revert",
        "drop",
        "new",
        "revoke",
        "approve",
        "reject",
        "--repair",
        "compact",
        "move",
        "backup",
        "restore",
        "gc",
        "upgrade",
        "retry",
        "pause",
        "start",
        "cancel",
        "trigger",
        "up",
        "replay",
        "serve",
        "watch",
    }
)


def main(argv: list[str] | None = None, *, program: str = "kfm") -> int:
    """Run a command line of `program` and return its exit code. kfm has every command, updater has those of both
    runners."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments == ["--version"] and _version():
        return 0
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _stand_in()
    before = sys.dont_write_bytecode
    if "--dry-run" in arguments or WRITING.isdisjoint(arguments):
        sys.dont_write_bytecode = True  # a command that only reads writes nothing, not even bytecode
    try:
        return _answer(arguments, program)
    finally:
        sys.dont_write_bytecode = before
        _let_go()


def command() -> NoReturn:
    """The program `kfm`. It ends as any program does: it waits for threads, calls exit handlers and flushes. It then
    leaves the cleanup of modules to the operating system, because Python takes as long for it as for the start."""
    import gc

    gc.set_threshold(20_000, 20, 20)  # modules stay loaded, so frequent collections find nothing
    code = main()
    import atexit
    import os

    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    _let_go()
    os._exit(code)


def _version() -> bool:
    """Print the version before anything is imported, so that it costs only the start of Python. Return whether it could
    be written."""
    from kfm import __version__

    try:
        sys.stdout.write(f"kfm {__version__}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):
        return False
    return True


def _stand_in() -> None:
    """Open a file that cannot be written for each standard stream that was closed at the start. Otherwise the next file
    that is opened would get the descriptor of that stream."""
    import os

    while (spare := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(spare)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - as long as we live, all three
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _let_go() -> None:
    """Flush both streams. If that fails, send the rest to /dev/null: the failure was reported already, and Python would
    try again at exit and end with its own code."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            import os

            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        except ValueError:  # the stream was closed by its owner
            pass


def _answer(arguments: list[str], program: str) -> int:
    import contextlib
    import io
    import os

    from kfm.cli import DEFAULTS
    from kfm.errors import KfmError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            with contextlib.suppress(OSError):  # buffered text cannot be written: reported later
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    flags = {**DEFAULTS, "json": "--json" in arguments, "no_color": "--no-color" in arguments}
    screen = _screen(flags, os.environ)
    help_text = io.StringIO()  # argparse ignores a failure to write
    try:
        try:
            with contextlib.redirect_stdout(help_text):
                options = _parsed(arguments, program)
        except SystemExit as ended:  # after --help
            screen.text(help_text.getvalue())
            screen.finish()
            return ended.code if isinstance(ended.code, int) else 0
        screen = _screen(vars(options), os.environ)
        screen.is_kfm = program == "kfm"
        return _guarded(options, screen)
    except KfmError as problem:
        return _tell(screen, problem)
    except BrokenPipeError:  # the reader of the output stopped reading
        return 141


def _parsed(arguments: list[str], program: str) -> argparse.Namespace:
    if arguments[:1] == ["run"]:
        load_msgspec()
        from kfm.cli.work.run import plain

        if (found := plain(arguments, program)) is not None:
            return found
    from kfm.cli.parser import parse

    return parse(arguments, program)


def _screen(flags: dict[str, Any], env: Mapping[str, str]) -> Screen:
    from kfm.cli.render import Screen

    chosen = {name: bool(flags[name]) for name in ("json", "quiet", "verbose", "no_color")}
    return Screen(env=env, **chosen)


def _guarded(options: argparse.Namespace, screen: Screen) -> int:
    import contextlib
    import signal

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Stopped

    words = (options.command, getattr(options, "subcommand", None))
    resumable = "; a run that was begun is left resumable: `kfm resume`" if not WRITING.isdisjoint(words) else ""
    before = None
    with contextlib.suppress(ValueError):  # not the main thread: the caller handles its own signals
        before = signal.signal(signal.SIGTERM, stop)
    if screen.is_kfm and screen.quiet and not screen.json and _reports(options):
        screen.keep()
    try:
        code = 1
        try:
            code = _call(options, screen)
        finally:
            screen.release(well=code == 0)
        screen.finish()
        return code
    except KeyboardInterrupt:
        screen.fail("interrupted" + resumable)
        return 130
    except Stopped:
        screen.fail("terminated" + resumable)
        return 143
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _reports(options: argparse.Namespace) -> bool:
    """Return whether stdout only repeats what the command did, so that --quiet silences it."""
    if hasattr(options, "once"):
        return bool(options.once)  # without --once it never ends
    if hasattr(options, "repair"):
        return bool(options.repair)
    looks = ("dry_run", "stdout", "check")
    return getattr(options, "reports", False) and not any(getattr(options, name, False) for name in looks)


def _call(options: argparse.Namespace, screen: Screen) -> int:
    import contextlib
    import os

    from kfm.errors import KfmError

    try:
        if options.version:
            from kfm import __version__

            if screen.json:
                screen.data({"version": __version__})
            else:
                screen.line(f"kfm {__version__}")
            return 0
        if options.command is None:
            from kfm.cli.parser import Usage, build

            parser = build(None, "kfm" if screen.is_kfm else "updater")
            if screen.json:
                raise Usage("no command given", hint=f"see `{parser.prog} --help`")
            screen.words(parser.format_help())
            return 2
        with contextlib.redirect_stdout(screen.err):  # what an updater prints goes to stderr, because stdout is data
            return int(options.handler(options, screen))
    except (KfmError, BrokenPipeError, KeyboardInterrupt, Stopped):
        raise
    except OSError as problem:
        from kfm.errors import StorageFailed

        raise StorageFailed(_os_message(problem), hint="check the disk, then run the command again") from problem
    except MemoryError:
        raise KfmError("out of memory", hint="give it more memory, or split the work") from None
    except Exception as problem:
        if os.environ.get("KFM_LOG") == "debug":
            raise
        frame = _where(problem)
        raise KfmError(
            f"internal error ({type(problem).__name__} at {frame})",
            hint="please report it; set KFM_LOG=debug to see the traceback",
        ) from problem
    except BaseException as problem:  # an updater called exit, or raised another BaseException
        raise KfmError(
            f"stopped by {type(problem).__name__} at {_where(problem)}",
            hint="correct the code there, then `kfm resume`",
        ) from problem


def _os_message(problem: OSError) -> str:
    what = (problem.strerror or type(problem).__name__).lower()
    return f"{problem.filename}: {what}" if problem.filename else what


def _where(problem: BaseException) -> str:
    import traceback

    frames = traceback.extract_tb(problem.__traceback__)
    last = frames[-1]
    return f"{last.filename.rpartition('/')[2]}:{last.lineno}"


def _tell(screen: Screen, problem: KfmError) -> int:
    """Print an error, and each other mistake of the configuration, as a line; with --json also as JSON. Return the exit
    code."""
    import contextlib

    from kfm.cli.render import MOST_SHOWN
    from kfm.errors import StorageFailed

    with contextlib.suppress(OSError, StorageFailed):  # stderr can still be written
        if screen.json:
            fields = {name: value for name, value in problem.fields.items() if value is not None}
            error: dict[str, Any] = {"code": problem.code, "message": problem.message, "hint": problem.hint, **fields}
            if problem.others:
                error["others"] = [{"code": o.code, "message": o.message, "hint": o.hint} for o in problem.others]
            screen.data({"error": error})
    for each in (problem, *problem.others[: MOST_SHOWN - 1]):
        screen.fail(str(each))
    if len(problem.others) >= MOST_SHOWN:
        screen.fail(f"{len(problem.others) - MOST_SHOWN + 1:,} more mistakes; see all with `kfm config check --json`")
    return int(problem.exit_code)


if __name__ == "__main__":
    sys.exit(main())
