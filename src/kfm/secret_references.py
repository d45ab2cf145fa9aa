"""Where a secret lies: `env:NAME`, `file:PATH`, or `SCHEME:NAME` of a store of secrets that is installed.

A store of secrets is an entry point of the group `kfm.secrets`, named as its scheme: a function that takes what comes
after the colon and gives bytes. Whatever it raises, the secret is not there, and what needs it is denied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from kfm.errors import BadInput, KfmError

GROUP = "kfm.secrets"
MOST = 4096  # bytes of a secret


def read_reference(reference: str, env: Mapping[str, str], at: Callable[[str], str]) -> bytes:
    """The bytes; empty if there are none. A file must belong to us and be closed to all others; `at` makes its path
    absolute. An error names the reference, never what it holds."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        return os.fsencode(env.get(name, ""))
    if kind == "file":
        return _from_file(at(name), reference)
    return _from_store(kind, name)


def _from_file(path: str, reference: str) -> bytes:
    import stat

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise BadInput(f"the secret {reference} cannot be read: {reason}", hint="look at the path") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
            raise BadInput(f"the secret {reference} is open to others", hint="chmod 600 it; it must be your own file")
        return os.read(descriptor, MOST + 1).rstrip(b"\r\n")
    finally:
        os.close(descriptor)


def _from_store(kind: str, name: str) -> bytes:
    from importlib.metadata import entry_points

    found = list(entry_points(group=GROUP, name=kind)) if kind else []
    if len(found) != 1:
        many = "more than one store" if found else "no store"
        raise BadInput(
            f"there is {many} of secrets called {kind or 'nothing'}", hint="write env:NAME or file:PATH, or install one"
        )
    try:
        value = found[0].load()(name)
    except KfmError:
        raise
    except Exception as problem:
        # What it says may hold the secret.
        raise BadInput(
            f"the store {kind} gave no secret: {type(problem).__name__}", hint="see its documentation"
        ) from None
    if not isinstance(value, bytes) or len(value) > MOST:
        raise BadInput(f"the store {kind} gave something that is no secret", hint=f"it gives at most {MOST} bytes")
    return value
