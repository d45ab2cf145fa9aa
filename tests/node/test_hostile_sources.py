"""Sources as nobody should write them, through both runners: one line, the same in both, and nothing has changed.

Every body carries a value that is nobody's business in the column `owner`, and often elsewhere too: neither what is
said nor any artifact, receipt or row of the state may quote it. Only the objects do: they are the source itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engine.installations import Answer
from tests.node.sites import Seen, Site, contents, differences
from tests.sampling import sampled

Count = Callable[..., None]
CANARY = "canary-8f3b2"
STRICT = "[{name: id, required: true}, {name: rain_mm, type: number}, {name: owner}]"
LENIENT = (
    "[{name: id, mode: discard-row}, {name: rain_mm, type: number, mode: discard-row}, {name: owner, mode: evolve}]"
)
CONFIG = """\
kfm: 1
accept_weak_storage: true
state: sqlite:.kfm/state.db
execute: {threads: 1, window: 512}
datasets:
  gauges:
    version: "1.0.0"
    title: Gauges
    license: CC0-1.0
    sensitivity: public
    sources:
      readings:
        uri: data/readings.FORMAT
        format: FORMAT
        contract:
          max_held_share: 1
          allow_empty: true
          columns: COLUMNS
    outputs:
      rain: {from: readings, steps: STEPS}
