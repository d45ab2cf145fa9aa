"""What a worker writes to its streams: a line for each ended job, and messages for people."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from kfm.parsing.characters import escaped

if TYPE_CHECKING:
    from kfm.errors import KfmError
    from kfm.model.records import Receipt


def say(text: str) -> None:
    """Write a message. A failure is ignored: no work stops because it cannot be reported."""
    _write(sys.stderr, text)


def fail(problem: KfmError) -> None:
    """Write an error and the other mistakes of the same configuration, each as one line."""
    for each in (problem, *problem.others):
        say(f"kfm: {each}")


def receipt_line(receipt: Receipt) -> None:
    """Write the line of an ended job, as `kfm up` does."""
    name = receipt.dataset or receipt.job_type
    _write(sys.stdout, f"{receipt.finished_at}  {name}  {receipt.status}  {receipt.outcome}  {receipt.run_id}")


def _write(stream: TextIO, text: str) -> None:
    with suppress(OSError, ValueError):
        stream.write(escaped(text) + "\n")
        stream.flush()
