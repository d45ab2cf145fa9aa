"""The fixtures of `kfm move` serve here, too: an installation in a scratch folder."""

from tests.app.move.conftest import environment, house, large, scratch
from tests.app.move.test_places import site

__all__ = ["environment", "house", "large", "scratch", "site"]
