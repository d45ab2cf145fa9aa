"""What a machine may lack: a skip on a laptop, a failure in CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"{what}, and this is CI")
    pytest.skip(what)
