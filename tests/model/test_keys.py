"""Keys are equal only for equal things, and the same wherever and however often they are computed."""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.errors import BadInput
from kfm.model.keys import claim_key, digest, input_hash, output_key, run_id, run_key, run_key_of
from kfm.model.records import SourceRef
from tests.sampling import tries

# Few characters, and those that join and escape: collisions would be found among them.
FIELD = st.text(st.sampled_from("|\\ab"), max_size=5) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
FIELDS = st.tuples(FIELD, FIELD, FIELD, FIELD)


def split(joined: str) -> tuple[str, ...]:
    """Reads the joined text back: there is one way to do it, so no two tuples have the same text."""
    fields = [""]
    escaped = False
    for char in joined:
        if escaped or char not in "\\|":
            fields[-1] += char
            escaped = False
        elif char == "\\":
            escaped = True
        else:
            fields.append("")
    return tuple(fields)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def source(**changes: Any) -> SourceRef:
    ref = SourceRef(uri="https://example.org/a.csv", content_hash=digest(b"a"), size=1, etag='"1"')
    return msgspec.structs.replace(ref, **changes)


@settings(max_examples=tries(1000), deadline=None)
@given(FIELDS)
def test_the_run_key_is_of_a_text_that_reads_back_as_its_fields(fields: tuple[str, str, str, str]) -> None:
    joined = "|".join(re.sub(r"[\\|]", lambda found: "\\" + found.group(), field) for field in fields)
    assert split(joined) == fields
    assert run_key(*fields) == sha256(joined)


@settings(max_examples=tries(1000), deadline=None)
@given(FIELDS, FIELDS)
def test_different_runs_have_different_keys(one: tuple[str, str, str, str], two: tuple[str, str, str, str]) -> None:
    assert (run_key(*one) == run_key(*two)) is (one == two)


def test_all_short_tuples_of_joining_characters_have_keys_of_their_own() -> None:
    texts = ["", "|", "\\", "a", "||", "|\\", "\\|", "\\\\", "a|", "|a", "a\\", "\\a"]
    keys = {run_key(a, b, c, d) for a in texts for b in texts for c in texts for d in texts}
    assert len(keys) == len(texts) ** 4


def test_ordinary_values_hash_exactly_as_the_formula_reads() -> None:
    fields = ("https://example.org/stations.csv?x=1&y=2", 'W/"abc-1"', "2026-01-01/2026-01-31", "1.2.0")
    assert run_key(*fields) == sha256("|".join(fields))


def test_half_a_surrogate_pair_in_a_run_key_is_refused() -> None:
    with pytest.raises(BadInput):
        run_key("https://example.org", "", "\udcff", "1")


def test_one_source_has_the_run_key_of_its_fields() -> None:
    assert run_key_of([source()], "w", "1") == run_key("https://example.org/a.csv", '"1"', "w", "1")


def test_a_source_without_a_validator_is_keyed_by_its_content() -> None:
    assert run_key_of([source(etag="")], "w", "1") == run_key("https://example.org/a.csv", digest(b"a"), "w", "1")


def test_a_space_in_a_name_does_not_make_one_source_of_two() -> None:
    one = [source(uri="a b", etag="x y")]
    two = [source(uri="a", etag="x"), source(uri="b", etag="y")]
    assert run_key_of(one, "", "1") != run_key_of(two, "", "1")


@pytest.mark.parametrize("change", [{"uri": "https://example.org/b.csv"}, {"content_hash": digest(b"b")},
                                    {"partition": ("KS",)}, {"contract_hash": digest(b"c")}])  # fmt: skip
def test_what_was_read_is_in_the_input_hash(change: dict[str, Any]) -> None:
    assert input_hash([source(**change)]) != input_hash([source()])


@pytest.mark.parametrize("change", [{"etag": '"2"'}, {"last_modified": "Mon, 01 Jan 2026 00:00:00 GMT"}, {"etag": ""}])
def test_a_validator_has_no_part_in_the_input_hash(change: dict[str, Any]) -> None:
    assert input_hash([source(**change)]) == input_hash([source()])


def test_the_parts_of_a_partition_do_not_run_together() -> None:
    assert input_hash([source(partition=("ab",))]) != input_hash([source(partition=("a", "b"))])
    assert input_hash([source(), source()]) != input_hash([source()])
    assert input_hash([]) != input_hash([source()])


CLAIM: dict[str, Any] = {
    "updater_id": "u", "version": "1", "dataset": "d", "window": "w", "inputs": digest(b"i"),
    "params": {"a": "1", "b": "2"},
}  # fmt: skip


@pytest.mark.parametrize("field", CLAIM)
def test_every_part_of_a_claim_counts(field: str) -> None:
    other = {"a": "1"} if field == "params" else CLAIM[field] + "x"
    assert claim_key(**{**CLAIM, field: other}) != claim_key(**CLAIM)


def test_a_partition_is_part_of_the_keys_and_the_whole_dataset_is_not() -> None:
    assert claim_key(**CLAIM, partition="") == claim_key(**CLAIM)
    keys = {claim_key(**CLAIM, partition=part) for part in ("", "East", "West")}
    assert len(keys) == 3
    fields = ("https://example.org", "e", "w", "1")
    assert run_key(*fields, "") == sha256("|".join(fields))
    assert run_key(*fields, "East") == sha256("|".join((*fields, "East")))
    assert run_key(*fields, "East") != run_key(*fields[:3], "1|East")


def test_the_order_of_parameters_does_not_count() -> None:
    assert claim_key(**{**CLAIM, "params": {"b": "2", "a": "1"}}) == claim_key(**CLAIM)


def test_run_ids_are_uuids_of_version_eight() -> None:
    ids = [run_id(claim_key(**CLAIM), n) for n in range(500)]
    for text in ids:
        parsed = uuid.UUID(text)
        assert str(parsed) == text
        assert (parsed.version, parsed.variant) == (8, uuid.RFC_4122)
    assert len(set(ids)) == 500
    assert ids[0] == run_id(claim_key(**CLAIM), 0)


OUTPUT: dict[str, Any] = {
    "updater_id": "u", "version": "1", "business_key": ("noaa", "KS"), "content_hash": digest(b"o"),
}  # fmt: skip


@pytest.mark.parametrize("field", OUTPUT)
def test_every_part_of_an_output_key_counts(field: str) -> None:
    other = ("noaa-KS",) if field == "business_key" else OUTPUT[field] + "x"
    assert output_key(**{**OUTPUT, field: other}) != output_key(**OUTPUT)


def test_the_parts_of_a_business_key_do_not_run_together() -> None:
    keys = {
        output_key("u", "1", key, digest(b"o")) for key in [("a", "b"), ("ab",), ("a,b",), ('a","b',), ("a", "", "b")]
    }
    assert len(keys) == 5
