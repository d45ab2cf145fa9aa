"""The pictures of the console in the guide can be taken again, and are small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.api.console_server import console
from tests.browser import archive, screenshots
from tests.browser.chromium import SOFTWARE_WEBGL, chromium
from tests.cli.conftest import Kfm, kfm, plain_environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["kfm", "plain_environment"]

pytestmark = pytest.mark.xdist_group("chromium")
NAMES = ("now", "dataset", "run", "lineage", "review", "governance", "objectives", "ledger", "focus")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(*SOFTWARE_WEBGL) as found:
        yield found


@pytest.mark.long
def test_a_picture_of_each_page_can_be_taken(browser: Browser, kfm: Kfm, tmp_path: Path) -> None:
    archive.publish(kfm, ("counties",))
    with console() as server:
        screenshots.take(browser, f"http://127.0.0.1:{server.port}", "counties", tmp_path / "pictures")
    found = sorted((tmp_path / "pictures").iterdir())
    assert [path.stem for path in found] == sorted(NAMES)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in found)


def test_the_guide_shows_a_small_picture_of_each_page() -> None:
    guide = (screenshots.ROOT / "docs" / "guides" / "console.md").read_text(encoding="utf-8")
    assert sorted(path.stem for path in screenshots.FOLDER.iterdir()) == sorted(NAMES)
    for name in NAMES:
        path = screenshots.FOLDER / f"{name}.png"
        assert f"](../pictures/console/{name}.png)" in guide, name
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size <= screenshots.LARGEST, name
