from __future__ import annotations

from tests.cli.conftest import kfm, plain_environment, ran, started  # noqa: F401
from tests.engine.protected.conftest import site  # noqa: F401
