"""What the library alone needs for the work `parquet`: python bench/floors/parquet_floor.py [ROWS]

pyarrow reads the file twice: in one thread to hold every column against the contract with its own kernels, as a
confined child does that gets one thread and no other file, and again in all threads to filter, sort, deduplicate, write
and sync. It holds no row back by name, hashes nothing and journals nothing: no engine built on it can be faster. What a
hand would write for Polars is timed in turns, where that is installed.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))
import weather  # noqa: E402


def fits(rows: pa.Table) -> pa.ChunkedArray:
    answer = pc.and_(pc.is_valid(rows["id"]), pc.is_valid(rows["day"]))
    answer = pc.and_(answer, pc.match_substring_regex(rows["station"], "^K[A-Z]{3}$"))
    warm = pc.and_(pc.greater_equal(rows["t_max"], -60), pc.less_equal(rows["t_max"], 60))
    answer = pc.and_(answer, pc.or_kleene(pc.is_null(rows["t_max"]), warm))
    return pc.and_(answer, pc.or_kleene(pc.is_null(rows["rain"]), pc.greater_equal(rows["rain"], 0)))


def checked(source: str) -> None:
    """In pieces, so that the memory is bounded, and in one thread."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        for batch in file.iter_batches(1 << 17, use_threads=False):
            rows = pa.table(batch)
            if not pc.all(pc.fill_null(fits(rows), False)).as_py():
                rows.filter(pc.invert(pc.fill_null(fits(rows), False))).to_pylist()


def made(source: str, target: str) -> None:
    rows = pq.read_table(source)
    rows = rows.filter(pc.and_(fits(rows), pc.greater_equal(rows["t_max"], 10)))
    station = rows["station"].combine_chunks().dictionary_encode()
    rank = pc.rank(station.dictionary).take(station.indices)
    order = pc.sort_indices(
        pa.table({"station": rank, "day": rows["day"], "id": rows["id"]}),
        [("station", "ascending"), ("day", "ascending"), ("id", "ascending")],
    )
    rows = rows.take(order)
    codes = rows["id"].combine_chunks().dictionary_encode().indices
    before = pa.concat_arrays([pa.array([-1], pa.int32()), pc.cumulative_max(codes).slice(0, len(codes) - 1)])
    rows = rows.filter(pc.greater(codes, before))
    pq.write_table(rows, target, compression="zstd", compression_level=3)
    with open(target, "rb") as file:
        os.fsync(file.fileno())


def child(source: str) -> None:
    subprocess.run([sys.executable, __file__, "--check", source], check=True)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        source, target = os.path.join(folder, "daily.parquet"), os.path.join(folder, "warm.parquet")
        weather.write_parquet(source, count)
        for _ in range(3):
            times = {}
            begun = time.perf_counter()
            child(source)
            times["checked in one thread"] = time.perf_counter() - begun
            begun = time.perf_counter()
            made(source, target)
            times["made in all threads"] = time.perf_counter() - begun
            if importlib.util.find_spec("polars"):
                import peer_polars

                begun = time.perf_counter()
                peer_polars.parquet(source, target, os.path.join(folder, "held.ndjson"))
                times["Polars"] = time.perf_counter() - begun
            print(", ".join(f"{what} {seconds:.2f} s" for what, seconds in times.items()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        checked(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
