"""A community's data need its own keys: no role, no number of stewards and no command goes around them."""

from __future__ import annotations

import itertools

import pytest

from tests.app.governance.people import Site
from tests.app.governance.test_two_persons import GAUGES, LABELS, PUBLISHED, approve, ask, denied, state_of


@pytest.fixture
def nation(site: Site) -> Site:
    """The gauges are the nation's, whose community is three people, two of whom it takes."""
    (site.folder / "labels.yml").write_text(LABELS.replace("museum", "nation"))
    with (site.folder / "kfm.yml").open("a") as file:
        file.write("\nlabels: labels.yml\n")
    for name, words, signers in (
        ("ada", ("--role", "admin"), ()),
        ("olli", ("--role", "operator"), ("ada",)),
        ("sue", ("--role", "steward", "--custodian", "nation"), ("ada",)),
        ("sam", ("--role", "steward", "--custodian", "nation"), ("ada", "sue")),
        ("kim", ("--purpose", "community", "--custodian", "nation"), ("ada", "sue", "sam")),
        ("kai", ("--purpose", "community", "--custodian", "nation", "--threshold", "2"), ("ada", "kim")),
        ("koa", ("--purpose", "community", "--custodian", "nation"), ("ada", "kim", "kai")),
        ("kim-2", ("--purpose", "community", "--custodian", "nation"), ("ada", "kim", "kai")),
    ):
        made = site.add(name, *words, signed_by=signers, person=name.partition("-")[0])
        assert made.code == 0, (name, made.err)
    assert site.kfm("run", GAUGES).code == 0
    return site


def test_it_takes_the_threshold_of_the_community_and_two_stewards(nation: Site) -> None:
    order = ask(nation)
    for name in ("sue", "sam", "kim"):
        assert approve(nation, order, name) == 0
        assert not nation.ref(PUBLISHED), name
    assert nation.kfm("review", "show", order, "--json").data["missing"] == ["community.too-few"]
    assert approve(nation, order, "kai") == 0
    assert nation.ref(PUBLISHED)
    assert state_of(nation, order) == "used"


def test_nobody_stands_for_the_community(nation: Site) -> None:
    """Neither two of its keys in one hand, nor the admin, nor all stewards, nor a key that was never listed for it."""
    order = ask(nation)
    for name in ("sue", "sam", "kim"):
        assert approve(nation, order, name) == 0
    for name in ("kim-2", "sue", "sam", "ada", "olli"):
        assert approve(nation, order, name) == 4, name
        assert denied(nation, "approve")
    assert nation.kfm("promote", GAUGES, KFM_ACTOR="kai").code == 4
    assert not nation.ref(PUBLISHED)


def test_the_community_alone_does_not_publish_either(nation: Site) -> None:
    order = ask(nation)
    for name in ("kim", "kai", "koa"):
        assert approve(nation, order, name) == 0
    assert not nation.ref(PUBLISHED)


def test_one_of_the_community_ends_it(nation: Site) -> None:
    order = ask(nation)
    assert nation.kfm("review", "reject", order, "--key", nation.key("koa"), "--reason", "not these").code == 0
    for name in ("sue", "sam", "kim", "kai"):
        assert approve(nation, order, name) == 4
    assert not nation.ref(PUBLISHED)


@pytest.mark.parametrize(
    ("words", "signed_by"),
    [
        (("--purpose", "community", "--custodian", "nation", "--threshold", "1"), ("ada", "sue", "sam")),
        (("--purpose", "community", "--custodian", "nation"), ("ada", "kim", "kim-2")),
        (("--role", "steward", "--custodian", "nation"), ("ada", "sue", "sam")),
    ],
)
def test_no_admin_and_no_steward_gets_into_its_place(
    nation: Site, words: tuple[str, ...], signed_by: tuple[str, ...]
) -> None:
    """A lower threshold, another member, another steward: only the community lets more people decide."""
    before = nation.ref("keys/list")
    assert nation.add("mallory", *words, signed_by=signed_by).code == 4
    assert denied(nation, "keys")
    assert nation.ref("keys/list") == before


