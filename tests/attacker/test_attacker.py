"""The attacker against installations with synthetic tables: no attack places sites better than chance.

Chance is a half for a half of a cell and a seventh for one of its seven parts. Seeds and keys are fixed, so an attack
gets the same result in every run. Only the times of files differ, and for them the middle of five results counts.
"""

from __future__ import annotations

import ast
import csv
import random
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.attacker.attacks import ATTACKS
from tests.attacker.installation import Publisher
from tests.attacker.leaks import LEAKS, planted
from tests.attacker.public_view import View
from tests.attacker.score import Guess, Key, Point, Result, judged
from tests.attacker.tables import tables
from tests.cli.conftest import Kfm

HERE = Path(__file__).parent
TOWNS = HERE.parent / "masking/public_tables/towns.csv"
Truth = dict[Key, Point]


class World(NamedTuple):
    """What the public saw, and where the sites are."""

    view: View
    truth: Truth

    def known(self, seed: int = 0) -> Truth:
        """The half of the places that the attacker knows already."""
        places = sorted(set(self.truth.values()))
        chosen = set(random.Random(seed).sample(places, len(places) // 2))
        return {key: place for key, place in self.truth.items() if place in chosen}


def towns() -> list[Point]:
    with TOWNS.open(newline="") as file:
        return [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)]


def world(kfm: Kfm, folder: Path, seeds: Iterable[int]) -> World:
    with installed(folder):
        publisher = Publisher(kfm, tables(seeds))
        publisher.people()
        for version in range(3):
            publisher.version(version)
        return World(View(publisher.folders, towns()), publisher.truth())


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """An empty folder to work in, which is removed afterwards."""
    (folder / "installation").mkdir(parents=True)
    with chdir(folder / "installation"):
        yield
    shutil.rmtree(folder)


Opinions = dict[tuple[str, int], list[Guess]]  # by the name of the attack and the set of known places


def opinions(world: World, names: Iterable[str] = ATTACKS) -> Opinions:
    """The guesses of each attack. Times differ between runs, so their attack is repeated with other known places."""
    return {
        (name, seed): ATTACKS[name](world.view, world.known(seed))
        for name in names
        for seed in range(5 if name == "times" else 1)
    }


def results(found: Opinions, truth: Truth) -> dict[str, Result]:
    """The result of each attack; of several, the middle one."""
    out: dict[str, list[Result]] = {}
    for (name, _), guesses in found.items():
        out.setdefault(name, []).append(judged(guesses, truth))
    return {name: sorted(some, key=lambda one: one.p)[len(some) // 2] for name, some in out.items()}


def test_no_attack_beats_chance_on_twenty_tables_and_each_finds_its_planted_leak(kfm: Kfm, place: Path) -> None:
    found = world(kfm, place / "first", range(20))
    assert len(found.view.editions) == 20 and {len(each) for each in found.view.editions.values()} == {3}
    assert len(found.truth) == len(found.view.rows) > 300
    assert won(results(opinions(found), found.truth)) == {}
    missed = {}
    for name, leaks in LEAKS.items():
        for what, leak in leaks.items():
            folders, truth = planted(leak, found.view.folders, found.truth)
            other = World(View(folders, towns()), truth)
            result = results(opinions(other, [name]), truth)
            missed |= {} if won(result) else {what: result}
    assert missed == {}


def won(found: dict[str, Result]) -> dict[str, Result]:
    return {name: result for name, result in found.items() if result.p <= 0.01}


@pytest.mark.long
def test_no_attack_beats_chance_on_a_thousand_tables(kfm: Kfm, place: Path) -> None:
    guesses: Opinions = {}
    truth: Truth = {}
    for start in range(0, 1000, 20):
        found = world(kfm, place / str(start), range(start, start + 20))
        truth |= {(f"{start}/{table}", id): place for (table, id), place in found.truth.items()}
        for name, some in opinions(found).items():
            guesses.setdefault(name, []).extend(one._replace(key=(f"{start}/{one.key[0]}", one.key[1])) for one in some)
    assert len(truth) > 15_000
    found_all = results(guesses, truth)
    print(*(f"{name}: {result}" for name, result in found_all.items()), sep="\n")
    assert won(found_all) == {}


def test_the_attacker_shares_no_code_with_the_product() -> None:
    own = ("attacks", "cell_parts", "joins", "leaks", "public_view", "score", "tables")
    for name in own:
        tree = ast.parse((HERE / f"{name}.py").read_text())
        found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        others = {one for one in found if one.partition(".")[0] not in sys.stdlib_module_names | {"h3", "numpy"}}
        assert others <= {f"tests.attacker.{one}" for one in own}, name


def test_every_attack_has_a_leak_that_it_finds() -> None:
    prior = {"counts", "towns"}  # they use nothing but cells and other public tables: no file can leak to them
    assert LEAKS.keys() == ATTACKS.keys() - prior
