"""KFM keeps open data true while it changes.

An author needs five names: ``from kfm import Output, Plan, SourceRef, Step, Updater``.
They load on first use, so that ``kfm --version`` costs an interpreter start and little more.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost a third of a cold start

__version__ = "0.1.0"
DISTRIBUTION = "kansas-frontier-matrix"  # what to install: on the package index, `kfm` is somebody else's
__all__ = ["Output", "Plan", "SourceRef", "Step", "Updater", "__version__"]

if TYPE_CHECKING:
    from kfm.contract.records import SourceRef, Step
    from kfm.contract.updater import Output, Plan, Updater


def __getattr__(name: str) -> object:
    if name in ("SourceRef", "Step"):
        from kfm.contract import records

        return getattr(records, name)
    if name in ("Output", "Plan", "Updater"):
        from kfm.contract import updater

        return getattr(updater, name)
    raise AttributeError(f"module 'kfm' has no attribute {name!r}")