def test_a_member_who_is_revoked_between_does_not_count(nation: Site) -> None:
    order = ask(nation)
    for name in ("sue", "sam", "kim"):
        assert approve(nation, order, name) == 0
    for row in nation.kfm("keys", "list", "--json").data:
        if row["person"] == "kim":
            words = ("keys", "revoke", row["key"], "--key", nation.key("ada"), "--reason", "stolen")
            assert nation.kfm(*words).code == 0
    assert approve(nation, order, "kai") == 0
    assert not nation.ref(PUBLISHED)
    assert approve(nation, order, "koa") == 0
    assert nation.ref(PUBLISHED)


def test_for_a_custodian_in_no_key_list_no_person_can_approve(nation: Site) -> None:
    with (nation.folder / "labels.yml").open("a") as file:
        file.write("  - {of: {source: data/rain_gauges.csv}, sensitivity: public, care: open, custodian: others}\n")
    answer = nation.kfm("promote", GAUGES, "--key", nation.key("olli"), "--reason", "x")
    assert answer.code == 4 and "custodian.unknown" in answer.err
    assert denied(nation, "promote")


def test_of_two_custodians_each_is_asked(nation: Site) -> None:
    for name, signers in (("max", ("ada",)), ("mia", ("ada", "max"))):
        assert nation.add(name, "--role", "steward", "--custodian", "museum", signed_by=signers).code == 0
    more = LABELS.replace("version: 1\nlabels:\n", "").replace("dataset: rain-gauges", "source: data/rain_gauges.csv")
    with (nation.folder / "labels.yml").open("a") as file:
        file.write(more)
    order = ask(nation)
    for name in ("sue", "sam", "kim", "kai"):
        assert approve(nation, order, name) == 0
        assert not nation.ref(PUBLISHED), "the museum has not been asked"
    assert approve(nation, order, "max") == 0
    assert not nation.ref(PUBLISHED)
    assert approve(nation, order, "mia") == 0
    assert nation.ref(PUBLISHED)


def test_its_label_is_not_lowered_without_it_either(nation: Site) -> None:
    """Stewards alone, and the community alone, leave the file as it is; both together change it."""
    labels = nation.folder / "labels.yml"
    tight = LABELS.replace("museum", "nation").replace("sensitivity: public", "sensitivity: restricted")
    words = ("labels", "set", f"dataset:{GAUGES}", "--sensitivity")
    assert nation.kfm(*words, "restricted", "--reason", "asked to", "--key", nation.key("sue")).code == 0
    assert labels.read_text() == tight
    asked = nation.kfm(*words, "public", "--reason", "the council agreed", "--key", nation.key("olli"))
    assert asked.code == 4, asked.err
    (order,) = (row["id"] for row in nation.kfm("review", "list", "--json").data if row["what"] == "label.lower")
    for name in ("sue", "sam", "kim"):
        assert approve(nation, order, name) == 0
        assert labels.read_text() == tight, name
    assert approve(nation, order, "kim-2") == 4 and denied(nation, "approve")
    assert nation.kfm("review", "show", order, "--json").data["missing"] == ["community.too-few"]
    assert labels.read_text() == tight
    assert approve(nation, order, "kai") == 0
    assert labels.read_text() == LABELS.replace("museum", "nation")


@pytest.mark.long
def test_only_sets_that_hold_both_publish(nation: Site) -> None:
    """Every set of signers, in one order of signing: published exactly with two stewards and two of the community."""
    signers = ("sue", "sam", "kim", "kai", "koa", "kim-2")
    for size in range(1, len(signers) + 1):
        for chosen in itertools.combinations(signers, size):
            order = ask(nation)
            for name in chosen:
                approve(nation, order, name)
            people = {name.partition("-")[0] for name in chosen} & {"kim", "kai", "koa"}
            right = {"sue", "sam"} <= set(chosen) and len(people) >= 2
            assert bool(nation.ref(PUBLISHED)) == right, chosen
            if right:
                back = ("rollback", GAUGES, "--to", "nothing", "--key", nation.key("olli"), "--reason", "next")
            else:
                back = ("review", "reject", order, "--key", nation.key("sue"), "--reason", "next")
            assert nation.kfm(*back).code == 0
