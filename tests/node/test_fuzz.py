"""A sample of each fuzzer; the long tests run the promised number."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node import fuzz_canonical, fuzz_config, fuzz_documents
from tests.sampling import tries


def test_canonical_json_is_the_same_in_both_languages(count: Any) -> None:
    assert fuzz_canonical.run(20_000, 101) == []
    count("numbers and texts written and read by both languages", 22_000)


def test_files_of_settings_are_read_alike(count: Any) -> None:
    assert fuzz_documents.run(2_000, 102) == []
    count("YAML and JSON files read by both languages", 2_000)


@pytest.mark.usefixtures("shown_by_default")
def test_configurations_are_taken_or_refused_alike(count: Any) -> None:
    assert fuzz_config.run(tries(800), 103) == []
    count("configurations judged by both languages", tries(800))


@pytest.mark.long
def test_canonical_json_is_the_same_for_a_million_numbers(count: Any) -> None:
    assert fuzz_canonical.run(1_000_000, 104) == []
    count("numbers and texts written and read by both languages", 1_100_000)


@pytest.mark.long
def test_many_files_of_settings_are_read_alike(count: Any) -> None:
    assert fuzz_documents.run(60_000, 105) == []
    count("YAML and JSON files read by both languages", 60_000)


@pytest.mark.long
@pytest.mark.usefixtures("shown_by_default")
def test_many_configurations_are_taken_or_refused_alike(count: Any) -> None:
    assert fuzz_config.run(20_000, 106) == []
    count("configurations judged by both languages", 20_000)
