"""The names of the sinks that a configuration has. No sink is opened."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kfm.config import Config

# Each setting that configures a sink, and the name of that sink, in the order in which they are notified.
SINKS = (
    ("catalog", "catalog"),
    ("pages", "pages"),
    ("worker_receipts", "worker-receipts"),
    ("graph", "graph"),
    ("openlineage.file", "openlineage.file"),
    ("openlineage.url", "openlineage.http"),
)


def sink_names(config: Config) -> tuple[str, ...]:
    """Return the names of the configured sinks that follow the ledger."""
    return tuple(name for setting, name in SINKS if attrgetter(setting)(config))
