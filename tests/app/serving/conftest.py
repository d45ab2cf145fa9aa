"""Published datasets of an installation with labels and keys, and the serve gate that looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kfm.app.serving.serve_gate import ServeGate
from kfm.app.session.session import Session, open_session
from kfm.clock import FixedClock
from kfm.config import load
from kfm.model import refs
from kfm.policy.questions import PolicyDecision
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import kfm, plain_environment, site  # noqa: F401

Asked = Callable[..., PolicyDecision]
DAY_MS = 86_400_000


class Gate:
    """A session that stays open, its gate, and a clock that a test may move."""

    def __init__(self, folder: Path, now_ms: int) -> None:
        self.clock = FixedClock(now_ms)
        self.session: Session = open_session(load(str(folder / "kfm.yml"), {}), mode="write", clock=self.clock)
        self.gate = ServeGate(self.session)

    def asked(self, dataset: str, *, audience: str = "public", status: str = "current") -> PolicyDecision:
        """Ask about the published version, and check that the answer is about nothing else."""
        version = self.session.state.refs.at(refs.published(dataset))
        assert version, f"{dataset} is not published"
        decision = self.gate.decision(dataset, version, status, audience)
        assert decision.allow is not True or decision.is_yes(version)
        assert (decision.allow is True) is (decision.rules == [])
        return decision

    def shows(self, dataset: str) -> bool:
        return self.asked(dataset).allow is True


@pytest.fixture
def opened() -> Iterator[Callable[..., Gate]]:
    """Opens the gate of the installation in this folder, at this time of the clock."""
    import time

    with ExitStack() as stack:

        def call(now_ms: int = 0) -> Gate:
            found = Gate(Path.cwd(), now_ms or int(time.time() * 1000))
            stack.callback(found.session.close)
            return found

        yield call


__all__ = ["Kfm"]
