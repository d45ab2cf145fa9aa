"""The picture of the architecture shows the layers of the import contract: same rooms, same rows, same order."""

from __future__ import annotations

import configparser
import re
from xml.etree import ElementTree

from tests.project.bans import ROOT

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
ENTRY_POINTS = {"__main__"}  # one line that calls the command line


def contract(name: str) -> list[set[str]]:
    """The layers of one contract, from the top to the bottom."""
    found = configparser.ConfigParser()
    found.read(ROOT / ".importlinter")
    rows = found[f"importlinter:contract:{name}"]["layers"].split("\n")
    layers = [{room.strip() for room in re.split(r"[|:]", row)} - ENTRY_POINTS for row in rows if row.strip()]
    return [layer for layer in layers if layer]


def drawn(text: str, container: str) -> list[set[str]]:
    """The rooms of each row of the picture as a reader sees them, from the top to the bottom."""
    rows = []
    for group in ElementTree.fromstring(text).iter(f"{SVG}g"):
        if group.get("data-container") == container:
            rooms = [one for one in group.iter(f"{SVG}text") if one.get("class") == "room"]
            (height,) = {float(room.get("y", "")) for room in rooms}
            rows.append((height, {room.text or "" for room in rooms}))
    return [names for _, names in sorted(rows, key=lambda row: row[0])]


def test_the_picture_shows_the_layers_of_the_contract() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    top, app = contract("rooms"), contract("app")
    assert drawn(text, "kfm") == [layer for layer in top if layer != {"app"}]
    assert drawn(text, "kfm.app") == app
    boxes = {name: float(y) for y, name in re.findall(r'<text x="26" y="(\d+)" font-size="17"[^>]*>(\w+)</text>', text)}
    assert sorted(boxes, key=boxes.__getitem__) == ["Interfaces", "App", "Adapters", "Core"]


def test_a_room_that_is_renamed_or_moved_is_found() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    rooms = drawn(text, "kfm")
    assert drawn(text.replace(">masking</text>", ">veiling</text>"), "kfm") != rooms
    moved = re.sub(r'(class="room" x="[\d.]+" y=")\d+("[^>]*>engine<)', r"\g<1>1\2", text)
    assert moved != text and drawn(moved, "kfm") != rooms
