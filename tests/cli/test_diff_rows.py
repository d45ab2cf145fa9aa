"""`kfm diff A B` compares versions, named in every way, row by row, and shows nothing protected."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kfm.app.data.row_diff import compare_rows
from kfm.app.data.row_reader import Row

from .conftest import Answer, Kfm

UPDATER = """
import json
from kfm import Output, Plan, Step, Updater

class As(Updater):
    version = "1.0.0"

    def inputs(self, trigger, sources):
        return [sources.pin("towns")]

    def plan(self, inputs):
        return Plan([Step(id=kind, key=(kind,)) for kind in ("csv", "ndjson", "geo", "parquet", "text")], complete=True)

    def perform(self, step, read):
        rows = list(read.csv("towns"))
        if step.id == "csv":
            return Output.csv(rows)
        if step.id == "ndjson":
            return Output.ndjson(rows)
        if step.id == "text":
            return Output.text(str(len(rows)))
        if step.id == "geo":
            features = [
                {"type": "Feature", "id": row["id"], "properties": {"name": row["name"]},
                 "geometry": {"type": "Point", "coordinates": [-98.0, 38.0 + len(row["name"])]}}
                for row in rows
            ]
            return Output.json({"type": "FeatureCollection", "features": features}, "application/geo+json")
        import io, pyarrow, pyarrow.parquet
        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), out)
        return Output(out.getvalue(), "application/vnd.apache.parquet")
"""
CONFIG = """\
datasets:
  towns:
    updater: towns.py:As
    title: Towns
    license: CC0-1.0
    sensitivity: public
    sources:
      towns:
        uri: towns.csv
        format: csv
        contract: {shrink_limit: 1, columns: [{name: id, required: true, unique: true}]}
