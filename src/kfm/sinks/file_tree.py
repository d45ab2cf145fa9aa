"""The port to a place for files by path: a folder, or a bucket. The pages and the catalog are written into one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

Recognises = Callable[[str, bytes], bool]  # says of a path and the start of its content whether KFM wrote it


class FileTree(Protocol):
    """Files by path. Each is complete at any moment. It has no lock: the caller makes sure that no other process writes
    here."""

    def digests_of(self, paths: Sequence[str]) -> Iterator[str | None]:
        """Yield the digest of each file, from its bytes; None if there is no file."""

    def holds(self, path: str, digest: str) -> bool:
        """Return whether there is a file with this digest, as far as can be said quickly."""

    def unknown(self, paths: Sequence[str], recognises: Recognises) -> set[str]:
        """Return those of the paths at which there is a file that KFM did not write."""

    def write(self, files: Sequence[tuple[str, bytes]]) -> int:
        """Write the files that differ from what is there, and return how many."""

    def remove(self, path: str) -> bool:
        """Remove a file; return whether there was one."""

    def remove_below(self, folder: str, paths: Sequence[str]) -> int:
        """Remove files of a folder and the folders that are empty then; return how many files."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files directly in a folder, in order; none if it is a link to elsewhere."""

    def folders(self) -> list[str]:
        """Return the names of the folders at the top, in order."""
