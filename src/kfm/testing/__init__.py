"""For authors of updaters: a pytest fixture that tries an updater in every situation a run may meet.

pytest finds the plugin by itself. In a test, `kfm_updater("wells").check()` tries the dataset `wells` of the
installation around the test; `kfm_updater(Wells, sources={"wells": "a,b\\n1,2\\n"}).check()` tries a class alone.
Nothing here is loaded before a test requests the fixture.
"""

from __future__ import annotations

TYPE_CHECKING = False
__all__ = ["Trial", "UpdaterFailed"]

if TYPE_CHECKING:
    from kfm.testing.trial import Trial
    from kfm.testing.trial_failures import UpdaterFailed


def __getattr__(name: str) -> object:
    if name == "Trial":
        from kfm.testing.trial import Trial

        return Trial
    if name == "UpdaterFailed":
        from kfm.testing.trial_failures import UpdaterFailed

        return UpdaterFailed
    raise AttributeError(f"module 'kfm.testing' has no attribute {name!r}")
