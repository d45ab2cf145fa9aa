"""SHA256SUMS of a version: one line per file, as `sha256sum -c` reads them in the folder where the file lies. Pure.

A version of more than `FILES` files has the checksum of its listing alone, which has those of all files: another key of
100,000 would write a list of 11 MB.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

FILES = 4096


def sha256sums(files: Iterable[tuple[str, str]], here: str) -> bytes:
    """Return the checksums of files, given as path in the public folder and digest, for the file at the path `here`."""
    folder = posixpath.dirname(here)
    lines = [f"{digest[7:]}  {_from(folder, path)}\n" for path, digest in files]
    return "".join(lines).encode()


def _from(folder: str, path: str) -> str:
    if path.startswith(f"{folder}/"):
        return path[len(folder) + 1 :]
    here, there = folder.split("/"), path.split("/")
    shared = len(posixpath.commonprefix([here, there]))  # of two lists: whole names
    return "/".join([".."] * (len(here) - shared) + there[shared:])
