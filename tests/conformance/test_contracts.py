"""Answers the vectors of data contracts: conformance/contracts/csv.json, conformance/contracts/dates.json,
conformance/contracts/encodings.json, conformance/contracts/geojson.json, conformance/contracts/json.json,
conformance/contracts/patterns.json, conformance/contracts/refused.json, conformance/contracts/stac.json and
conformance/contracts/text.json."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.errors import KfmError
from kfm.model.canonical import canonical
from kfm.model.records import DataContract
from kfm.parsing.dates import date_format_problem, date_reader
from kfm.parsing.encodings import codec_of, encoding_of
from kfm.parsing.patterns import compiled, pattern_flaw
from kfm.validation.source_check import inspect

FOLDER = Path(__file__).resolve().parents[2] / "conformance" / "contracts"
Vector = dict[str, Any]


def answer_inspection(vector: Vector) -> Vector:
    body = bytes.fromhex(vector["hex"]) if "hex" in vector else vector["text"].encode()
    accepted: list[bytes] = []
    held: list[bytes] = []
    try:
        contract = msgspec.convert(vector["contract"], DataContract)
        report = inspect(lambda: io.BytesIO(body), contract, "stations", accepted.append, held.append)
    except KfmError as problem:
        return {"refused": str(problem)}
    answer: Vector = {"report": json.loads(canonical(report))}
    if report.changed:
        answer["accepted"] = shown(b"".join(accepted))
    if held:
        answer["held"] = b"".join(held).decode()
    return answer


def shown(body: bytes) -> dict[str, str]:
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"hex": body.hex()}


def answer_pattern(vector: Vector) -> Vector:
    problem = pattern_flaw(vector["pattern"])
    if problem:
        return {"refused": problem}
    whole, some = compiled(vector["pattern"]), compiled(vector["pattern"], whole=False)
    return {"whole": list(map(whole, vector["texts"])), "some": list(map(some, vector["texts"]))}


def answer_date(vector: Vector) -> Vector:
    problem = date_format_problem(vector["format"])
    return {"refused": problem} if problem else {"dates": list(map(date_reader(vector["format"]), vector["texts"]))}


def answer_encoding(vector: Vector) -> Vector:
    known = encoding_of(vector["name"])
    if not known or known.startswith("utf"):
        return {"known": known}
    return {"known": known, "upper": bytes(range(0x80, 0x100)).decode(codec_of(known), "replace")}


ANSWERS: dict[str, Callable[[Vector], Vector]] = {
    **dict.fromkeys(("csv", "geojson", "json", "refused", "stac", "text"), answer_inspection),
    "dates": answer_date,
    "encodings": answer_encoding,
    "patterns": answer_pattern,
}
ASKED = {"why", "contract", "text", "hex", "pattern", "texts", "format", "name"}


def vectors(name: str) -> list[Vector]:
    found: list[Vector] = json.loads((FOLDER / f"{name}.json").read_bytes())["vectors"]
    return found


ALL = [pytest.param(n, v, id=f"{n}-{i}") for n in ANSWERS for i, v in enumerate(vectors(n))]


@pytest.mark.parametrize(("name", "vector"), ALL)
def test_a_contract_is_answered_as_everywhere(name: str, vector: Vector) -> None:
    assert ANSWERS[name](vector) == {key: value for key, value in vector.items() if key not in ASKED}


def test_every_file_is_answered_and_every_vector_says_why_it_is_there() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(ANSWERS)
    for name in ANSWERS:
        reasons = [vector["why"] for vector in vectors(name)]
        assert len(set(reasons)) == len(reasons) >= 5
        assert all(reason.strip() for reason in reasons)


def test_a_wrong_answer_is_noticed() -> None:
    for name in ANSWERS:
        vector = vectors(name)[0]
        answer = next(key for key in vector if key not in ASKED)
        with pytest.raises(AssertionError):
            test_a_contract_is_answered_as_everywhere(name, vector | {answer: "something else"})
