"""An installation with a catalog and one key for each row of its source, and what must hold of the catalog at any
time.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.app.metadata.catalogs import build
from kfm.app.runs.run_control import run_operation, run_trigger
from kfm.app.runs.settlement import settle_session
from kfm.app.runs.trigger_request import new_trigger
from kfm.app.session.session import Mode, Session, open_session
from kfm.config import load
from kfm.model.records import Receipt


class Rows(Updater):
    """A file a row, under the row's key."""

    id = "rows"
    version = "1.0.0"

    def inputs(self, trigger: Any, sources: Any) -> list[SourceRef]:
        return [sources.pin("rows")]

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        steps = [Step(id=key, key=("row", key), params={"key": key}) for key in inputs[0].partitions]
        return Plan(steps, complete=True)

    def perform(self, step: Step, read: Any) -> Output:
        key = step.params["key"]
        rows = [row for row in read.csv("rows") if row["key"] == key]
        return Output.csv(rows)


class Site:
    """A folder with a configuration and a source a dataset."""

    def __init__(self, folder: Path, datasets: Sequence[str] = ("demo",), more: str = "") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        text = f"accept_weak_storage: true\ncatalog: file:catalog\ndeletion_budget: 1.0\n{more}datasets:\n"
        for name in datasets:
            text += (
                f"  {name}:\n    updater: tests.delivery.sites:Rows\n    title: The {name}\n    license: CC0-1.0\n"
                f"    sensitivity: public\n    description: Rows of {name}\n"
                f"    sources:\n      rows:\n        uri: {name}.csv\n        format: csv\n        complete: true\n"
                f"        contract:\n          shrink_limit: 1.0\n          partition_by: key\n"
                f"          columns: [{{name: key}}, {{name: value}}]\n"
            )
        (folder / "kfm.yml").write_text(text)

    def open(self, mode: Mode = "write") -> Session:
        return open_session(load(str(self.folder / "kfm.yml"), {}), mode=mode)

    def source(self, rows: Mapping[str, str], dataset: str = "demo") -> None:
        lines = [f"{key},{value}\n" for key, value in sorted(rows.items())]
        (self.folder / f"{dataset}.csv").write_text("key,value\n" + "".join(lines))

    def ingest(self, session: Session, rows: Mapping[str, str], dataset: str = "demo") -> Receipt:
        self.source(rows, dataset)
        receipt = run_trigger(session, new_trigger(session, dataset))
        assert receipt.outcome in ("done", "noop", "unchanged"), receipt.errors
        settle_session(session)
        return receipt

    def operate(
        self, session: Session, name: str, params: dict[str, str] | None = None, dataset: str = "demo"
    ) -> Receipt:
        receipt = run_operation(session, name, dataset, params, reason="a test")
        assert receipt.status == "SUCCESS", receipt.errors
        settle_session(session)
        return receipt

    def publish(self, session: Session, rows: Mapping[str, str], dataset: str = "demo") -> str:
        self.ingest(session, rows, dataset)
        self.operate(session, "promote", dataset=dataset)
        return session.state.refs.at(f"published/{dataset}")

    @property
    def catalog(self) -> dict[str, bytes]:
        return tree(self.folder / "catalog")

    def fresh(self) -> dict[str, bytes]:
        """As it is if it is built again from the state."""
        folder = self.folder / "anew"
        shutil.rmtree(folder, ignore_errors=True)
        with self.open("read") as session:
            build(session, str(folder))
        return tree(folder)

    def sound(self) -> None:
        """As if built again, every link leads to a file, and every file is linked to."""
        assert self.catalog == self.fresh()
        broken, orphans = links(self.folder / "catalog")
        assert (broken, orphans) == ([], [])


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def links(catalog: Path) -> tuple[list[str], list[str]]:
    """Links that lead to no file, and files that no link leads to."""
    broken, reached, waiting = [], set(), [catalog / "catalog.json"]
    if not (catalog / "catalog.json").exists():
        return [], [str(path) for path in catalog.rglob("*") if path.is_file()]
    while waiting:
        file = waiting.pop()
        if file in reached:
            continue
        reached.add(file)
        if catalog not in file.parents or file.suffix not in (".json", ".jsonld"):
            continue
        for href in hrefs(json.loads(file.read_bytes())):
            if "://" in href or href.startswith("urn:"):
                continue
            target = Path(os.path.normpath(file.parent / href))
            if target.is_file():
                waiting.append(target)
            else:
                broken.append(f"{file.relative_to(catalog)}: {href}")
    orphans = [str(path) for path in catalog.rglob("*") if path.is_file() and path not in reached]
    return broken, orphans


def hrefs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("href", "downloadURL", "accessURL") and isinstance(inner, str):
                yield inner
            else:
                yield from hrefs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from hrefs(inner)
