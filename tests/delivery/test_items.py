"""Items are written fast, and with the same bytes as canonical JSON."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kfm.delivery.public_runs import public_run
from kfm.model.canonical import canonical
from kfm.model.public_run import Places, PublicArtifact
from kfm.projections import stac
from tests.delivery.sites import Site

PLACES = Places(public="../public", receipts="")
BOXES = [(), (1.0, 2.0, 3.0, 4.0), (-102.05, 37.5, -94.0, 40.25), (170.0, -1.5, -170.0, 0.0), (1e-7, 0, 1, 2)]
WORDS = ["plain", "größe", "a b/c", '"quoted"', "\U0001f33e and \ufffd"]


@pytest.mark.parametrize("title", ["Plain", "Größe", "1"])
def test_an_item_is_the_canonical_form_of_what_is_said(place: Path, title: str) -> None:
    site = Site(place / "site")
    with site.open() as session:
        receipt = site.ingest(session, {"a": "1"})
        entry = next(each for each in session.state.ledger.entries() if each.run_id == receipt.run_id)
        run = public_run(session.state, session.objects, entry)
    run = msgspec.structs.replace(run, metadata={**run.metadata, "title": title, "extent": {"interval": [None, None]}})
    items = stac.Items(run, PLACES)
    for n, (box, word) in enumerate((box, word) for box in BOXES for word in WORDS):
        when = ("", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z/..")[n % 3]
        artifact = PublicArtifact(
            id=f"kfm://dataset/demo/{n}", key=(word, str(n)), digest="sha256:" + "0" * 64, size=n,
            media_type="text/csv", path=f"versions/v/{n}.csv", bbox=box, datetime=when, stac_id=word if n % 2 else "",
        )  # fmt: skip
        assert items.item_bytes(artifact) == canonical(stac.item(artifact, run, PLACES))
        assert json.loads(items.item_bytes(artifact))["id"]
