"""`kfm catalog discover` finds new items in foreign catalogs, and changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.discovery import catalogs
from tests.app.discovery.catalogs import Site, collection, item
from tests.engine.installations import Installation, stamps

CONFIG = """\
accept_weak_storage: true
network: {{allow: ["127.0.0.1:{port}"]}}
datasets:
  mine:
    updater: kfm.updaters.mirror:Mirror
    title: Mine
    license: CC0-1.0
    sensitivity: public
    sources:
{sources}
"""


@pytest.fixture
def web() -> Iterator[Site]:
    with catalogs.site() as found:
        yield found


def installation(folder: Path, web: Site, *sources: str) -> Installation:
    said = "\n".join(f"      {line}" for line in sources or ("nothing: {uri: data/nothing.csv, format: csv}",))
    (folder / "kfm.yml").write_text(CONFIG.format(port=web.url.rpartition(":")[2], sources=said))
    return Installation(folder)


def discovered(place: Installation, source: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = place.kfm("catalog", "discover", source, "--json", *words).data
    return found


def offers(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (finding["id"], offer["name"], offer["status"]) for finding in found["findings"] for offer in finding["offers"]
    ]


def test_a_static_catalog_as_pystac_writes_it(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    catalogs.static_catalog(tmp_path / "survey")
    found = discovered(place, "survey/catalog.json")
    assert found["kind"] == "stac"
    (finding,) = found["findings"]
    assert (finding["id"], finding["status"], finding["title"]) == ("wells", "new", "Wells of Kansas")
    assert (finding["license"], finding["bbox"]) == ("CC0-1.0", [-102.1, 36.9, -94.5, 40.1])
    assert [offer["uri"] for offer in finding["offers"]] == [
        "survey/wells/wells-2023/wells-2023.csv",
        "survey/wells/wells-2024/wells-2024.csv",
    ]  # and no thumbnail


def test_the_same_catalog_over_http(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    catalogs.static_catalog(tmp_path / "survey")
    for path in (tmp_path / "survey").rglob("*.json"):
        web.put("/" + str(path.relative_to(tmp_path)), path.read_bytes())
    here, there = discovered(place, "survey/catalog.json"), discovered(place, f"{web.url}/survey/catalog.json")
    assert offers(here) == offers(there) and len(offers(there)) == 2
    assert [page["digest"] for page in here["pages"]] == [page["digest"] for page in there["pages"]]
    assert not any(path.endswith(".csv") for path in web.asked)  # what is offered is not fetched


def test_an_api_is_read_page_by_page(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    catalogs.api(web, {"wells": [item(f"w{n}", f"{web.url}/w{n}.csv", "wells") for n in range(5)], "empty": []})
    found = discovered(place, f"{web.url}/stac")
    assert found["kind"] == "stac-api"
    assert offers(found) == [("wells", f"w{n}", "new") for n in range(5)]
    assert len(found["pages"]) == 6  # landing, collections, three pages of wells, one of nothing


def test_a_dcat_catalog_with_a_graph(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    web.put("/catalog.jsonld", catalogs.dcat(web.url), "application/ld+json")
    found = discovered(place, f"{web.url}/catalog.jsonld")
    assert found["kind"] == "dcat"
    (finding,) = found["findings"]
    assert (finding["id"], finding["attribution"]) == ("wells-of-kansas", "Kansas Geological Survey")
    assert finding["license"] == "https://creativecommons.org/publicdomain/zero/1.0/"
    (offer,) = finding["offers"]
    assert (offer["uri"], offer["media_type"], offer["size"]) == (f"{web.url}/files/wells-2024.csv", "text/csv", 32)
    assert offer["digest"] == "sha256:" + "ab" * 32


def test_a_catalog_that_kfm_itself_wrote(tmp_path: Path, web: Site) -> None:
    """What one installation publishes, another can discover: as STAC and as DCAT."""
    (tmp_path / "one").mkdir()
    one = installation(tmp_path / "one", web, "rain: {uri: rain.csv, format: csv, contract: {columns: [{name: mm}]}}")
    (tmp_path / "one" / "rain.csv").write_bytes(b"gauge,mm\nhays,3.5\n")
    text = (tmp_path / "one" / "kfm.yml").read_text()
    (tmp_path / "one" / "kfm.yml").write_text("catalog: file:public/catalog\n" + text)
    one.kfm("run")
    one.kfm("promote", "mine", "--reason", "first")
    for path in (tmp_path / "one" / "public").rglob("*"):
        if path.is_file():
            web.put("/" + str(path.relative_to(tmp_path / "one" / "public")), path.read_bytes())
    (tmp_path / "two").mkdir()
    two = installation(tmp_path / "two", web)
    wanted = "sha256:" + hashlib.sha256(b"gauge,mm\nhays,3.5\n").hexdigest()
    stac, dcat = (discovered(two, f"{web.url}/catalog/{name}") for name in ("catalog.json", "catalog.jsonld"))
    (finding,) = stac["findings"]
    assert (finding["id"], stac["kind"]) == ("mine-" + finding["id"][5:], "stac")  # here is one called mine already
    assert wanted in [offer["digest"] for offer in finding["offers"]]
    assert [finding["title"] for finding in dcat["findings"]] == ["Mine"] and dcat["kind"] == "dcat"


def test_a_listing_gives_what_lies_in_the_folder_and_nothing_else(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    web.put("/files/", catalogs.APACHE, "text/html;charset=UTF-8")
    web.put("/files/maps/", catalogs.NGINX, "text/html")
    found = discovered(place, f"{web.url}/files/")
    assert offers(found) == [("files", "wells-2023", "new"), ("files", "wells-2024", "new"), ("maps", "kansas", "new")]
    assert found["findings"][1]["offers"][0]["media_type"] == "image/tiff"
    assert web.asked == ["/files/", "/files/maps/"]
    assert found["skipped"] == {"no address of ours": 2, "outside": 6}


def test_a_folder_of_this_machine(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    drop = tmp_path / "drop"
    (drop / "inner").mkdir(parents=True)
    (drop / "wells.csv").write_bytes(catalogs.WELLS)
    (drop / ".hidden").write_bytes(b"")
    (drop / "aside.csv").symlink_to("/etc/passwd")
    found = discovered(place, "drop")
    assert offers(found) == [("drop", "wells", "new")]
    (tmp_path / "linked").symlink_to("/etc")
    assert "symbolic link" in place.kfm("catalog", "discover", "linked", expect=3).err


def test_what_is_read_already_is_known_and_other_bytes_are_a_change(tmp_path: Path, web: Site) -> None:
    web.put("/w0.csv", catalogs.WELLS, "text/csv")
    place = installation(tmp_path, web, f"w0: {{uri: '{web.url}/w0.csv', format: csv}}")
    first = "1220" + hashlib.sha256(catalogs.WELLS).hexdigest()

    def catalog(*items: dict[str, Any]) -> None:
        catalogs.api(web, {"wells": list(items)})

    catalog(item("w0", f"{web.url}/w0.csv", "wells", **{"file:checksum": first}))
    assert discovered(place, f"{web.url}/stac")["findings"][0]["status"] == "known"
    place.kfm("run")
    answer = place.kfm("catalog", "discover", f"{web.url}/stac", "--exit-code", expect=10)
    assert "0 new, 0 changed" in answer.err
    catalog(
        item("w0", f"{web.url}/w0.csv", "wells", **{"file:checksum": "1220" + "ab" * 32}),
        item("w1", f"{web.url}/w1.csv", "wells"),
    )
    (finding,) = discovered(place, f"{web.url}/stac", "--exit-code")["findings"]
    assert (finding["status"], finding["dataset"]) == ("grown", "mine")
    assert [(offer["name"], offer["status"], offer["source"]) for offer in finding["offers"]] == [
        ("w0", "changed", "mine/w0"),
        ("w1", "new", ""),
    ]


def test_looking_changes_nothing_and_the_same_pages_give_the_same_answer(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    catalogs.api(web, {"wells": [item("w", f"{web.url}/w.csv", "wells")]})
    before = stamps(tmp_path)
    one, two = (place.kfm("catalog", "discover", f"{web.url}/stac", "--json").out for _ in range(2))
    assert one == two and stamps(tmp_path) == before


def landing(web: Site, **links: str) -> None:
    web.put(
        "/c.json",
        {"type": "Catalog", "stac_version": "1.1.0", "id": "c", "description": "c",
         "links": [{"rel": rel, "href": href} for rel, href in links.items()]},
    )  # fmt: skip


def test_a_catalog_that_links_in_a_circle_ends(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    landing(web, child="/d.json")
    web.put("/d.json", collection("d", links=[{"rel": "child", "href": "/c.json"}, {"rel": "item", "href": "/i.json"}]))
    web.put("/i.json", item("i", "/i.csv"))
    found = discovered(place, f"{web.url}/c.json")
    assert offers(found) == [("d", "i", "new")] and found["skipped"] == {"read already": 1}


def test_no_page_of_another_server_is_asked_for(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    with catalogs.site() as other:
        other.put("/x.json", collection("x"))
        landing(web, child=f"{other.url}/x.json", item="http://169.254.169.254/latest/meta-data")
        found = discovered(place, f"{web.url}/c.json")
        assert found["findings"] == [] and found["skipped"] == {"elsewhere": 2} and other.asked == []


def test_a_local_catalog_leads_to_no_file_outside_of_its_folder(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    (tmp_path / "survey").mkdir()
    (tmp_path / "secret.json").write_text(json.dumps(collection("secret")))
    links = [
        {"rel": "child", "href": href}
        for href in ("../secret.json", str(tmp_path / "secret.json"), "file:../secret.json")
    ]
    (tmp_path / "survey" / "c.json").write_text(json.dumps(collection("c", links=links)))
    assert discovered(place, "survey/c.json")["skipped"] == {"no address of ours": 3}


def endless(web: Site) -> None:
    """Always one more page."""
    catalogs.api(web, {"wells": []})

    def more(path: str) -> catalogs.Answer:
        n = int(path.rpartition("=")[2])
        page = {"type": "FeatureCollection", "features": [item(f"w{n}", f"/w{n}.csv", "wells")],
                "links": [{"rel": "next", "href": f"/stac/collections/wells/items?token={n + 1}"}]}  # fmt: skip
        return 200, "application/geo+json", json.dumps(page).encode()

    first = json.loads(more("=0")[2])
    web.put("/stac/collections/wells/items", first)
    web.other = lambda path: more(path) if "token=" in path else None


def next_to_itself(web: Site) -> None:
    catalogs.api(web, {"wells": []})
    here = "/stac/collections/wells/items"
    web.put(here, {"type": "FeatureCollection", "features": [], "links": [{"rel": "next", "href": here}]})


def promises_more(web: Site) -> None:
    catalogs.api(web, {"wells": [item("w", "/w.csv", "wells")]})
    here = "/stac/collections/wells/items"
    web.put(here, {**json.loads(web.files[here][2]), "numberMatched": 7})


def two_things(web: Site) -> None:
    catalogs.api(web, {"wells": [item("w", "/w.csv", "wells"), item("w", "/other.csv", "wells")]}, size=1)


def next_elsewhere(web: Site) -> None:
    catalogs.api(web, {"wells": []})
    link = {"rel": "next", "href": "http://127.0.0.1:9/items"}
    web.put("/stac/collections/wells/items", {"type": "FeatureCollection", "features": [], "links": [link]})


def next_by_post(web: Site) -> None:
    catalogs.api(web, {"wells": []})
    link = {"rel": "next", "href": "/x", "method": "POST"}
    web.put("/stac/collections/wells/items", {"type": "FeatureCollection", "features": [], "links": [link]})


def an_error_page(web: Site) -> None:
    catalogs.api(web, {"wells": []})
    web.put("/stac/collections/wells/items", b"<!doctype html><html>not today</html>", "application/geo+json")


def a_key_twice(web: Site) -> None:
    web.put("/stac", b'{"stac_version":"1.1.0","type":"Catalog","id":"a","id":"b","links":[]}')


def too_large(web: Site) -> None:
    web.put("/stac", b'{"stac_version":"1.1.0","pad":"' + b"x" * (17 << 20) + b'"}')


def no_catalog(web: Site) -> None:
    web.put("/stac", {"hello": "world"})


def no_links(web: Site) -> None:
    web.put("/stac", {"stac_version": "1.1.0", "conformsTo": ["https://api.stacspec.org/v1.0.0/core"], "links": 7})


def a_list(web: Site) -> None:
    web.put("/stac", [1, 2])


def deep(web: Site) -> None:
    web.put("/stac", b'{"a":' * 5000 + b"1" + b"}" * 5000)


def gone(web: Site) -> None:
    web.put("/stac", b"gone", status=410)


def sent_away(web: Site) -> None:
    web.put("/stac", b"http://169.254.169.254/", status=302)


LIES = {
    endless: (3, "has more than 20 pages"),
    next_to_itself: (3, "links back to itself"),
    promises_more: (3, "announces 7 items and returns 1"),
    two_things: (3, "describes one item in two ways"),
    next_elsewhere: (3, "continues at another server"),
    next_by_post: (3, "has a next page that KFM cannot follow"),
    an_error_page: (3, "is not JSON"),
    a_key_twice: (3, "/stac"),
    too_large: (3, "is larger than the 16777216 bytes allowed"),
    no_catalog: (3, "is not a catalog that KFM can read"),
    no_links: (3, "does not have exactly one link to its collections"),
    a_list: (3, "is not a catalog that KFM can read"),
    deep: (3, "/stac"),
    gone: (3, "the source is gone"),
    sent_away: (4, "redirects to 169.254.169.254"),
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_server_that_lies_is_refused_in_one_line(tmp_path: Path, web: Site, lie: Any) -> None:
    place = installation(tmp_path, web)
    lie(web)
    code, said = LIES[lie]
    answer = place.kfm("catalog", "discover", f"{web.url}/stac", "--pages", "20", expect=code)
    assert said in answer.err and answer.err.count("\n") == 1 and "Traceback" not in answer.err
    assert web.asked  # it was asked


def test_what_is_said_in_foreign_words_is_kept_on_one_line(tmp_path: Path, web: Site) -> None:
    place = installation(tmp_path, web)
    bad = "Wells\n::set-output x\x1b[31m\u202e" + "y" * 5000
    web.put("/c.json", collection("../../etc", title=bad, description=bad, links=[{"rel": "item", "href": "/i.json"}]))
    web.put("/i.json", item("con", "/i.csv?token=abcdef0123456789", **{"file:size": -1}))
    web.put(
        "/i.json",
        {
            **item("con", "/i.csv"),
            "assets": {"a/../b": {"href": "/i.csv", "type": "x\ny/z"}, "k": {"href": "/i.csv?sig=0123456789abcdef"}},
        },
    )
    (finding,) = discovered(place, f"{web.url}/c.json")["findings"]
    assert finding["id"] == "etc" and len(finding["title"]) <= 200 and finding["title"].isprintable()
    (offer,) = finding["offers"]
    assert offer["name"] == "con-a-b" and offer["media_type"] == ""


WRONG = {
    "a path upward": (("../x",), "outside of the folder"),
    "an absolute path": (("/etc",), "outside of the folder"),
    "a key in the address": (("https://x.example/c?api_key=abc",), "holds a key in clear"),
    "no pages": (("c.json", "--pages", "0"), "--pages must be"),
    "a folder as DCAT": ((".", "--kind", "dcat"), "is a folder"),
    "another scheme": (("ftp://x.example/",), "scheme"),
    "nothing": (("",), "SOURCE must be one line"),
    "nothing there": (("nothing.json",), "does not exist"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_reported_in_one_line(tmp_path: Path, web: Site, case: str) -> None:
    place = installation(tmp_path, web)
    words, said = WRONG[case]
    answer = place.kfm("catalog", "discover", *words, expect=3)
    assert said in answer.err and "Traceback" not in answer.err
