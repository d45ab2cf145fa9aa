"""Polars, by hand, in both its threads: python peer_polars.py table|parquet N FOLDER

The work of a contract, a filter, a sort and a deduplication: rows that break the contract go to a file of their
own, and what is made is the same as KFM's, byte for byte (its digest is in the result).
"""

from __future__ import annotations

import hashlib
import os
import sys

import polars as pl
import weather
from probe import Stopwatch, peak_mib


def table(source: str, made: str, held: str) -> None:
    rows = pl.scan_csv(source, infer_schema=False, empty_string_is_null=False)
    t_max = pl.col("t_max").str.strip_chars().cast(pl.Float64, strict=False)
    rain = pl.col("rain").str.strip_chars().cast(pl.Float64, strict=False)
    fits = (
        pl.col("id").str.contains(r"^[+-]?[0-9]+$")
        & pl.col("station").str.contains(r"^K[A-Z]{3}$")
        & pl.col("day").str.to_date("%Y-%m-%d", strict=False).is_not_null()
        & ((pl.col("t_max").str.strip_chars() == "") | t_max.is_between(-60, 60))
        & ((pl.col("rain").str.strip_chars() == "") | (rain >= 0))
    )
    warm = (
        rows.filter(fits)
        .filter(t_max >= 10)
        .sort("station", "day", "id", maintain_order=True)
        .unique(subset=["id"], keep="first", maintain_order=True)
    )
    broken, kept = pl.collect_all([rows.filter(~fits.fill_null(False)), warm])
    broken.write_ndjson(held)
    kept.write_csv(made)


def parquet(source: str, made: str, held: str) -> None:
    rows = pl.scan_parquet(source)
    fits = (
        pl.col("id").is_not_null()
        & pl.col("station").str.contains(r"^K[A-Z]{3}$")
        & pl.col("day").is_not_null()
        & (pl.col("t_max").is_null() | pl.col("t_max").is_between(-60, 60))
        & (pl.col("rain").is_null() | (pl.col("rain") >= 0))
    )
    warm = (
        rows.filter(fits)
        .filter(pl.col("t_max") >= 10)
        .sort("station", "day", "id", maintain_order=True)
        .unique(subset=["id"], keep="first", maintain_order=True)
    )
    broken, kept = pl.collect_all([rows.filter(~fits.fill_null(False)), warm])
    broken.write_ndjson(held)
    kept.write_parquet(made, compression="zstd", compression_level=3)


def main() -> None:
    n, folder = int(sys.argv[2]), sys.argv[3]
    if sys.argv[1] == "parquet":
        source, made = os.path.join(folder, "daily.parquet"), os.path.join(folder, "warm.parquet")
        weather.write_parquet(source, n)
        with Stopwatch() as watch:
            parquet(source, made, os.path.join(folder, "held.ndjson"))
        watch.report(n, made=weather.told(made), peak_mib=peak_mib())
        return
    source, made = os.path.join(folder, "daily.csv"), os.path.join(folder, "warm.csv")
    weather.write(source, n)
    with Stopwatch() as watch:
        table(source, made, os.path.join(folder, "held.ndjson"))
    with open(made, "rb") as file:
        watch.report(n, made=hashlib.sha256(file.read()).hexdigest(), peak_mib=peak_mib())


if __name__ == "__main__":
    main()
