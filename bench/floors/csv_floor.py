"""What the library alone needs for the work `table`: python bench/floors/csv_floor.py [ROWS]

pyarrow reads the CSV, holds every column against the contract with its own kernels, filters, sorts, deduplicates,
writes and syncs. It holds no row back by name, hashes nothing, journals nothing, and means by a number whatever Arrow
means: no engine built on it can be faster.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import weather


def made(source: str, target: str) -> None:
    texts = dict.fromkeys(weather.COLUMNS, pa.string())
    rows = csv.read_csv(source, convert_options=csv.ConvertOptions(column_types=texts, strings_can_be_null=False))
    number = r"^[+-]?[0-9]+(\.[0-9]*)?$"
    fits = pc.match_substring_regex(rows["id"], "^[0-9]+$")
    fits = pc.and_(fits, pc.match_substring_regex(rows["station"], "^K[A-Z]{3}$"))
    fits = pc.and_(fits, pc.match_substring_regex(rows["day"], "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"))
    fits = pc.and_(fits, pc.match_substring_regex(rows["rain"], number))
    fits = pc.and_(fits, pc.match_substring_regex(rows["t_max"], number))
    rows = rows.filter(fits)
    rows = rows.filter(pc.greater_equal(rows["t_max"].cast(pa.float64()), 10))
    rows = rows.sort_by([("station", "ascending"), ("day", "ascending"), ("id", "ascending")]).combine_chunks()
    codes = rows["id"].combine_chunks().dictionary_encode().indices
    before = pa.concat_arrays([pa.array([-1], pa.int32()), pc.cumulative_max(codes).slice(0, len(codes) - 1)])
    rows = rows.filter(pc.greater(codes, before))
    with open(target, "wb") as file:
        csv.write_csv(rows, file, csv.WriteOptions(quoting_style="none"))
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source = os.path.join(folder, "daily.csv")
        weather.write(source, count)
        for _ in range(3):
            start, cpu = time.perf_counter(), time.process_time()
            made(source, os.path.join(folder, "warm.csv"))
            print(f"{time.perf_counter() - start:.2f} s, {time.process_time() - cpu:.2f} s of processors")


if __name__ == "__main__":
    main()
