"""Holds the readers of YAML and JSON files against each other: the same value and places, or the same words.

`python -m tests.node.fuzz_documents [COUNT] [SEED]` prints what they differ in.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.parsing import documents
from tests.node.fuzz_canonical import json_text
from tests.node.twin import ROOT, Twin, batches, encoded, essence, refusal
from tests.node.yaml_samples import yaml_text

Case = tuple[bytes, bool]


def examples() -> list[str]:
    """Every configuration that is in the project."""
    found = [*ROOT.glob("examples/**/*.yml"), *ROOT.glob("tests/**/*.yml"), *ROOT.glob("*.example.yml")]
    texts = sorted(path.read_text(encoding="utf-8") for path in found if "runners" not in path.parts)
    return [text for text in texts if "\n---\n" not in text]


def case(pick: random.Random, known: list[str]) -> Case:
    """The bytes of a file, and whether it is JSON."""
    if pick.random() < 0.2:
        return json_text(pick), pick.random() < 0.7
    text = yaml_text(pick, known)
    if pick.random() < 0.1:
        text = text.replace("\n", "\r\n")
    body = text.encode("utf-8", "surrogatepass")
    if pick.random() < 0.03:
        at = pick.randrange(len(body) + 1)
        body = body[:at] + pick.choice((b"\xff", b"\xef\xbb\xbf", b"\xc3", b"\xff\xfe", b"\xe2\x80")) + body[at:]
    return body, False


def placed(document: documents.Document, value: Any, path: documents.Path) -> Any:
    line, column = document.position(path)
    if isinstance(value, list):
        return [line, column, [placed(document, item, (*path, at)) for at, item in enumerate(value)]]
    if not isinstance(value, dict):
        return [line, column, value]
    members = [[key, placed(document, item, (*path, key))] for key, item in value.items()]
    return [line, column, {"members": members}]


def read(body: bytes, as_json: bool) -> dict[str, Any]:
    try:
        document = documents.read(body, "kfm.yml", json=as_json)
        return {"ok": canonical(placed(document, document.value, ())).decode()}
    except BadInput as problem:
        return refusal(problem)


def run(count: int, seed: int) -> list[str]:
    pick = random.Random(seed)
    known = examples()
    differences = []
    with Twin() as twin:
        for cases in batches(case(pick, known) for _ in range(count)):
            answers = twin.ask_all([("document", encoded(body), as_json) for body, as_json in cases])
            for (body, as_json), theirs in zip(cases, answers, strict=True):
                ours = read(body, as_json)
                if ours != essence(theirs):
                    differences.append(
                        f"{body!r} json={as_json}\n  {json.dumps(ours)} here\n  {json.dumps(theirs)} there"
                    )
    return differences


if __name__ == "__main__":
    found = run(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for difference in found[:20]:
        sys.stdout.write(difference[:2000] + "\n")
    sys.stdout.write(f"{len(found)} differences\n")
    sys.exit(bool(found))
