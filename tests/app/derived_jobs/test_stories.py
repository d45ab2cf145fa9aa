"""`story.node`: every citation is held against the version that the run read, and a mistake names its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm import open as open_installation
from kfm.config.derived_jobs import BY_JOB
from kfm.model.jobs.story_record import Story
from tests.app.derived_jobs.conftest import Run, body, derived
from tests.cli.conftest import Kfm

HEAD = """\
kfm: 1
catalog: ""
pages: false
datasets:
  gauges:
    version: "1.0.0"
    title: Rain gauges
    license: CC0-1.0
    sensitivity: public
    promote: auto
    sources:
      gauges: {uri: gauges.csv, format: csv, contract: {shrink_limit: 1, columns: [{name: gauge, required: true}]}}
    outputs: {all: {from: gauges}, "wet": {from: gauges}}
"""
TEXT = "text: {uri: rain.md, format: text}"
GAUGES = "rain: {dataset: gauges, zone: published}"
STORY = derived("rain-story", "story.node", "language: en", f"{{{TEXT}, {GAUGES}}}", "    promote: auto\n")
FIRST = "# Rain\n\nIt [rained](kfm://dataset/gauges) in [Barber](kfm://dataset/gauges#wet).\n"


def told(text: str) -> None:
    Path("rain.md").write_text(text)


def measured(value: str) -> None:
    Path("gauges.csv").write_text(f"gauge,mm\nbarber,{value}\nness,9\n")


@pytest.fixture
def run(kfm: Kfm) -> Run:
    """Runs a dataset and returns the receipt of the run; that of the publication comes after it."""

    def call(dataset: str, *words: str) -> dict[str, Any]:
        return dict(kfm("run", dataset, *words, "--json").data["receipts"][0])

    return call


def at(ref: str) -> str:
    return str(open_installation(".").read(ref).version)


def story() -> Story:
    return msgspec.json.decode(body("published/rain-story", "story"), type=Story)


@pytest.fixture
def rain(kfm: Kfm) -> Kfm:
    """Published gauges, and a story that is not made yet."""
    measured("12")
    told(FIRST)
    Path("kfm.yml").write_text(HEAD + STORY)
    assert kfm("run", "gauges").code == 0
    return kfm


def test_every_citation_is_pinned_to_the_version_that_the_run_read(rain: Kfm, run: Run) -> None:
    receipt = run("rain-story")
    assert (receipt["status"], receipt["job_type"]) == ("SUCCESS", "story.node"), receipt["errors"]
    made, version = story(), at("published/gauges")
    assert made.title == "Rain" and made.language == "en"
    whole, file = made.citations
    assert (whole.dataset, whole.version, whole.key, whole.digest) == ("gauges", version, (), "")
    import hashlib

    assert file.key == ("wet",) and file.version == version
    assert file.digest == "sha256:" + hashlib.sha256(body("published/gauges", "wet")).hexdigest()
    text = body("published/rain-story", "text").decode()
    assert f"[rained](<kfm://dataset/gauges@{version}>)" in text
    assert f"[Barber](<kfm://dataset/gauges@{version}#wet>)" in text
    assert version in {each["checksum"] for each in receipt["inputs"]}


def test_a_story_is_public_under_the_names_of_its_formats(rain: Kfm, run: Run) -> None:
    run("rain-story")
    (folder,) = Path("public/datasets/rain-story/versions").glob("*/")
    assert {path.name for path in folder.iterdir()} == {"story.json", "text.md"}


def test_a_citation_without_a_digest_makes_a_new_version_when_what_it_cites_moves(rain: Kfm, run: Run) -> None:
    assert run("rain-story")["outcome"] == "done"
    before, first = at("published/rain-story"), story().citations[0].version
    assert run("rain-story")["outcome"] == "noop"
    measured("13")
    run("gauges")
    assert run("rain-story")["outcome"] == "done"
    assert at("published/rain-story") != before and story().citations[0].version == at("published/gauges") != first


def test_a_citation_with_a_digest_holds_until_the_version_moves_and_then_says_so(rain: Kfm, run: Run) -> None:
    pinned = at("published/gauges")
    told(f"# Rain\n\nIt\nrained [much](kfm://dataset/gauges@{pinned[:19]}).\n")
    assert run("rain-story")["outcome"] == "done"
    assert story().citations[0].version == pinned, "a prefix becomes the whole digest"
    before = at("published/rain-story")
    measured("13")
    run("gauges")
    answer = rain("run", "rain-story")
    assert answer.code == 3
    assert f"line 4: it cites version {pinned[7:19]} of gauges, which is not its public version any more" in answer.err
    assert at("published/gauges")[7:19] in answer.err and "look whether the sentence is still true" in answer.err
    assert at("published/rain-story") == before, "the current story stays"


def test_changed_text_is_a_new_version_and_the_same_text_is_none(rain: Kfm, run: Run) -> None:
    assert run("rain-story")["outcome"] == "done"
    told(FIRST + "\nAnd more.\n")
    assert run("rain-story")["outcome"] == "done"
    assert run("rain-story")["outcome"] == "noop"


CITES = "# Rain\n\nSecretly [it](kfm://dataset/gauges) rained.\n\n- and [there]({})\n"
MISTAKES = {
    "another dataset": ("kfm://dataset/towns", "line 5: it cites a dataset that is not", "sources are gauges"),
    "a typing error": ("kfm://dataset/guages", "line 5: it cites a dataset that is not among", "did you mean gauges?"),
    "another version": (
        "kfm://dataset/gauges@sha256:" + "0" * 64,
        "line 5: it cites version 000000000000 of gauges, which is not its public version any more, or never was",
        "cite that version, or none in particular",
    ),
    "too short a digest": ("kfm://dataset/gauges@sha256:0123", "line 5: a link that begins with kfm: is no citation",
                           "12 to 64 hex digits"),
    "another hash": ("kfm://dataset/gauges@md5:0123456789abcdef", "line 5: a link that begins with kfm:", "@sha256:"),
    "a ref": ("kfm://ref/published/gauges", "line 5: a link that begins with kfm: is no citation", "NAME"),
    "one slash": ("KFM:/dataset/gauges", "line 5: a link that begins with kfm: is no citation", "NAME"),
    "a file that is not there": ("kfm://dataset/gauges#dry", "line 5: it cites a file that", "kfm cat published/"),
    "a folder above": ("kfm://dataset/gauges#wet/..", "line 5: it cites a file that version", "lists its keys"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_citation_that_leads_nowhere_is_one_line_with_its_place_and_its_cure(rain: Kfm, name: str) -> None:
    link, what, cure = MISTAKES[name]
    told(CITES.format(link))
    answer = rain("run", "rain-story")
    assert answer.code == 3
    assert what in answer.err and cure in answer.err and "Traceback" not in answer.err
    assert "Secretly" not in answer.err and "source text" in answer.err
    assert "published/rain-story" not in rain("refs", "list").out


TEXTS = {
    "nothing is cited": (b"# Rain\n\nIt rained.\n", "it cites nothing"),
    "only an image cites": (b"# Rain\n\n![x](kfm://dataset/gauges)\n", "it cites nothing"),
    "only code cites": (b"# Rain\n\n`[x](kfm://dataset/gauges)`\n", "it cites nothing"),
    "no heading": (b"It [rained](kfm://dataset/gauges).\n", "it has no heading"),
    "another encoding": (b"# Rain\n\nR\xe4in [x](kfm://dataset/gauges)\n", "encoding"),
    "too large": (b"# Rain\n\n" + b"a " * (129 << 10), "more than 262144"),
    "too many lines": (b"# Rain\n" + b"a\n" * 10_000, "lines, more than 10000"),
    "too many brackets": (b"# Rain\n" + b"[" * 10_001, "brackets, more than 10000"),
    "nested too deeply": (b"# Rain\n\n" + b"> " * 21 + b"a [x](kfm://dataset/gauges)\n", "line 3: lists and quotes"),
    "lists nested too deeply": (b"# R\n\n" + b"- " * 400 + b"a\n", "nested more than 20 deep"),
    "empty": (b"", ""),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_no_story_makes_no_version(rain: Kfm, name: str) -> None:
    body_, what = TEXTS[name]
    Path("rain.md").write_bytes(body_)
    answer = rain("run", "rain-story")
    assert answer.code == 3 and what in answer.err and "Traceback" not in answer.err
    assert "processed/rain-story" not in rain("refs", "list").out


SETTINGS: dict[str, tuple[str, str, str]] = {
    "no file": (f"{{{GAUGES}}}", "have 0 files", "text: {uri:"),
    "two files": (f"{{{TEXT}, more: {{uri: more.md, format: text}}, {GAUGES}}}", "have 2 files", "text: {uri:"),
    "no dataset": (f"{{{TEXT}}}", "reads no dataset", "dataset: NAME"),
    "the processed zone": (f"{{{TEXT}, rain: {{dataset: gauges}}}}", "read before it is public", "zone: published"),
    "a version": (f"{{{TEXT}, rain: {{dataset: gauges, zone: published, version: 'sha256:{'0' * 64}'}}}}",
                  "version has no meaning for a story", "in the text"),
    "a key": (f"{{{TEXT}, rain: {{dataset: gauges, zone: published, key: [wet]}}}}", "key has no meaning", "#KEY"),
    "a dataset twice": (f"{{{TEXT}, {GAUGES}, more: {{dataset: gauges, zone: published}}}}", "the dataset that rain is",
                        "remove one"),
    "a table": (f"{{text: {{uri: rain.md, format: csv}}, {GAUGES}}}", "is not read as text", "format: text"),
    "no format": (f"{{text: {{uri: rain.md}}, {GAUGES}}}", "is not read as text", "format: text"),
    "another language": ("", "language", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", SETTINGS)
def test_a_mistake_in_the_declaration_is_one_line_with_its_cure(kfm: Kfm, name: str) -> None:
    sources, what, cure = SETTINGS[name]
    said = derived("x", "story.node", "language: 'e n'" if not sources else "", sources or f"{{{TEXT}, {GAUGES}}}")
    Path("kfm.yml").write_text(HEAD + said)
    answer = kfm("config", "check")
    assert answer.code == 3 and what in answer.err and cure in answer.err and "kfm.yml" in answer.err, answer.err


def test_without_its_library_a_story_says_what_to_install(rain: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "markdown_it", None)
    answer = rain("run", "rain-story")
    assert answer.code != 0 and "pip install 'kansas-frontier-matrix[stories]'" in answer.err
    assert "Traceback" not in answer.err


def levels(story_level: str, gauges: str) -> None:
    said = (HEAD + STORY).replace("sensitivity: public", f"sensitivity: {gauges}", 1)
    at_story = said.index("rain-story:")
    said = said[:at_story] + said[at_story:].replace("sensitivity: public", f"sensitivity: {story_level}")
    Path("kfm.yml").write_text(said.replace("    promote: auto\n", ""))


@pytest.mark.parametrize("level", ["restricted", "closed"])
def test_a_story_is_not_published_once_what_it_cites_is_closed(rain: Kfm, run: Run, level: str) -> None:
    levels("public", "public")
    assert run("rain-story")["outcome"] == "done"
    levels("public", level)
    answer = rain("publish", "rain-story")
    why = {"restricted": "its sensitivity is not public", "closed": "is closed"}
    assert answer.code == 4 and why[level] in answer.err, answer.err
    assert not Path("public/datasets/rain-story/current.json").exists()
    before = at("processed/rain-story")
    again = rain("run", "rain-story", "--force", "--reason", "again")
    assert again.code != 0 and ("was withdrawn" in again.err or "is closed" in again.err), again.err
    assert at("processed/rain-story") == before and not list(Path("public").rglob("text.md"))


def test_a_public_story_is_taken_back_with_what_it_cites(rain: Kfm, run: Run) -> None:
    run("rain-story")
    assert json.loads(Path("public/datasets/rain-story/current.json").read_text())["version"]
    levels("public", "restricted")
    rain("run", "gauges")
    found: Any = json.loads(Path("public/datasets/rain-story/current.json").read_text())
    assert found["version"] == "" and not list(Path("public").rglob("text.md"))


def test_the_settings_of_a_story_are_those_of_its_type() -> None:
    assert set(BY_JOB["story.node"].__struct_fields__) == {"title", "language"}
