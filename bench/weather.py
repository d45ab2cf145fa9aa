"""Made-up tables of daily weather for the works `table` and `parquet`: the same every time. The CSV with the standard
library only, the Parquet with Polars, which both contestants have."""

from __future__ import annotations

import datetime
import random

COLUMNS = ("id", "station", "day", "t_max", "rain", "quality", "observer")


def write(path: str, rows: int) -> None:
    """One row in twenty has the id of an earlier one, one in a thousand no temperature, or one that is none."""
    pick = random.Random(5)
    first = datetime.date(2000, 1, 1)
    days = [(first + datetime.timedelta(n)).isoformat() for n in range(7300)]
    stations = ["K" + "".join(pick.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=3)) for _ in range(500)]
    rain = ("0", "0", "0", "0.2", "1.5", "12.7")
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(",".join(COLUMNS) + "\n")
        for n in range(rows):
            number = n if pick.random() < 0.95 else pick.randrange(n + 1)
            t_max = f"{pick.gauss(15, 12):.1f}" if pick.random() > 0.001 else pick.choice(("x", ""))
            file.write(
                f"{number},{pick.choice(stations)},{pick.choice(days)},{t_max},{pick.choice(rain)},{pick.choice('ABC')},"
                f"Observer {pick.randrange(2000)}\n"
            )


def write_parquet(path: str, rows: int) -> None:
    """The same kind of rows by arithmetic; one in a thousand has a temperature that cannot be."""
    import polars as pl

    n = pl.int_range(rows, dtype=pl.Int64)
    stations = pl.Series([f"K{chr(65 + i % 26)}{chr(65 + i // 26 % 26)}{chr(65 + i * 7 % 26)}" for i in range(500)])
    observers = pl.Series([f"Observer {i}" for i in range(2000)])
    warmth = ((n * 48271) % 65537 / 65537 * 60 - 20).round(1)
    pl.select(
        id=pl.when(n % 20 == 7).then(n // 3).otherwise(n),
        station=pl.lit(stations).gather((n * 7907) % 500),
        day=pl.lit(datetime.date(2000, 1, 1)) + pl.duration(days=(n * 6151) % 7300),
        t_max=pl.when(n % 1000 == 17).then(999.0).when(n % 1000 == 18).then(None).otherwise(warmth),
        rain=((n * 31) % 7 / 2.0),
        quality=pl.lit(pl.Series(["A", "B", "C"])).gather((n * 13) % 3),
        observer=pl.lit(observers).gather((n * 977) % 2000),
    ).write_parquet(path, compression="zstd", row_group_size=1 << 17)


def told(path: str) -> str:
    """What the rows of a Parquet file come to, in their order, whoever wrote it."""
    import hashlib

    import polars as pl

    rows = pl.read_parquet(path)
    some = pl.concat([rows.head(1000), rows.tail(1000), rows.gather_every(9973)])
    sums = rows.select(pl.len(), pl.col("id", "t_max", "rain").sum().round(3), pl.col("day").cast(pl.Int64).sum())
    return hashlib.sha256((some.write_csv() + sums.write_csv()).encode()).hexdigest()
