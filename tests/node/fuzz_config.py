"""Holds both loaders of kfm.yml against each other: the same settings and origins, or the same words.

`python -m tests.node.fuzz_config [COUNT] [SEED]` prints what they differ in.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from kfm import config
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from tests.node.config_samples import config_text, environment
from tests.node.fuzz_documents import examples
from tests.node.twin import Twin, batches, essence, refusal
from tests.node.yaml_samples import broken

Case = tuple[str, str, dict[str, str]]


def case(pick: random.Random, known: list[str]) -> Case:
    """The ending of the file's name, its text, and the environment."""
    if known and pick.random() < 0.2:
        return "yml", broken(pick, pick.choice(known)), environment(pick)
    text, is_json = config_text(pick)
    return "json" if is_json else "yml", text, environment(pick)


def load(path: str, env: dict[str, str]) -> dict[str, Any]:
    try:
        resolved = config.load(path, env)
        plain = msgspec.to_builtins(resolved.config)
        told = [plain, resolved.path, resolved.root]
        return {"ok": canonical(told).decode()}
    except BadInput as problem:
        return refusal(problem)


# Sections that Python alone looks into further: Node signs nothing, asks no server and has no custodian's key.
NOT_FOR_NODE = (
    "policy", "attest", "ledger", "custodians", "catalog", "graph", "neo4j", "openlineage", "otel", "pools", "runners",
    "github.repository", "s3", "read_from", "pages", "archive", "public_url", "postgres", "redis", "queue", "workers",
    "execute.cluster", "worker_receipts", "energy", "notify", "retention",
)  # fmt: skip
# And single settings: Node runs no dataset that reads another one, Parquet, a grid or an archive, is masked or promoted
# by itself. Python looks at a format that only a connector has before it looks at the address.
NOT_FOR_NODE_EITHER = (
    ".dataset", ".zone", ".mask", ".expect", ".expect.crs", ".expect.bbox", ".expect.bands", ".expect.geometry",
    ".expect.time", ".expect.variables", ".member", ".unpack", ".promote",
)  # fmt: skip
OF_A_GRID = ", which has no rows"  # Node looks no further at what it does not run
NO_SUCH_OBJECT = "does not name an S3 object"  # Node reads none
NO_SUCH_ADDRESS = "has a scheme that this version cannot read"


def run(count: int, seed: int) -> list[str]:
    pick = random.Random(seed)
    known = examples()
    differences = []
    with Twin() as twin, tempfile.TemporaryDirectory() as folder:
        for cases in batches(case(pick, known) for _ in range(count)):
            paths = []
            for number, (ending, text, _) in enumerate(cases):
                path = Path(folder) / f"{number}.{ending}"
                path.write_bytes(text.encode("utf-8", "surrogatepass"))
                paths.append(str(path))
            answers = twin.ask_all([("config", path, env) for path, (_, _, env) in zip(paths, cases, strict=True)])
            for path, (_, text, env), theirs in zip(paths, cases, answers, strict=True):
                ours = load(path, env)
                key = str(ours.get("fields", {}).get("key"))
                if key.startswith(NOT_FOR_NODE) or key.endswith(NOT_FOR_NODE_EITHER):
                    continue
                if NO_SUCH_OBJECT in ours.get("error", "") or OF_A_GRID in ours.get("error", ""):
                    continue
                if NO_SUCH_ADDRESS in theirs.get("error", ""):
                    continue
                if ours != essence(theirs):
                    differences.append(f"{text!r} {env}\n  {json.dumps(ours)} here\n  {json.dumps(theirs)} there")
    return differences


if __name__ == "__main__":
    found = run(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    for difference in found[:10]:
        sys.stdout.write(difference[:3000] + "\n")
    sys.stdout.write(f"{len(found)} differences\n")
    sys.exit(bool(found))
