"""The attacker against what happens to a dataset over time: cells become coarser."""

from __future__ import annotations

import random
from pathlib import Path

import h3

from tests.attacker.installation import SAFE, Publisher
from tests.attacker.public_view import View
from tests.attacker.tables import KINDS, Site, Table, within
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
