"""An installation of datasets that read each other, and the command line called in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kfm, kfm, plain_environment  # noqa: F401

HEAD = "publish: file:public\ndatasets:\n"
TOPS = "well,depth\na,100\nb,250\n"


def declared(name: str, sources: str, output: str = "", *, sensitivity: str = "public", more: str = "") -> str:
    """A dataset without code, of one output that is called as it is."""
    said = f"    sensitivity: {sensitivity}\n" if sensitivity else ""
    first = sources.partition(":")[0].strip("{ ")
    return (
        f'  {name}:\n    version: "1.0.0"\n    title: {name}\n    license: CC0-1.0\n{said}{more}'
        f"    sources: {sources}\n    outputs: {{{name}: {output or f'{{from: {first}}}'}}}\n"
    )


UP = declared("tops", "{wells: {uri: tops.csv, format: csv, contract: {shrink_limit: 1, columns: [{name: well}]}}}")
DOWN = declared(
    "deep",
    "{tops: {dataset: tops, format: csv, contract: {shrink_limit: 1}}}",
    "{from: tops, steps: [{filter: {column: depth, at_least: 200}}]}",
)


def written(*datasets: str, head: str = HEAD) -> None:
    Path("kfm.yml").write_text(head + "".join(datasets))
    if not Path("tops.csv").exists():
        Path("tops.csv").write_text(TOPS)


@pytest.fixture
def pair(kfm: Kfm) -> Kfm:  # noqa: F811
    """`deep` reads what `tops` is."""
    written(UP, DOWN)
    return kfm


def at(kfm: Kfm, ref: str) -> str:  # noqa: F811
    """The digest that a ref is at; empty: none."""
    return next((each["version"] for each in kfm("refs", "list", "--json").data if each["ref"] == ref), "")


def last_receipt(kfm: Kfm) -> dict[str, object]:  # noqa: F811
    row = kfm("runs", "receipts", "--limit", "1", "--json").data[0]
    found: dict[str, object] = kfm("runs", "receipt", row["run_id"], "--json").data
    return found