"""
HEADER = "id,rain_mm,owner\n"
TABLE = f"{HEADER}a,1,{CANARY}\nb,2,{CANARY}\n"
RECORD = f'{{"id":"a","rain_mm":1,"owner":"{CANARY}"}}'
DEEP = "[" * 100_000 + f'"{CANARY}"' + "]" * 100_000


def feature(properties: str = RECORD, coordinates: str = "[-97,38]") -> str:
    return f'{{"type":"Feature","geometry":{{"type":"Point","coordinates":{coordinates}}},"properties":{properties}}}'


def collection(*features: str) -> str:
    return '{"type":"FeatureCollection","features":[' + ",".join(features) + "]}"


GOOD = {
    "csv": TABLE,
    "json": f"[{RECORD}]",
    "ndjson": RECORD + "\n",
    "geojson": collection(feature()),
}


def of_owner(more: str) -> str:
    """A good record, and then one with this in it."""
    return f'{RECORD}\n{{"id":"b","owner":"{CANARY}",{more}}}\n'


# What is sent, and what is said of it: the reason and its place, in these words.
HELD: dict[str, tuple[str, str | bytes, str]] = {
    "a row that lacks a field": (
        "csv",
        f"{TABLE}c,{CANARY}\n",
        "the row has more or fewer fields than there are columns (csv.ragged, row 3)",
    ),
    "a row with a field too many": (
        "csv",
        f"{TABLE}c,3,{CANARY},{CANARY}\n",
        "the row has more or fewer fields than there are columns (csv.ragged, row 3)",
    ),
    "a NUL in a table": ("csv", f"{TABLE}c,3,{CANARY}\0\n", "there is a NUL character (nul, row 3)"),
    "a byte that is not UTF-8": (
        "csv",
        TABLE.encode() + b"c,3,\xff" + CANARY.encode() + b"\n",
        "a byte cannot be read in the declared encoding (encoding, row 3)",
    ),
    "a table in UTF-16 with its mark": (
        "csv",
        TABLE.encode("utf-16"),
        "a byte cannot be read in the declared encoding (encoding)",
    ),
    "a table in UTF-16 without a mark": ("csv", TABLE.encode("utf-16-be"), "there is a NUL character (nul)"),
    "a field of five million characters": (
        "csv",
        f"{TABLE}c,3,{CANARY * 420_000}\n",
        "a line is longer than 4,194,304 characters (too-long, row 3)",
    ),
    "a quote that is never closed": (
        "csv",
        f'{TABLE}c,3,"{CANARY}\n',
        "quotes are not closed or not doubled (csv.quotes, row 3)",
    ),
    "a header that names a column twice": (
        "csv",
        f"id,{CANARY},{CANARY}\na,1,2\n",
        "columns 2 and 3 of the header have one name (csv.header)",
    ),
    "an empty file": ("csv", "", "there is no header (csv.header)"),
    **{
        f"{number[:12]} for a number": (
            "csv",
            f"{TABLE}c,{number},{CANARY}\n",
            "the value is not a finite number (type, row 3, column rain_mm)",
        )
        for number in ("NaN", "inf", "-Infinity", "1e999", CANARY)
    },
    "a document that is cut off": (
        "json",
        f'[{RECORD},{{"id":"b","owner":"{CANARY}',
        "this is not JSON: it ends inside a value (json.malformed, row 2)",
    ),
    "a comma before the end": (
        "json",
        f'[{{"id":"a","owner":"{CANARY}",}}]',
        "the record is not JSON at line 1, column 34: expecting property name enclosed in double quotes "
        "(json.malformed, row 1)",
    ),
    "a document with a byte order mark": (
        "json",
        b"\xef\xbb\xbf" + GOOD["json"].encode(),
        "this is not JSON: it begins with a byte order mark (json.malformed)",
    ),
    "a document in UTF-16": (
        "json",
        GOOD["json"].encode("utf-16"),
        "the record is not UTF-8 at line 1, byte 0 (json.malformed, row 1)",
    ),
    "more after the end": (
        "json",
        f"{GOOD['json']} {CANARY}",
        "what surrounds the records is not JSON at line 1, column 4: extra data (json.malformed)",
    ),
    "a list a hundred thousand deep": (
        "json",
        DEEP,
        "the record is nested deeper than 200 levels (json.malformed, row 1)",
    ),
    "a key twice": (
        "ndjson",
        of_owner(f'"{CANARY}":1,"{CANARY}":2'),
        "the record: $ names a key twice (json.malformed, row 2)",
    ),
    "a value a hundred thousand deep": (
        "ndjson",
        of_owner(f'"more":{DEEP}'),
        "the record is nested deeper than 200 levels (json.malformed, row 2)",
    ),
    "NaN, which JSON does not have": (
        "ndjson",
        of_owner('"rain_mm":NaN'),
        "the record: $.rain_mm is NaN or Infinity, which JSON does not have (json.malformed, row 2)",
    ),
    "a number past every double": (
        "ndjson",
        of_owner('"rain_mm":-1e999'),
        "the record: $.rain_mm is not a finite double (json.malformed, row 2)",
    ),
    "an integer past 2^53": (
        "ndjson",
        of_owner('"rain_mm":9007199254740993'),
        "the record: $.rain_mm is an integer larger than 2^53 (json.malformed, row 2)",
    ),
    "half a surrogate pair": (
        "ndjson",
        of_owner(f'"name":"{CANARY}\\ud800"'),
        "the record: $.name holds half a surrogate pair (json.malformed, row 2)",
    ),
    "a NUL between two records": (
        "ndjson",
        f"{RECORD}\n\0{RECORD}\n",
        "the record is not JSON at line 1, column 1: expecting value (json.malformed, row 2)",
    ),
    "a text for a number": (
        "ndjson",
        of_owner(f'"rain_mm":"{CANARY}"'),
        "the value is not a finite number (type, row 2, column rain_mm)",
    ),
    "a place that is no number": (
        "geojson",
        collection(feature(), feature(coordinates="[NaN,1]")),
        "the record: $.geometry.coordinates[0] is NaN or Infinity, which JSON does not have (json.malformed, row 2)",
    ),
    "a property twice": (
        "geojson",
        collection(feature(), feature(f'{{"owner":"{CANARY}","owner":"{CANARY}"}}')),
        "the record: $.properties names a key twice (json.malformed, row 2)",
    ),
    "no features at all": (
        "geojson",
        f'{{"type":"{CANARY}"}}',
        "the list of records is not where the contract says (json.root)",
    ),
    "features that are no JSON": (
        "geojson",
        f'{{"type":"FeatureCollection","features":{CANARY}}}',
        "the document is not JSON at line 1, column 40: expecting value (json.malformed)",
    ),
    "a document that is no JSON": (
        "geojson",
        CANARY,
        "the document is not JSON at line 1, column 1: expecting value (json.malformed)",
    ),
}
ONE_ROW = "gauges: 1 row quarantined, see `kfm quarantine gauges`\n"


class Passing(NamedTuple):
    """What is not refused as a whole: a mark that is no part of the text, and rows that are held by themselves."""

    format: str
    columns: str
    body: str | bytes
    err: str
    made: str


PASSING = {
    "a table with a byte order mark": Passing("csv", STRICT, b"\xef\xbb\xbf" + TABLE.encode(), "", TABLE),
    "a ragged row where rows may go": Passing("csv", LENIENT, f"{TABLE}c,{CANARY}\n", ONE_ROW, TABLE),
    "no number where rows may go": Passing("csv", LENIENT, f"{TABLE}c,1e999,{CANARY}\n", ONE_ROW, TABLE),
    "a place that is none": Passing(
        "geojson", STRICT, collection(feature(), feature(coordinates='["' + CANARY + '",1]')), ONE_ROW, ""
    ),
}

Fresh = Callable[[str, str, str], Path]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """The folder of a site that has published something good, made once for each contract."""
    made: dict[tuple[str, str, str], Path] = {}

    def folder(kind: str, columns: str, steps: str) -> Path:
        if (kind, columns, steps) not in made:
            path = tmp_path_factory.mktemp("good") / "site"
            text = CONFIG.replace("FORMAT", kind).replace("COLUMNS", columns).replace("STEPS", steps)
            good = GOOD[kind].replace(CANARY, "somebody")
            site = Site(path, {"kfm.yml": text, f"data/readings.{kind}": good}, lambda _n: "python")
            site.run("run")
            site.kfm("promote", "gauges")
            made[kind, columns, steps] = path
        return made[kind, columns, steps]

    return folder


def by_both(folder: Path, good: Path, name: str, body: str | bytes) -> tuple[Seen, Seen]:
    """How it was, and how it is after the same command by either; whoever did it."""
    sites = []
    was = None
    for runner in ("python", "node"):
        site = Site(folder / runner / "site", contents(good), lambda _n, runner=runner: runner)  # type: ignore[misc]
        was = was or site.look((), Answer(0, "", ""))
        site.put(name, body)
        site.run("run", "--config", "kfm.yml", code=None)
        sites.append(site)
    told = list(differences(sites[0].seen, sites[1].seen))
    assert not told, "\n".join(told[:12])
    assert was is not None
    return was, sites[0].seen[0]


def is_kept_quiet(seen: Seen) -> None:
    assert "Traceback" not in seen.answer.err and "internal" not in seen.answer.err
    said = {"stdout": seen.answer.out.encode(), "stderr": seen.answer.err.encode(), **seen.artifacts}
    said |= {name: body for name, body in seen.files.items() if name.startswith(("receipts/", "events/"))}
    said |= {
        f"{table}/{key}": body for table, rows in seen.rows.items() if table != "objects" for key, body in rows.items()
    }
    assert [name for name, body in said.items() if CANARY.encode() in body] == []


def nothing_changed(was: Seen, seen: Seen) -> None:
    """But that the run is on record, and what is held lies in quarantine."""
    for table in ("versions", "plans", "plan_locks", "checkpoints", "outbox", "open_runs", "inbox"):
        assert seen.rows[table] == was.rows[table], table
    refs = {name: at for name, at in seen.rows["refs"].items() if name != "quarantine/gauges"}
    assert refs == was.rows["refs"]
    public = {name: body for name, body in seen.files.items() if name.startswith("../public/")}
    assert public and public == {name: body for name, body in was.files.items() if name.startswith("../public/")}


@pytest.mark.parametrize("name", sampled(HELD, every=6))
def test_a_hostile_source_is_held_in_one_line_that_names_its_place(
    name: str, tmp_path: Path, fresh: Fresh, count: Count
) -> None:
    kind, body, reason = HELD[name]
    file = f"data/readings.{kind}"
    was, seen = by_both(tmp_path, fresh(kind, STRICT, "[]"), file, body)
    hint = "see `kfm quarantine gauges`; the published version stays"
    assert seen.answer.err == f"kfm: gauges: source readings ({file}) is held: {reason}; {hint}\n"
    assert seen.answer.code == 3
    is_kept_quiet(seen)
    nothing_changed(was, seen)
    count("hostile sources answered alike")


@pytest.mark.parametrize("name", PASSING)
def test_what_may_pass_passes_alike(name: str, tmp_path: Path, fresh: Fresh, count: Count) -> None:
    case = PASSING[name]
    _, seen = by_both(tmp_path, fresh(case.format, case.columns, "[]"), f"data/readings.{case.format}", case.body)
    assert (seen.answer.code, seen.answer.err) == (0, case.err)
    is_kept_quiet(seen)
    processed = json.loads(seen.rows["objects"][seen.rows["refs"]["processed/gauges"].decode()])
    if case.made:
        assert seen.rows["objects"][processed["digest"]] == case.made.encode()
    count("hostile sources answered alike")


@pytest.mark.parametrize("number", ["NaN", "1e999", CANARY])
def test_what_a_step_cannot_read_names_row_and_column(number: str, tmp_path: Path, fresh: Fresh, count: Count) -> None:
    good = fresh("csv", "[{name: owner}]", "[{cast: {rain_mm: number}}]")
    was, seen = by_both(tmp_path, good, "data/readings.csv", f"{TABLE}c,{number},{CANARY}\n")
    assert seen.answer.code == 3
    assert seen.answer.err == (
        "kfm: gauges: output rain, step 1 (cast): row 3 of source readings, column 'rain_mm' is not a number; "
        "correct the source, or write unfit: blank or unfit: drop next to the cast\n"
    )
    is_kept_quiet(seen)
    assert seen.rows["refs"] == was.rows["refs"] and seen.rows["versions"] == was.rows["versions"]
    count("hostile sources answered alike")
