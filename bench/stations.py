"""A declared dataset with one output for each station of a table."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from probe import Stopwatch

from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger

PUBLIC = "publish: file:public\ncatalog: file:catalog\n"
DATASET = """\
  data:
    version: "1.0.0"
    title: Stations
    license: CC0-1.0
    sensitivity: public
    sources:
      rows:
        uri: rows.csv
        complete: true
        contract: {format: csv, partition_by: station, columns: [{name: station, required: true}]}
    outputs:
      by: {from: rows, partition_by: station}
"""


def write_table(folder: str, n: int, value: int) -> None:
    """A table of two rows for each of n stations; one of them has this value."""
    with open(os.path.join(folder, "rows.csv"), "w") as file:
        file.write("station,hour,value\n")
        for i in range(n):
            file.write("".join(f"s{i:07d},{hour},{value if i == n // 2 else i % 100}\n" for hour in (0, 12)))


def first_run(n: int, folder: str, home: Any) -> None:
    write_table(folder, n, 0)
    trigger = new_trigger(home, "data")
    with Stopwatch() as watch:
        assert run_trigger(home, trigger).steps == n
    watch.report(1)


def promote_one(n: int, folder: str, home: Any, bytes_written: Callable[[], int]) -> None:
    for value in (0, 1):
        write_table(folder, n, value)
        run_trigger(home, new_trigger(home, "data"))
        settle_session(home)
        before = bytes_written()
        with Stopwatch() as watch:
            assert run_operation(home, "promote", "data").outcome == "done"
            settle_session(home)
    watch.report(1, written=bytes_written() - before)
