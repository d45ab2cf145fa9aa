"""Answers the vectors of sources: conformance/sources/addresses.json, conformance/sources/locations.json,
conformance/sources/redirects.json and conformance/sources/validators.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kfm.errors import BadInput
from kfm.model.records import Checkpoint, FetchRequest
from kfm.sources import http
from kfm.sources.addresses import refusal
from kfm.sources.urls import parse
from tests.sources.memory_objects import MemoryObjects

FOLDER = Path(__file__).resolve().parents[2] / "conformance" / "sources"
Vector = dict[str, Any]
# What `known` and `request` of validators.json change.
KNOWN: Vector = {
    "uri": "http://a/", "content_hash": "sha256:" + "1" * 64, "size": 1, "media_type": "", "etag": 'W/"a"',
    "last_modified": "Thu, 01 Jan 2026 00:00:00 GMT", "fetched_ms": 1000, "checked_ms": 1000,
}  # fmt: skip
REQUEST: Vector = {"uri": "http://a/", "now_ms": 2000, "revalidate_ms": 5000}


def answer_location(vector: Vector) -> Vector:
    try:
        there = parse(vector["url"])
        if "reference" in vector:
            there = there.follow(vector["reference"])
    except BadInput as problem:
        return {"refused": str(problem)}
    return {"location": list(there), "shown": there.shown()}


def answer_address(vector: Vector) -> Vector:
    return {"refusal": refusal(vector["host"], vector["address"], vector["port"], vector["allow"])}


def answer_validator(vector: Vector) -> Vector:
    if "sent" in vector:
        return {"kept": vector["sent"] if http._is_etag(vector["sent"]) else ""}
    known, request = Checkpoint(**KNOWN | vector["known"]), FetchRequest(**REQUEST | vector["request"])
    objects = MemoryObjects()
    if vector["stored"]:
        objects.stored[known.content_hash] = b""
    return {"condition": http._condition_line(known) if http._may_ask(request, known, objects) else ""}


ANSWERS: dict[str, Callable[[Vector], Vector]] = {
    "addresses": answer_address,
    "locations": answer_location,
    "redirects": answer_location,
    "validators": answer_validator,
}
SAID = {"location", "shown", "refused", "refusal", "kept", "condition"}


def vectors(name: str) -> list[Vector]:
    found: list[Vector] = json.loads((FOLDER / f"{name}.json").read_bytes())["vectors"]
    return found


ALL = [pytest.param(n, v, id=f"{n}-{i}") for n in ANSWERS for i, v in enumerate(vectors(n))]


@pytest.mark.parametrize(("name", "vector"), ALL)
def test_a_source_is_answered_as_everywhere(name: str, vector: Vector) -> None:
    said = {key: value for key, value in vector.items() if key in SAID}
    assert said
    assert ANSWERS[name](vector) == said


def test_every_file_is_answered_and_every_vector_says_why_it_is_there() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(ANSWERS)
    for name in ANSWERS:
        reasons = [vector["why"] for vector in vectors(name)]
        assert len(set(reasons)) == len(reasons) >= 5
        assert all(reason.strip() for reason in reasons)
