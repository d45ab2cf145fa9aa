"""Map tiles at the gate of a promotion: exact places are denied; two stewards release what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.governance.people import by_order
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import SAFE
from tests.engine.protected.test_forms import ROWS, authored, declared, known, outcome  # noqa: F401
from tests.masking.tile_files import Shape, archive, point, tile, tile_of

FAR = (-100.1, 38.7)
SITES = [(float(row.lng), float(row.lat)) for row in ROWS]


def tiles(zoom: int, shapes: list[Shape], kind: int = 1) -> bytes:
    found: dict[tuple[int, int, int], list[Shape]] = {}
    for shape in shapes:
        found.setdefault(tile_of(zoom, shape.parts[0][0]), []).append(shape)
    return archive({place: tile(place, its) for place, its in found.items()}, kind=kind)


FORMS = {
    "points": tiles(8, [point(*place, kind="camp") for place in SITES]),
    "one deep point": tiles(16, [point(*SITES[3]), point(*FAR)]),
    "one corner": tiles(16, [Shape(3, [[FAR, (FAR[0], 38.8), SITES[3]]], {})]),
    "an id": tiles(4, [point(*FAR, site=ROWS[3].id)]),
}


def drawn(name: str, body: bytes) -> None:
    """A dataset that the gate accepts but for what is in its tiles."""
    authored(name, {"a.pmtiles": body})
    config = Path("kfm.yml").read_text()
    contract = "uri: seed.csv, format: csv, contract: {columns: [{name: a}]}"
    Path("kfm.yml").write_text(config.replace("uri: seed.csv}", contract + "}"))


@pytest.mark.parametrize("path", [declared, authored])
def test_exact_places_in_tiles_are_not_published(known: Kfm, path: object) -> None:  # noqa: F811
    for n, body in enumerate(FORMS.values()):
        path(f"map{n}", {"a.pmtiles": body})  # type: ignore[operator]
        assert outcome(known, f"map{n}") == "denied", list(FORMS)[n]


def test_tiles_of_other_places_are_published(known: Kfm) -> None:  # noqa: F811
    drawn("map", tiles(14, [point(*FAR, name="here"), point(-101.7, 37.2, name="there")]))
    assert outcome(known, "map") == "published"


def test_what_cannot_be_read_is_released_by_two_stewards_who_saw_the_finding(known: Kfm) -> None:  # noqa: F811
    drawn("map", tiles(14, [point(*FAR)], kind=2))
    assert known("run", "map").code == 0
    held = by_order(known, SAFE, "promote", "map")
    assert held.code == 4 and "pending review" in held.err and "gate.unreadable: 1" in held.err
    assert not Path("public/datasets/map").exists()
    (order,) = [row["id"] for row in known("review", "list", "--json").data if row["kind"] == "order"]
    assert "make it again" in held.err
    for name in ("sue", "sam"):
        assert known("review", "approve", order, "--key", str(SAFE / f"{name}.key")).code == 4, (
            "signed before the finding"
        )
    assert not Path("public/datasets/map").exists()
    rejected = known("review", "reject", order, "--key", str(SAFE / "sue.key"), "--reason", "looked at it")
    assert rejected.code == 0
    released = by_order(known, SAFE, "promote", "map")
    assert released.code == 0, released.err
    assert Path("public/datasets/map").exists()
    assert not [row for row in known("review", "list", "--json").data if row["dataset"] == "map"]
