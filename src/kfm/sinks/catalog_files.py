"""Write the files of the catalog, or pages, into a tree of files. An unchanged file is not written again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kfm.errors import BadInput, Conflict, StorageFailed
from kfm.fsio import storage_failed
from kfm.model.names import check_id
from kfm.model.outbox_messages import Letter
from kfm.sinks.file_tree import FileTree, Recognises

COLLECTION = "collection.json"
OWN, PARTS, SUFFIX = (
    (COLLECTION, "index.html"),
    ("items", "groups", "runs", "versions"),
    ".json",
)  # what lies in the folder of a dataset


class CatalogFiles:
    """The catalog sink. It has no lock: the caller makes sure that no other process writes.

    `written` and `removed` count the changes since it was opened. Without `recognises` every file at a path of the
    catalog is one of KFM.
    """

    name = "catalog"
    leaves_foreign = False  # whether a file that KFM did not write is passed over; else Conflict

    def __init__(self, tree: FileTree) -> None:
        self._tree = tree
        self.recognises: Recognises | None = None
        self.written = 0
        self.removed = 0
        self.left: dict[str, bool] = {}  # the paths of all messages so far, and whether a foreign file was left there

    def send(self, letters: Sequence[Letter]) -> None:
        try:
            passed = self._unknown([letter.key for letter in letters])
            if passed and not self.leaves_foreign:
                raise Conflict(
                    f"KFM did not write {min(passed)} there; move it away, or set `{self.name}:` to another folder",
                    hint="nothing there was changed",
                )
            self.left |= {letter.key: letter.key in passed for letter in letters}
            letters = [letter for letter in letters if letter.key not in passed]
            self.written += self._tree.write(
                [(letter.key, letter.body) for letter in letters if isinstance(letter.body, bytes)]
            )
            for letter in letters:
                if letter.body is None:
                    self.removed += self._tree.remove(letter.key)
                elif isinstance(letter.body, frozenset):
                    self._sweep(letter.key.rstrip("/"), letter.body)
        except OSError as problem:
            raise self._why(problem) from problem

    def differences(self, expected: dict[str, str], below: str) -> Iterator[tuple[str, str]]:
        """Yield the path and kind of each difference from `expected` (path to digest): `missing`, `altered`, or
        `foreign` below the folder.
        """
        paths = sorted(expected)
        for path, found in zip(paths, self._tree.digests_of(paths), strict=True):
            if found is None:
                yield path, "missing"
            elif found != expected[path]:
                yield path, "altered"
        for path in self._files(below) if below else ():
            if path not in expected:
                yield path, "foreign"

    def datasets(self, recognises: Recognises) -> list[str]:
        """Return the datasets of which a collection is there that KFM wrote, whoever published them."""
        found = {f"{name}/{COLLECTION}": name for name in self._tree.folders() if _is_dataset(name)}
        there = [path for path, at in zip(found, self._tree.digests_of(list(found)), strict=True) if at is not None]
        unknown = self._tree.unknown(there, recognises)
        return [found[path] for path in there if path not in unknown]

    def is_foreign(self, path: str) -> bool:
        """Return whether there is a file at a path that KFM did not write."""
        return bool(self._unknown([path]))

    def _unknown(self, paths: Sequence[str]) -> set[str]:
        if self.recognises is None:
            return set()
        return self._tree.unknown([path for path in paths if not path.endswith("/")], self.recognises)

    def target(self, path: str) -> str:
        """Return the name of a file in traces: below the name of the sink."""
        return f"{self.name}/{path}"

    def foreign(self, folder: str, keep: frozenset[str]) -> list[str]:
        """Return the files of the catalog in a dataset's folder that are not among those to keep."""
        found = [path for path in self._files(folder.rstrip("/")) if path not in keep]
        unknown = self._unknown(found)
        return [path for path in found if path not in unknown]

    def _sweep(self, folder: str, keep: frozenset[str]) -> None:
        self.removed += self._tree.remove_below(folder, self.foreign(folder, keep))

    def _files(self, folder: str) -> Iterator[str]:
        """Yield the files that the catalog may have written below a dataset's folder, by folder and name. Every other
        file belongs to the user, who may have chosen this folder by mistake.
        """
        yield from (f"{folder}/{name}" for name in self._tree.names(folder) if name in OWN)
        for part in PARTS:
            inside = f"{folder}/{part}"
            yield from (f"{inside}/{name}" for name in self._tree.names(inside) if name.endswith(SUFFIX))

    def _why(self, problem: OSError) -> StorageFailed:
        failed = storage_failed(problem, "write the catalog")
        return StorageFailed(failed.message, hint="make room or fix the folder; `kfm sinks retry catalog` tries again")


def _is_dataset(folder: str) -> bool:
    """Return whether a folder may be that of a dataset. Folders with other names are not KFM's: they are left alone."""
    try:
        return bool(check_id(folder, "folder"))
    except BadInput:
        return False
