"""A protected table, the policy it is masked by and its labels, as files in a folder."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from tests.masking.canaries import Canary
from tests.masking.sites import canaries, rows

POLICY = """\
id: sites
version: "1"
namespace: kansas-sites
record_id: trinomial
resolution: 7
location:
  latitude: lat
  longitude: lng
  accuracy:
    column: how
    classes:
      gps: {name: point, metres: 10}
      county: {name: county, metres: 35000}
columns:
  material: {kind: code, values: [charcoal, bone]}
  age: {kind: number, step: 50}
  dug: {kind: date, to: year, name: excavated}
  notes: {kind: text}
"""
LABELS = """\
version: 1
labels:
  # The society decided on 2026-01-12.
  - of: {dataset: sites}
    sensitivity: generalised
    care: community
    custodian: society
    authority: Kansas State Historic Preservation Office
    public_resolution: 7
    expires: 2027-06-30
"""
KEY = "0123456789abcdef0123456789abcdef"


def as_csv(table: list[dict[str, Any]], *names: str, end: str = "\n") -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, names or list(table[0]), lineterminator=end, extrasaction="ignore")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue().encode()


def as_geojson(table: list[dict[str, Any]]) -> bytes:
    features = [
        {
            "type": "Feature",
            "properties": {name: value for name, value in row.items() if name not in ("lat", "lng")},
            "geometry": {"type": "Point", "coordinates": [float(row["lng"]), float(row["lat"])]},
        }
        for row in table
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}).encode()


def laid_out(count: int = 12) -> list[Canary]:
    """sites.csv, mask.yml and labels.yml here; the places that are in it."""
    sites = canaries(count)
    Path("sites.csv").write_bytes(as_csv(rows(sites)))
    Path("mask.yml").write_text(POLICY)
    Path("labels.yml").write_text(LABELS)
    return sites
