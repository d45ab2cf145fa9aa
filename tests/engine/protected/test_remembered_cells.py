"""What the state remembers of cells: two runs at once, and a state of an earlier release."""

from __future__ import annotations

from pathlib import Path

import pytest

from kfm.engine.protected.protected_facts import Facts
from kfm.errors import Moved
from kfm.store.memory import MemoryTables
from kfm.store.state import StoredState
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import MASK, dataset, installation, label, labels
from tests.engine.protected.test_one_cell_of_a_place import SECOND


def test_two_runs_at_once_give_a_place_one_cell() -> None:
    state = StoredState(MemoryTables(), lambda: 0)
    facts = [Facts(), Facts(), Facts()]
    facts[0].remember("key", {"place/a": "86", "id": "86"}, {})
    facts[1].remember("key", {"place/a": "85", "other": "85"}, {})
    facts[2].remember("key", {"place/a": "84"}, {"place/a": "86"})
    with state.transaction() as tx:
        facts[0].keep(tx)
    with pytest.raises(Moved, match="another run"), state.transaction() as tx:
        facts[1].keep(tx)
    assert state.protected.first_cells("key") == {"place/a": "86", "id": "86"}
    with state.transaction() as tx:
        facts[1].keep_after_failure(tx)
    assert state.protected.first_cells("key") == {"place/a": "86", "id": "86", "other": "85"}
    with state.transaction() as tx:
        facts[2].keep(tx)
    assert state.protected.first_cells("key")["place/a"] == "84"


def test_a_second_mask_waits_until_an_older_state_knows_its_places(site: Kfm) -> None:
    installation(
        dataset("sites", "sites.csv", mask=True),
        dataset("atlas", "sites.csv", mask=True).replace("mask: mask.yml", "mask: second.yml"),
    )
    labels(label("source: sites.csv"))
    Path("second.yml").write_text(SECOND)
    assert site("run", "sites").code == 0
    forget_places()
    ran = site("run", "atlas")
    assert ran.code == 4 and "did not keep of which places" in ran.err
    assert site("run", "sites", "--force", "--reason", "to learn the places").code == 0
    assert site("run", "atlas").code == 0
    assert MASK != SECOND


def forget_places() -> None:
    import apsw

    with apsw.Connection(".kfm/state.db") as state:
        state.execute("DELETE FROM first_cells WHERE key LIKE '%/place/%'")
        assert state.changes() == 12
