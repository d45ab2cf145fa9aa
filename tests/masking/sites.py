"""Synthetic sites with exact places, their masking policy, and a key."""

from __future__ import annotations

import random
from typing import Any

from kfm.masking.mask import Prepared, prepare
from kfm.model.labels import Classification, Label, LabelTarget, label_classification
from kfm.model.masks import Accuracy, AccuracyClass, ColumnRule, Location, MaskingPolicy
from kfm.model.secret import Secret
from tests.masking.canaries import Canary

KEY = Secret(bytes(range(32)))
POINT = AccuracyClass(name="point", metres=10)
CLASSES = {
    "gps": POINT,
    "section": AccuracyClass(name="section", metres=1200),
    "county": AccuracyClass(name="county", metres=35000),
}


def policy(**changed: Any) -> MaskingPolicy:
    said: dict[str, Any] = {
        "id": "sites",
        "version": "1",
        "namespace": "kansas-sites",
        "record_id": "trinomial",
        "resolution": 7,
        "location": Location(latitude="lat", longitude="lng", accuracy=Accuracy(column="how", classes=CLASSES)),
        "columns": {
            "material": ColumnRule(kind="code", values=("charcoal", "bone")),
            "age": ColumnRule(kind="number", step=50),
            "dug": ColumnRule(kind="date", to="year", name="excavated"),
            "notes": ColumnRule(kind="text"),
            "summary": ColumnRule(kind="text", reviewed_by="a steward"),
        },
    }
    return MaskingPolicy(**(said | changed))


def standing(**changed: Any) -> Classification:
    said: dict[str, Any] = {
        "of": LabelTarget(dataset="sites"),
        "sensitivity": "generalised",
        "care": "community",
        "custodian": "society",
        "public_resolution": 7,
    }
    return label_classification(Label(**(said | changed)), "2026-11-16")


def prepared(**changed: Any) -> Prepared:
    return prepare(policy(**changed), standing(), KEY)


def canaries(count: int, seed: int = 20) -> list[Canary]:
    """Places in Kansas with digits of their own."""
    rng = random.Random(seed)
    counties = ("BO", "BT", "CO", "DP", "GE", "RL", "SA", "WB")
    return [
        Canary(
            rng.randrange(370_100_000, 399_900_000) * 10 / 1e8 + 7e-8,
            -rng.randrange(946_100_000, 1_019_900_000) * 10 / 1e8 - 3e-8,
            f"14{counties[n % len(counties)]}{4000 + n * 7}",
        )
        for n in range(count)
    ]


def rows(sites: list[Canary], seed: int = 7) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            "trinomial": site.trinomial,
            "lat": repr(site.latitude),
            "lng": repr(site.longitude),
            "how": "gps",
            "material": rng.choice(["charcoal", "bone", "a pot of the chief"]),
            "age": str(rng.randrange(200, 9000)),
            "dug": f"19{rng.randrange(20, 99)}-0{rng.randrange(1, 9)}-1{rng.randrange(9)}",
            "notes": f"near {site.latitude:.5f} N {-site.longitude:.5f} W, north of {site.trinomial}",
            "summary": "a camp",
            "landowner": "somebody",
        }
        for site in sites
    ]


def columns(table: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in table] for name in table[0]}
