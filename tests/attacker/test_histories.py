"""The attacker against what happens over time: cells become coarser, ids and places are corrected, a second table."""

from __future__ import annotations

import random
from pathlib import Path

import h3
import pytest

from tests.attacker.attacks import two_tables
from tests.attacker.installation import SAFE, Publisher
from tests.attacker.public_view import View
from tests.attacker.score import judged
from tests.attacker.tables import KINDS, Site, Table, edge, within
from tests.attacker.test_attacker import World, installed, opinions, results, won
from tests.cli.conftest import Kfm


def crowd(count: int) -> list[Site]:
    """Sites all over Kansas, few of them in one cell."""
    rng = random.Random(f"crowd of {count}")
    return [
        Site(
            f"14AO{1000 + number}",
            within(rng, h3.latlng_to_cell(rng.uniform(37.2, 39.8), rng.uniform(-101.5, -95.2), 7), 6),
            6,
            rng.choice(KINDS),
            rng.randrange(200, 9000),
            f"19{rng.randrange(20, 99)}-05-12",
        )
        for number in range(count)
    ]


def test_a_cell_that_became_coarser_and_the_finer_one_before_it_meet_nowhere_near_the_site(
    kfm: Kfm, place: Path
) -> None:
    sites = crowd(400)
    astray = [
        site
        for site in sites
        if h3.cell_to_parent(h3.latlng_to_cell(*site.point, 7), 6) != h3.latlng_to_cell(*site.point, 6)
    ]
    assert len(astray) > 20  # the coarser cells of these places would not hold the finer ones
    with installed(place / "one"):
        publisher = Publisher(kfm, [Table("sites", "csv", 7, (tuple(sites),))])
        publisher.people()
        publisher.version(0)
        words = ("source:data/sites.csv", "--resolution", "6", "--key", str(SAFE / "sue.key"), "--reason", "too fine")
        assert kfm("labels", "set", *words).code == 0
        publisher.publish()
        found = World(View(publisher.folders), publisher.truth())
    shown = {h3.get_resolution(row["cell"]) for row in found.view.editions["part0/sites"][-1].rows}
    assert len(found.view.editions["part0/sites"]) == 2 and shown == {6}
    assert won(results(opinions(found, ["two cells"]), found.truth)) == {}


def beyond(sites: list[Site], degrees: float) -> tuple[list[Site], list[Site]]:
    """The sites near edges of their cells, and the same ones beyond these edges with other ids."""
    rng = random.Random(1)
    pairs = [edge(rng, h3.latlng_to_cell(*site.point, 7), 7, degrees) for site in sites]
    before = [site._replace(point=point) for site, (point, _) in zip(sites, pairs, strict=True)]
    after = [
        site._replace(point=point, id=site.id.replace("14AO", "14BO"))
        for site, (_, point) in zip(sites, pairs, strict=True)
    ]
    return before, after


@pytest.mark.long
def test_another_id_and_a_place_ten_metres_on_in_the_next_cell_show_the_same_cell(kfm: Kfm, place: Path) -> None:
    before, after = beyond(crowd(60), 4e-5)
    with installed(place / "one"):
        publisher = Publisher(kfm, [Table("sites", "csv", 7, (tuple(before), tuple(after)))])
        publisher.people()
        publisher.version(0)
        publisher.version(1)
        found = World(View(publisher.folders), publisher.truth())
    first, second = ({row["id"] for row in edition.rows} for edition in found.view.editions["part0/sites"])
    assert len(first) == len(second) == 60 and not first & second
    assert won(results(opinions(found, ["same row", "two cells"]), found.truth)) == {}


@pytest.mark.long
def test_a_second_table_of_the_same_places_in_another_namespace_shows_no_second_cell(kfm: Kfm, place: Path) -> None:
    before, after = beyond(crowd(60), 4e-5)
    with installed(place / "one"):
        tables = [Table(name, "csv", 7, (tuple(own),)) for name, own in (("first", before), ("second", after))]
        publisher = Publisher(kfm, tables, per_dataset=1)
        publisher.people()
        publisher.version(0)
        found = World(View(publisher.folders), publisher.truth())
    assert {len(editions[-1].rows) for editions in found.view.editions.values()} == {60}
    assert judged(two_tables(found.view, {}), found.truth).p > 0.01
