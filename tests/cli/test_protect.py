"""`kfm protect`: from a table with places to a masked dataset, and every slip on the way."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kfm.app.stewards import protection_setup
from kfm.app.stewards.protection_setup import Wish, find_target, prepare_setup, table_of, write_setup
from kfm.config import load
from kfm.fsio import Fs
from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm

POINTS = [(f"{38.31 + n * 0.02173:.6f}", f"{-98.41 + n * 0.02319:.6f}") for n in range(20)]
OWNERS = ("A. Miller", "B. Jones")
SAFE = Path("../people")


def table() -> str:
    rows = ["site,lat,lon,kind,dug,owner,county,elev,remarks"]
    for n, (lat, lon) in enumerate(POINTS):
        kind = "mound" if n in (3, 11) else ("village", "camp")[n % 2]
        rows.append(
            f"14XX{101 + n},{lat},{lon},{kind},{1930 + n % 30}-06-0{1 + n % 9},{OWNERS[n % 2]},Rice,{500 + n},"
            f"beneath the lone cottonwood {n}"
        )
    return "\n".join(rows) + "\n"


SECRETS = [*sum(POINTS, ()), *(f"14XX{101 + n}" for n in range(20)), "cottonwood", "Miller", "mound"]


@pytest.fixture
def folder(kfm: Kfm) -> Kfm:
    """An empty folder with a table."""
    Path("data").mkdir()
    Path("data/sites.csv").write_text(table())
    return kfm


def protect(kfm: Kfm, *words: str) -> Any:
    done = kfm("protect", "data/sites.csv", "--custodian", "office", "--license", "CC-BY-4.0", "--yes", *words)
    assert done.code == 0, done.err
    return done


def step_states(kfm: Kfm) -> dict[str, str]:
    return {one["step"]: one["state"] for one in kfm("protect", "sites", "--json").data["steps"]}


def written() -> dict[str, bytes]:
    """Every file here and in the safe, without the table, the state and the people's keys."""
    found = [*Path().rglob("*"), *Path("../safe").rglob("*")]
    return {
        str(path): path.read_bytes()
        for path in found
        if path.is_file() and not {".kfm", "data"} & set(path.parts) and path.name != "keys.json"
    }


def test_a_table_with_places_becomes_a_masked_dataset_that_stewards_publish(folder: Kfm) -> None:
    protect(folder)
    assert step_states(folder)["people"] == "next"
    make_list(folder, SAFE, "office")
    assert step_states(folder) | {"people": "done"} == step_states(folder)
    assert step_states(folder)["run"] == "next"
    assert folder("run", "sites").code == 0
    assert step_states(folder)["request"] == "next"
    assert by_order(folder, SAFE, "promote", "sites").code == 0
    assert set(step_states(folder).values()) == {"done"}
    public = [path.read_text() for path in (*Path("public").rglob("*"), *Path("catalog").rglob("*")) if path.is_file()]
    assert any(re.search(r"\b86[0-9a-f]{13}\b", text) for text in public)
    assert not [one for one in SECRETS for text in public if one in text]
    assert folder("config", "check").code == 0
    assert folder("mask", "scan", "public").code == 0


def test_nothing_that_protect_shows_or_writes_holds_a_place_a_name_or_a_rare_value(folder: Kfm) -> None:
    shown = [protect(folder, "--dry-run"), protect(folder, "--json", "--dry-run"), protect(folder)]
    texts = [done.out + done.err for done in shown] + [body.decode() for body in written().values()]
    assert not [one for one in SECRETS for text in texts if one in text]
    assert Path("sites-mask.yml").read_text().count("village") == 1
    assert re.fullmatch("[0-9a-f]{64}", Path("../safe/office.key").read_text())
    assert Path("../safe/office.key").stat().st_mode & 0o777 == 0o600


def test_the_extent_that_is_written_is_that_of_the_cells_and_published_dates(folder: Kfm) -> None:
    protect(folder, "--resolution", "3")
    extent = load(None, {}).config.datasets["sites"].extent
    assert extent is not None
    west, south, east, north = extent.bbox
    lats, lons = ([float(point[at]) for point in POINTS] for at in (0, 1))
    assert west < min(lons) - 0.01 and south < min(lats) - 0.01 and east > max(lons) + 0.01 and north > max(lats) + 0.01
    assert extent.interval in (("1930-01-01T00:00:00Z", None), ("1900-01-01T00:00:00Z", None))


def test_a_second_call_writes_nothing_and_says_what_is_next(folder: Kfm) -> None:
    protect(folder)
    before = written()
    for words in (("data/sites.csv",), ("sites",), ("sites/sites", "--yes")):
        again = folder("protect", *words)
        assert again.code == 0 and "every file is there; nothing was written" in again.out
        assert "next: kfm keys new --person NAME --role admin" in again.err
    assert written() == before


