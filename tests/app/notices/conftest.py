from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.notices.receivers import OTHER, SECRET, Receiver, Site, receiver_lines, receiving


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("KFM_SECRET_HOOK", SECRET)
    monkeypatch.setenv("KFM_SECRET_OTHER", OTHER)
    with receiving() as found:
        yield found


@pytest.fixture
def site(tmp_path: Path, receiver: Receiver) -> Site:
    """An installation with one receiver of everything."""
    return Site(tmp_path, receiver_lines(receiver.url))
