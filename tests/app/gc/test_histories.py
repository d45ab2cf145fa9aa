"""Random years of an installation with `kfm gc` in between: what a small model needs is readable, the rest is gone."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from kfm.app.session.protection_files import readable_objects
from kfm.app.session.session import Session
from kfm.errors import KfmError
from kfm.model import manifests, refs
from kfm.model.names import is_digest
from kfm.model.records import Run
from tests.app.gc.house import DAY, GRACE, HOUR, Years, everywhere, is_well, opened, orphans, set_aside
from tests.app.move.carried import Answer, kfm
from tests.app.move.test_places import CONFIG
from tests.crash.harness import Voice, in_child
from tests.crash.points import Points, boundary, die, install
from tests.sampling import everything, sampled

STEPS, EACH = 14, 5
MORE = "retention: {unchanged_runs: 5d}\n"


def died(folder: str, at: int, word: str) -> bool:
    """Type a command that is killed at its boundary number `at`; return False if it ended before, well or not."""

    def work(_voice: Voice) -> int:
        install(Points(at, die, only=boundary))
        return kfm(folder, word).code

    ended = in_child(work)
    assert ended.killed or ended.code == 0, ended.failure
    return ended.killed


class Place:
    """One installation, what happened to it, and which of its orphans must be gone."""

    def __init__(self, folder: str, rng: random.Random, kind: str) -> None:
        self.folder, self.rng, self.years = folder, rng, Years("2026-01-01T00:00:00Z")
        self.lost: list[str] = []
        self.number = 0
        self.done: Counter[str] = Counter()
        os.makedirs(folder)
        state = {"sqlite": "sqlite:.kfm/state.db", "jsonl": "jsonl:.kfm/state.jsonl"}[kind]
        Path(folder, "kfm.yml").write_text(f"state: {state}\n" + MORE + CONFIG)
        self.change()
        assert self.typed("run").code == 0

    def typed(self, *words: str) -> Answer:
        answer = kfm(self.folder, *words)
        assert "Traceback" not in answer.err and answer.code != 65, (words, answer)
        return answer

    def change(self) -> None:
        self.number += 1
        many = self.rng.choice((3, 3, 4000))
        rows = "".join(f"KS-{n:05},{n % 7}.{self.number}\n" for n in range(many))
        Path(self.folder, "rain.csv").write_text(f"station,inches\n{rows}")

    # -- what may happen

    def run(self) -> None:
        self.change()
        self.typed("run")

    def unchanged(self) -> None:
        self.typed("run")

    def forced(self) -> None:
        self.typed("run", "rain", "--force", "--reason", "a test")

    def published(self) -> None:
        self.typed("publish", "rain", "--reason", "a test")

    def back(self) -> None:
        self.typed("rollback", "rain", "--reason", "a test")

    def withdrawn(self) -> None:
        self.typed("rollback", "rain", "--to", "nothing", "--reason", "a test")

    def failing(self) -> None:
        kept = Path(self.folder, "rain.csv").read_text()
        Path(self.folder, "rain.csv").write_text(kept.replace("inches", "feet"))
        self.typed("run", "rain")
        Path(self.folder, "rain.csv").write_text(kept)

    def held(self) -> None:
        kept = Path(self.folder, "rain.csv").read_text()
        Path(self.folder, "rain.csv").write_text(kept + "KS-99999,many\n")
        self.typed("run", "rain")
        Path(self.folder, "rain.csv").write_text(kept)

    def killed(self) -> None:
        self.change()
        self.done["died"] += died(self.folder, self.rng.randrange(5, 60), "run")

    def resumed(self) -> None:
        self.typed("resume")

    def frozen(self) -> None:
        self.typed("freeze", "--reason", "a test")
        assert self.typed("gc").code == 5
        self.typed("thaw", "--reason", "a test")

    def tightened(self) -> None:
        path = Path(self.folder, "kfm.yml")
        path.write_text(path.read_text().replace("sensitivity: public", "sensitivity: restricted"))
        self.typed("resume")
        path.write_text(path.read_text().replace("sensitivity: restricted", "sensitivity: public"))

    def orphaned(self) -> None:
        self.lost += orphans(self.folder, self.rng.randbytes(50), self.rng.randbytes(70_000))

    def collected(self) -> None:
        answer = self.typed("gc")
        assert answer.code == 0, answer

    def gc_killed(self) -> None:
        self.done["gc died"] += died(self.folder, self.rng.randrange(1, 60), "gc")

    def later(self) -> None:
        self.years.advance(self.rng.choice((HOUR, DAY, GRACE + HOUR)))


WEIGHTS = {
    "run": 4, "unchanged": 2, "forced": 1, "published": 3, "back": 1, "withdrawn": 1, "failing": 1, "held": 1,
    "killed": 2, "resumed": 1, "frozen": 1, "tightened": 1, "orphaned": 2, "collected": 4, "gc_killed": 3, "later": 5,
}  # fmt: skip


def needed(session: Session) -> set[str]:
    """What the refs, their history, the versions and the runs need, by their fields."""
    found: set[str] = set()
    versions: set[str] = set()
    for name, at in session.state.refs.all():
        found |= {at} if is_digest(at) else set()
        versions |= {at} if is_digest(at) and name.startswith(refs.VERSIONS) else set()
    for entry in session.state.refs.histories():
        found |= {each for each in (entry.before, entry.after) if is_digest(each)}
        versions |= {entry.after} if is_digest(entry.after) and entry.ref.startswith(refs.VERSIONS) else set()
    for _, body in session.tables.scan("runs"):
        run = msgspec.json.decode(body, type=Run)
        found |= {each for ref in run.inputs for each in (ref.content_hash, ref.accepted_hash) if is_digest(each)}
        found |= {run.held} if run.held else set()
    readable = readable_objects(session)
    for version in versions:
        found |= set(manifests.parts(readable, version)) | {
            each.digest for each in manifests.entries(readable, version)
        }
    return found


def check(place: Place) -> set[str]:
    """Every object that the model needs reads as what its name says. Return what is needed."""
    with opened(place.folder) as session:
        waiting = {key.partition("/")[2] for key, _ in session.tables.scan("standings", "unjudged/")}
        wanted = needed(session) - waiting
        for name in wanted:
            try:
                with session.objects.open(name) as file:
                    while file.read(1 << 20):
                        pass
            except KfmError as problem:
                raise AssertionError((name, place.done, problem)) from problem
    return wanted


def named(folder: str) -> set[str]:
    """Every digest in a row of the state, or in an object that is there, in clear."""
    with opened(folder) as session:
        found: set[bytes] = set()
        for table in ("refs", "history", "runs", "versions", "receipts", "plans", "plan_locks", "segments", "ledger",
                      "checkpoints", "standings", "orders", "outbox", "meta", "claims", "archived", "attestations",
                      "lineage", "telemetry", "triggers", "inbox", "jobs", "fingerprints", "first_cells"):  # fmt: skip
            for key, value in session.tables.scan(table):
                found |= set(re.findall(rb"[0-9a-f]{64}", key.encode() + b" " + value))
        for _, body in session.state.ledger.receipt_bodies():
            found |= set(re.findall(rb"[0-9a-f]{64}", body))
        readable = readable_objects(session)
        for name in everywhere(folder):
            with readable.open(name) as file:
                found |= set(re.findall(rb"[0-9a-f]{64}", file.read()))
    return {"sha256:" + each.decode() for each in found}


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@pytest.mark.parametrize("batch", sampled(range(50)))
def test_what_is_needed_stays_and_the_rest_goes(
    batch: int, kind: str, scratch: str, environment: None, shown_by_default: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFM_NOW", "2026-01-01T00:00:00Z")
    done: Counter[str] = Counter()
    for number in range(EACH if everything else 3):
        rng = random.Random(f"{batch} {number}")
        place = Place(os.path.join(scratch, f"place-{number}"), rng, kind)
        for what in rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
            place.done[what] += 1
            getattr(place, what)()
            if what in ("collected", "gc_killed"):
                check(place)
        for words in (("thaw", "--reason", "a test"), ("resume",)):
            place.typed(*words)
        questions = (("verify", "rain"), ("reproduce", "rain"), ("explain", "rain")) if number == 0 else ()
        said = {words: place.typed(*words) for words in questions}
        for _ in range(3):
            place.collected()
            place.years.advance(GRACE + HOUR)
        wanted = check(place)
        left = everywhere(place.folder)
        assert wanted <= left and not set(place.lost) & (left | set_aside(place.folder)), place.done
        assert left <= named(place.folder), place.done
        is_well(place.folder)
        assert [place.typed(*words) for words in said] == list(said.values()), place.done
        done += place.done
        shutil.rmtree(place.folder)
    assert done["collected"] and done["died"] + done["gc died"], done
