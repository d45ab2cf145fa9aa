"""A masking policy is in force for a source, not for a name: renamed in kfm.yml, it still loosens only by
signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.app.authority import mask_names, rule_adoption
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import MASK, SAFE, UPDATERS, dataset, hits, installation, label, labels

COLUMN = "  note: {kind: text}\n"
FINER = MASK.replace("resolution: 6", "resolution: 7")
COARSER = MASK.replace("resolution: 6", "resolution: 5")
OTHERS = "trinomial,kind,found,lat,lon,note\n" + "".join(
    f"14ZZ{n},camp,1950-06-01,{39.1234 + n / 7:.6f},{-97.4321 - n / 9:.6f},spring\n" for n in range(8)
)


def key(name: str) -> str:
    return str(SAFE / f"{name}.key")


def declare(*datasets: str, mask: str = MASK) -> None:
    """Write kfm.yml anew, with this masking policy."""
    installation(*datasets)
    Path("mask.yml").write_text(mask)


def rename_source(name: str, mask: str = MASK, of: str = "sites") -> None:
    text = dataset(of, "sites.csv", mask=True).replace("updaters.py", f"{name}.py")
    declare(text.replace("      sites:\n        uri", f"      {name}:\n        uri"), mask=mask)
    Path(f"{name}.py").write_text(UPDATERS.replace('names = ("sites",)', f'names = ("{name}",)'))


def moves(kfm: Kfm, ref: str) -> list[str]:
    found = kfm("refs", "history", ref, "--json")
    return [row["after"] for row in found.data] if found.code == 0 else []


def built(kfm: Kfm, name: str) -> list[str]:
    return moves(kfm, f"processed/{name}")


def in_force(kfm: Kfm, name: str) -> bool:
    return any(moves(kfm, f"rules/mask/{name}")[-1:])


def is_denied(kfm: Kfm, name: str, source: str) -> None:
    before = built(kfm, name)
    ran = kfm("run", name)
    assert ran.code == 4, (ran.code, ran.err)
    assert "may show more than the one in force for the same source" in ran.err
    assert f"`kfm mask deploy {name} {source} --key FILE --reason …`" in ran.err
    assert built(kfm, name) == before
    assert not in_force(kfm, f"{name}/{source}")
    assert hits(["cottonwood"]) == []


@pytest.fixture
def masked(site: Kfm) -> Kfm:
    """The protected table, run once; its label is on the source alone."""
    labels(label("source: sites.csv"))
    ran = site("run", "sites")
    assert ran.code == 0, ran.err
    return site


LOOSER = [FINER, MASK + COLUMN, MASK.replace("to: decade", "to: year")]


@pytest.mark.parametrize("mask", LOOSER)
def test_a_source_with_a_new_name_and_a_looser_mask_is_denied(masked: Kfm, mask: str) -> None:
    rename_source("places", mask)
    is_denied(masked, "sites", "places")
    rename_source("places")
    ran = masked("run", "sites")
    assert ran.code == 0, ran.err
    assert in_force(masked, "sites/places")


@pytest.mark.parametrize("versions", [20, 0])
def test_a_state_that_does_not_say_which_source_a_mask_is_for_denies_too(
    site: Kfm, monkeypatch: pytest.MonkeyPatch, versions: int
) -> None:
    monkeypatch.setattr(rule_adoption, "recorded_source", lambda *_: {})
    monkeypatch.setattr(mask_names, "_VERSIONS", versions)
    labels(label("source: sites.csv"))
    assert site("run", "sites").code == 0
    other = FINER.replace("namespace: state-sites", "namespace: places")
    rename_source("places", other)
    is_denied(site, "sites", "places")
    declare(dataset("places", "sites.csv", mask=True), mask=FINER)
    is_denied(site, "places", "sites")


@pytest.mark.parametrize("uri", ["sites.csv", "./sites.csv"])
def test_a_dataset_with_a_new_name_and_a_looser_mask_is_denied(masked: Kfm, uri: str) -> None:
    declare(dataset("places", uri, mask=True), mask=MASK + COLUMN)
    is_denied(masked, "places", "sites")


def test_a_second_dataset_of_the_same_source_does_not_show_more(masked: Kfm) -> None:
    Path("finer.yml").write_text(FINER)
    finer = dataset("places", "sites.csv", mask=True).replace("mask.yml", "finer.yml")
    declare(dataset("sites", "sites.csv", mask=True), finer)
    is_denied(masked, "places", "sites")
    assert masked("run", "sites").code == 0


def test_a_file_that_moves_with_its_names_takes_its_mask_along(masked: Kfm) -> None:
    declare(dataset("places", "copy.csv", mask=True), mask=FINER)
    Path("copy.csv").write_text(Path("sites.csv").read_text())
    labels(label("source: sites.csv"), label("source: copy.csv"))
    is_denied(masked, "places", "sites")


@pytest.mark.parametrize("mask", [MASK, COARSER, MASK.replace("id: sites", "id: places") + "# said again\n"])
def test_new_names_with_the_same_or_a_stricter_mask_come_into_force(masked: Kfm, mask: str) -> None:
    declare(dataset("places", "sites.csv", mask=True), mask=mask)
    ran = masked("run", "places")
    assert ran.code == 0, ran.err
    assert "the masking policy of source sites of places came into force" in ran.err
    rename_source("spots", mask, of="places")
    ran = masked("run", "places")
    assert ran.code == 0, ran.err
    rename_source("again", FINER, of="places")
    is_denied(masked, "places", "again")


def test_the_way_back_to_an_old_name_is_no_way_around_a_stricter_mask(masked: Kfm) -> None:
    declare(dataset("places", "sites.csv", mask=True), mask=COARSER)
    assert masked("run", "places").code == 0
    declare(dataset("sites", "sites.csv", mask=True), mask=MASK)
    ran = masked("run", "sites", "--force", "--reason", "again")
    assert ran.code == 4 and "kfm mask deploy sites sites" in ran.err, ran.err
    Path("mask.yml").write_text(COARSER)
    ran = masked("run", "sites")
    assert ran.code == 0, ran.err


def test_two_stewards_bring_a_looser_mask_under_a_new_name_into_force(masked: Kfm) -> None:
    rename_source("places", FINER)
    is_denied(masked, "sites", "places")
    asked = masked("mask", "deploy", "sites", "places", "--reason", "as agreed", "--key", key("olli"))
    assert asked.code == 4, asked.err
    (order,) = [row["id"] for row in masked("review", "list", "--json").data if row["state"] == "open"]
    shown = str(masked("review", "show", order, "--json").data["more"]["levels"])
    assert "sites/places: generalised, cell 6 → generalised, cell 6" in shown, "not: nothing before"
    for name in ("sue", "sam"):
        assert masked("review", "approve", order, "--key", key(name)).code == 0
    ran = masked("run", "sites")
    assert ran.code == 0, ran.err
    rename_source("spots", FINER)
    ran = masked("run", "sites")
    assert ran.code == 0, ran.err


def test_a_new_dataset_of_another_source_comes_into_force_as_it_is(masked: Kfm) -> None:
    Path("others.csv").write_text(OTHERS)
    Path("finer.yml").write_text(FINER)
    others = dataset("others", "others.csv", mask=True).replace("mask.yml", "finer.yml")
    declare(dataset("sites", "sites.csv", mask=True), others)
    labels(label("source: sites.csv"), label("source: others.csv", public_resolution=7))
    ran = masked("run", "others")
    assert ran.code == 0, ran.err
    assert in_force(masked, "others/sites")
