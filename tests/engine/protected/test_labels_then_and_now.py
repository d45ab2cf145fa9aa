"""After any history of runs, publications, tightening, withdrawing and loosening, `kfm why-not` and `kfm explain` say
what is so today: compared with a model of a few lines."""

from __future__ import annotations

import random

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm, done
from tests.engine.protected.conftest import SAFE
from tests.sampling import sampled

SUE = ("--reason", "as agreed", "--key", str(SAFE / "sue.key"))
STEPS = ("run", "publish", "tighten", "withdraw", "loosen")
SHORT = "run publish tighten run loosen"
WHOLE = "run publish tighten loosen tighten run loosen run publish withdraw"
LEVELS = ("generalised", "restricted")


class Model:
    """The label in force, the label when the current version was made, and whether one is public."""

    def __init__(self) -> None:
        self.label, self.made, self.public, self.withdrawn = "generalised", "", False, False

    @property
    def now(self) -> str:
        return max(self.label, self.made or self.label, key=LEVELS.index)

    def step(self, kfm: Kfm, what: str) -> None:
        if what == "run":
            done(kfm("run", "sites"))
            self.made = self.label
        elif what == "publish":
            refs = {each["ref"]: each["version"] for each in kfm("refs", "list", "--json").data}
            again = ("--to", refs["processed/sites"]) if self.withdrawn and self.made else ()  # maybe the same bytes
            answer = by_order(kfm, SAFE, "publish", "sites", *again)
            assert (answer.code == 0) is (bool(self.made) and self.now == "generalised"), answer.err
            if answer.code == 0:
                self.public, self.withdrawn = True, False
        elif what == "withdraw":
            answer = kfm("rollback", "sites", "--to", "nothing", *SUE)
            assert answer.code == (0 if self.public or self.withdrawn else 3), answer.err
            self._take_back()
        elif what == "tighten":
            done(*(kfm("labels", "set", of, "--sensitivity", "restricted", *SUE) for of in OF))
            self.label = "restricted"
            self._take_back()
        else:
            done(*(by_order(kfm, SAFE, "labels", "set", of, "--sensitivity", "generalised") for of in OF))
            self.label = "generalised"

    def _take_back(self) -> None:
        self.public, self.withdrawn = False, self.withdrawn or self.public

    def check(self, kfm: Kfm) -> None:
        reasons = kfm("why-not", "sites", "--json").data["reasons"]
        found = {reason["what"]: reason for reason in reasons}
        if not self.made:
            assert set(found) == {"never-run"}
            return
        told = " ".join(reason["why"] for reason in reasons)
        assert ("it is generalised" in told) is (self.now == "generalised"), reasons
        assert ("closed" in found) is (self.now == "restricted"), reasons
        assert ("withdrawn" in found) is self.withdrawn, reasons
        publishes = any(reason["do"].startswith("kfm publish") for reason in reasons)
        assert publishes is (self.now == "generalised" and not self.public), reasons
        runs = any(reason["do"] == "kfm run sites" for reason in reasons)
        assert runs is (self.made != self.label), reasons
        said = kfm("explain", "sites").out
        if self.made == self.now:
            assert f"It is {self.now};" in said, said
        else:
            assert f"It was {self.made} when it was made; today it is {self.now}." in said, said
        assert ("is shown finer than one H3 cell" in said) is (self.now == "generalised"), said
        if self.public:
            assert "It was published at" in said and "Nothing of sites is public today" not in said


OF = ("source:sites.csv",)


def history(seed: int) -> str:
    chance = random.Random(seed)
    return " ".join(("run", *chance.choices(STEPS, k=8)))


@pytest.mark.parametrize("told", sampled([SHORT, WHOLE, *map(history, range(12))]))
def test_every_sentence_is_true_after_any_history_of_tightening_withdrawing_and_loosening(site: Kfm, told: str) -> None:
    model, steps = Model(), told.split()
    for number, step in enumerate(steps):
        model.step(site, step)
        try:
            model.check(site)
        except AssertionError as problem:
            raise AssertionError(f"after {', '.join(steps[: number + 1])}: {problem}") from None
