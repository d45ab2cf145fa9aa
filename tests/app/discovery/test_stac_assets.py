"""A STAC item or collection is read by its address with its assets, checked and followed, and never leads elsewhere."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.engine.installations import Installation
from tests.sources.s3_server import MemoryStore, serving

CONFIG = """
kfm: 1
accept_weak_storage: true
network: {{allow: [{allow}]}}
s3: {{open-data: {{endpoint: "{endpoint}"}}}}
datasets:
  scenes:
    updater: {updater}
    sensitivity: public
    sources:
      scene: {{uri: "{uri}", format: stac}}
"""
OURS = "kfm.updaters.stac_assets:Assets"


def item(name: str, assets: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "Feature",
        "stac_version": "1.1.0",
        "id": name,
        "geometry": {"type": "Point", "coordinates": [-98.0, 38.5]},
        "bbox": [-98.0, 38.5, -98.0, 38.5],
        "properties": {"datetime": "2026-01-01T00:00:00Z"},
        "links": [],
        "assets": assets,
    }


def collection(*links: str) -> dict[str, Any]:
    return {
        "type": "Collection",
        "stac_version": "1.1.0",
        "id": "kansas",
        "description": "Scenes",
        "license": "CC0-1.0",
        "extent": {
            "spatial": {"bbox": [[-102, 37, -94, 40]]}, "temporal": {"interval": [["2026-01-01T00:00:00Z", None]]},
        },
        "links": [{"rel": "item", "href": href} for href in links],
        "assets": {"readme": {"href": "./readme.txt"}},
    }  # fmt: skip


def site(
    folder: Path,
    uri: str,
    *,
    updater: str = OURS,
    allow: str = "",
    endpoint: str = "http://127.0.0.1:9",
    more: str = "",
) -> Installation:
    text = CONFIG.format(uri=uri, updater=updater, allow=allow, endpoint=endpoint, more=more)
    (folder / "kfm.yml").write_text(text)
    return Installation(folder)


def put(folder: Path, name: str, body: Any) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body if isinstance(body, bytes) else json.dumps(body).encode())


def test_the_assets_of_an_item_are_published_under_its_id_and_followed(tmp_path: Path) -> None:
    digest = "1220" + hashlib.sha256(b"red").hexdigest()
    assets = {"red": {"href": "./b/red.tif", "type": "image/tiff", "file:checksum": digest}, "nir": {"href": "nir.tif"}}
    put(tmp_path, "c/item.json", item("scene-1", assets))
    put(tmp_path, "c/b/red.tif", b"red")
    put(tmp_path, "c/nir.tif", b"nir")
    there = site(tmp_path, "c/item.json")
    there.kfm("run")
    assert there.kfm("cat", "processed/scenes", "scene-1/red").out == "red"
    assert there.kfm("cat", "processed/scenes", "scene-1/nir").out == "nir"
    assert " noop " in there.kfm("run").out
    put(tmp_path, "c/nir.tif", b"nir, mended")
    there.kfm("run")
    assert there.kfm("cat", "processed/scenes", "scene-1/nir").out == "nir, mended"
    put(tmp_path, "c/b/red.tif", b"another")
    assert "does not have the expected hash" in there.kfm("run", expect=3).err
    assert there.kfm("cat", "processed/scenes", "scene-1/red").out == "red"


def test_a_collection_brings_its_own_assets_and_those_of_its_items(tmp_path: Path) -> None:
    put(tmp_path, "c/collection.json", collection("./1/1.json", "./2/2.json"))
    put(tmp_path, "c/readme.txt", b"read me")
    for n in "12":
        put(tmp_path, f"c/{n}/{n}.json", item(f"scene-{n}", {"data": {"href": "./d.csv"}}))
        put(tmp_path, f"c/{n}/d.csv", n.encode())
    there = site(tmp_path, "c/collection.json")
    there.kfm("run")
    found = {
        key: there.kfm("cat", "processed/scenes", key).out for key in ("kansas/readme", "scene-1/data", "scene-2/data")
    }
    assert found == {"kansas/readme": "read me", "scene-1/data": "1", "scene-2/data": "2"}


def test_an_item_in_a_bucket_names_the_objects_next_to_it(tmp_path: Path) -> None:
    store = MemoryStore()
    store.objects["/open-data/c/item.json"] = json.dumps(item("scene-1", {"red": {"href": "./b/red.tif"}})).encode()
    store.objects["/open-data/c/b/red.tif"] = b"red"
    with serving(store) as endpoint:
        host = endpoint.partition("://")[2]
        there = site(tmp_path, "s3://open-data/c/item.json", allow=f'"{host}"', endpoint=endpoint)
        there.kfm("run")
        assert there.kfm("cat", "processed/scenes", "scene-1/red").out == "red"
        sent = store.sent
        assert " noop " in there.kfm("run").out
        assert store.sent == sent


@pytest.mark.parametrize(
    "href",
    [
        "/etc/passwd",
        "file:///etc/passwd",
        "../../secret.csv",
        "s3://open-data/private.csv",
        "https://elsewhere.example/x",
    ],
)
def test_a_file_leads_nowhere_else(tmp_path: Path, href: str) -> None:
    put(tmp_path, "secret.csv", b"canary")
    put(tmp_path, "i/c/item.json", item("scene-1", {"x": {"href": href}}))
    there = site(tmp_path / "i", "c/item.json")
    answer = there.kfm("run", expect=3)
    assert "on another host" in answer.err or "is not a path to a file" in answer.err
    assert "canary" not in answer.out + answer.err


@pytest.mark.parametrize(
    "href",
    ["http://127.0.0.1:{other}/x.csv", "file:///etc/passwd", "//127.0.0.1:{other}/x.csv", "s3://open-data/x.csv"],
)
def test_a_document_from_a_server_leads_to_no_other_place_that_is_allowed(tmp_path: Path, href: str) -> None:
    other = MemoryStore()
    with serving(other) as private:
        port = private.rpartition(":")[2]
        documents = MemoryStore()
        body = json.dumps(item("s", {"x": {"href": href.format(other=port)}})).encode()
        documents.objects["/item.json"] = body
        with serving(documents) as here:
            hosts = f'"127.0.0.1:{port}", "{here.partition("://")[2]}"'
            there = site(tmp_path, f"{here}/item.json", allow=hosts, endpoint=private)
            assert "on another host" in there.kfm("run", expect=3).err
    assert other.asked == []


def test_a_host_that_a_subclass_names_is_read_from(tmp_path: Path) -> None:
    other = MemoryStore()
    other.objects["/x.csv"] = b"1"
    with serving(other) as beside:
        host = beside.partition("://")[2]
        put(tmp_path, "item.json", item("s", {"x": {"href": f"{beside}/x.csv"}, "y": {"href": "none.csv"}}))
        code = f"class Mine(Assets):\n    hosts = ({host!r},)\n    names = ('x',)\n"
        (tmp_path / "mine.py").write_text("from kfm.updaters.stac_assets import Assets\n\n\n" + code)
        there = site(tmp_path, "item.json", updater="mine.py:Mine", allow=f'"{host}"')
        there.kfm("run")
        assert there.kfm("cat", "processed/scenes", "s/x").out == "1"


def test_two_items_of_one_id_are_refused(tmp_path: Path) -> None:
    put(tmp_path, "c.json", collection("1.json", "2.json"))
    put(tmp_path, "readme.txt", b"x")
    for n in "12":
        put(tmp_path, f"{n}.json", item("same", {"data": {"href": "d.csv"}}))
    put(tmp_path, "d.csv", b"1")
    assert "two items have one id" in site(tmp_path, "c.json").kfm("run", expect=3).err
