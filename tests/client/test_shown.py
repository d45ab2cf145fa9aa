"""The representation of records is enough to work with, escaped, and shows nothing of the data."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import kfm
from kfm.client.display import Displayable, as_html, as_text
from tests.cli import test_restricted

HOSTILE = "<script>alert(1)</script>&\x1b[31m\u202e'\""


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert attrs in ([], [("scope", "col")])

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(page: str) -> Tags:
    found = Tags()
    found.feed(page)
    found.close()
    assert found.tags <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    return found


def everything(one: kfm.Installation, dataset: str) -> list[Displayable]:
    """One of each that shows itself."""
    return [one, one.plan(dataset), one.run(dataset), one.refs, one.read(dataset), one.explain(dataset), one.status()]


def test_each_says_what_it_is_in_a_console_and_in_a_notebook(gauges: kfm.Installation) -> None:
    for shown in everything(gauges, "rain-gauges"):
        page = parsed(shown._repr_html_())
        assert repr(shown) and page.text
        if shown is not gauges:
            assert "gauges" in repr(shown) and "gauges" in page.text
    again = gauges.run("rain-gauges")
    version = again.versions["rain-gauges"]
    assert repr(again).splitlines()[0] == "1 run"
    assert repr(again).splitlines()[2].split()[:3] == ["rain-gauges", "SKIPPED", "noop"]
    assert repr(gauges.read("rain-gauges")).splitlines()[0] == f"rain-gauges {version[:19]}: 3 entries, 384 bytes"
    assert repr(gauges.plan("rain-gauges")).splitlines()[0].endswith("3 steps, as the locked one")


def test_foreign_text_steers_neither_a_page_nor_a_terminal() -> None:
    page = as_html(HOSTILE, ("name",), [(HOSTILE,)])
    assert "script" not in parsed(page).tags and "\x1b" not in page and "\u202e" not in page
    text = as_text(HOSTILE, ("name",), [(HOSTILE,)])
    assert "\x1b" not in text and "\u202e" not in text and len(text.splitlines()) == 3


def test_of_very_many_rows_the_first_are_shown_and_the_others_counted() -> None:
    rows = [(number,) for number in range(100)]
    assert as_text("many", ("n",), rows).splitlines()[-1] == "  … and 80 more"
    assert "and 80 more" in as_html("many", ("n",), rows)


def test_what_an_explanation_quotes_is_escaped(gauges: kfm.Installation, place: Path) -> None:
    said = (place / "kfm.yml").read_text()
    (place / "kfm.yml").write_text(said.replace("title: Rain gauges", 'title: "<script>alert(1)</script>"'))
    gauges.run()
    told = gauges.explain("rain-gauges")
    assert "<script" not in told._repr_html_() + told.page()


def test_of_a_restricted_dataset_nothing_is_shown_of_the_data(place: Path) -> None:
    (place / "kfm.yml").write_text(test_restricted.CONFIG)
    (place / "digs.py").write_text(test_restricted.UPDATER)
    (place / "digs.csv").write_text(test_restricted.DATA)
    one = kfm.open(place)
    for shown in everything(one, "digs"):
        assert test_restricted.leaks(repr(shown) + shown._repr_html_()) == [], type(shown)
    assert "entr" not in repr(one.read("digs")), "nor how much of it there is"
    ran = one.run("digs", force=True, reason="again")
    assert ran.receipts[0].changes["keys"] == 3 and "3" not in repr(ran).splitlines()[2].partition("sha256:")[0]
    assert one.read("digs").keys()[0] == ("14QX101",), "whoever asks for it gets it, as by the command"


PLACES = """\
well,latitude,longitude
7,38.88,-99.33
12,37.75,-100.02
"""
WELLS = """\
datasets:
  wells:
    version: 1.0.0
    sensitivity: {level}
    sources: {{wells: {{uri: wells.csv, format: csv}}}}
    outputs: {{all: {{from: wells}}}}
"""


def test_a_public_version_shows_its_first_rows_and_a_map_and_one_that_is_not_public_neither(place: Path) -> None:
    (place / "wells.csv").write_text(PLACES)
    (place / "kfm.yml").write_text(WELLS.format(level="public"))
    one = kfm.open(place)
    one.run()
    public = one.read("wells")
    shown = public._repr_html_()
    assert "<td>38.88</td>" in shown and '<svg class="kfm-map"' in shown and 'class="dots"' in shown
    assert "38.88" not in repr(public)
    (place / "kfm.yml").write_text(WELLS.format(level="restricted"))
    for closed in (public, one.read("wells")):
        assert "38.88" not in closed._repr_html_() and "<svg" not in closed._repr_html_()


def test_a_display_of_damaged_data_raises_nothing(place: Path) -> None:
    (place / "wells.csv").write_text(PLACES * 4000)
    (place / "kfm.yml").write_text(WELLS.format(level="public"))
    one = kfm.open(place)
    one.run()
    for path in place.rglob("*"):
        if path.is_file() and path.stat().st_size > 100_000 and path.name not in ("wells.csv", "state.db"):
            path.chmod(0o600)
            path.write_bytes(b"other")
    assert "wells" in one.read("wells")._repr_html_()