def test_a_file_that_a_steward_changed_is_kept(folder: Kfm) -> None:
    protect(folder)
    mask = Path("sites-mask.yml")
    mask.write_text(mask.read_text().replace("resolution: 6", "resolution: 5"))
    assert folder("protect", "sites", "--json").data["resolution"] == 5
    assert "resolution: 5" in mask.read_text()


def test_a_dry_run_writes_nothing(folder: Kfm) -> None:
    done = protect(folder, "--dry-run")
    assert "would write kfm.yml" in done.out
    assert written() == {}


def test_the_report_names_what_each_column_holds_and_counts_cells_and_unique_records(folder: Kfm) -> None:
    found = protect(folder, "--json").data
    holds = {one["column"]: one["holds"] for one in found["columns"]}
    assert holds == {
        "site": "record id", "lat": "latitude", "lon": "longitude", "kind": "codes", "dug": "dates",
        "owner": "names of sites or people", "county": "a place", "elev": "a place", "remarks": "free text",
    }  # fmt: skip
    assert {one["column"] for one in found["columns"] if one["published"] == "no"} == {
        "owner", "county", "elev", "remarks",
    }  # fmt: skip
    assert [one["resolution"] for one in found["cells"]] == [4, 5, 6, 7]
    assert found["cells"][0]["cells"] < found["cells"][3]["cells"] <= 20
    assert [one["bare"] for one in found["cells"]] == sorted(one["bare"] for one in found["cells"])
    single = found["uniqueness"]
    assert single["columns"] == ["kind", "dug"] and single["records"] == 20
    assert 0 < single["unique"] <= single["below_k"] and single["published_below_k"] == 0


def test_what_readers_get_has_no_group_below_k(folder: Kfm) -> None:
    protect(folder, "--k", "6", "--resolution", "4")
    mask = Path("sites-mask.yml").read_text()
    assert "k: 6\n" in mask and "quasi_identifiers: [kind, dug]\n" in mask and "below_k: century" in mask
    make_list(folder, SAFE, "office")
    assert folder("run", "sites").code == 0
    rows = list(csv.DictReader(io.StringIO(folder("cat", "processed/sites", "cells").out)))
    groups = Counter((row["cell"], row["kind"], row["dug"]) for row in rows)
    assert any(kind != "withheld" for _, kind, _ in groups)
    assert all(count >= 6 or (kind, dug) == ("withheld", "withheld") for (_, kind, dug), count in groups.items())


# -- kills


class Killed(BaseException):
    """The process ends here."""


