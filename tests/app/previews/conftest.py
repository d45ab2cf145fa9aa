"""The command line called in this process, as for the tests of the commands."""

from __future__ import annotations

from tests.cli.conftest import kfm as kfm
from tests.cli.conftest import plain_environment as plain_environment
