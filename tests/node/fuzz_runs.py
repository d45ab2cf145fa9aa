"""Generated datasets, run by Python and by Node as whole installations: all that can be seen must be the same.

`python -m tests.node.fuzz_runs [COUNT] [SEED]` prints what they differ in.

Many datasets share one kfm.yml, so that a process runs many of them. One that cannot be read gets a file of its own,
which must be refused in the same words, and nothing is begun.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kfm import config
from kfm.errors import BadInput
from tests.conformance.transforms import body_of
from tests.node.sites import Site, Story, contents, differences, tell
from tests.node.transform_samples import Case, case_of

AT_ONCE = 40
ARTIFACTS = {"run.jsonl", "event_log.jsonl", "idempotency.json", "publisher_trace.jsonl"}
STATES = ("sqlite:.kfm/state.db", "jsonl:.kfm/state.jsonl")
RUNNERS: dict[str, Callable[[int], str]] = {
    "node": lambda _n: "node",
    "node first, then in turn": lambda n: ("node", "python")[n % 2],
}
WORDS = ((), ("--verbose",), ("--window", "2026-01"), ("--force", "--reason", "again"), ("--json",), ("--quiet",))


def written(value: Any) -> str:
    """As JSON, which YAML can read if nothing in it is invisible and no character is cut into halves."""
    plain = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in plain)


def files_of(cases: list[Case], pick: random.Random) -> dict[str, str | bytes]:
    """A kfm.yml with a dataset for each case, and what their sources hold."""
    files: dict[str, str | bytes] = {}
    lines = ["kfm: 1", "accept_weak_storage: true", f"state: {pick.choice(STATES)}"]
    lines += [f"execute: {{threads: 1, window: {pick.choice((1, 2, 512))}}}", "datasets:"]
    for n, case in enumerate(cases):
        lines += [f"  d{n:02d}:", f'    version: "{pick.randrange(9)}.0.0"', "    title: T", "    license: CC0-1.0"]
        lines += ["    sensitivity: public", "    sources:"]
        for name, source in case["sources"].items():
            uri = f"data/d{n:02d}-{name}.{source['contract']['format']}"
            files[uri] = body_of(source)
            lines.append(f"      {name}: " + written({"uri": uri, "contract": source["contract"]}))
        lines += ["    outputs:"]
        lines += [f"      {name}: {written(declared)}" for name, declared in case["outputs"].items()]
    return {"kfm.yml": "\n".join(lines) + "\n", **files}


def is_refused(folder: Path, case: Case) -> bool:
    files = files_of([case], random.Random(1))
    (folder / "kfm.yml").write_bytes(str(files["kfm.yml"]).encode())
    try:
        config.load(str(folder / "kfm.yml"), {})
    except BadInput:
        return True
    return False


def groups(count: int, pick: random.Random, folder: Path) -> Iterator[tuple[bool, list[Case]]]:
    """Those that are refused one by one, all others together; and whether they can be read."""
    batch: list[Case] = []
    for _ in range(count):
        case = case_of(pick)
        if is_refused(folder, case):
            yield False, [case]
            continue
        batch.append(case)
        if len(batch) == AT_ONCE:
            yield True, batch
            batch = []
    if batch:
        yield True, batch


def story_of(cases: list[Case], pick: random.Random) -> Story:
    """Run, publish some, and once more: in words that are the same for every telling."""
    first, again = pick.choice(WORDS), pick.choice(WORDS)
    promoted = sorted({f"d{pick.randrange(len(cases)):02d}" for _ in range(12)})

    def story(site: Site) -> None:
        site.run("run", "--config", "kfm.yml", *first, code=None)
        for dataset in promoted:
            site.kfm("promote", dataset, code=None)
        site.run("run", "--config", "kfm.yml", *again, code=None)

    return story


def refusals(folder: Path, files: dict[str, str | bytes]) -> list[str]:
    """What is said of a file that cannot be read, by each; if it differs, or anything was begun."""
    shutil.rmtree(folder, ignore_errors=True)
    site = Site(folder, files, lambda _n: "python")
    ours, theirs = (run("run", "--config", "kfm.yml") for run in (site.python, site.node))
    assert (ours.code, ours.out) == (3, ""), ours
    assert all(line.startswith("kfm: kfm.yml:") for line in ours.err.splitlines()), ours
    assert ours.err.startswith("kfm: kfm.yml:"), ours
    assert contents(folder).keys() == files.keys()
    same = (ours.code, ours.out, place(ours.err)) == (theirs.code, theirs.out, place(theirs.err))
    return [] if same else [f"{ours}\n    {theirs}\n    {files['kfm.yml']!r}"]


def place(told: str) -> str:
    """What comes before the sentence, which is each language's own."""
    return ":".join(told.split(":")[:4])


def run(count: int, seed: int, folder: Path, outcomes: Counter[str]) -> list[str]:
    """What the two differ in, if anything; `outcomes` says how the datasets ended, to see that all ends are met."""
    pick = random.Random(seed)
    found = []
    for readable, cases in groups(count, pick, folder):
        files = files_of(cases, pick)
        if not readable:
            found += refusals(folder / "site", files)
            outcomes["refused"] += 1
            continue
        story = story_of(cases, pick)
        ours = tell(folder / "site", files, story, lambda _n: "python")
        for name, runner in RUNNERS.items():
            told = tell(folder / "site", files, story, runner)
            found += [f"{name}, seed {seed}: {words}" for words in differences(ours, told)]
        for seen in ours:
            assert seen.artifacts.keys() == ARTIFACTS
            receipts = [json.loads(line)["receipt"] for line in seen.artifacts["run.jsonl"].splitlines()]
            assert len(receipts) == len(cases)
            outcomes.update(receipt["outcome"] for receipt in receipts)
        outcomes["files published"] += sum(name.startswith("../public/") for name in ours[-1].files)
    return found


if __name__ == "__main__":
    counts: Counter[str] = Counter()
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with tempfile.TemporaryDirectory() as scratch:
        differing = run(asked, int(sys.argv[2]) if len(sys.argv) > 2 else 1, Path(scratch), counts)
    for difference in differing[:10]:
        sys.stdout.write(difference[:3000] + "\n")
    for kind, number in counts.most_common():
        sys.stdout.write(f"{number:8} {kind}\n")
    sys.stdout.write(f"{asked} cases, {len(differing)} differences\n")
    sys.exit(bool(differing))
