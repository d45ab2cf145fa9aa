"""Writes one file for each receipt or manifest. A file that exists is never changed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kfm.fsio import REAL, Fs, failing_as_storage, write_apart
from kfm.model.outbox_messages import Letter

TEMPORARY = ".writing"  # a name that no receipt has


class ReceiptFiles:
    """Writes receipts below a folder. Every file is complete and durable when it gets its name; a receipt that is sent
    again is left as it is."""

    def __init__(self, folder: str, name: str = "worker-receipts", fs: Fs = REAL) -> None:
        self.name = name
        self._folder = folder
        self._fs = fs

    def target(self, path: str) -> str:
        """Return the name of a receipt in traces: below the name of the sink."""
        return f"{self.name}/{path}"

    def send(self, letters: Sequence[Letter]) -> None:
        fs = self._fs
        with failing_as_storage(f"write {self.name}"):
            for letter in letters:
                path = os.path.join(self._folder, *letter.key.split("/"))
                if fs.exists(path):
                    continue
                place = os.path.dirname(path)
                fs.make_dirs(place)
                temporary = os.path.join(place, TEMPORARY)
                write_apart(fs, temporary, [letter.body])
                fs.link(temporary, path)
                fs.unlink(temporary)
                fs.sync_dir(place)
