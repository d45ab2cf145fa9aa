from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from kfm.errors import BadInput
from kfm.model import json_schemas
from kfm.model.labels import (
    COMMUNITY,
    FINEST,
    LEVELS,
    UNLABELLED,
    Classification,
    Label,
    Labels,
    LabelTarget,
    Level,
    joined,
    label_classification,
    loosens,
    read_labels,
    source_classification,
    standing_of_record,
)
from kfm.parsing.documents import read

TODAY = "2026-11-16"
FILE = b"""version: 1
labels:
  - of: {dataset: kansas-radiocarbon}
    sensitivity: generalised
    care: community
    custodian: historical-society
    authority: preservation-office
    community_labels: [TK CS]
    public_resolution: 5
    expires: 2027-06-30
"""

words = st.sampled_from(["public", "generalised", "restricted", "closed", "open", "Public", "", "low"])
labels = st.builds(
    Label,
    of=st.just(LabelTarget(dataset="d")),
    sensitivity=words,
    care=st.sampled_from(["open", "community", "sacred", "none", ""]),
    custodian=st.sampled_from(["", "a", "b"]),
    access_rights=st.sampled_from(["open", "embargoed", "restricted", "closed", "?"]),
    community_labels=st.lists(st.sampled_from(["TK A", "TK CS", "TK SS", "TK MR", "TK ZZ"]), max_size=2).map(tuple),
    public_resolution=st.none() | st.integers(0, FINEST),
    expires=st.sampled_from(["", "2026-11-15", "2026-11-16", "2030-01-01", "soon"]),
)
standings = st.builds(label_classification, labels, st.just(TODAY))


def label(**changed: object) -> Label:
    said = {"of": LabelTarget(dataset="d"), "sensitivity": "public", "care": "open"}
    return msgspec.convert({**msgspec.to_builtins(Label(**said)), **changed}, Label)  # type: ignore[arg-type]


def test_a_file_of_labels_is_read_and_fits_its_schema() -> None:
    document = read(FILE, "labels.yml", json=False)
    found = read_labels(document)
    assert found.labels[0].public_resolution == 5
    assert label_classification(found.labels[0], TODAY).level == "generalised"
    Draft202012Validator(json_schemas.schema_of(Labels, "labels")).validate(document.value)


@pytest.mark.parametrize(
    "wrong",
    [
        FILE.replace(b"care:", b"cares:"),
        FILE.replace(b"public_resolution: 5", b"public_resolution: 16"),
        FILE.replace(b"2027-06-30", b"2027-06-31"),
        FILE.replace(b"{dataset: kansas-radiocarbon}", b"{}"),
        FILE.replace(b"{dataset: kansas-radiocarbon}", b"{dataset: a, source: b}"),
        FILE.replace(b"    care: community\n", b""),
        FILE.replace(b"version: 1", b"version: 2"),
    ],
)
def test_what_is_not_a_label_is_refused_with_its_place(wrong: bytes) -> None:
    assert wrong != FILE
    with pytest.raises(BadInput, match=r"labels\.yml:\d+:\d+"):
        read_labels(read(wrong, "labels.yml", json=False))


@pytest.mark.parametrize(
    ("changed", "level", "rule"),
    [
        ({}, "public", ""),
        ({"sensitivity": "Public"}, "closed", "label.sensitivity-unknown"),
        ({"care": "friendly"}, "closed", "label.care-unknown"),
        ({"access_rights": "ask"}, "closed", "label.access-rights-unknown"),
        ({"access_rights": "embargoed"}, "restricted", "label.access-rights"),
        ({"community_labels": ["TK XX"]}, "closed", "label.community-unknown"),
        ({"community_labels": ["TK SS"]}, "closed", "label.community"),
        ({"community_labels": ["TK MR"]}, "closed", "label.community"),
        ({"community_labels": ["TK C"]}, "closed", "label.community-unknown"),
        ({"community_labels": ["BC CL"]}, "restricted", "label.community"),
        ({"community_labels": ["TK A"]}, "public", ""),
        ({"expires": "2026-11-15"}, "closed", "label.expired"),
        ({"expires": "2026-11-16"}, "public", ""),
        ({"expires": "never"}, "closed", "label.expired"),
        ({"care": "community", "public_resolution": 7}, "restricted", "label.custodian-missing"),
        ({"care": "community", "custodian": "a"}, "restricted", "label.resolution-missing"),
        ({"care": "community", "custodian": "a", "public_resolution": 7}, "generalised", "label.care"),
        ({"public_resolution": 7, "custodian": "a"}, "generalised", "label.resolution"),
    ],
)
def test_a_label_means_the_most_closed_of_its_words(changed: dict[str, object], level: str, rule: str) -> None:
    found = label_classification(label(**changed), TODAY)
    assert found.level == level
    assert not rule or rule in found.rules


# From the texts of the labels themselves, before a community makes them its own: "traditionally and usually not
# publicly available", "only to be accessed and used by …", "not created through informed consent".
NOT_FOR_THE_PUBLIC = (
    *("TK CL", "TK F", "TK CO", "TK O", "TK SS", "TK WG", "TK MG", "TK WR", "TK MR", "TK NV"),
    *("BC CL", "BC CNV"),
)


