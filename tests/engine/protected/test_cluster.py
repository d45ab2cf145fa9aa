"""Steps of protected data stay in this process, whatever cluster there is."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Kfm


def test_no_step_of_protected_data_is_sent_to_a_cluster(site: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_EXECUTE__CLUSTER", "tcp://127.0.0.1:1")  # where nothing answers
    answer = site("run", "sites", "--verbose")
    assert answer.code == 0, answer
    assert "steps.local" in answer.err and "protected data does not leave this process" in answer.err
