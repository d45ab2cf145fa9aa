"""DuckDB, by hand, in both its threads: python peer_duckdb.py table N FOLDER

The same work as in peer_polars.py, and the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import sys

import duckdb
import weather
from probe import Stopwatch, peak_mib

FITS = """
    regexp_full_match(id, '[+-]?[0-9]+') and regexp_full_match(station, 'K[A-Z]{3}')
    and try_cast(day as date) is not null
    and (coalesce(trim(t_max), '') = '' or coalesce(try_cast(t_max as double) between -60 and 60, false))
    and (coalesce(trim(rain), '') = '' or coalesce(try_cast(rain as double) >= 0, false))
"""


def table(source: str, made: str, held: str) -> None:
    base = duckdb.connect()
    columns = ", ".join(f"'{name}': 'varchar'" for name in weather.COLUMNS)
    base.sql(f"create view daily as select * from read_csv('{source}', header=true, auto_detect=false, delim=',', "
             f"quote='\"', escape='\"', columns={{{columns}}})")  # fmt: skip
    base.sql(f"copy (select * from daily where not coalesce({FITS}, false)) to '{held}' (format json)")
    base.sql(f"""
        copy (
            select {", ".join(weather.COLUMNS)} from (
                select *, row_number() over (partition by id order by station, day, id) as place from daily
                where {FITS} and try_cast(t_max as double) >= 10
            ) where place = 1 order by station, day, id
        ) to '{made}' (format csv, header true)
    """)


def main() -> None:
    n, folder = int(sys.argv[2]), sys.argv[3]
    source, made = os.path.join(folder, "daily.csv"), os.path.join(folder, "warm.csv")
    weather.write(source, n)
    with Stopwatch() as watch:
        table(source, made, os.path.join(folder, "held.ndjson"))
    with open(made, "rb") as file:
        watch.report(n, made=hashlib.sha256(file.read()).hexdigest(), peak_mib=peak_mib())


if __name__ == "__main__":
    main()
