"""KFM keeps open data true while it changes.

An author needs five names: ``from kfm import Output, Plan, SourceRef, Step, Updater``; that of a connector needs
``Connector`` and the results of its methods. Whoever uses an installation from a program needs one:
``kfm.open(path)``. They load on first use, so that ``kfm --version`` costs an interpreter start and little more; their
types are in ``__init__.pyi``.
"""

from __future__ import annotations

__version__ = "0.1.0"
DISTRIBUTION = "kansas-frontier-matrix"  # what to install: on the package index, `kfm` is somebody else's
__all__ = [
    "Capabilities", "Check", "Connector", "DatasetVersionRef", "Output", "Plan", "RawManifest", "SourceRef", "Step",
    "Updater", "ValidationReport", "WorkArtifacts", "__version__",
]  # fmt: skip
# Not in `__all__`: whoever imports everything would lose the `open` that opens files.
_OPENING = ("Installation", "open")


def __getattr__(name: str) -> object:
    if name in ("SourceRef", "Step"):
        from kfm.model import records

        return getattr(records, name)
    if name in ("Output", "Plan", "Updater"):
        from kfm.model import updater

        return getattr(updater, name)
    if name in _OPENING:
        from importlib import import_module  # by name: the house asks for our version, and nothing goes in a circle

        return getattr(import_module("kfm.client"), name)
    if name in __all__:
        from kfm.model import connector

        return getattr(connector, name)
    raise AttributeError(f"module 'kfm' has no attribute {name!r}")