"""
BEFORE = "id,name\n1,Hays\n2,Colby\n3,Ogallah\n"
AFTER = "id,name\n1,Hays\n2,Colby-on-the-Prairie-Dog\n4,Zurich\n5,Zook\n"
ROWS = {"added": 2, "changed": 1, "removed": 1}


@pytest.fixture
def towns(kfm: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """A version of one day, public, and one of the next."""
    Path("towns.py").write_text(UPDATER)
    Path("kfm.yml").write_text(CONFIG)
    for day, text in (("2026-01-01", BEFORE), ("2026-01-02", AFTER)):
        monkeypatch.setenv("KFM_NOW", f"{day}T12:00:00Z")
        Path("towns.csv").write_text(text)
        answer = kfm("run")
        assert answer.code == 0, answer.err
        if text == BEFORE:
            assert kfm("promote", "towns").code == 0
    return kfm


def by_key(answer: Answer) -> dict[str, dict[str, Any]]:
    assert answer.code == 0, answer.err
    return {each["key"][0]: each for each in answer.data["changes"]}


def test_rows_of_every_format_are_compared_by_their_identifying_columns(towns: Kfm) -> None:
    found = by_key(towns("diff", "towns", "--json"))
    for kind in ("csv", "ndjson", "geo", "parquet"):
        rows = found[kind]["rows"]
        assert {name: rows[name] for name in ROWS} == ROWS, kind
        assert rows["by"] == (["(id)"] if kind == "geo" else ["id"]), kind
        assert rows["shown"] == []
    assert found["text"]["rows"] is None and "text/plain" in found["text"]["why"]


def test_rows_themselves_are_shown_when_they_are_asked_for_and_only_so_many(towns: Kfm) -> None:
    found = by_key(towns("diff", "towns", "--rows", "--json"))
    shown = {each["change"]: each for each in found["csv"]["rows"]["shown"]}
    assert shown["changed"]["before"] == {"id": "2", "name": "Colby"}
    assert shown["changed"]["after"] == {"id": "2", "name": "Colby-on-the-Prairie-Dog"}
    assert shown["removed"] == {"change": "removed", "before": {"id": "3", "name": "Ogallah"}, "after": None}
    few = by_key(towns("diff", "towns", "--rows", "--limit", "5", "--json"))
    assert sum(len(each["rows"]["shown"]) for each in few.values() if each["rows"]) == 5
    told = towns("diff", "towns", "--rows")
    assert '- {"id":"2","name":"Colby"}' in told.out and '+ {"id":"2","name":"Colby-on-the-Prairie-Dog"}' in told.out
    assert "Ogallah" not in towns("diff", "towns").out


def test_without_a_key_rows_come_and_go_as_a_whole(towns: Kfm) -> None:
    Path("kfm.yml").write_text(CONFIG.replace(", unique: true", ""))
    whole = by_key(towns("diff", "towns", "--json"))["csv"]["rows"]
    assert (whole["added"], whole["changed"], whole["removed"], whole["by"]) == (3, 0, 2, [])
    given = by_key(towns("diff", "towns", "--key", "id", "--json"))["csv"]["rows"]
    assert {name: given[name] for name in ROWS} == ROWS
    unknown = by_key(towns("diff", "towns", "--key", "zip", "--json"))["csv"]["rows"]
    assert unknown["by"] == [], "a column that is not there tells nothing apart"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("towns@published", "towns@processed"),
        ("published/towns", "processed/towns"),
        ("towns@2026-01-01", "towns@2026-01-02"),
        ("published/towns@2026-01-01", "towns"),
        ("towns@2026-01-01T12:30:00Z", "towns@2026-01-02T12:00:00Z"),
        ("published", "towns"),
        ("towns@2026-01-01", "processed"),
        ("FIRST", "SECOND"),
        ("towns@FIRST", "SECOND"),
    ],
)
def test_a_version_is_named_by_ref_digest_or_day(towns: Kfm, a: str, b: str) -> None:
    first, second = [move["after"] for move in towns("refs", "history", "processed/towns", "--json").data]
    words = [word.replace("FIRST", first).replace("SECOND", second) for word in (a, b)]
    found = towns("diff", *words, "--json").data
    assert (found["from"], found["to"], found["changed"]) == (first, second, 5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["towns@2025-01-01", "towns"], "towns had no processed version then"),
        (["towns@2026-13-01", "towns"], "is not a version"),
        (["towns@soon", "towns"], "'soon' is not a version"),
        (["town", "towns"], "there is no dataset 'town'; did you mean towns?"),
        (["raw/towns/0", "towns"], "is no ref of a dataset"),
        (["sha256:00000000", "towns"], "no version of towns begins with 00000000"),
        (["sha256:00000000"], "no dataset was ever at a version 'sha256:00000000'"),
        (["towns", "towns", "--from", "published"], "--from and --to go with one dataset"),
        (["towns@", "towns"], "'' is not a version"),
    ],
)
def test_what_names_no_version_is_refused(towns: Kfm, words: list[str], said: str) -> None:
    answer = towns("diff", *words)
    assert (answer.code, answer.out) == (3, "") and said in answer.complaint


def test_only_check_makes_a_difference_an_exit_code(towns: Kfm) -> None:
    assert towns("diff", "towns@published", "towns").code == 0
    assert towns("diff", "towns@published", "towns", "--check").code == 3
    assert towns("diff", "towns", "towns", "--check").code == 0
    assert towns("diff", "towns", "towns", "--json").data["same"] is True


LABELS = "version: 1\nlabels:\n  - {{of: {{{of}}}, sensitivity: {level}, care: open{more}}}\n"


@pytest.mark.parametrize("of", ["dataset: towns", "source: towns.csv"])
def test_two_versions_of_protected_data_are_not_compared(towns: Kfm, of: str) -> None:
    Path("labels.yml").write_text(LABELS.format(of=of, level="restricted", more=""))
    Path("kfm.yml").write_text("labels: labels.yml\n" + CONFIG)
    for words in (["towns@published", "towns"], ["towns", "--rows"], ["towns@published", "towns", "--json"]):
        answer = towns("diff", *words)
        assert answer.code == 4 and "restricted" in answer.complaint
        assert not any(word in answer.out + answer.err for word in ("Colby", "Ogallah", "csv", "ndjson"))
    keys = towns("diff", "towns", "--json").data
    assert keys["rows"] is None and all(each["rows"] is None for each in keys["changes"])


def test_of_masked_data_two_versions_are_only_counted(towns: Kfm) -> None:
    more = ", custodian: office, public_resolution: 6"
    Path("labels.yml").write_text(LABELS.format(of="dataset: towns", level="generalised", more=more))
    Path("kfm.yml").write_text("labels: labels.yml\ncustodians: {office: {key: 'env:KFM_SECRET_OFFICE'}}\n" + CONFIG)
    answer = towns("diff", "towns@published", "towns", "--json")
    assert (answer.data["changed"], answer.data["changes"], answer.data["rows"]) == (5, [], None)
    assert "Colby" not in answer.out and "only counts" in answer.data["why"]
    assert towns("diff", "towns@published", "towns", "--rows").code == 4


def test_what_is_not_what_it_says_it_is_has_keys_and_no_rows(kfm: Kfm) -> None:
    media = {
        "csv": "text/csv",
        "nd": "application/x-ndjson",
        "geo": "application/geo+json",
        "p": "application/x-parquet",
    }
    bad = {"csv": b'a,b\n"1,2\n', "nd": b"{SECRET\n", "geo": b'{"features": [SECRET', "p": b"PAR1SECRET"}
    Path("bad.py").write_text(
        "from kfm import Output, Plan, Step, Updater\n\n\nclass Bad(Updater):\n    version = '1.0.0'\n\n"
        "    def inputs(self, trigger, sources):\n        return [sources.pin('n')]\n\n"
        f"    def plan(self, inputs):\n        return Plan([Step(id=k, key=(k,)) for k in {sorted(bad)}])\n\n"
        f"    def perform(self, step, read):\n        return Output({bad!r}[step.id], {media!r}[step.id])\n"
    )
    Path("n.txt").write_text("1")
    Path("kfm.yml").write_text(CONFIG.replace("towns.py:As", "bad.py:Bad").partition("    sources")[0]
                               + "    sources: {n: {uri: n.txt, format: text}}\n")  # fmt: skip
    assert kfm("run").code == 0
    answer = kfm("diff", "towns", "--rows", "--json")
    found = by_key(answer)
    for key in ("nd", "geo", "p"):
        assert found[key]["rows"] is None and any(word in found[key]["why"] for word in ("says it is", "not JSON")), key
    assert "SECRET" not in answer.out + answer.err


def rows_of(table: list[dict[str, Any]]) -> Any:
    def read() -> Iterator[Row]:
        return (Row(dict(values)) for values in table)

    return read


def test_a_table_larger_than_the_memory_limit_is_compared_alike(count: Any) -> None:
    """Against the definition, with keys that stand several times, and room for seven rows at once."""
    chance = random.Random(13)
    for _ in range(60):
        before = [{"id": chance.randrange(40), "v": chance.randrange(3)} for _ in range(chance.randrange(80))]
        after = [dict(row, v=chance.randrange(3)) if chance.random() < 0.2 else row for row in before]
        after = [row for row in after if chance.random() > 0.1] + [{"id": 99 + n, "v": 0} for n in range(3)]
        chance.shuffle(after)
        for key in (("id",), ()):
            told = compare_rows(rows_of(before), rows_of(after), key, 5, most=7)
            assert (told.added, told.changed, told.removed) == by_definition(before, after, key)
            assert compare_rows(rows_of(before), rows_of(after), key, 0) == compare_rows(
                rows_of(before), rows_of(after), key, 0, most=7
            )
            assert len(told.shown) <= 5
            assert not [each for each in told.shown if each.before is None and each.after is None]
    count("pairs of tables compared by turns", 120)


def by_definition(before: list[Any], after: list[Any], key: tuple[str, ...]) -> tuple[int, int, int]:
    old, new = (Counter(json.dumps(row, sort_keys=True) for row in side) for side in (before, after))
    went, came = old - new, new - old
    if not key:
        return came.total(), 0, went.total()
    gone, here = (Counter() for _ in range(2))
    for left, into in ((went, gone), (came, here)):
        for text, times in left.items():
            into[json.loads(text)["id"]] += times
    changed = sum((gone & here).values())
    return here.total() - changed, changed, gone.total() - changed
