"""docs/conformance.md speaks only of what is there: every path exists, every test named is in its file."""

from __future__ import annotations

import re

from tests.house.bans import ROOT

PAGE = ROOT / "docs" / "conformance.md"
_ROW = re.compile(r"^\| ([A-Z]\d.*?) \| (.*?) \| (.*?) \| (.*?) \|$", re.M)
_LINK = re.compile(r"\[[^\]]*\]\(\.\./([^)]+)\)")
_TEST = re.compile(r"\(\.\./(tests/[^)]+\.py)\) `(test_\w+)`")


def test_every_row_has_code_and_a_test_that_exist() -> None:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) >= 30
    for requirement, _, code, test in rows:
        for cell in (code, test):
            links = _LINK.findall(cell)
            assert links, f"{requirement} names no file in {cell!r}"
            for link in links:
                assert (ROOT / link).exists(), f"{requirement}: {link} does not exist"
        for path, name in _TEST.findall(test):
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{requirement}: no {name} in {path}"


def test_every_test_folder_is_named_on_a_page() -> None:
    pages = PAGE.read_text(encoding="utf-8") + (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    for folder in (ROOT / "tests").iterdir():
        if folder.is_dir() and any(folder.glob("test_*.py")) and folder.name != "house":
            assert f"tests/{folder.name}" in pages, f"tests/{folder.name} proves nothing that is written down"
