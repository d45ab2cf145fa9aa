"""`kfm run` as it is typed most: read without building a parser, which would take longer than the run of a small file.

Only words whose meaning is plain are read here; whatever else is typed, help and errors too, goes to the parser.
"""

from __future__ import annotations

from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

DEFAULTS: dict[str, Any] = {"config": None, "json": False, "quiet": False, "no_color": False, "verbose": False}
_RUN: dict[str, Any] = {
    "version": False, "command": "run", "handler": "running:run", "dry_run": False, "window": "", "partition": "",
    "force": False, "allow_deletions": None, "abandon": False, "artifacts": None, "exit_code": False, "reason": "",
    "actor": None,
}  # fmt: skip
_FLAGS = {
    "--json": "json", "-q": "quiet", "--quiet": "quiet", "--no-color": "no_color", "-v": "verbose",
    "--verbose": "verbose", "--dry-run": "dry_run", "--exit-code": "exit_code",
}  # fmt: skip


def plain_run(argv: list[str]) -> argparse.Namespace | None:
    """What the parser would answer to `run` with names and plain flags behind it; None: ask the parser."""
    if argv[:1] != ["run"]:
        return None
    names = [word for word in argv[1:] if not word.startswith("-")]
    flags = [word for word in argv[1:] if word.startswith("-")]
    if not all(flag in _FLAGS for flag in flags) or (names and argv[1 : 1 + len(names)] != names):
        return None
    found: Any = SimpleNamespace(**DEFAULTS, **_RUN, dataset=names)
    for flag in flags:
        setattr(found, _FLAGS[flag], True)
    return found  # type: ignore[no-any-return]
