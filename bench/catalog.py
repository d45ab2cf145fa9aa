"""What a catalog costs: `python bench/catalog.py [ITEMS]` (default: 100,000).

A dataset of so many keys is published, and its catalog built: as files, against what the file system gives for the same
bytes under the same names (written, and synced once); as one file of lines; by pystac; and again after one changed key.
Rates are by the wall clock, each side in the same folder one after the other.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kfm import Output, Plan, SourceRef, Step, Updater, config
from kfm.app.metadata.catalogs import build, items
from kfm.app.metadata.ledger_sinks import report_to_sinks
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Session, open_session
from kfm.fsio import REAL
from kfm.sinks.catalog_files import CatalogFolder

KFM = """
accept_weak_storage: true
publish: noop
{more}
datasets:
  many:
    updater: bench.catalog:Many
    title: Many
    description: Small files
    license: CC0-1.0
    sensitivity: public
    sources: {{rows: {{uri: rows.csv, format: csv}}}}
"""


class Many(Updater):
    id = "many"
    version = "1.0.0"
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("rows")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        return Plan([Step(id=f"n{n}", key=(f"n{n:06d}",), params={"n": n}) for n in range(self.count)], complete=True)

    def perform(self, step: Step, read: Any) -> Output:
        n = int(step.params["n"])
        text = read.text("rows") if n == 7 else ""
        west, south = -102 + n % 700 / 100, 37 + n % 300 / 100
        box = (west, south, west + 0.01, south + 0.01)
        return Output(f"{n} {text}".encode(), "text/plain", bbox=box, datetime="2026-01-01T00:00:00Z")


def opened(folder: Path, more: str = "") -> Session:
    (folder / "kfm.yml").write_text(KFM.format(more=more))
    return open_session(config.load(str(folder / "kfm.yml"), {}), mode="write")


def publish(session: Session, folder: Path, text: str) -> None:
    (folder / "rows.csv").write_text(f"value\n{text}\n")
    receipt = run_trigger(session, new_trigger(session, "many"))
    assert receipt.outcome == "done", receipt.errors
    assert run_operation(session, "promote", "many").outcome == "done"


def timed(what: str, count: int, begun: float) -> float:
    took = time.perf_counter() - begun
    print(f"{what:<60} {took:8.2f} s {count / took:10,.0f}/s", flush=True)
    return count / took


def plain_files(bodies: list[tuple[str, bytes]], folder: Path) -> float:
    begun = time.perf_counter()
    for path, body in bodies:
        target = folder / path
        if not target.parent.is_dir():
            target.parent.mkdir(parents=True)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, body)
        os.close(fd)
    REAL.sync_all(str(folder))
    return begun


def by_pystac(count: int, folder: Path) -> float:
    import datetime

    import pystac

    begun = time.perf_counter()
    catalog = pystac.Catalog("kfm", "Many")
    extent = pystac.Extent(pystac.SpatialExtent([[-102, 37, -94, 40]]), pystac.TemporalExtent([[None, None]]))
    collection = pystac.Collection("many", "Small files", extent)
    catalog.add_child(collection)
    when = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    for n in range(count):
        west, south = -102 + n % 700 / 100, 37 + n % 300 / 100
        box = [west, south, west + 0.01, south + 0.01]
        ring = [[west, south], [box[2], south], [box[2], box[3]], [west, box[3]], [west, south]]
        item = pystac.Item(f"n{n:06d}", {"type": "Polygon", "coordinates": [ring]}, box, when, {"version": "1"})
        item.add_asset("data", pystac.Asset(f"./data/{n}.txt", media_type="text/plain", roles=["data"]))
        collection.add_item(item)
    catalog.normalize_and_save(str(folder), pystac.CatalogType.SELF_CONTAINED)
    return begun


def main() -> None:
    count = Many.count
    folder = Path(tempfile.mkdtemp(prefix="kfm-catalog-", dir=os.environ.get("BENCH_DIR")))
    try:
        with opened(folder) as session:
            publish(session, folder, "one")
            settle_session(session)
            begun = time.perf_counter()
            found = build(session, str(folder / "built"))
            ours = timed(f"catalog of {found['files']} files, from the state", found["written"], begun)
            names = [path for path in sorted((folder / "built").rglob("*")) if path.is_file()]
            bodies = [(str(path.relative_to(folder / "built")), path.read_bytes()) for path in names]
            files = timed(
                "the same bytes, by the file system alone", len(bodies), plain_files(bodies, folder / "plain")
            )
            shutil.rmtree(folder / "plain")
            begun = time.perf_counter()
            again = build(session, str(folder / "built"))
            timed(f"the same again: {again['written']} files written", count, begun)
            begun = time.perf_counter()
            with open(folder / "items.ndjson", "wb") as file:
                file.writelines(items(session, "many"))
                file.flush()
                os.fsync(file.fileno())
            lines = timed("one file of lines", count, begun)
        some = min(count, 5000)
        peer = timed(f"pystac, {some} items", some, by_pystac(some, folder / "pystac"))
        with opened(folder, "catalog: file:catalog") as session:
            report_to_sinks(session)
            publish(session, folder, "two")
            written: list[int] = []
            real = CatalogFolder.send

            def send(sink: CatalogFolder, letters: Any) -> None:
                before = sink.written
                real(sink, letters)
                written.append(sink.written - before)

            CatalogFolder.send = send  # type: ignore[method-assign]
            begun = time.perf_counter()
            report_to_sinks(session)
            took = time.perf_counter() - begun
            print(f"after one changed key of {count}: {sum(written)} files written in {took:.2f} s")
        print(
            f"files: {ours / files:.2f}x the file system, {ours / peer:.1f}x pystac; lines: {lines / peer:.1f}x pystac"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
