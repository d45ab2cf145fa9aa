"""A protected table as Parquet: KFM cannot mask it, so it builds nothing from it and publishes no copy."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import OURS, dataset, hits, installation, label, labels, table

HIDDEN = ("masking does not understand", "is protected")


@pytest.fixture
def parquet(site: Kfm) -> Kfm:
    rows = list(csv.DictReader(io.StringIO(table())))
    OURS.add("sites.parquet")
    pq.write_table(pa.Table.from_pylist(rows), "sites.parquet", compression="none", use_dictionary=False)
    return site


def as_parquet(said: str) -> str:
    return said.replace("format: csv", "format: parquet")


@pytest.mark.parametrize("level", ["generalised", "restricted"])
def test_it_is_refused_before_any_library_reads_it(parquet: Kfm, level: str) -> None:
    installation(as_parquet(dataset("sites", "sites.parquet", mask=level == "generalised")))
    labels(label("dataset: sites", level), label("source: sites.parquet", level))
    ran = parquet("run", "sites")
    assert ran.code == 3, ran
    assert "source sites is protected, and masking does not understand parquet" in ran.err
    assert hits() == []


def test_an_unlabelled_copy_is_not_published(parquet: Kfm) -> None:
    """Its rows are not known again in Parquet, and so it may not leave where something is protected."""
    assert parquet("run", "sites").code == 0
    installation(
        dataset("sites", "sites.csv", mask=True),
        as_parquet(dataset("copy", "sites.parquet", sensitivity="public")).replace(
            "updater: updaters.py:Copy\n", "version: '1.0.0'\n    outputs: {all: {from: sites}}\n"
        ),
    )
    ran = parquet("run", "copy")
    assert ran.code == 4, ran
    assert not list(Path("public").rglob("*.parquet"))
