"""Tests every vector below conformance/; a vector without a test, or without its reason, fails."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import tempfile
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kfm import config
from kfm.engine.manifest.manifest_tree import Tally, write
from kfm.engine.plan import make
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.keys import claim_key, input_hash, output_key, run_id, run_key, run_key_of
from kfm.model.names import is_semantic
from kfm.model.records import ManifestEntry, SourceRef, Step
from kfm.model.updater import Plan, Updater
from kfm.parsing import documents, time_windows
from kfm.parsing.strict_json import decode
from kfm.projections.file_paths import case_twins, published_path
from kfm.projections.plan_diff import plan_diff
from kfm.validation.output_description import read_from
from tests.conformance import transforms
from tools.version_of import version_of

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
Vector = dict[str, Any]


def value_of(vector: Vector) -> Any:
    if "double" in vector:
        return struct.unpack(">d", bytes.fromhex(vector["double"]))[0]
    body = bytes.fromhex(vector["bytes"]) if "bytes" in vector else vector["json"].encode()
    return decode(body, "vector")


def answer_canonical(vector: Vector) -> None:
    assert len(vector.keys() & {"json", "double", "bytes"}) == 1
    assert len(vector.keys() & {"canonical", "refused"}) == 1
    if "canonical" in vector:
        assert canonical(value_of(vector)) == vector["canonical"].encode()
        return
    with pytest.raises(BadInput) as caught:
        canonical(value_of(vector))
    place = vector["refused"]
    if place is not True:
        assert caught.value.message.removeprefix("vector: ").startswith(f"{place} ")


def sources(vector: Vector) -> list[SourceRef]:
    return [SourceRef(**{**ref, "partition": tuple(ref["partition"]), "size": 0}) for ref in vector["inputs"]]


def answer_run_key(vector: Vector) -> str:
    return run_key(vector["source_url"], vector["etag"], vector["window"], vector["pipeline_version"])


def answer_run_key_of_sources(vector: Vector) -> str:
    return run_key_of(sources(vector), vector["window"], vector["pipeline_version"])


def answer_input_hash(vector: Vector) -> str:
    return input_hash(sources(vector))


def answer_claim_key(vector: Vector) -> str:
    names = ("updater_id", "version", "dataset", "window", "input_hash", "params")
    return claim_key(*(vector[name] for name in names))


def answer_run_id(vector: Vector) -> str:
    return run_id(vector["claim_key"], vector["n"])


def answer_output_key(vector: Vector) -> str:
    business_key = tuple(vector["business_key"])
    return output_key(vector["updater_id"], vector["updater_version"], business_key, vector["content_hash"])


def answer_transform(vector: Vector) -> None:
    assert len(vector.keys() & {"made", "refused"}) == 1
    answer = transforms.answer(vector)
    if "refused" in answer:
        assert is_refused_as(vector, answer["refused"])
    else:
        assert answer == {"made": vector.get("made")}


def is_refused_as(vector: Vector, message: str) -> bool:
    """A vector holds what every runner says; Python adds the exact line to write behind it."""
    return message == vector.get("refused") or message.startswith(
        (f"{vector.get('refused')}; ", f"{vector.get('refused')} write ")
    )


def answer_document(vector: Vector, *, as_json: bool) -> None:
    body = bytes.fromhex(vector["bytes"]) if "bytes" in vector else vector["text"].encode()
    try:
        document = documents.read(body, "kfm.yml", json=as_json)
    except BadInput as problem:
        assert str(problem) == vector.get("refused")
    else:
        assert canonical(document.value).decode() == vector.get("canonical")


def answer_config(vector: Vector) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(vector["file"]).write_bytes(vector["text"].encode())
        try:
            resolved = config.load(vector["file"], vector["env"])
        except BadInput as problem:
            assert is_refused_as(vector, str(problem)), str(problem)
            return
    values = {documents.dotted(at): value for at, value in config.leaves(msgspec.to_builtins(resolved.config), ())}
    told = {key: origin for key, origin in resolved.origins.items() if origin != "default"}
    found = {key: {"value": values[key], "origin": origin} for key, origin in told.items()}
    assert canonical(found) == canonical(vector.get("settings"))


DIGEST = "sha256:" + "0123456789abcdef" * 4


def answer_published_path(vector: Vector) -> None:
    entry = ManifestEntry(key=tuple(vector["key"]), digest=DIGEST, size=0, media_type=vector["media_type"])
    keys = vector.get("keys")
    twins = None if keys is None else case_twins(map(tuple, keys))
    assert published_path("gauges", DIGEST, entry, twins) == vector["published_path"]


def answer_described(vector: Vector) -> None:
    assert canonical(read_from(vector["text"].encode())) == canonical(vector["said"])


def answer_version(vector: Vector) -> None:
    lines = []
    for i in range(vector["count"]):
        key = (*vector["prefix"], str(i * vector["step"]).rjust(vector["pad"], "0"))
        body = canonical(key)
        entry = ManifestEntry(
            key=key, digest="sha256:" + hashlib.sha256(body).hexdigest(), size=i, media_type="text/plain"
        )
        lines.append((key, canonical(entry).decode() + "\n", 1, i))
    world: Any = SimpleNamespace(encryption=None)
    root, rows = write(world, None, "", iter(sorted(lines)), False, Tally())
    assert root == (vector["version"], vector["count"], sum(range(vector["count"])))
    stored = dict(rows)
    assert all("sha256:" + hashlib.sha256(body).hexdigest() == name for name, body in stored.items())
    listing = b"".join(line[1].encode() for line in sorted(lines))
    assert version_of(listing) == vector["version"] in stored


def answer_plan_bytes(vector: Vector) -> None:
    class Gauges(Updater):
        id, version = "gauges", "1.0.0"

        def plan(self, inputs: Any) -> Plan:
            return Plan(msgspec.convert(vector["steps"], list[Step]), complete=vector["complete"])

    trigger = SimpleNamespace(window=vector["window"], partition="")
    world = SimpleNamespace(progress=lambda *_said: None, encryption=None)
    context: Any = SimpleNamespace(updater=Gauges(), dataset="gauges", trigger=trigger, world=world)
    made = make(context, [], DIGEST, guarded=False)
    assert b"".join(made.chunks or []) == vector["bytes"].encode()
    assert made.plan_hash == vector["plan_hash"] == "sha256:" + hashlib.sha256(vector["bytes"].encode()).hexdigest()


def answer_plan_diff(vector: Vector) -> None:
    assert plan_diff(vector["old"].encode(), vector["new"].encode()) == vector["diff"]


def key(name: str, answer: Callable[[Vector], str]) -> Callable[[Vector], None]:
    """The answer under `name`, which also has to be the hash of what the vector says is hashed."""

    def check(vector: Vector) -> None:
        hashed = hashlib.sha256(vector["hashed"].encode()).digest()
        if name == "run_id":
            marked = bytearray(hashed[:16])
            marked[6] = marked[6] % 16 + 0x80
            marked[8] = marked[8] % 64 + 0x80
            assert vector[name] == str(uuid.UUID(bytes=bytes(marked)))
        else:
            assert vector[name].removeprefix("sha256:") == hashed.hex()
        assert answer(vector) == vector[name]

    return check


def answer_window(vector: Vector) -> None:
    if "refused" in vector:
        with pytest.raises(BadInput) as refused:
            time_windows.interval(vector["text"], vector["today"])
        assert str(refused.value) == vector["refused"]
        return
    assert time_windows.interval(vector["text"], vector["today"]) == vector["window"]
    for text, lies in vector.get("inside", {}).items():
        assert time_windows.within(vector["window"], text) is lies, text


def answer_semantic(vector: Vector) -> None:
    assert is_semantic(vector["text"]) is vector["semantic"]


ANSWERS: dict[str, Callable[[Vector], None]] = {
    "updaters/semantic": answer_semantic,
    "config/refused": answer_config,
    "config/settings": answer_config,
    "documents/json": partial(answer_document, as_json=True),
    "documents/yaml": partial(answer_document, as_json=False),
    "documents/windows": answer_window,
    "canonical/numbers": answer_canonical,
    "canonical/values": answer_canonical,
    "canonical/refused": answer_canonical,
    "keys/run_key": key("run_key", answer_run_key),
    "keys/run_key_of_sources": key("run_key", answer_run_key_of_sources),
    "keys/input_hash": key("input_hash", answer_input_hash),
    "keys/claim_key": key("claim_key", answer_claim_key),
    "keys/run_id": key("run_id", answer_run_id),
    "keys/output_key": key("output_key", answer_output_key),
    "artifacts/published_path": answer_published_path,
    "manifests/described": answer_described,
    "manifests/version": answer_version,
    "plans/bytes": answer_plan_bytes,
    "plans/diff": answer_plan_diff,
    "transforms/csv": answer_transform,
    "transforms/json": answer_transform,
    "transforms/ndjson": answer_transform,
    "transforms/geojson": answer_transform,
    "transforms/stac": answer_transform,
    "transforms/refused": answer_transform,
}


# Answered where the rest of the subject is tested.
ELSEWHERE = {
    "webhooks/verify": "tests/api/test_verify.py",
    **{
        f"contracts/{path.stem}": "tests/conformance/test_contracts.py" for path in CONFORMANCE.glob("contracts/*.json")
    },
    **{f"sources/{path.stem}": "tests/conformance/test_sources.py" for path in CONFORMANCE.glob("sources/*.json")},
}


def unanswered(root: Path) -> list[str]:
    """Files and folders below `root` that no function answers."""
    known = ANSWERS.keys() | ELSEWHERE.keys()
    folders = {name.partition("/")[0] for name in known}
    found = [path.name for path in root.iterdir() if path.is_dir() and path.name not in folders]
    for path in root.glob("*/*"):
        name = path.relative_to(root).as_posix()
        if path.suffix != ".json" or name.removesuffix(".json") not in known:
            found.append(name)
    return sorted(found)


def vectors(path: Path) -> list[Vector]:
    """The vectors of one file, each with its reason."""
    document = json.loads(path.read_bytes())
    assert document.keys() == {"about", "vectors"}, f"{path.name} is not a file of vectors"
    assert document["about"].strip()
    found: list[Vector] = document["vectors"]
    for number, vector in enumerate(found):
        assert isinstance(vector.get("why"), str), f"vector {number} of {path.name} does not say why it is there"
        assert vector["why"].strip(), f"vector {number} of {path.name} does not say why it is there"
    return found


ALL = [
    pytest.param(name, vector, id=f"{name}-{number}")
    for name in ANSWERS
    for number, vector in enumerate(vectors(CONFORMANCE / f"{name}.json"))
]


@pytest.mark.parametrize(("name", "vector"), ALL)
def test_every_vector_is_answered(name: str, vector: Vector) -> None:
    ANSWERS[name](vector)


def test_nothing_is_left_unanswered() -> None:
    assert unanswered(CONFORMANCE) == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_answered_elsewhere_is_read_there(name: str) -> None:
    assert f"conformance/{name}.json" in (CONFORMANCE.parent / ELSEWHERE[name]).read_text()


@pytest.mark.parametrize("name", ANSWERS)
def test_no_reason_and_no_question_is_there_twice(name: str) -> None:
    found = vectors(CONFORMANCE / f"{name}.json")
    assert len(found) >= 4
    reasons = [vector["why"] for vector in found]
    questions = [json.dumps({k: v for k, v in vector.items() if k != "why"}, sort_keys=True) for vector in found]
    assert len(set(reasons)) == len(reasons)
    assert len(set(questions)) == len(questions)


def test_a_vector_without_a_test_is_noticed(tmp_path: Path) -> None:
    for name in ("canonical/numbers.json", "canonical/more.json", "keys/run_key.txt", "colours/red.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert unanswered(tmp_path) == ["canonical/more.json", "colours", "colours/red.json", "keys/run_key.txt"]


@pytest.mark.parametrize("why", [{}, {"why": ""}, {"why": "  "}, {"why": True}])
def test_a_vector_without_a_reason_is_noticed(tmp_path: Path, why: Vector) -> None:
    path = tmp_path / "some.json"
    path.write_text(json.dumps({"about": "a", "vectors": [{"why": "good"}, {"json": "1", **why}]}))
    with pytest.raises(AssertionError, match=r"vector 1 of some\.json"):
        vectors(path)


def test_a_wrong_answer_is_noticed() -> None:
    for name in ANSWERS:
        wrong = dict(vectors(CONFORMANCE / f"{name}.json")[-1])
        answers = ("canonical", "refused", "settings", "made", "said", name.rpartition("/")[2], "run_key")
        answer = next(k for k in answers if k in wrong)
        wrong[answer] = "$.elsewhere" if answer == "refused" else "0" + str(wrong[answer])
        if name == "canonical/refused":
            wrong["json"] = "[NaN]"
            wrong.pop("bytes", None)
        with pytest.raises(AssertionError):
            ANSWERS[name](wrong)
