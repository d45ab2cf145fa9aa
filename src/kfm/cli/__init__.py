"""Every command line. Data goes to stdout, messages for people to stderr."""

from __future__ import annotations

import sys

DEFAULTS = {"config": None, "json": False, "quiet": False, "no_color": False, "verbose": False}  # of global flags
WAIT_LIMIT_S = 60  # seconds that --wait waits for the sinks, unless --wait-limit says otherwise


class Stopped(BaseException):
    """Raised by SIGTERM. It unwinds like Ctrl-C, so that leases are freed and nothing is left half done."""


def load_msgspec() -> None:
    """Import msgspec without `typing_extensions`.

    Where that is installed, msgspec imports it for three names that `typing` has since Python 3.11, and to load it
    takes as long as to load msgspec.
    """
    if "msgspec" not in sys.modules and "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules["typing_extensions"]
