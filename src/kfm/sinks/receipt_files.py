"""Writes one file for each receipt. A file that exists is never changed."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from kfm.fsio import REAL, Fs, failing_as_storage, write_apart
from kfm.model.outbox_messages import Letter

TEMPORARY = ".writing"  # a name that no receipt has


class ReceiptFiles:
    """Writes receipts below a folder. Every file is complete and durable when it gets its name; a receipt that is sent
    again is left as it is."""

    name = "worker-receipts"

    def __init__(self, folder: str, fs: Fs = REAL) -> None:
        self._folder = folder
        self._fs = fs

    def send(self, letters: Sequence[Letter]) -> None:
        fs = self._fs
        with failing_as_storage("write worker receipts"):
            for letter in letters:
                path = os.path.join(self._folder, *letter.key.split("/"))
                if fs.exists(path):
                    continue
                place = os.path.dirname(path)
                fs.make_dirs(place)
                body = msgspec.json.format(msgspec.json.encode(letter.body), indent=2) + b"\n"
                temporary = os.path.join(place, TEMPORARY)
                write_apart(fs, temporary, [body])
                fs.link(temporary, path)
                fs.unlink(temporary)
                fs.sync_dir(place)
