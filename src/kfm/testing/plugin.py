"""The pytest plugin: one fixture, which loads KFM only when a test requests it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kfm.testing.trial import Trial


@pytest.fixture
def kfm_updater(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Trial]]:
    """Return a function that makes a trial of an updater in a temporary installation: of a dataset of the installation
    around the test, by name, or of a class with its sources. `.check()` tries everything; `.outputs()` returns the
    outputs by key.
    """

    made: list[Trial] = []

    def make(what: Any, **said: Any) -> Trial:
        from kfm.testing.trial import Trial  # here, so that a test that does not ask for it loads nothing

        said.setdefault("near", str(request.path.parent))
        made.append(Trial(what, str(tmp_path_factory.mktemp("kfm")), **said))
        return made[-1]

    yield make
    for trial in made:
        trial.close()
