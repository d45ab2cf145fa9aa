"""python -m tests.browser.screenshots --write [FOLDER]

Takes the pictures of the console in docs/pictures/console, in the installation of the demo. FOLDER is where the demo
was run before; without it, the demo is run first. The picture of a page ends where its window does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.api.serving import serving
from tests.browser.chromium import SOFTWARE_WEBGL, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "pictures" / "console"
LARGEST = 120_000  # bytes of a picture
WINDOW = {"width": 1000, "height": 700}
OBJECTIVE = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: runs-succeed, displayName: Runs succeed}
spec:
  service: archive
  budgetingMethod: Occurrences
  timeWindow: [{duration: 28d, isRolling: true}]
  indicator:
    metadata: {name: success}
    spec:
      ratioMetric:
        counter: true
        good: {metricSource: {type: kfm, spec: {indicator: success}}}
        total: {metricSource: {type: kfm, spec: {indicator: success}}}
  objectives: [{target: 0.9}]
"""


class Shot(NamedTuple):
    name: str
    address: str
    is_dark: bool = False
    part: str = ""  # what is scrolled to


def shots(url: str, dataset: str) -> Iterator[Shot]:
    """Yield the pictures about a dataset of the server at an address."""
    with urllib.request.urlopen(f"{url}/v1/runs?dataset={dataset}") as answer:
        runs = json.load(answer)["runs"]
    run = next(row["run_id"] for row in runs if row["op"] == "ingest")
    yield Shot("now", "/now")
    yield Shot("dataset", f"/datasets/{dataset}/", part="#live-map")
    yield Shot("run", f"/runs/{run}")
    yield Shot("lineage", f"/lineage/{dataset}")
    yield Shot("review", "/review")
    yield Shot("governance", "/governance")
    yield Shot("objectives", "/objectives")
    yield Shot("ledger", "/ledger", is_dark=True)
    yield Shot("focus", f"/focus/{dataset}")


def take(browser: Browser, url: str, dataset: str, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for shot in shots(url, dataset):
        context = browser.new_context(
            base_url=url, viewport=WINDOW, color_scheme="dark" if shot.is_dark else "light", reduced_motion="reduce"
        )
        page = context.new_page()
        answer = page.goto(shot.address, wait_until="load")
        assert answer is not None and answer.status == 200, shot
        if shot.part:
            page.locator(shot.part).scroll_into_view_if_needed()
            page.locator(f"{shot.part}[data-state=map]").wait_for()
            page.locator(shot.part).evaluate("(found) => found.previousElementSibling.scrollIntoView()")
        path = into / f"{shot.name}.png"
        page.screenshot(path=path)
        context.close()
        assert path.stat().st_size <= LARGEST, f"{path.name} has {path.stat().st_size} bytes"


def main(words: list[str]) -> int:
    if words[:1] != ["--write"] or len(words) > 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    with tempfile.TemporaryDirectory() as place:
        build = Path(words[1]) if len(words) == 2 else Path(place)
        if len(words) < 2:
            subprocess.run([sys.executable, str(ROOT / "examples" / "demo.py"), place], check=True)
        folder = build / "demo"
        (folder / "slos").mkdir(exist_ok=True)
        (folder / "slos" / "runs.yml").write_text(OBJECTIVE, encoding="utf-8")
        env = {"KFM_ACCEPT_WEAK_STORAGE": "true"}
        with serving(folder, **env) as served, chromium(*SOFTWARE_WEBGL) as browser:
            take(browser, served.url, "usgs-earthquakes", FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
