"""The front door: parses, calls, and turns every error into one line and an exit code."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `from typing import` would cost more than all else that `kfm --version` does
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from types import FrameType
    from typing import Any

    from kfm.cli.render import Screen
    from kfm.errors import KfmError


WRITING = frozenset({"run", "resume", "promote", "rollback", "freeze", "thaw", "compact", "retry", "replay", "serve"})


class Stopped(BaseException):
    """SIGTERM: unwinds like Ctrl-C, so that leases are freed and nothing is half done."""


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if arguments == ["--version"]:
        # Before any import: a version check should cost an interpreter start.
        from kfm import __version__

        sys.stdout.write(f"kfm {__version__}\n")
        return 0
    before = sys.dont_write_bytecode
    if "--dry-run" in arguments or WRITING.isdisjoint(arguments):
        sys.dont_write_bytecode = True  # who only looks leaves nothing behind, not even beside the code it loads
    try:
        return _answer(arguments)
    finally:
        sys.dont_write_bytecode = before


def _answer(arguments: list[str]) -> int:
    import os

    from kfm.cli.parser import DEFAULTS, parse
    from kfm.errors import KfmError

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    flags = {**DEFAULTS, "json": "--json" in arguments, "no_color": "--no-color" in arguments}
    screen = _screen(flags, os.environ)
    try:
        options = parse(arguments)
        screen = _screen(vars(options), os.environ)
        return _guarded(options, screen)
    except KfmError as problem:
        return _tell(screen, problem)
    except SystemExit as ended:  # argparse, after --help
        return ended.code if isinstance(ended.code, int) else 0


def _screen(flags: dict[str, Any], env: Mapping[str, str]) -> Screen:
    from kfm.cli.render import Screen

    chosen = {name: bool(flags[name]) for name in ("json", "quiet", "verbose", "no_color")}
    return Screen(env=env, **chosen)


def _guarded(options: argparse.Namespace, screen: Screen) -> int:
    import contextlib
    import signal

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Stopped

    resumable = "; the run is left resumable: `kfm resume`" if options.command in WRITING else ""
    before = None
    with contextlib.suppress(ValueError):  # not the main thread: the caller minds its own signals
        before = signal.signal(signal.SIGTERM, stop)
    try:
        code = _call(options, screen)
        screen.finish()
        return code
    except KeyboardInterrupt:
        screen.fail("interrupted" + resumable)
        return 130
    except Stopped:
        screen.fail("terminated" + resumable)
        return 143
    except BrokenPipeError:
        # Whoever read our output has enough. Python must not complain about it at exit either.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _call(options: argparse.Namespace, screen: Screen) -> int:
    import contextlib
    import importlib
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

            if screen.json:
                raise Usage("no command given", hint="see `kfm --help`")
            screen.err.write(build().format_help())
            return 2
        module, _, name = options.handler.partition(":")
        handler = getattr(importlib.import_module(f"kfm.cli.{module}"), name)
        with contextlib.redirect_stdout(screen.err):  # what an updater prints is for people, not data
            return int(handler(options, screen))
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
    """One line for people; with --json the same for machines."""
    try:
        if screen.json:
            fields = {name: value for name, value in problem.fields.items() if value is not None}
            screen.data({"error": {"code": problem.code, "message": problem.message, "hint": problem.hint, **fields}})
        screen.fail(str(problem))
        screen.finish()
    except OSError:
        pass
    return int(problem.exit_code)


if __name__ == "__main__":
    sys.exit(main())
