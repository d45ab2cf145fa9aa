"""The pages keep their promises to a reader: what they point at is there."""

from __future__ import annotations

from pathlib import Path

from tests.project import pages
from tests.project.bans import ROOT


def broken(root: Path, text: str, name: str = "docs/page.md") -> list[str]:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return [finding.what for finding in pages.check_page(root, name)]


def test_every_link_in_every_page_leads_somewhere() -> None:
    count, findings = pages.check_pages()
    assert count >= 3
    assert [str(finding) for finding in findings] == []


def test_a_link_to_nothing_is_found_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("one\n\nsee [it](gone.md) and ![this](gone.png)\n\n[ref]: also-gone.md\n")
    assert [(f.line, f.what.partition(":")[0]) for f in pages.check_page(tmp_path, "page.md")] == [
        (3, "gone.md"),
        (3, "gone.png"),
        (5, "also-gone.md"),
    ]


def test_a_link_is_taken_from_the_folder_of_its_page(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Top\n")
    assert broken(tmp_path, "[up](../README.md) [root](/README.md) [folder](..) [spaced](<../README.md> 'title')") == []
    assert broken(tmp_path, "[same](README.md)") == ["README.md: there is no such file"]


def test_a_link_out_of_the_repository_is_found(tmp_path: Path) -> None:
    inside = tmp_path / "repository"
    inside.mkdir()
    (tmp_path / "other.md").write_text("")
    assert broken(inside, "[out](../../other.md)") == ["../../other.md: leaves the repository"]


def test_a_fragment_must_be_a_heading(tmp_path: Path) -> None:
    text = "# The `walk`, step by step\n## Twice\n## Twice\n[a](#the-walk-step-by-step) [b](#twice-1) [c](#thrice)\n"
    assert broken(tmp_path, text) == ["#thrice: there is no such heading"]
    assert broken(tmp_path, "[other](page.md#twice)", "docs/second.md") == []
    assert broken(tmp_path, "[other](page.md#nowhere)", "docs/third.md") == [
        "page.md#nowhere: there is no such heading"
    ]


def test_code_and_other_peoples_addresses_are_left_alone(tmp_path: Path) -> None:
    text = "`[a](b.md)`\n\n```python\n[a](b.md)\n# no heading\n```\n\n[x](https://example.org/gone) [m](mailto:a@b.c)\n"
    assert broken(tmp_path, text) == []
    assert broken(tmp_path, text + "[n](#no-heading)\n") == ["#no-heading: there is no such heading"]


def test_every_generated_file_is_what_the_code_makes_today() -> None:
    current = pages.generated()
    assert {"schemas/config.json", "schemas/receipt.json"} <= set(current)
    assert [str(finding) for finding in pages.check_generated(ROOT, current)] == []


def test_a_generated_file_that_is_absent_old_or_left_over_is_found_and_written_again(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "old.json").write_text("{}")
    (tmp_path / "schemas" / "over.json").write_text("{}")
    current = {"schemas/old.json": "[]", "schemas/absent.json": "[]"}
    found = [finding.path for finding in pages.check_generated(tmp_path, current)]
    assert found == ["schemas/absent.json", "schemas/old.json", "schemas/over.json"]
    pages.write_generated(tmp_path, current)
    assert pages.check_generated(tmp_path, current) == []
