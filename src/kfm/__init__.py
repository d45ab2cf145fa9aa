"""KFM fetches open data, checks it, and publishes versioned copies that you can trace, verify and roll back.

A program opens an installation, which is a folder with a kfm.yml, and does what the commands do:

    import kfm

    installation = kfm.open("path/to/folder")
    installation.run("rain-gauges")                            # fetch, check, build
    installation.publish("rain-gauges", reason="the first")    # and `rollback`
    installation.read("rain-gauges").pandas()                  # or polars, rows, bytes
    installation.diff("rain-gauges")                           # also status, explain, lineage, quarantined

``help(kfm.Installation)`` describes every method. ``kfm.Client(url)`` reads from a server that ``kfm serve`` runs. The
author of an updater imports five names: ``from kfm import Output, Plan, SourceRef, Step, Updater``. The author of a
connector also imports ``Connector`` and the result types of its methods. The names load on first use, so that ``kfm
--version`` starts about as fast as the interpreter; their types are in ``__init__.pyi``.
"""

from __future__ import annotations

__version__ = "0.1.0"
DISTRIBUTION = "kansas-frontier-matrix"  # the name to install; on the package index, `kfm` is another project
__all__ = [
    "Capabilities", "Check", "Connector", "DatasetVersionRef", "JobSettings", "JobUpdater", "Output", "Plan",
    "RawManifest", "SourceRef", "Step", "Updater", "ValidationReport", "WorkArtifacts", "__version__",
]  # fmt: skip
# Not in `__all__`: `from kfm import *` would hide the built-in `open`.
_OPENING = ("Client", "Installation", "open")


def __dir__() -> list[str]:
    """Return the names that a program uses, which load on first use."""
    return sorted([*__all__, *_OPENING, "DISTRIBUTION", "__doc__", "__file__", "__name__", "__path__"])


def __getattr__(name: str) -> object:
    if name in ("SourceRef", "Step"):
        from kfm.model import records

        return getattr(records, name)
    if name in ("Output", "Plan", "Updater"):
        from kfm.model import updater

        return getattr(updater, name)
    if name == "JobSettings":
        from kfm.model.jobs import job_settings

        return job_settings.JobSettings
    if name == "JobUpdater":
        from importlib import import_module  # by name: what imports `kfm` does not see the updaters

        return getattr(import_module("kfm.model.jobs.job_updater"), name)
    if name in _OPENING:
        from importlib import import_module  # by name: `kfm.client` imports `kfm`

        return getattr(import_module("kfm.client.remote" if name == "Client" else "kfm.client"), name)
    if name in __all__:
        from kfm.model import connector

        return getattr(connector, name)
    raise AttributeError(f"module 'kfm' has no attribute {name!r}")
