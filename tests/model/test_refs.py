"""Names of refs are made and read in one module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kfm.model import refs
from kfm.model.names import check_ref

SOURCE = Path(__file__).resolve().parents[2] / "src/kfm"


@pytest.mark.parametrize(
    ("ref", "zone", "dataset"),
    [
        (refs.raw("a", 0), "raw", "a"),
        (refs.raw("a/2024", 1), "raw", "a"),
        (refs.quarantine("a/2024"), "quarantine", "a"),
        (refs.processed("a"), "processed", "a"),
        (refs.published("a"), "published", "a"),
        (refs.in_zone("published", "a"), "published", "a"),
        (refs.switch("dataset", "a"), "switch", "a"),
        (refs.switch("global"), "switch", ""),
        (refs.switch("run", "0123"), "switch", ""),
        (refs.preview("b", refs.raw("a", 0)), "preview", "a"),
        (refs.preview("b", "record"), "preview", ""),
        (refs.backfill("a-2024"), "backfill", ""),
        (refs.order("0123"), "orders", ""),
        (refs.mask("a", "stations"), "rules", ""),
        (refs.KEY_LIST, "keys", ""),
        (refs.LABELS, "rules", ""),
        (refs.POLICY, "rules", ""),
    ],
)
def test_a_ref_is_valid_and_says_its_zone_and_its_dataset(ref: str, zone: str, dataset: str) -> None:
    found = refs.parse(check_ref(ref))
    assert (found.zone, found.dataset) == (zone, dataset)
    assert refs.in_zone(found.zone, found.rest) == ref


def test_a_ref_of_a_preview_says_its_name_outside_of_it() -> None:
    assert refs.parse(refs.preview("b", refs.processed("a"))).previewed == refs.parse(refs.processed("a"))
    assert refs.parse(refs.preview("b", "record")).previewed is None
    assert refs.parse(refs.processed("a")).previewed is None


def test_only_an_empty_or_open_flag_is_not_frozen() -> None:
    assert [refs.is_frozen(flag) for flag in ("", "open", "frozen", "Open", "anything")] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_no_other_module_spells_the_name_of_a_ref() -> None:
    """Sentences for people may; so may `check_partition`, which asks whether a name could be part of a ref."""
    spelled = re.compile(
        r"""["'](?:published|processed|raw|quarantine|switch|orders|rules)/(?:["']|(?:[a-z]+/)?\{[^{}]+\}(?:/\{[^{}]+\})*/?["'])"""
    )
    found = {
        f"{path.relative_to(SOURCE)}: {match[0]}"
        for path in SOURCE.rglob("*.py")
        if path.name != "refs.py"
        for match in spelled.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == {'model/names.py: "raw/{text}"'}
    assert spelled.search('f"published/{dataset}"') and spelled.search('"switch/"')
