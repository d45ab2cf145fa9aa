"""`kfm lineage graph` draws which dataset is built from which, and marks datasets built from versions that are not
current.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.app.dependencies.conftest import DOWN, TOPS, UP, at, declared, written
from tests.cli.conftest import Kfm

EDGE = declared("edge", "{deep: {dataset: deep, format: csv}}")


def stands(kfm: Kfm, name: str) -> str:
    (found,) = [each["stands"] for each in kfm("lineage", "graph", "--json").data["assets"] if each["dataset"] == name]
    return str(found)


def newer(kfm: Kfm) -> None:
    Path("tops.csv").write_text(TOPS + "c,900\n")
    assert kfm("run", "tops").code == 0


def test_it_goes_from_what_is_read_to_what_reads_it(kfm: Kfm) -> None:
    written(EDGE, UP, DOWN)
    assert [each["dataset"] for each in kfm("lineage", "graph", "--json").data["assets"]] == ["tops", "deep", "edge"]
    text = kfm("lineage", "graph").out
    assert re.findall(r"^\W*(\w+)  ", text, re.M) == ["tops", "deep", "edge"]
    assert "deep  never made; after tops" in text
    assert [each["dataset"] for each in kfm("lineage", "graph", "tops", "--json").data["assets"]] == [
        "tops",
        "deep",
        "edge",
    ]
    assert "deep was never made" in text


def test_each_way_of_not_being_current_is_named(kfm: Kfm) -> None:
    written(UP, DOWN, EDGE)
    for name in ("tops", "deep", "edge"):
        assert kfm("run", name).code == 0
    assert stands(kfm, "deep") == stands(kfm, "edge") == "current"
    newer(kfm)
    assert stands(kfm, "deep") == "behind" and "tops has a newer version" in kfm("lineage", "graph").out
    assert stands(kfm, "edge") == "above"
    assert kfm("run", "deep").code == kfm("run", "edge").code == 0
    assert kfm("rollback", "tops", "--ref", "processed/tops", "--reason", "wrong").code == 0
    assert stands(kfm, "deep") == "rolled back"
    assert "the version of tops it was made of was rolled back" in kfm("lineage", "graph").out
    assert kfm("run", "deep").code == 0
    assert stands(kfm, "deep") == "current"
    assert kfm("promote", "tops", "--reason", "ready").code == 0
    assert kfm("rollback", "tops", "--to", "nothing", "--reason", "must go").code == 0
    assert stands(kfm, "deep") == "withdrawn"
    assert "was withdrawn from the public" in kfm("lineage", "graph", "deep").out


def test_why_not_shows_it_too(pair: Kfm) -> None:
    assert pair("run", "tops").code == pair("run", "deep").code == 0
    assert pair("promote", "tops", "--reason", "ready").code == 0
    assert pair("rollback", "tops", "--to", "nothing", "--reason", "must go").code == 0
    reasons = pair("why-not", "deep", "--json").data["reasons"]
    cure = "correct what tops reads, then kfm run tops, then kfm run deep"  # a run of deep alone changes nothing
    assert ("outdated", cure) in [(each["what"], each["do"]) for each in reasons]
    assert pair("run", "deep", "--exit-code").code == 10
    Path("tops.csv").write_text("well,depth\na,100\nb,251\n")
    assert pair("run", "tops").code == pair("run", "deep").code == 0
    assert "outdated" not in [each["what"] for each in pair("why-not", "deep", "--json").data["reasons"]]


def test_what_only_comes_after_is_drawn_otherwise(kfm: Kfm) -> None:
    after = declared("later", "{wells: {uri: tops.csv, format: csv}}", more="    schedule: {after: [tops]}\n")
    written(UP, DOWN, after)
    assert "later (after)" in kfm("lineage", "graph").out
    chart = kfm("lineage", "graph", "--format", "mermaid").out
    assert chart.startswith("flowchart LR\n")
    assert len(re.findall(r"^  n\d --> n\d$", chart, re.M)) == len(re.findall(r"^  n\d -\.-> n\d$", chart, re.M)) == 1


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.cells: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_the_page_stands_alone_and_names_everything(pair: Kfm) -> None:
    assert pair("run", "tops").code == pair("run", "deep").code == 0
    assert pair("lineage", "graph", "--format", "html", "--out", "graph.html").code == 0
    text = Path("graph.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.open and not page.outside and "<script" not in text
    assert {"tops", "deep", at(pair, "processed/deep"), "reads processed as tops"} <= set(page.cells)


def test_what_is_not_public_keeps_its_digests_to_itself(kfm: Kfm) -> None:
    closed = UP.replace("sensitivity: public", "sensitivity: restricted")
    written(closed, DOWN)
    assert kfm("run", "tops").code == kfm("run", "deep").code == 0
    versions = [at(kfm, f"processed/{name}") for name in ("tops", "deep")]
    assert all(versions)
    said: dict[str, Any] = kfm("lineage", "graph", "--json").data
    assert [each["level"] for each in said["assets"]] == ["restricted", "restricted"]
    shown = (
        kfm("lineage", "graph", "--json").out
        + kfm("lineage", "graph", "--format", "html").out
        + kfm("lineage", "graph").out
    )
    assert not any(version[7:19] in shown for version in versions)


def test_a_circle_is_refused_by_its_names_with_file_and_line(kfm: Kfm) -> None:
    a = declared("a", "{s: {dataset: c, format: csv}}")
    b = declared("b", "{s: {dataset: a, format: csv}}")
    c = declared("c", "{s: {dataset: b, format: csv}}")
    written(a, b, c)
    for words in (
        ("lineage", "graph"),
        ("run", "a"),
        ("up", "--once"),
        ("schedule", "check"),
    ):
        answer = kfm(*words)
        assert answer.code == 3, words
        assert re.search(r"kfm\.yml:\d+:\d+: .*closes a cycle: a reads c reads b reads a", answer.complaint), answer.err


def test_a_circle_over_a_schedule_is_refused_too(kfm: Kfm) -> None:
    up = UP.replace("    sources:", "    schedule: {after: [deep]}\n    sources:")
    written(up, DOWN)
    answer = kfm("up", "--once")
    assert answer.code == 3
    assert re.search(r"kfm\.yml:\d+:\d+: deep comes after tops comes after deep", answer.complaint), answer.err


def test_what_is_declared_wrong_is_refused_with_its_place(kfm: Kfm) -> None:
    wrong = {
        "dataset: top": "is not a dataset of this file; did you mean tops?",
        "dataset: tops, uri: x.csv": "needs one of uri and dataset",
        "dataset: tops, version: latest": "is not a digest",
        "dataset: tops, mask: m.yml": "has no meaning next to a dataset",
        "uri: tops.csv, key: [a]": "has no meaning next to a uri",
        "dataset: Tops!": "is refused",
    }
    for said, part in wrong.items():
        written(UP, DOWN.replace("dataset: tops", said))
        answer = kfm("run", "deep")
        first = answer.err.partition("\n")[0]
        assert answer.code == 3 and part in first and "kfm.yml:" in first, (said, answer.err)
