"""Tables of text by columns of Arrow, and by the engine of texts: the same bytes, or the same refusal.

Whatever the two could see differently is left to the engine of texts before anything is made. Blocks are small here, so
that rows stand on both sides of every seam.
"""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kfm.engine.step_reader import StepReader
from kfm.errors import BadInput
from kfm.model.keys import digest
from kfm.model.records import DataContract, Layout, SourceRef, Step
from kfm.model.transform_config import OutputConfig
from kfm.updaters.transforms import csv_arrow
from kfm.updaters.transforms.transform_updater import DeclaredUpdater
from tests.sampling import sampled

ROOT = Path(__file__).resolve().parents[3]
TEXTS = ["", " ", "\u2003", "\xa0", "\x85", "\x1c", "a", "A", "b", "10", "9", " 5 ", "+5", "05", "1e3", "-0", "1.50",
         ".5", "nan", "NaN", "inf", "null", "NULL", "NA", "#N/A", "true", "\u00e9", "e\u0301", "\U0001f33e", "\ufb01",
         "\ufeff", "9007199254740993", "x" * 9, "2026-01-31", "0x10", "1_0", "\u0663", "ab", "a b", "~"]  # fmt: skip
ODD = ['"q"', 'a"b', '"a,b"', '"a\nb"', '"a""b"', "a\rb", "a\0b"]
NAMES = ["a", "b", "c d", "\u00e9", "e"]


