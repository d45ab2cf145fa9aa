"""What was published is shown only as long as today's labels, policies and consents allow it, whatever ran since."""

from __future__ import annotations

from collections.abc import Callable

from tests.app.governance.people import by_order
from tests.app.serving.conftest import Gate
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE, dataset, installation, label, labels

Opened = Callable[..., Gate]


def published(site: Kfm, *names: str) -> None:
    for name in names:
        assert site("run", name).code == 0
        answer = by_order(site, SAFE, "promote", name)
        assert answer.code == 0, answer.err


def test_a_masked_dataset_is_shown_until_its_label_is_tightened_in_the_file(site: Kfm, opened: Opened) -> None:
    installation(dataset("sites", "sites.csv", mask=True, sensitivity="public"))
    published(site, "sites")
    gate = opened()
    yes = gate.asked("sites")
    assert yes.allow is True, yes.reasons
    assert [one.resolution for one in yes.obligations] == [6]  # type: ignore[union-attr]
    assert gate.asked("sites") is yes
    labels(label("dataset: sites", "restricted"), label("source: sites.csv"))
    assert gate.asked("sites").allow is False
