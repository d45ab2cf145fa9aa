"""KFM keeps open data true while it changes.

An author needs five names: ``from kfm import Output, Plan, SourceRef, Step, Updater``; that of a connector needs
``Connector`` and the results of its methods.
They load on first use, so that ``kfm --version`` costs an interpreter start and little more.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost a third of a cold start

__version__ = "0.1.0"
DISTRIBUTION = "kansas-frontier-matrix"  # what to install: on the package index, `kfm` is somebody else's
__all__ = [
    "Capabilities", "Check", "Connector", "DatasetVersionRef", "Output", "Plan", "RawManifest", "SourceRef", "Step",
    "Updater", "ValidationReport", "WorkArtifacts", "__version__",
]  # fmt: skip

if TYPE_CHECKING:
    from kfm.contract.connector import (
        Capabilities,
        Check,
        Connector,
        DatasetVersionRef,
        RawManifest,
        ValidationReport,
        WorkArtifacts,
    )
    from kfm.contract.records import SourceRef, Step
    from kfm.contract.updater import Output, Plan, Updater


def __getattr__(name: str) -> object:
    if name in ("SourceRef", "Step"):
        from kfm.contract import records

        return getattr(records, name)
    if name in ("Output", "Plan", "Updater"):
        from kfm.contract import updater

        return getattr(updater, name)
    if name in __all__:
        from kfm.contract import connector

        return getattr(connector, name)
    raise AttributeError(f"module 'kfm' has no attribute {name!r}")