class Fatal(Fs):
    """Ends the process before the nth effect on the disk."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def create(self, path: str, mode: int = 0o600) -> int:
        self._count()
        return super().create(path, mode)

    def write(self, fd: int, data: bytes) -> None:
        self._count()
        super().write(fd, data)

    def replace(self, before: str, after: str) -> None:
        self._count()
        super().replace(before, after)


def test_a_kill_between_any_two_effects_is_finished_by_the_next_call(folder: Kfm) -> None:
    wish = Wish(source="data/sites.csv", custodian="office", license="CC-BY-4.0")
    fatal = 0
    for left in range(100):
        for path in [*Path().glob("*.yml*"), *Path("../safe").glob("*")]:
            path.unlink()
        target = find_target(None, str(Path.cwd()), wish)
        setup = prepare_setup(target, table_of(target), wish, {})
        try:
            write_setup(setup, Fatal(left))
        except Killed:
            fatal += 1
            assert not Path("kfm.yml").exists()  # nothing names the dataset yet
            for path in ("sites-mask.yml", "labels.yml"):
                assert not Path(path).exists() or Path(path).read_bytes().endswith(b"\n")
            protect(folder)
        else:
            break
        key = Path("../safe/office.key").read_text()
        assert len(key) == 64
        assert folder("config", "check").code == 0
        assert folder("labels", "show", "sites", "--json").data[0]["level"] == "generalised"
    assert fatal == 12  # four files: create, write, replace


def test_a_kill_in_an_installation_with_labels_publishes_nothing_and_the_next_call_finishes_it(folder: Kfm) -> None:
    protect(folder)
    Path("data/graves.csv").write_text(table().replace("14XX", "23YY").replace("38.", "37."))
    wish = Wish(source="data/graves.csv")
    resolved = load(None, {})
    target = find_target(resolved, str(Path.cwd()), wish)
    setup = prepare_setup(target, table_of(target), wish, {})
    with pytest.raises(Killed):
        write_setup(setup, Fatal(7))  # mask and labels are there, kfm.yml is not
    assert "data/graves.csv" in Path("labels.yml").read_text() and "graves" not in Path("kfm.yml").read_text()
    refused = folder("run", "sites")
    assert refused.code == 3 and "matches nothing" in refused.err
    done = folder("protect", "data/graves.csv", "--yes", "--license", "CC0-1.0")
    assert done.code == 0 and "wrote kfm.yml" in done.out and "wrote labels.yml" not in done.out
    assert folder("config", "check").code == 0


# -- slips


def label(**said: str) -> None:
    fields = "".join(f"    {name}: {value}\n" for name, value in said.items())
    Path("labels.yml").write_text(f"version: 1\nlabels:\n  - of: {{source: data/sites.csv}}\n{fields}")
    Path("kfm.yml").write_text("labels: labels.yml\ndatasets: {}\n")


SLIPS: dict[str, tuple[Any, list[str], str, str]] = {
    "an unknown source": (None, ["data/stes.csv"], "is no file and no dataset", "give the path of a table"),
    "no coordinates": ("a,b\n1,x\n2,y\n", [], "no column of latitude and longitude", "--latitude COLUMN"),
    "projected coordinates": ("id,y,x\n1,4250000.1,500000.2\n2,4250001.1,500001.2\n", [], "hold no degrees", "WGS 84"),
    "an unknown column": (table(), ["--latitude", "breite", "--longitude", "lon"], "no column 'breite'", "it has"),
    "no key of records": ("lat,lon,b\n38.1,-97.1,a\n38.1,-97.1,a\n", [], "identifies a", "--record-id COLUMN"),
    "a format that is not masked": (None, ["data/sites.xlsx"], "cannot be masked", "csv, ndjson or geojson"),
    "sacred data": (table(), ["--care", "sacred"], "sacred data", "sensitivity: closed"),
    "an unknown word of care": (table(), ["--care", "opne"], "no word for care", "community"),
    "a day that is none": (table(), ["--expires", "2031-13-01"], "not a date", "2031-12-31"),
    "an accuracy that is none": (table(), ["--accuracy", "fine"], "no accuracy", "write metres"),
    "a licence that is none": (table(), ["--license", "banana"], "banana", "SPDX"),
    "too small a k": (table(), ["--k", "2"], "too few to hide one", "--k 5"),
    "other separators": (table().replace(",", ";"), [], "not separated by commas", "as .tsv"),
    "no folder for a key": (table(), ["--safe", "/dev/null/keys"], "no key can be written", "--safe DIR"),
    "a key in the installation": (table(), ["--safe", "keys"], "lies in the installation", "--safe DIR"),
    "a bad name of a custodian": (table(), ["--custodian", "The Society"], "no name of a custodian", "--authority"),
    "a bad name of a dataset": (table(), ["--dataset", "My Sites"], "no name of a dataset", "small letters"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_refused_with_its_cure_and_nothing_is_written(folder: Kfm, slip: str) -> None:
    body, words, said, cure = SLIPS[slip]
    Path("data/sites.csv").write_text(body or table())
    Path("data/sites.xlsx").write_bytes(b"PK")
    source = words if words and not words[0].startswith("--") else ["data/sites.csv", "--custodian", "office", *words]
    refused = folder("protect", *source, "--yes")
    assert refused.code in (2, 3)
    assert said in refused.complaint and cure in refused.complaint
    assert written() == {}
    assert not [one for one in SECRETS if one in refused.err and one not in words]


def test_a_source_without_a_custodian_is_refused(folder: Kfm) -> None:
    refused = folder("protect", "data/sites.csv", "--yes")
    assert refused.code == 3 and "--custodian NAME" in refused.complaint
    assert written() == {}


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ({"sensitivity": "restricted", "care": "open", "custodian": "office"}, "kfm labels set source:data/sites.csv"),
        ({"sensitivity": "public", "care": "open", "custodian": "office"}, "--sensitivity generalised"),
        ({"sensitivity": "generalised", "care": "open", "custodian": "other"}, "custodian: office"),
    ],
)
def test_a_label_that_contradicts_is_not_overwritten(folder: Kfm, said: dict[str, str], cure: str) -> None:
    label(**said)
    before = written()
    refused = folder("protect", "data/sites.csv", "--custodian", "office", "--yes")
    assert refused.code == 3 and cure in refused.complaint and "labels.yml:3" in refused.complaint
    assert written() == before


def test_a_custodian_whose_key_is_lost_gets_no_new_key(folder: Kfm) -> None:
    protect(folder)
    Path("../safe/office.key").unlink()
    refused = folder("protect", "sites")
    assert refused.code == 3 and "office.key" in refused.complaint
    assert not Path("../safe/office.key").exists()


def test_a_file_outside_the_installation_is_refused(folder: Kfm) -> None:
    Path("../elsewhere.csv").write_text(table())
    refused = folder("protect", "../elsewhere.csv", "--custodian", "office")
    assert refused.code == 3 and "is not below the folder" in refused.complaint


# -- what is declared already


def test_a_declared_source_gets_its_mask_and_label_and_every_other_byte_stays(folder: Kfm) -> None:
    config = (
        "# ours\ndatasets:\n  finds:   # since 2019\n    version: '1.0.0'\n    title: Finds\n    license: CC0-1.0\n"
        "    sensitivity: public\n    sources:\n      table:\n        uri: data/sites.csv\n        format: csv\n"
        "        contract: {columns: [{name: site}]}\n    outputs:\n      cells:\n        from: table\n"
    )
    Path("kfm.yml").write_text(config)
    done = folder("protect", "data/sites.csv", "--custodian", "office", "--yes", "--json")
    assert done.code == 0, done.err
    assert (done.data["dataset"], done.data["source"]) == ("finds", "table")
    text = Path("kfm.yml").read_text()
    added = [line for line in text.splitlines() if line not in config.splitlines()]
    assert [line.strip() for line in added] == [
        "mask: finds-mask.yml", "labels: labels.yml", "custodians:", 'office: {key: "file:../safe/office.key"}',
    ]  # fmt: skip
    assert all(line in text.splitlines() for line in config.splitlines())
    assert folder("labels", "show", "finds", "--json").data[0]["level"] == "generalised"


def test_a_table_that_is_public_already_is_to_be_withdrawn_first(folder: Kfm) -> None:
    Path("kfm.yml").write_text(
        "datasets:\n  sites:\n    version: '1.0.0'\n    title: Sites\n    description: Sites.\n    license: CC0-1.0\n"
        "    sensitivity: public\n    sources:\n      sites: {uri: data/sites.csv, format: csv, contract: {columns: "
        "[{name: site}]}}\n    outputs:\n      all:\n        from: sites\n"
    )
    assert folder("run", "sites").code == folder("publish", "sites", "--reason", "a slip").code == 0
    found = folder("protect", "sites", "--custodian", "office", "--yes")
    assert found.code == 0, found.err
    assert "next: kfm rollback sites --to nothing" in found.err
    states = step_states(folder)
    assert states["withdrawal"] == "next" and states["public"] == "later"
    assert folder("rollback", "sites", "--to", "nothing", "--reason", "exact places").code == 0
    assert step_states(folder)["people"] == "next"
    assert not list(Path("public").rglob("*.csv"))


def test_a_declared_table_is_read_as_its_contract_says_and_every_name_of_a_file_works(folder: Kfm) -> None:
    for name, sign in (("100% of #1.csv", ","), ("tabs.tsv", "\t")):
        Path("data", name).write_text(table().replace(",", sign))
        first, again = (folder("protect", f"data/{name}", "--custodian", "office", "--yes", "--json") for _ in "12")
        assert first.code == again.code == 0, again.err
        assert first.data["columns"] == again.data["columns"] and first.data["cells"] == again.data["cells"]
    assert folder("config", "check").code == 0


def test_features_are_protected_as_tables_are(folder: Kfm) -> None:
    features = [
        {
            "type": "Feature",
            "properties": {"site": f"14XX{n}", "kind": "camp"},
            "geometry": {"type": "Point", "coordinates": [float(lon), float(lat)]},
        }
        for n, (lat, lon) in enumerate(POINTS)
    ]
    Path("data/sites.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    done = folder("protect", "data/sites.geojson", "--custodian", "office", "--yes", "--json")
    assert done.code == 0, done.err
    assert "geometry: true" in Path("sites-mask.yml").read_text()
    assert folder("config", "check").code == 0


# -- at a terminal


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("last", "writes"), [("\n", True), ("no\n", False), ("", False)])
def test_at_a_terminal_it_asks_and_writes_only_after_a_yes(
    folder: Kfm, monkeypatch: pytest.MonkeyPatch, last: str, writes: bool
) -> None:
    answers = "office\n5\ncommunity\n2031-12-31\nOld places\nCC0-1.0\n"
    monkeypatch.setattr(sys, "stdin", Typed(answers + last))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = folder("protect", "data/sites.csv")
    assert done.code == 0, done.err
    assert "whose data is it?" in done.err and "which resolution?" in done.err
    if not writes:
        assert written() == {} and "nothing was written" in done.err
        return
    label = Path("labels.yml").read_text()
    assert "care: community" in label and "public_resolution: 5" in label and "expires: 2031-12-31" in label
    assert "title: Old places" in Path("kfm.yml").read_text() and "resolution: 5" in Path("sites-mask.yml").read_text()


def test_the_order_of_the_files_ends_with_the_one_that_opens(folder: Kfm) -> None:
    wish = Wish(source="data/sites.csv", custodian="office")
    target = find_target(None, str(Path.cwd()), wish)
    setup = prepare_setup(target, table_of(target), wish, {})
    assert [Path(file.path).name for file in setup.files] == ["office.key", "sites-mask.yml", "labels.yml", "kfm.yml"]
    assert protection_setup.SAFE == "../safe"
