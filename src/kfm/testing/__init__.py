"""For authors of updaters: a pytest fixture that takes an updater through everything a run may meet.

The plugin is found by pytest by itself. `kfm_updater("wells").check()` in a test tries the dataset `wells` of the
installation around the test; `kfm_updater(Wells, sources={"wells": "a,b\\n1,2\\n"}).check()` a class by itself.
Nothing here loads before a test asks for the fixture.
"""

from __future__ import annotations

from kfm.testing.trial import Trial
from kfm.testing.trial_failures import UpdaterFailed

TYPE_CHECKING = False
__all__ = ["Trial", "UpdaterFailed"]


def __getattr__(name: str) -> object:
    if name == "Trial":
        return Trial
    if name == "UpdaterFailed":
        return UpdaterFailed
    raise AttributeError(f"module 'kfm.testing' has no attribute {name!r}")
