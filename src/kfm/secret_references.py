"""A secret reference: `env:NAME`, `file:PATH`, or `SCHEME:NAME` of an installed secret store.

A secret store is an entry point in the group `kfm.secrets`, named like its scheme: a function that takes the text after
the colon and returns bytes. If it raises, the secret counts as missing, and the work that needs it is denied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from kfm.errors import BadInput, KfmError

GROUP = "kfm.secrets"
MOST = 4096  # bytes of a secret


def read_reference(reference: str, env: Mapping[str, str], at: Callable[[str], str]) -> bytes:
    """Return the bytes of the secret, or empty bytes if the environment variable is missing.

    A file must belong to this user and be closed to all others; `at` makes its path absolute. Raise BadInput if the
    secret cannot be read; the error names the reference and never the secret.
    """
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
        raise BadInput(f"the secret {reference} cannot be read: {reason}", hint="check the path") from None
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
        many = "more than one installed secret store" if found else "no installed secret store"
        raise BadInput(
            f"{many} has the name {kind or '(empty)'}", hint="write env:NAME or file:PATH, or install such a store"
        )
    try:
        value = found[0].load()(name)
    except KfmError:
        raise
    except Exception as problem:
        # The text of the exception may hold the secret.
        raise BadInput(
            f"the secret store {kind} failed: {type(problem).__name__}", hint="see the documentation of that store"
        ) from None
    if not isinstance(value, bytes) or len(value) > MOST:
        raise BadInput(f"the secret store {kind} returned no valid secret", hint=f"it must return at most {MOST} bytes")
    return value
