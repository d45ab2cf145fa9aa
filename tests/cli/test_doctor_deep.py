"""`kfm doctor --deep` compares the maps of the state with the records that they lead to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from kfm.store.sqlite import SqliteTables
from tests.cli.conftest import Answer, Kfm

ROW = "rain-gauges/000000000099"


def maps(answer: Answer) -> dict[str, Any]:
    return next(check for check in answer.data["checks"] if check["check"] == "state.maps")


def test_it_names_the_map_that_is_wrong_and_the_row_of_one_that_is_damaged(ran: Kfm) -> None:
    answer = ran("doctor", "--deep", "--json")
    assert answer.code == 0 and maps(answer)["found"] == "as the records say"
    path = Path(".kfm/state.db")
    tables = SqliteTables(str(path))
    tables.begin()
    tables.put("ended_runs", ROW, b"{}")
    tables.commit()
    tables.close()
    answer = ran("doctor", "--deep", "--json")
    assert answer.code == 3 and maps(answer)["ok"] is False
    assert maps(answer)["found"] == f"ended_runs/{ROW} leads to no ledger entry of rain-gauges"
    database = apsw.Connection(str(path))
    database.execute("UPDATE ended_runs SET value=x'7b7e' WHERE key=?", (ROW,))
    database.close()
    answer = ran("doctor", "--deep")
    assert answer.code == 65 and f"ended_runs/{ROW} is damaged" in answer.complaint
