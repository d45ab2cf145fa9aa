"""`Accept` is read as RFC 9110 says."""

from __future__ import annotations

import pytest

from kfm.api.media_choice import MOST, in_order

CSV, PLACES, LINES = "text/csv", "application/geo+json", "application/x-ndjson"
OFFERED = (f"{CSV}; charset=utf-8", PLACES, LINES)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", [CSV, PLACES, LINES]),
        ("*/*", [CSV, PLACES, LINES]),
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", [CSV, PLACES, LINES]),
        (PLACES, [PLACES]),
        (f"{CSV};q=0.5, {PLACES}", [PLACES, CSV]),
        (f"{CSV};q=0.5, */*;q=0.1, {LINES};q=0.7", [LINES, CSV, PLACES]),
        ("application/*", [PLACES, LINES]),
        (f"application/*;q=0.2, {LINES};q=0", [PLACES]),
        (f"*/*, {CSV};q=0", [PLACES, LINES]),
        (f"{CSV};q=0", []),
        ("image/png", []),
        ("TEXT/CSV ; Header=present;Q=0.3 , Application/Geo+JSON;q=0.2", [CSV, PLACES]),
        ("application/vnd.geo+json, application/jsonl;q=0.5", [PLACES, LINES]),
        ("text/csv;q=2, text/csv;q=x, text/csv;q=-1, text/csv;q=, text/csv;q=0.00001", []),
        ("*/csv, csv, /, text/, ;;;,,", []),
        (",".join(["image/png"] * MOST) + f",{CSV}", []),
    ],
)
def test_what_is_wanted_comes_in_the_order_of_its_weight(accept: str, wanted: list[str]) -> None:
    assert [each.partition(";")[0] for each in in_order(accept, OFFERED)] == wanted
