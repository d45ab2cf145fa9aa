"""A published installation with labels and keys, and the serve gate that looks at it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from kfm.app.serving.serve_gate import ServeGate
from kfm.app.session.session import open_session
from kfm.clock import FixedClock
from kfm.config import load
from kfm.model import refs
from kfm.policy.questions import PolicyDecision
from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import (
    KEY,
    SAFE,
    dataset,
    installation,
    kfm,  # noqa: F401
    label,
    labels,
    plain_environment,  # noqa: F401
)
from tests.kept import once

WELLS = "site,depth\n" + "".join(f"well-{n},{n}\n" for n in range(12))
FIRST = (label("dataset: sites", expires="2027-06-30"), label("source: sites.csv"))
ALL = ("sites", "cells", "wells", "walks")


def declared(*, wells: str = "public", before: str = "") -> None:
    """kfm.yml with a masked and a public dataset, `sites` and `wells`, and one made of each, `cells` and `walks`."""
    installation(
        dataset("sites", "sites.csv", mask=True, sensitivity="public"),
        dataset("cells", "", sensitivity="public").replace("uri: \n", "dataset: sites\n"),
        dataset("wells", "wells.csv", sensitivity=wells),
        dataset("walks", "", sensitivity="public").replace("uri: \n", "dataset: wells\n"),
    )
    if before:
        Path("kfm.yml").write_text(before + Path("kfm.yml").read_text())
    Path("wells.csv").write_text(WELLS)


@pytest.fixture
def public(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:  # noqa: F811
    """Every dataset is published, and nothing happened since."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", KEY)

    def make() -> None:
        declared()
        labels(*FIRST)
        make_list(kfm, SAFE, "office")
        for name in ALL:
            publish(kfm, name)

    once("served", [Path(), SAFE], make)
    return kfm


def publish(kfm: Kfm, name: str) -> None:  # noqa: F811
    ran = kfm("run", name)
    assert ran.code == 0, ran.err
    answer = by_order(kfm, SAFE, "promote", name)
    assert answer.code == 0, answer.err


class Gate:
    """A session that stays open, its gate, and a clock that a test may move."""

    def __init__(self, env: Mapping[str, str], now_ms: int) -> None:
        self.clock = FixedClock(now_ms)
        self.session = open_session(load(str(Path("kfm.yml").resolve()), env), mode="write", clock=self.clock)
        self.gate = ServeGate(self.session)

    def asked(self, name: str, *, audience: str = "public", status: str = "current") -> PolicyDecision:
        """Ask about the published version, and check that a yes is about nothing else and has no reason against it."""
        version = self.session.state.refs.at(refs.published(name))
        assert version, f"{name} is not published"
        decision = self.gate.decision(name, version, status, audience)
        assert decision.allow is not True or decision.is_yes(version)
        assert (decision.allow is True) is (decision.rules == [])
        return decision

    def shown(self, *names: str) -> set[str]:
        """Return which of these datasets the public is shown, or of all."""
        return {name for name in names or ALL if self.asked(name).allow is True}


Opened = Callable[..., Gate]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens the gate of the installation in this folder, under a clock that begins now."""
    with ExitStack() as stack:

        def call(**env: str) -> Gate:
            found = Gate(env, int(time.time() * 1000))
            stack.callback(found.session.close)
            return found

        yield call
