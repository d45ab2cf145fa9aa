"""`review:` says how many people approve which dataset; protected data never need fewer than two."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.client import open as opened
from kfm.errors import Denied
from tests.app.governance.people import make_list
from tests.cli.conftest import Answer, Kfm
from tests.engine.protected.conftest import KEY, dataset, installation, label, labels

SAFE = Path("../safe")
QUAKES = "quake,mag\na,4.5\nb,3.1\n"


def key(name: str) -> tuple[str, str]:
    return "--key", str(SAFE / f"{name}.key")


def signed(kfm: Kfm, *words: str) -> Answer:
    return kfm(*words, *key("olli"), "--reason", "asked for")


def approve(kfm: Kfm, name: str) -> Answer:
    request = kfm("review", "list", "--json").data[0]["id"]
    return kfm("review", "approve", request, *key(name))


def public() -> bool:
    return any(path.is_file() for path in Path("public").rglob("*")) if Path("public").exists() else False


def say(text: str) -> None:
    """Write `review:` of the quakes; empty: nothing."""
    lines = [line for line in Path("kfm.yml").read_text().splitlines() if "    review:" not in line]
    at = lines.index("  quakes:") + 1
    Path("kfm.yml").write_text("\n".join([*lines[:at], *([f"    review: {text}"] if text else []), *lines[at:]]) + "\n")


@pytest.fixture
def site(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """Protected sites and public quakes, not under a key list yet."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)
    installation(dataset("sites", "sites.csv", mask=True), dataset("quakes", "quakes.csv", sensitivity="public"))
    labels(label("dataset: sites"), label("source: sites.csv"))
    Path("quakes.csv").write_text(QUAKES)
    return kfm


def test_public_data_is_published_without_other_people_where_its_review_is_none(site: Kfm) -> None:
    say("none")
    make_list(site, SAFE, "office")
    assert site("run").code == 0
    assert site("publish", "quakes", "--reason", "daily").code == 0 and public()
    assert site("publish", "sites", "--reason", "no key").code == 4


def test_public_data_needs_one_other_person_unless_something_is_said(site: Kfm) -> None:
    make_list(site, SAFE, "office")
    assert site("run", "quakes").code == 0
    assert site("publish", "quakes", "--reason", "daily").code == 4
    assert signed(site, "publish", "quakes").code == 4 and not public()
    assert approve(site, "sue").code == 0 and public()


def test_a_program_requests_what_others_must_sign_and_is_told_that_nothing_moved(site: Kfm) -> None:
    make_list(site, SAFE, "office")
    assert site("run", "quakes").code == 0
    one = opened(".")
    with pytest.raises(Denied, match=r"no key|sign"):
        one.publish("quakes", reason="daily")
    with pytest.raises(Denied, match="requested, and nothing moved"):
        one.publish("quakes", reason="daily", key=SAFE / "olli.key")
    assert not public() and "published/quakes" not in one.refs
    assert approve(site, "sue").code == 0 and public()


def test_two_people_approve_public_data_where_its_review_is_two(site: Kfm) -> None:
    make_list(site, SAFE, "office")
    say("two")  # more than before: at once
    assert site("run", "quakes").code == 0
    assert signed(site, "publish", "quakes").code == 4
    assert approve(site, "sue").code == 0 and not public()
    assert approve(site, "sam").code == 0 and public()


def test_a_lower_review_takes_effect_only_when_two_people_have_signed_it(site: Kfm) -> None:
    make_list(site, SAFE, "office")
    assert site("run", "quakes").code == 0
    say("none")
    denied = site("publish", "quakes", "--reason", "daily")
    assert denied.code == 4 and not public()
    assert signed(site, "review", "deploy").code == 4
    assert approve(site, "sue").code == 0
    assert site("publish", "quakes", "--reason", "daily").code == 4  # one is not two
    assert approve(site, "sam").code == 0
    assert site("publish", "quakes", "--reason", "daily").code == 0 and public()
    say("one")
    assert site("rollback", "quakes", "--to", "nothing", *key("olli"), "--reason", "back").code == 0
    made = next(each["version"] for each in site("refs", "list", "--json").data if each["ref"] == "processed/quakes")
    assert site("publish", "quakes", "--to", made, "--reason", "daily").code == 4  # a higher word holds at once


@pytest.mark.parametrize("word", ["none", "one"])
def test_a_review_of_protected_data_below_two_is_refused_with_one_line(site: Kfm, word: str) -> None:
    make_list(site, SAFE, "office")
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("  sites:\n", f"  sites:\n    review: {word}\n", 1))
    for command in (("run", "sites"), ("publish", "sites", "--reason", "x")):
        refused = site(*command)
        assert refused.code == 3 and "write review: two, or remove the line" in refused.err, refused
    assert "need two" in site("config", "check").err
    assert not public()


def test_the_default_of_an_installation_does_not_lower_protected_data(site: Kfm) -> None:
    Path("kfm.yml").write_text("review: none\n" + Path("kfm.yml").read_text())
    make_list(site, SAFE, "office")
    assert site("run").code == 0
    assert site("publish", "quakes", "--reason", "daily").code == 0
    assert site("publish", "sites", "--reason", "unsigned").code == 4
    assert signed(site, "publish", "sites").code == 4
    assert approve(site, "sue").code == 0
    assert "sites" not in [row["ref"].partition("/")[2] for row in site("refs", "list", "published/", "--json").data]


def test_a_review_that_nobody_could_give_denies(site: Kfm) -> None:
    Path("kfm.yml").write_text("datasets:\n" + dataset("quakes", "quakes.csv", sensitivity="public"))
    say("one")
    assert site("run", "quakes").code == 0
    denied = site("publish", "quakes", "--reason", "x")
    assert denied.code == 4 and "kfm keys new" in denied.err and not public()
