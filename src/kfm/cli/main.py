"""The front door: parses, calls, and turns every error into one line and an exit code."""

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
        "resume",
        "attest",
        "promote",
        "publish",
        "rollback",
        "freeze",
        "thaw",
        "new",
        "revoke",
        "approve",
        "reject",
        "--repair",
        "compact",
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
    """The exit code of a command line of `program`: kfm has every command, updater has those of both runners."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments == ["--version"] and _version():
        return 0
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _stand_in()
    before = sys.dont_write_bytecode
    if "--dry-run" in arguments or WRITING.isdisjoint(arguments):
        sys.dont_write_bytecode = True  # who only looks leaves nothing behind, not even beside the code it loads
    try:
        return _answer(arguments, program)
    finally:
        sys.dont_write_bytecode = before
        _let_go()


def command() -> NoReturn:
    """The program `kfm`. It ends as any does (threads, what asked to be called at exit, what is still to be written),
    but leaves the taking apart of every module to the system, which is as much work as starting was."""
    import gc

    gc.set_threshold(20_000, 20, 20)  # what is loaded stays; looking through it again and again finds nothing
    code = main()
    import atexit
    import os

    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    _let_go()
    os._exit(code)


def _version() -> bool:
    """Before any import: a version check should cost an interpreter start. Was it told?"""
    from kfm import __version__

    try:
        sys.stdout.write(f"kfm {__version__}\n")
        sys.stdout.flush()
    except (AttributeError, OSError):
        return False
    return True


def _stand_in() -> None:
    """What was closed when we began gets something that cannot be written, before a file of ours gets its number."""
    import os

    while (spare := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(spare)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - as long as we live, all three
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _let_go() -> None:
    """What could not be written is told by now: Python must not try again at exit, and end with a code of its own."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            import os

            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
        except ValueError:  # closed, by whoever made it
            pass


def _answer(arguments: list[str], program: str) -> int:
    import contextlib
    import io
    import os

    from kfm.cli import DEFAULTS
    from kfm.errors import KfmError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            with contextlib.suppress(OSError):  # there is something in it that cannot be written: told later
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    flags = {**DEFAULTS, "json": "--json" in arguments, "no_color": "--no-color" in arguments}
    screen = _screen(flags, os.environ)
    help_text = io.StringIO()  # argparse would not say that it could not be written
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
    except BrokenPipeError:  # whoever read our output has enough
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
    with contextlib.suppress(ValueError):  # not the main thread: the caller minds its own signals
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
    """Does stdout only repeat what the command did? Then --quiet silences it."""
    if hasattr(options, "once"):
        return bool(options.once)  # else it never ends
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
        with contextlib.redirect_stdout(screen.err):  # what an updater prints is for people, not data
            return int(options.handler(options, screen))
    except (KfmError, BrokenPipeError, KeyboardInterrupt, Stopped):
        raise
    except OSError as problem:
        from kfm.errors import StorageFailed

        raise StorageFailed(_os_message(problem), hint="look at the disk, then run it again") from problem
    except MemoryError:
        raise KfmError("out of memory", hint="give it more, or make the work smaller") from None
    except Exception as problem:
        if os.environ.get("KFM_LOG") == "debug":
            raise
        frame = _where(problem)
        raise KfmError(
            f"internal error ({type(problem).__name__} at {frame})",
            hint="please report it; set KFM_LOG=debug for the traceback",
        ) from problem
    except BaseException as problem:  # raised by code that should not: an exit, or worse
        raise KfmError(
            f"stopped by {type(problem).__name__} at {_where(problem)}", hint="mend that, then `kfm resume`"
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
    """A line for people, and one for each other mistake of the configuration; with --json the same for machines."""
    import contextlib

    from kfm.errors import StorageFailed

    with contextlib.suppress(OSError, StorageFailed):  # stderr is left
        if screen.json:
            fields = {name: value for name, value in problem.fields.items() if value is not None}
            error: dict[str, Any] = {"code": problem.code, "message": problem.message, "hint": problem.hint, **fields}
            if problem.others:
                error["others"] = [{"code": o.code, "message": o.message, "hint": o.hint} for o in problem.others]
            screen.data({"error": error})
    for each in (problem, *problem.others):
        screen.fail(str(each))
    return int(problem.exit_code)


if __name__ == "__main__":
    sys.exit(main())