def test_every_label_of_local_contexts_is_known_and_none_that_says_so_is_for_the_public() -> None:
    assert sum(code.startswith("TK ") for code in COMMUNITY) == 20
    assert sum(code.startswith("BC ") for code in COMMUNITY) == 10
    for code in COMMUNITY:
        found = label_classification(label(community_labels=[code], custodian="a", public_resolution=7), TODAY)
        assert "label.community-unknown" not in found.rules
        assert found.publishable() is not (code in {*NOT_FOR_THE_PUBLIC, "TK S", "BC R", "BC O"})


def test_the_settings_of_a_dataset_label_what_has_no_label_and_open_nothing() -> None:
    known = Labels(
        version=1,
        labels=(
            label(of={"source": "sites"}, care="community", custodian="a", public_resolution=5),
            label(of={"source": "graves"}, sensitivity="restricted"),
        ),
    )

    def level(source: str, declared: Level | None) -> str:
        asked = {"dataset": "d", "source": source, "digest": "sha256:aa", "today": TODAY}
        return source_classification(known, **asked, declared=declared).level

    assert [level("weather", said) for said in (None, *LEVELS)] == [
        *("restricted", "public", "restricted", "restricted", "closed"),
    ]
    assert [level("sites", said) for said in (None, *LEVELS)] == [
        *("generalised", "generalised", "generalised", "restricted", "closed"),
    ]
    assert [level("graves", said) for said in (None, *LEVELS)] == [*("restricted",) * 4, "closed"]
    bare = source_classification(
        Labels(version=1), dataset="d", source="s", digest="x", today=TODAY, declared=LEVELS[1]
    )
    assert set(bare.rules) == {"dataset.sensitivity", "label.custodian-missing", "label.resolution-missing"}


def test_a_classification_has_the_strictest_labels_and_the_earliest_end_of_consent() -> None:
    one = label_classification(label(care="community", access_rights="embargoed", expires="2027-06-30"), TODAY)
    other = label_classification(label(expires="2026-12-31"), TODAY)
    both = joined([one, other])
    assert (both.care, both.access, both.expires) == ("community", "embargoed", "2026-12-31")
    odd = label_classification(label(care="friendly", access_rights="ask", expires="soon"), TODAY)
    assert (odd.care, odd.access) == ("sacred", "closed") and odd.expires < TODAY
    assert loosens(both, one) and loosens(both, msgspec.structs.replace(both, expires=""))
    assert loosens(both, msgspec.structs.replace(both, care="open"))
    assert loosens(both, msgspec.structs.replace(both, access="open"))


def test_no_label_is_not_publishable() -> None:
    assert not label_classification(None, TODAY).publishable()
    assert joined([]) == UNLABELLED
    assert not source_classification(Labels(version=1), dataset="d", source="s", digest="x", today=TODAY).publishable()


@given(standings, standings, standings)
def test_joining_is_a_lattice_in_which_nothing_opens(a: Classification, b: Classification, c: Classification) -> None:
    assert joined([a]) == a
    assert joined([a, a]) == a
    assert joined([a, b]) == joined([b, a])
    assert joined([joined([a, b]), c]) == joined([a, joined([b, c])])
    both = joined([a, b])
    assert not loosens(a, both)
    assert LEVELS.index(both.level) == max(LEVELS.index(a.level), LEVELS.index(b.level))


@given(labels, st.sampled_from(["2026-11-16", "2026-12-01", "2031-01-01"]))
def test_time_only_ever_closes(one: Label, later: str) -> None:
    assert not loosens(label_classification(one, TODAY), label_classification(one, later))


@given(standings, standings)
def test_a_change_that_gives_more_is_known_as_one(a: Classification, b: Classification) -> None:
    if a != b and msgspec.structs.replace(a, rules=()) != msgspec.structs.replace(b, rules=()):
        assert loosens(a, b) or loosens(b, a)


def test_a_restricted_source_under_the_name_of_a_public_dataset_stays_restricted() -> None:
    known = Labels(
        version=1,
        labels=(
            label(of={"dataset": "weather"}),
            label(of={"source": "https://example.org/sites.csv"}, sensitivity="restricted"),
            label(of={"bytes": "sha256:aa"}, sensitivity="restricted"),
        ),
    )

    def level(source: str, digest: str, dataset: str = "weather") -> str:
        return source_classification(known, dataset=dataset, source=source, digest=digest, today=TODAY).level

    assert level("https://example.org/other.csv", "sha256:bb") == "public"
    assert level("https://example.org/sites.csv", "sha256:bb") == "restricted"
    assert level("file:copy.csv", "sha256:aa") == "restricted"
    assert level("file:copy.csv", "sha256:bb", dataset="unlabelled") == "restricted"


def test_a_record_may_be_more_closed_than_its_source_and_never_more_open() -> None:
    open_, closed = label_classification(label(), TODAY), label_classification(label(sensitivity="closed"), TODAY)
    known = Labels(version=1, labels=(label(of={"record": "r1"}, sensitivity="closed"), label(of={"record": "r2"})))
    assert standing_of_record(known, "r1", open_, TODAY).level == "closed"
    assert standing_of_record(known, "r2", closed, TODAY).level == "closed"
    assert standing_of_record(known, "r3", open_, TODAY) == open_
