"""The thin path through everything people and programs read: a run, its promotion, STAC, the pages, Focus Mode, and a
label that closes all of it at the next request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pystac_client
import pytest

from tests.api.serving import Served, serving
from tests.app.governance.people import by_order
from tests.browser import archive
from tests.browser.chromium import DRIVER, chromium
from tests.cli.conftest import Kfm, kfm, plain_environment
from tests.engine.protected.conftest import SAFE, label, labels, site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["kfm", "plain_environment", "site"]

pytestmark = pytest.mark.xdist_group("chromium")
KANSAS = [-102.1, 36.9, -94.5, 40.1]
EVERYWHERE = (
    "/v1/datasets/{0}",
    "/v1/focus/{0}",
    "/focus/{0}",
    "/datasets/{0}/",
    "/datasets/{0}/current.json",
    "/stac/collections/{0}",
    "/stac/collections/{0}/items",
)


STORY = """\
  {name}:
    job: story.node
    title: {title}
    description: Told for a test
    license: CC-BY-4.0
    sensitivity: public
    sources:
      text: {{uri: {name}.md, format: text}}
      cited: {{dataset: {cited}, zone: published}}
"""


def tell(kfm: Kfm, name: str, cited: str) -> None:
    """Publish a story that cites a dataset."""
    with Path("kfm.yml").open("a") as config:
        config.write(STORY.format(name=name, title=f"A tale of {cited}", cited=cited))
    Path(f"{name}.md").write_text(f"# A tale of {cited}\n\nIt rests on [what is public](kfm://dataset/{cited}).\n")
    ran = kfm("run", name)
    assert ran.code == 0, ran.err
    done = by_order(kfm, SAFE, "promote", name)
    assert done.code == 0, done.err


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def found_by(served: Served, **where: Any) -> dict[str, int]:
    """The items that a STAC client finds, by collection."""
    client = pystac_client.Client.open(f"{served.url}/stac")
    found: dict[str, int] = {}
    for item in client.search(limit=7, **where).items():
        assert item.collection_id is not None
        found[item.collection_id] = found.get(item.collection_id, 0) + 1
    assert {one.id for one in client.get_collections()} >= set(found)
    return found


def opened(page: Page, served: Served, name: str) -> None:
    """From the front page to a dataset, and on to Focus Mode, as a reader goes."""
    page.goto(served.url)
    page.get_by_role("link", name=archive.ABOUT[name][0]).click()
    assert page.get_by_role("heading", level=1).inner_text() == archive.ABOUT[name][0]
    page.get_by_role("link", name="How it was produced").click()
    assert page.get_by_role("heading", name="How this layer was produced").is_visible()
    assert page.locator("ol.told li").count() > 3


def closed(served: Served, name: str) -> None:
    """Nothing of a dataset is there, and nothing tells it from one that never was."""
    for path in EVERYWHERE:
        answer, absent = served.ask(path.format(name)), served.ask(path.format("no-such-thing"))
        assert (answer.status, answer.body) == (absent.status, absent.body) == (404, absent.body), path
        assert answer.headers.keys() == absent.headers.keys()
    for path in ("/", "/v1/datasets", "/stac", "/stac/collections", "/stac/search?limit=1000"):
        assert name not in served.ask(path).text and archive.ABOUT[name][0] not in served.ask(path).text


def test_what_was_published_is_found_everywhere_until_a_label_closes_it(browser: Browser, site: Kfm) -> None:
    archive.publish(site, ("stations", "dates"))
    for name, cited in (("weather", "stations"), ("past", "dates")):
        tell(site, name, cited)
    with serving(Path()) as served:
        found = found_by(served)
        assert found["stations"] and found["dates"]
        assert found_by(served, bbox=KANSAS) == {"dates": found["dates"]}, "the others have no place of their own"
        assert found_by(served, bbox=[0, 40, 10, 50]) == {}
        context = browser.new_context(base_url=served.url)
        page, errors, asked = context.new_page(), list[str](), list[str]()
        page.on("console", lambda message: None if message.text.startswith(DRIVER) else errors.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        for name in ("stations", "dates"):
            opened(page, served, name)
        page.get_by_role("link", name="Stories").click()
        page.get_by_role("link", name="A tale of dates").click()
        assert page.get_by_role("heading", level=1).inner_text() == "A tale of dates"
        page.locator("section.citations a").click()
        assert "/versions/dates/" in page.url
        page.goto(f"{served.url}/focus/dates")
        assert page.get_by_text("only as H3 cells, resolution 7").is_visible()
        assert errors == [] and all(url.startswith(served.url) for url in asked)

        file = served.ask("/v1/datasets/dates").data["files"][0]
        assert served.ask(file["href"]).status == 200
        labels(label("source: sites.csv", "restricted", public_resolution=7))  # by an editor: no command ran since
        closed(served, "dates")
        for path in ("/stories/past", "/v1/stories/past", "/v1/datasets/past"):
            assert served.ask(path).status == 404
        assert "past" not in served.ask("/v1/stories").text and served.ask("/stories/weather").status == 200
        assert served.ask(file["href"]).status == 404
        assert found_by(served) == {name: found[name] for name in ("stations", "weather")}
        page.goto(f"{served.url}/focus/dates")
        assert "there is nothing at this address" in page.content()
        opened(page, served, "stations")
        context.close()
    assert site("status").code == 0
