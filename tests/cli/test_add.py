"""`kfm add` declares a file that can be run and promoted as it is, and `kfm remove` takes it out again."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kfm.parsing import documents

from .conftest import Kfm, tree

WELLS = """\
api,county,depth_ft,spudded
15-187-21211,Stanton,5661,2001-02-03
15-187-21212,Stanton,5630.5,2002-03-04
15-155-00001,Reno,3310,2003-04-05
15-155-00002,Reno,4120,2004-05-06
"""
SITES = """\
site_id,site_name,lat,lon,period
14RY1,Old mound,39.12345,-96.54321,late
14RY2,Second place,39.22345,-96.64321,late
14RY3,Third place,39.32345,-96.74321,early
14RY4,Fourth place,39.42345,-96.84321,early
"""


def put(name: str, body: str | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    return name


def declared(name: str) -> dict[str, object]:
    found = documents.read(Path("kfm.yml").read_bytes(), "kfm.yml", json=False).value["datasets"][name]
    assert isinstance(found, dict)
    return found


def columns(name: str) -> dict[str, dict[str, object]]:
    (source,) = declared(name)["sources"].values()  # type: ignore[attr-defined]
    return {one["name"]: one for one in source["contract"]["columns"]}


def test_a_csv_in_an_empty_folder_is_added_run_and_promoted_without_an_edit(kfm: Kfm) -> None:
    added = kfm("add", put("data/wells.csv", WELLS), "--license", "CC0-1.0")
    assert added.code == 0, added.err
    assert "would publish 4 of 4 rows, wells.csv" in added.out
    before = Path("kfm.yml").read_text()
    assert before.startswith("# yaml-language-server") and Path("kfm.schema.json").exists()
    assert kfm("run", "wells").code == 0
    promoted = kfm("promote", "wells", "--reason", "first edition")
    assert promoted.code == 0, promoted.err
    assert Path("kfm.yml").read_text() == before
    assert [path.read_text() for path in Path("public").rglob("wells.csv")] == [WELLS]


def test_the_contract_has_types_a_key_units_and_bounds_that_are_true_and_wide(kfm: Kfm) -> None:
    assert kfm("add", put("wells.csv", WELLS)).code == 0
    found = columns("wells")
    assert found["api"] == {"name": "api", "required": True, "unique": True, "mode": "discard-row"}
    depth = found["depth_ft"]
    assert (depth["type"], depth["minimum"], depth["maximum"]) == ("number", 0, 100000)
    assert found["spudded"]["type"] == "date"
    assert declared("wells")["extent"] == {"interval": ["2001-02-03T00:00:00Z", None]}
    text = Path("kfm.yml").read_text()
    assert "# in ft, by its name" in text and "bounds are ten times the largest value seen" in text


def test_without_a_licence_the_one_line_is_named_and_the_promotion_names_the_same(kfm: Kfm) -> None:
    added = kfm("add", put("wells.csv", WELLS))
    line = "license: CC-BY-4.0"
    assert added.code == 0 and f"`{line}`" in added.err and "datasets.wells" in added.err
    assert kfm("run", "wells").code == 0
    denied = kfm("promote", "wells", "--reason", "first")
    assert denied.code == 4 and f"`{line}`" in denied.err and "datasets.wells" in denied.err
    text = Path("kfm.yml").read_text()
    Path("kfm.yml").write_text(text.replace("    title: Wells\n", f"    title: Wells\n    {line}\n"))
    assert kfm("promote", "wells", "--reason", "first").code == 0


def test_places_of_sites_are_closed_until_a_person_decides(kfm: Kfm) -> None:
    added = kfm("add", put("finds.csv", SITES), "--license", "CC0-1.0")
    assert added.code == 0 and declared("finds")["sensitivity"] == "closed"
    assert "column 'site_id' is about sites" in added.err
    assert "kfm protect finds --custodian NAME" in added.err and "`sensitivity: public`" in added.err
    text = Path("kfm.yml").read_text()
    for place in ("39.", "96.", "Old mound", "14RY1", "bbox", "extent"):
        assert place not in text + added.out + added.err, place
    denied = kfm("run", "finds")
    assert denied.code == 4 and "`sensitivity: public` under datasets.finds" in denied.err
    assert not list(Path(".kfm").rglob("objects/*/*")), "nothing of it was stored"
    Path("kfm.yml").write_text(text.replace("sensitivity: closed", "sensitivity: public"))
    assert kfm("run", "finds").code == 0


def test_names_of_people_are_closed_and_public_is_a_decision_that_is_written_down(kfm: Kfm) -> None:
    people = put("owners.csv", "parcel,owner\n1,Ann Miller\n2,Bo Smith\n3,Cy Jones\n")
    assert kfm("add", people).code == 0 and declared("owners")["sensitivity"] == "closed"
    assert "Miller" not in Path("kfm.yml").read_text()
    added = kfm("add", people, "--name", "parcels", "--public", "--json")
    assert added.data["sensitivity"] == "public" and [one["kind"] for one in added.data["signs"]] == ["person"]
    assert "decided so: --public" in Path("kfm.yml").read_text()


BURIED = [
    ("shape", "POINT(-96.54321 39.12345)"),
    ("where_found", '39°07\'24.4""N 96°32\'35.6""W'),
    ("remark", "39.12345, -96.54321"),
    ("link", "https://maps.example.org/?q=39.12345,-96.54321"),
    ("grid", "14SPH1234554321"),
    ("a1,b1", '39.12345","-96.54321'),
]


@pytest.mark.parametrize(("columns", "place"), BURIED, ids=[one[0] for one in BURIED])
def test_graves_with_places_in_any_notation_and_column_are_closed(kfm: Kfm, columns: str, place: str) -> None:
    rows = "".join(f'{n},human remains,"{place}"\n' for n in range(4))
    added = kfm("add", put("finds.csv", f"n,c1,{columns}\n{rows}"), "--license", "CC0-1.0", "--dry-run", "--json")
    assert added.data["sensitivity"] == "closed", "what is named by its values is a sign, too"
    assert "39" not in added.out + added.err


def test_areas_with_a_name_of_sites_are_closed(kfm: Kfm) -> None:
    ring = [[-96.5, 39.1], [-96.4, 39.1], [-96.4, 39.2], [-96.5, 39.1]]
    area = {"type": "Feature", "properties": {"n": 1}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    body = json.dumps({"type": "FeatureCollection", "features": [area]})
    assert kfm("add", put("mounds.geojson", body), "--dry-run", "--json").data["sensitivity"] == "closed"
    assert kfm("add", put("counties.geojson", body), "--dry-run", "--json").data["sensitivity"] == "public"


def test_site_numbers_and_numbers_of_people_are_signs_in_any_column_and_depth(kfm: Kfm) -> None:
    for name, one in (("sites", "14RY{}"), ("calls", "ask 785-555-010{}"), ("codes", "500-10-100{}")):
        rows = [{"n": n, "deep": {"more": [{"x": one.format(n)}]}} for n in range(4)]
        found = kfm("add", put(f"a-{name}.json", json.dumps(rows)), "--dry-run", "--json").data
        assert found["sensitivity"] == "closed" and found["signs"][0]["column"] == "deep more x", name
    plain = put("plain.csv", "well,log,share\n15-187-21211,2001-02-03,0.12345\n15-187-21212,2001-02-04,0.22345\n")
    assert kfm("add", plain, "--dry-run", "--json").data["sensitivity"] == "public"


def test_a_line_ends_where_a_run_ends_it(kfm: Kfm) -> None:
    """U+0085 and U+2028 are characters of a value, and a run reads them so."""
    put("rain.csv", "lat,note,lon\n38.1,a,-97.1\n39.9,b\x85\u2028c,-99.9\n")
    assert kfm("add", "rain.csv", "--license", "CC0-1.0").code == 0
    assert declared("rain")["extent"] == {"bbox": [-99.9, 38.1, -97.1, 39.9]}


def test_a_closed_dataset_becomes_a_masked_one_by_protect(kfm: Kfm) -> None:
    rows = "".join(f"14RY{n},place {n},{39 + n / 1000},{-96 - n / 1000},late\n" for n in range(12))
    put("finds.csv", SITES.splitlines()[0] + "\n" + rows)
    assert kfm("add", "finds.csv", "--license", "CC0-1.0").code == 0
    made = kfm("protect", "finds", "--custodian", "society", "--yes")
    assert made.code == 0, made.err
    source = declared("finds")["sources"]["finds"]  # type: ignore[index]
    assert source["mask"] == "finds-mask.yml" and declared("finds")["sensitivity"] == "public"
    assert "sensitivity: generalised" in Path("labels.yml").read_text()


def test_one_odd_value_types_no_column_wrongly(kfm: Kfm) -> None:
    rows = "".join(f"{n},{n * 1.5},{n:05d},{n},{'NA' if n == 7 else n}\n" for n in range(1, 30))
    put("odd.csv", f"id,depth,zip,mixed,level\n{rows}30,shallow,00030,30,30\n31,4,00031,a-1,31\n")
    added = kfm("add", "odd.csv", "--json")
    found = columns("odd")
    assert found["depth"]["type"] == "number" and "type" not in found["zip"]
    assert found["mixed"]["type"] == "number" and found["level"]["missing"] == ["NA"]
    assert added.data["would_publish"]["quarantined"] == 2


def test_a_key_is_proposed_only_where_it_is_unique_and_not_blank(kfm: Kfm) -> None:
    put("twice.csv", "id,code\n1,a\n1,b\n2,\n")
    assert kfm("add", "twice.csv").code == 0
    assert not any("unique" in one or "required" in one for one in columns("twice").values())


def test_the_text_of_others_is_kept_byte_for_byte_by_add_and_remove(kfm: Kfm) -> None:
    before = "# mine\nkfm: 1   # always\ndatasets:\n    # theirs\n    other:   {updater: 'a.py:A'}\n# the end\n"
    put("kfm.yml", before)
    assert kfm("add", put("wells.csv", WELLS)).code == 0
    after = Path("kfm.yml").read_text()
    assert [line for line in after.splitlines() if line in before.splitlines()] == before.splitlines()
    shown = kfm("remove", "wells", "--dry-run")
    assert shown.code == 0 and "-    wells:" in shown.out and Path("kfm.yml").read_text() == after
    assert kfm("remove", "wells").code == 0
    assert Path("kfm.yml").read_text() == before


def test_a_dry_run_writes_nothing_and_shows_the_lines(kfm: Kfm) -> None:
    put("wells.csv", WELLS)
    before = tree()
    shown = kfm("add", "wells.csv", "--license", "CC0-1.0", "--dry-run")
    assert shown.code == 0 and "+    license: CC0-1.0" in shown.out and "would publish 4 of 4 rows" in shown.out
    assert tree() == before


def test_remove_refuses_what_is_public_and_names_the_command(kfm: Kfm) -> None:
    put("wells.csv", WELLS)
    for line in (("add", "wells.csv", "--license", "CC0-1.0"), ("run",), ("promote", "wells", "--reason", "first")):
        assert kfm(*line).code == 0
    refused = kfm("remove", "wells")
    assert refused.code == 3 and "kfm rollback wells --to nothing --reason" in refused.complaint
    assert kfm("rollback", "wells", "--to", "nothing", "--reason", "moved").code == 0
    removed = kfm("remove", "wells")
    assert removed.code == 0 and "stay" in removed.err
    assert "datasets: {}" in Path("kfm.yml").read_text()
    assert kfm("runs", "list").code == 0 and "wells" in kfm("runs", "list").out
    assert kfm("explain", "wells").code == 0
    assert kfm("add", "wells.csv", "--license", "CC0-1.0").code == 0, "and it can be added again"
    assert "did you mean wells" in kfm("remove", "well").err


JUNK = {
    "empty.csv": (b"", "has 0 bytes"),
    "blank.csv": (b" \n\n", "nothing but blank space"),
    "error.csv": (b"<!DOCTYPE html><html><body>404</body></html>", "an HTML page, not data"),
    "junk.bin": (bytes(range(256)) * 8, "in no format that KFM recognises"),
    "header.csv": (b"a,b,c\n", "no rows"),
    "book.xlsx": (b"", "a spreadsheet"),
    "shape.shp": (b"\x00\x00\x27\x0a" + bytes(96), "put its parts into one zip"),
    "cut.parquet": (b"PAR1" + bytes(20), "cannot be read as Parquet"),
    "broken.json": (b'{"a": [1, 2', ""),
    "list.json": (b"[1, 2, 3]", "has no records"),
}


@pytest.mark.parametrize("name", JUNK)
def test_what_cannot_be_read_is_refused_in_one_line_and_nothing_is_written(kfm: Kfm, name: str) -> None:
    body, said = JUNK[name]
    put(name, body)
    if name == "book.xlsx":
        with zipfile.ZipFile(name, "w") as book:
            book.writestr("xl/workbook.xml", "<workbook/>")
    before = tree()
    refused = kfm("add", name)
    assert refused.code == 3 and said in refused.complaint, refused
    assert tree() == before


def test_other_slips_of_the_user_name_their_cure(kfm: Kfm, tmp_path: Path) -> None:
    put("wells.csv", WELLS)
    assert "there is no file 'well.csv'" in kfm("add", "well.csv").complaint
    (tmp_path / "outside.csv").write_text(WELLS)
    assert "--copy copies it to data/outside.csv" in kfm("add", "../outside.csv").complaint
    os.symlink("wells.csv", "link.csv")
    assert "name the file itself: wells.csv" in kfm("add", "link.csv").complaint
    assert "is not an SPDX licence" in kfm("add", "wells.csv", "--license", "free").complaint
    assert "is not a valid name" in kfm("add", "wells.csv", "--name", "../x").complaint
    os.mkfifo("pipe.csv")
    assert "is not a regular file" in kfm("add", "pipe.csv").complaint
    assert kfm("add", "wells.csv").code == 0
    assert "is already a source of dataset wells" in kfm("add", "wells.csv").complaint
    assert "--name NAME" in kfm("add", "wells.csv", "--name", "wells").complaint
    os.chmod("kfm.yml", 0o444)
    before = Path("kfm.yml").read_bytes()
    assert "chmod u+w kfm.yml" in kfm("add", "wells.csv", "--name", "again").complaint
    assert "chmod u+w kfm.yml" in kfm("remove", "wells").complaint
    assert Path("kfm.yml").read_bytes() == before


class Served(BaseHTTPRequestHandler):
    """Serves a table, an error page with status 200, and a redirect to a private address."""

    def do_GET(self) -> None:
        if self.path == "/moved.csv":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:9/secret.csv")
            self.end_headers()
            return
        body = b"<html><body>Not found</body></html>" if self.path == "/gone.csv" else WELLS.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/csv")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{running.server_address[1]}"
        running.shutdown()


def test_an_address_is_reached_by_the_rules_of_a_run(kfm: Kfm, server: str) -> None:
    refused = kfm("add", f"http://{server}/wells.csv")
    assert refused.code != 0 and "127.0.0.1" in refused.complaint and not Path("kfm.yml").exists()
    put("kfm.yml", f'network: {{allow: ["{server}"]}}\ndatasets: {{}}\n')
    before = Path("kfm.yml").read_bytes()
    for path in ("moved.csv", "gone.csv"):
        refused = kfm("add", f"http://{server}/{path}")
        assert refused.code != 0 and refused.complaint and Path("kfm.yml").read_bytes() == before, refused
    added = kfm("add", f"http://{server}/wells.csv?year=2026", "--license", "CC0-1.0")
    assert added.code == 0, added.err
    assert declared("wells")["sources"]["wells"]["uri"] == f"http://{server}/wells.csv?year=2026"  # type: ignore[index]
    assert kfm("run", "wells").code == 0


def test_an_address_of_too_much_is_refused_with_the_way_out(
    kfm: Kfm, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfm.app.declarations import source_look

    monkeypatch.setattr(source_look, "LARGEST", 50)
    put("kfm.yml", f'network: {{allow: ["{server}"]}}\ndatasets: {{}}\n')
    assert "download it" in kfm("add", f"http://{server}/wells.csv").complaint


def test_other_texts_are_read_as_they_are_written(kfm: Kfm) -> None:
    put("with space/café é.csv", "name;höhe\nA;1,5\nB;2,5\n".encode("cp1252"))
    assert kfm("add", "with space/café é.csv", "--name", "cafe").code == 0
    source = declared("cafe")["sources"]["cafe"]  # type: ignore[index]
    assert source["contract"]["delimiter"] == ";" and source["contract"]["encoding"] == "cp1252"
    put("bare.csv", "a1,1,2\nb2,3,4\n")
    assert kfm("add", "bare.csv").code == 0 and list(columns("bare")) == ["column_1", "column_2", "column_3"]
    put("usgs.txt", "# a\n# b\nagency\tvalue\n5s\t12n\nUSGS\t3\nUSGS\t4\n")
    assert kfm("add", "usgs.txt").code == 0
    contract = declared("usgs")["sources"]["usgs"]["contract"]  # type: ignore[index]
    assert (contract["comment"], contract["skip_after_header"], contract["delimiter"]) == ("#", 1, "\t")
    for name in ("cafe", "bare", "usgs"):
        assert kfm("run", name).code == 0


def test_json_geojson_lines_gzip_and_zip_are_recognised(kfm: Kfm) -> None:
    rows = [{"id": n, "when": f"2026-01-0{n}", "deep": {"x": 1}} for n in (1, 2, 3)]
    shape = {"type": "Polygon", "coordinates": [[[-97, 38], [-96, 38], [-96, 39], [-97, 38]]]}
    features = [{"type": "Feature", "geometry": shape, "properties": {"code": one["id"]}} for one in rows]
    put("a.json", json.dumps({"total": 3, "rows": rows}))
    put("b.ndjson", "".join(json.dumps(one) + "\n" for one in rows))
    put("c.geojson", json.dumps({"type": "FeatureCollection", "license": "CC-BY-4.0", "features": features}))
    put("d.csv.gz", gzip.compress(WELLS.encode()))
    with zipfile.ZipFile("e.zip", "w") as archive:
        archive.writestr("inner/wells.csv", WELLS)
    for name in ("a.json", "b.ndjson", "c.geojson", "d.csv.gz", "e.zip"):
        added = kfm("add", name, "--json")
        assert added.code == 0 and not added.data["would_publish"]["problems"], (name, added)
    found = {name: next(iter(declared(name)["sources"].values())) for name in "abcde"}  # type: ignore[attr-defined]
    assert found["a"]["contract"]["root"] == "rows" and columns("a")["when"]["type"] == "date"
    assert "deep" not in columns("b")
    assert declared("c")["license"] == "CC-BY-4.0" and declared("c")["extent"]["bbox"] == [-97, 38, -96, 39]  # type: ignore[index]
    assert found["d"]["unpack"] == "gzip" and found["e"]["member"] == "inner/wells.csv"


def test_a_folder_is_one_dataset_and_mixed_formats_are_refused(kfm: Kfm) -> None:
    put("rain/2025.csv", WELLS)
    put("rain/2026.csv", WELLS)
    put("rain/LICENSE", "Creative Commons Attribution 4.0 International")
    put("rain/datapackage.json", json.dumps({"title": "Rain of two years"}))
    added = kfm("add", "rain")
    assert added.code == 0, added.err
    assert sorted(declared("rain")["sources"]) == ["2025", "2026"]  # type: ignore[call-overload]
    assert (declared("rain")["title"], declared("rain")["license"]) == ("Rain of two years", "CC-BY-4.0")
    assert "as LICENSE says" in Path("kfm.yml").read_text()
    assert kfm("run", "rain").code == 0 and kfm("promote", "rain", "--reason", "first").code == 0
    put("mixed/a.csv", WELLS)
    put("mixed/b.json", "[]")
    assert kfm("add", "mixed").code == 3


def test_only_the_head_of_a_large_file_is_read_and_the_user_is_told(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.app.declarations import dataset_proposal, source_look
    from kfm.cli.start import add

    monkeypatch.setattr(source_look, "HEAD", 4096)
    for module in (source_look, dataset_proposal, add):
        monkeypatch.setattr(module, "LARGEST", 8192)
    put("long.csv", "id,depth\n" + "".join(f"{n},{n}\n" for n in range(2000)))
    added = kfm("add", "long.csv")
    assert added.code == 0 and "only its first" in added.err and "too large for a dry run" in added.err
    assert "unique" not in columns("long")["id"] and "maximum" not in columns("long")["depth"]


def test_a_rule_that_only_the_rest_of_a_file_breaks_is_not_proposed(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.app.declarations import source_look

    monkeypatch.setattr(source_look, "HEAD", 4096)
    rows = "".join(f"{n},{n % 7},{n}\n" for n in range(2000))
    put("long.csv", f"id,depth,level\n{rows}3,9999999,1\n")
    added = kfm("add", "long.csv", "--json")
    assert added.code == 0 and added.data["would_publish"]["quarantined"] == 0
    assert "unique" not in columns("long")["id"] and "maximum" not in columns("long")["depth"]
    assert columns("long")["level"]["maximum"] == 5000


def test_a_dataset_that_another_command_adds_meanwhile_is_kept(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.cli.start import add

    put("a.csv", WELLS)
    put("b.csv", WELLS)
    lock = add.config_lock

    def after_another(*arguments: Any) -> Any:
        patched.undo()
        assert kfm("add", "b.csv").code == 0
        return lock(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(add, "config_lock", after_another)
        assert kfm("add", "a.csv").code == 0
    assert {"a", "b"} == set(documents.read(Path("kfm.yml").read_bytes(), "kfm.yml", json=False).value["datasets"])


@pytest.mark.long
def test_four_adds_at_once_all_find_their_place(kfm: Kfm) -> None:
    names = [f"w{n}" for n in range(4)]
    for name in names:
        put(f"{name}.csv", WELLS)
    line = [sys.executable, "-m", "kfm.cli.main", "add"]
    running = [subprocess.Popen([*line, f"{name}.csv"], stderr=subprocess.PIPE) for name in names]
    assert [(one.communicate()[1], one.returncode)[1] for one in running] == [0] * 4
    assert sorted(re.findall(r"^  (w\d):$", Path("kfm.yml").read_text(), re.MULTILINE)) == names
    assert kfm("config", "check").code == 0


def test_a_kill_before_the_rename_leaves_kfm_yml_as_it_was(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kfm.fsio import Fs

    put("wells.csv", WELLS)
    assert kfm("add", "wells.csv").code == 0
    before = Path("kfm.yml").read_bytes()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Fs, "replace", killed)
        assert kfm("add", "wells.csv", "--name", "again").code == 130
    assert Path("kfm.yml").read_bytes() == before
    assert kfm("add", "wells.csv", "--name", "again").code == 0, "what was left does not stand in the way"
    assert not Path("kfm.yml.new").exists()


def test_a_file_outside_of_the_folder_is_copied_and_added(kfm: Kfm, tmp_path: Path) -> None:
    outside = tmp_path / "wells.csv"
    outside.write_text(WELLS)
    added = kfm("add", "../wells.csv", "--copy", "--license", "CC0-1.0")
    assert added.code == 0, added.err
    assert Path("data/wells.csv").read_text() == WELLS == outside.read_text() and os.listdir("data") == ["wells.csv"]
    (source,) = declared("wells")["sources"].values()  # type: ignore[attr-defined]
    assert source["uri"] == "data/wells.csv"
    again = kfm("add", "../wells.csv", "--copy", "--name", "others", "--license", "CC0-1.0")
    assert again.code == 0, again.err


def test_a_copy_replaces_no_file_and_a_refused_one_is_removed(kfm: Kfm, tmp_path: Path) -> None:
    (tmp_path / "wells.csv").write_text(WELLS)
    put("data/wells.csv", "mine\n1\n")
    assert "'data/wells.csv' is another file" in kfm("add", "../wells.csv", "--copy").complaint
    assert Path("data/wells.csv").read_text() == "mine\n1\n"
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    assert kfm("add", "../noise.bin", "--copy").code != 0
    assert os.listdir("data") == ["wells.csv"] and not Path("kfm.yml").exists()
    for words in (["https://example.org/x.csv"], [".."], ["../wells.csv", "--dry-run"]):
        assert kfm("add", "--copy", *words).code == 3