@pytest.fixture
def engaged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Of small tables too, and in small blocks. Tells how often it had an answer."""
    told: list[bool] = []
    really = csv_arrow.read_columns

    def told_of(*words: Any) -> Any:
        found = really(*words)
        told.append(found is not None)
        return found

    monkeypatch.setattr(csv_arrow, "LEAST", 0)
    monkeypatch.setattr(csv_arrow, "BLOCK", 400)
    monkeypatch.setattr(csv_arrow.arrow, "BATCH", 7)
    monkeypatch.setattr(csv_arrow, "read_columns", told_of)
    return told


def made(body: bytes, layout: Layout, said: list[dict[str, Any]], partition: tuple[str, str] | None) -> bytes | str:
    more = {"partition_by": partition[0]} if partition else {}
    output = msgspec.convert({"from": "rows", "steps": said, **more}, OutputConfig)
    contract = DataContract(format="csv", delimiter=layout.delimiter, encoding=layout.encoding)
    updater = DeclaredUpdater("case", "1.0.0", {"out": output}, {"rows": contract})
    source = SourceRef(uri="rows", name="rows", content_hash=digest(body), size=len(body), layout=layout)
    world: Any = SimpleNamespace(
        objects=SimpleNamespace(open=lambda _name: io.BytesIO(body)),
        settings=SimpleNamespace(dry_run=True), datasets={}, scratch=io.BytesIO,
    )  # fmt: skip
    params = {"output": "out", **({"partition": partition[1]} if partition else {})}
    try:
        found = updater.perform(
            Step(id="out", key=("out",), params=params),
            StepReader(world, [source], None, None),  # type: ignore[arg-type]
        ).body
        return found if isinstance(found, bytes) else b"".join(found)
    except BadInput as problem:
        return str(problem)


def both(monkeypatch: pytest.MonkeyPatch, *words: Any) -> tuple[bytes | str, bytes | str]:
    found = made(*words)
    with monkeypatch.context() as patch:
        patch.setattr(csv_arrow, "LEAST", 1 << 60)
        return found, made(*words)


def steps(pick: random.Random, names: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(pick.randint(1, 4)):

        def some(there: tuple[str, ...] = tuple(names)) -> str:
            return pick.choice(there) if pick.random() < 0.99 else "nowhere"

        verb = pick.choice(("select", "rename", "filter", "filter", "sort", "sort", "deduplicate", "deduplicate"))
        if verb == "select":
            names = pick.sample(names, pick.randint(1, len(names)))
            found.append({"select": names})
        elif verb == "rename":
            old = some()
            found.append({"rename": {old: old + "2"}})
            names = [name + "2" if name == old else name for name in names]
        elif verb == "filter":
            operand = pick.choice((0, 5, 2.5, -1, "a", "10", True, ""))
            verbs = ("equals", "not_equals", "above", "below", "at_least", "at_most", "in", "matches", "blank")
            condition = pick.choice(verbs)
            if condition in ("above", "below", "at_least", "at_most") and type(operand) is not float:
                operand = pick.choice((0, 5, "a", "10"))
            if condition == "equals" and operand == "":
                operand = "a"
            said = {"in": [operand, "b"], "matches": "*1*", "blank": pick.random() < 0.5}.get(condition, operand)
            found.append({"filter": {"column": some(), condition: said}})
        elif verb == "sort":
            keys = [{"column": name, "descending": pick.random() < 0.5} for name in sorted({some(), some(), some()})]
            found.append({"sort": keys})
        else:
            by = sorted({some() for _ in range(pick.randint(1, 3))})
            found.append({"deduplicate": {"by": by, "keep": pick.choice(("first", "last"))}})
    return found


def table(pick: random.Random) -> tuple[bytes, Layout, list[str]]:
    names = pick.sample(NAMES, pick.randint(1, len(NAMES)))
    delimiter = pick.choice((",", ",", ",", ";", "\t", "|", "\u00a7"))
    end = pick.choice(("\n", "\n", "\n", "\n", "\r\n", "\r"))
    texts = pick.sample(TEXTS, pick.randint(2, 12))
    if pick.random() < 0.15:
        texts += pick.sample(ODD, 1)
    lines = [delimiter.join(pick.choice(texts) for _ in names) for _ in range(pick.choice((0, 1, 3, 20, 90)))]
    if pick.random() < 0.1 and lines:
        lines[pick.randrange(len(lines))] = pick.choice(("", "a", delimiter * 9, "\ufeff"))
    header = pick.random() < 0.8
    if header:
        lines.insert(0, delimiter.join(names))
    text = pick.choice(("", "", "", "\n", "\ufeff")) + end.join(lines) + pick.choice((end, end, "", end * 2))
    encoding = pick.choice(("utf-8", "utf-8", "utf-8", "UTF8", "utf-8-sig"))
    layout = Layout(encoding=encoding, delimiter=delimiter, columns=() if header else tuple(names))
    body = text.encode()
    return (body + b"\xff" if pick.random() < 0.02 else body), layout, names


@pytest.mark.parametrize("seed", sampled(range(60)))
def test_both_make_the_same(seed: int, engaged: list[bool], monkeypatch: pytest.MonkeyPatch, count: Any) -> None:
    pick = random.Random(seed)
    for _ in range(60):
        body, layout, names = table(pick)
        said = steps(pick, names)
        partition = (pick.choice(names), pick.choice(TEXTS)) if pick.random() < 0.1 else None
        found, wanted = both(monkeypatch, body, layout, said, partition)
        assert found == wanted, (body, layout, said, partition)
    assert sum(engaged) > 3
    assert not all(engaged)
    count("tables by columns and by texts", 60)


SAID: list[list[dict[str, Any]]] = [
    [{"sort": ["%0"]}],
    [{"sort": [{"column": "%1", "descending": True}, {"column": "%0", "descending": False}]}],
    [{"filter": {"column": "%1", "at_least": 1}}, {"deduplicate": {"by": ["%0"]}}],
    [{"deduplicate": {"by": ["%0", "%1"], "keep": "last"}}, {"select": ["%1"]}],
]


def test_every_table_of_this_repository(engaged: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    listed = subprocess.run(["git", "ls-files", "*.csv"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).stat().st_size < 1 << 20]
    assert len(paths) > 5
    monkeypatch.setattr(csv_arrow, "BLOCK", 4000)
    for path in paths:
        body = path.read_bytes()
        names = body.decode("utf-8-sig", "replace").split("\n")[0].strip("\r").replace('"', "").split(",")
        for said in SAID:
            text = msgspec.json.encode(said).decode().replace("%0", names[0]).replace("%1", names[-1])
            found, wanted = both(monkeypatch, body, Layout(), msgspec.json.decode(text), None)
            assert found == wanted, path
    assert sum(engaged) > 10


def test_the_other_engine_makes_what_is_not_plain(engaged: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = b"a,b\n2,x\n1,y\n"
    said: list[dict[str, Any]] = [{"sort": ["a"]}]
    for body, layout in (
        (plain.replace(b"x", b'"x"'), Layout()),
        (plain.replace(b"\n", b"\r\n"), Layout()),
        (b"\xef\xbb\xbf" + plain, Layout()),
        (plain.replace(b",", b";").replace(b"x", b"x,y"), Layout(delimiter=";")),
        (plain.replace(b"x", b"\xe9"), Layout(encoding="latin-1")),
        (b"a,b\n2,x\n1\n", Layout()),
        (b"a,b\n" + b"x" * 1000 + b",y\n", Layout()),
        (b"a,b", Layout()),
    ):
        engaged.clear()
        found, wanted = both(monkeypatch, body, layout, said, None)
        assert found == wanted and not any(engaged), body
    engaged.clear()
    assert both(monkeypatch, plain, Layout(), said, None) == (b"a,b\n1,y\n2,x\n",) * 2 and engaged == [True]


def test_without_the_library_the_other_engine_makes_it(engaged: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    found, wanted = both(monkeypatch, b"a,b\n2,x\n1,y\n", Layout(), [{"sort": ["a"]}], None)
    assert found == wanted == b"a,b\n1,y\n2,x\n" and engaged == [False]


def test_keys_with_very_many_values_are_distinguished(engaged: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """More combinations than one number holds."""
    monkeypatch.setattr(csv_arrow, "_CODES", 50)
    pick = random.Random(4)
    rows = [",".join(str(pick.randrange(9)) for _ in range(4)) for _ in range(300)]
    body = ("a,b,c,d\n" + "\n".join(rows) + "\n").encode()
    for said in ([{"sort": ["a", "b", "c", "d"]}], [{"deduplicate": {"by": ["a", "b", "c"], "keep": "last"}}]):
        found, wanted = both(monkeypatch, body, Layout(), said, None)
        assert found == wanted
    assert all(engaged)
