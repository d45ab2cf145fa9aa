"""After any history, every sentence of `status`, `why-not`, `freshness`, `explain` and `review` agrees with a model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.cli.conftest import Kfm
from tests.cli.sentence_model import STEPS, Model
from tests.sampling import sampled

CONFIG = """\
datasets:
  birds:
    version: 1.0.0
    title: A list
    license: CC0-1.0
    sensitivity: {level}
    freshness: {{max_age: 90m}}
    sources:
      list: {{uri: list.csv, format: csv, contract: {{columns: [{{name: id, required: true}}, {{name: name}}]}}}}
    outputs: {{all: {{from: list, format: csv}}}}
"""
FIRST = "run publish run publish hold recover roll-back run-same publish publish-by-name withdraw run publish tighten"


def history(seed: int) -> list[str]:
    chance = random.Random(seed)
    return ["run", *chance.choices(STEPS, k=12)]


HISTORIES = [[each.replace("-", " ") for each in FIRST.split()], *map(history, range(29))]


@pytest.mark.parametrize("number", sampled(range(len(HISTORIES)), keep=3))
def test_every_sentence_agrees_with_the_model_after_each_step(
    kfm: Kfm, number: int, monkeypatch: pytest.MonkeyPatch, count: Callable[..., None]
) -> None:
    for name in ("KFM_NOW", "KFM_ACTOR"):
        monkeypatch.setenv(name, "")  # put back when the test ends
    monkeypatch.delenv("KFM_NOW")
    kinds: Counter[str] = Counter()
    model, steps = Model(kfm, CONFIG, kinds), HISTORIES[number]
    model.check()
    for at, step in enumerate(steps):
        try:
            model.step(step, at)
            model.check()
        except AssertionError as problem:
            raise AssertionError(f"after {', '.join(steps[: at + 1])}: {problem}") from None
    count("histories of status", 1)
    count("sentences compared with a model", kinds.total())
    if number == 0:
        assert not KINDS - kinds.keys() - {"status: late", "freshness: late", "status: next is run"}, "kinds not said"


# The kinds of sentence that are compared. The first history alone makes each of them true at least once, but for those
# about an age.
KINDS = {
    *("status: never made", "status: public", "status: withdrawn", "status: newer built", "status: newer withdrawn"),
    *("status: who withdrew it", "status: held", "status: late", "status: next is publish"),
    *("status: next is quarantine", "status: next is run"),
    *("why-not: never run", "why-not: nothing new", "why-not: held", "why-not: withdrawn", "why-not: unpublished"),
    *("why-not: closed", "why-not: do publish"),
    *("freshness: never", "freshness: late", "freshness: withdrawn"),
    *("explain: published", "explain: withdrawn", "explain: nothing is public", "explain: plainly public"),
    *("review: held",),
}
