"""One state, two languages in turn: each step is answered as the model in memory answers it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kfm.model.keys import GENESIS
from tests.node.store_words import Here, There, dump, plain
from tests.power.tally import tally
from tests.store import records as make

KINDS = ("sqlite", "jsonl")
TEXTS = ("", "plain", "grüße", "\U0001f5fa", "\ufffd\ue000", 'quote " and \\ and \x7f\x1f\u2028', "e\u0301")
NUMBERS = (0, 1, -1, 2**53, 0.5, 1.0, -0.0, 1e21, 1e-7, 123456789012345.0, 5e-324)
SWITCHES = ("switch/global", "switch/dataset/d")


class Story:
    """Draws steps that make sense often enough, and often enough do not."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_000_000
        self.leases: list[Any] = []
        self.items: list[Any] = []
        self.heads: dict[str, tuple[int, str]] = {}  # run: how many segments, digest of the last

    def any_json(self, depth: int = 0) -> Any:
        draw = self.random
        way = draw.randrange(7 if depth < 3 else 4)
        if way == 0:
            return draw.choice(TEXTS)
        if way == 1:
            return draw.choice(NUMBERS)
        if way == 2:
            return draw.choice((None, True, False))
        if way == 3:
            return draw.randrange(1000)
        if way == 4:
            return [self.any_json(depth + 1) for _ in range(draw.randrange(3))]
        return self.mapping(depth + 1)

    def mapping(self, depth: int = 0) -> dict[str, Any]:
        draw = self.random
        # never a lone "b": that is how the pipe spells bytes
        return {draw.choice((*TEXTS, "k", "10", "9")): self.any_json(depth) for _ in range(draw.randrange(4))}

    def text(self) -> str:
        return self.random.choice(TEXTS)

    def run_id(self) -> str:
        return f"run-{self.random.randrange(4)}"

    def lease(self) -> Any:
        return self.random.choice([None, *self.leases[-4:]])

    # -- one write: [method, arguments]

    def writes(self) -> list[Any]:
        draw = self.random
        name = draw.choice(
            ("claim", "save_run", "segment", "segment", "plan_chunk", "lock_plan", "objects", "acquire", "renew",
             "release", "move", "move", "version", "receipt", "receipt", "telemetry", "owe", "told",
             "checkpoint", "keep_trigger", "keep_trigger", "finish_trigger",
             "advance", "touch", "next_index")
        )  # fmt: skip
        return [name, plain(getattr(self, "_" + name)())]

    def _run(self) -> Any:
        draw = self.random
        n = draw.randrange(3)
        return make.run(
            run_id=self.run_id(),
            claim_key=draw.choice(("claim", "other")),
            dataset=draw.choice("de"),
            n=n,
            status=draw.choice(("RUNNING", "COMMITTED", "FAILED", "SKIPPED")),
            trigger=self._keep_trigger()[0],
            metadata=self.mapping(),
            held=self.text(),
        )

    def _claim(self) -> list[Any]:
        return [self._run()]

    _save_run = _claim

    def _segment(self) -> list[Any]:
        run = self.run_id()
        n, head = self.heads.get(run, (0, GENESIS))
        done = [(k, make.DIGEST, k, self.text()) for k in range(self.random.randrange(3))]
        if n and self.random.random() < 0.05:  # under a number that is taken, with other bytes
            return [run, make.segment(n - 1, head, payload={"other": "bytes"})]
        self.heads[run] = (n + 1, "")
        return [run, make.segment(n, head, done=done, payload=self.mapping(), intent=[(0, 2)])]

    def _plan_chunk(self) -> list[Any]:
        return [make.DIGEST, self.random.randrange(3), self.random.randbytes(20)]

    def _lock_plan(self) -> list[Any]:
        return [self.text() or "k", make.DIGEST]

    def _objects(self) -> list[Any]:
        bodies = [self.random.randbytes(self.random.choice((0, 3, 200))) for _ in range(self.random.randrange(4))]
        return [[[f"sha256:{n:x}{len(body)}", body] for n, body in enumerate(bodies)]]

    def _acquire(self) -> list[Any]:
        return [self.random.choice(("a", "b")), self.random.choice(("h:1:2", "g:1:2")), self.random.randrange(1, 900)]

    def _renew(self) -> list[Any]:
        return [self.lease() or self._no_lease(), 500]

    def _release(self) -> list[Any]:
        return [self.lease() or self._no_lease()]

    def _no_lease(self) -> dict[str, Any]:
        return {"scope": "nowhere", "token": 1, "holder": "h:1:2", "expires_ms": 0}

    def _move(self) -> list[Any]:
        draw = self.random
        ref = draw.choice(("processed/d", "processed/e", *SWITCHES))
        values = ("", "open", "frozen") if ref.startswith("switch") else ("", make.DIGEST, "sha256:other")
        move = {"ref": ref, "before": draw.choice(values), "after": draw.choice(values)}
        reason = {"run_id": self.run_id(), "op": "o", "actor": self.text(), "reason": self.text(), "ts": make.TS}
        return [move, reason]

    def _version(self) -> list[Any]:
        return [make.version(metadata=self.mapping(), digest=self.random.choice((make.DIGEST, "sha256:b")))]

    def _receipt(self) -> list[Any]:
        draw = self.random
        provenance = draw.choice(({}, {}, self.mapping()))
        made = make.receipt(
            run_id=self.run_id(),
            provenance=provenance,
            reason=draw.choice(("", "", "grüße")),
            plan_hash=self.text(),
            dataset=draw.choice("de"),
        )
        return [made, {"op": draw.choice(("run", "promote"))}]

    def _telemetry(self) -> list[Any]:
        draw = self.random
        energy, burn = draw.choice((None, 0.0, 1e-12)), draw.choice((0.0, 1.0, 0.25, 1e-9))
        return [make.telemetry(run_id=self.run_id(), energy_kwh=energy, error_budget_burn=burn)]

    def _owe(self) -> list[Any]:
        return [self.random.choice(("publish", "graph")), self.random.choice("de")]

    def _told(self) -> list[Any]:
        draw = self.random
        return [{"moves": draw.randrange(4), "keep": draw.randrange(-1, 2)}, "publish", draw.choice("de")]

    def _checkpoint(self) -> list[Any]:
        return [make.checkpoint(uri=self.text(), etag=self.text())]

    def _keep_trigger(self) -> list[Any]:
        draw = self.random
        kept, dataset = draw.choice(("", "", "mine")), draw.choice("de")
        params = {self.text(): self.text()}
        return [make.trigger(trigger_id=kept, dataset=dataset, params=params, force=draw.random() < 0.5)]

    def _finish_trigger(self) -> list[Any]:
        draw = self.random
        known = draw.choice(("", "mine", "000000000001", "000000000002"))
        return [make.trigger(trigger_id=known, dataset=draw.choice("de")), self.run_id()]

    def _advance(self) -> list[Any]:
        return [self.random.choice(("publish", "receipts")), self.random.randrange(12)]

    def _touch(self) -> list[Any]:
        return []

    _next_index = _touch

    # -- one step: a word and what is given

    def step(self) -> tuple[Any, ...]:
        draw = self.random
        way = draw.random()
        if way < 0.6:
            options = {"durable": draw.random() < 0.3, "switches": [s for s in SWITCHES if draw.random() < 0.3]}
            steps = [self.writes() for _ in range(draw.randrange(1, 5))]
            return "write", "s", self.lease(), options, steps, draw.random() < 0.1
        if way < 0.7:
            return "ask", "s", "acquire", *self._acquire()
        if way < 0.75:
            return "ask", "s", "release", self.lease() or self._no_lease()
        some = {"after": draw.randrange(3), "reverse": draw.random() < 0.5, "limit": draw.randrange(-1, 3)}
        return "ask", "s", *draw.choice(
            (
                ("run", self.run_id()), ("open_runs", draw.choice("de")), ("claimed", "claim"),
                ("segments", self.run_id()),
                ("plan_chunks", make.DIGEST), ("locked_plan", "plain"), ("ref", "processed/d"),
                ("history", "processed/d"), ("dataset_version", "d", make.DIGEST),
                ("receipt", self.run_id()), ("telemetry", self.run_id()), ("counters",),
                ("ledger", some),
                ("cursor", "receipts"), ("due", "publish"), ("told", "publish", "d"),
                ("kept_trigger", plain(make.trigger(trigger_id="mine"))), ("inbox", draw.choice("de")),
                ("checkpoint", self.text()),
                ("lease", "a"), ("sync",),
            )
        )  # fmt: skip


def tell(seed: int, kind: str, path: str, there: There, steps: int) -> dict[str, int]:
    """One random story; returns what happened how often."""
    story, here, model = Story(seed), Here(), Here()
    seen: dict[str, int] = {}
    written: dict[str, tuple[int, str]] = {}
    for store in (here, there):
        assert "ok" in store.ask("open", "s", kind, path)
    model.ask("open", "s", "memory", "")
    stores = (here, there)
    for store in (*stores, model):
        store.ask("now", story.now)
    for n in range(steps):
        if story.random.random() < 0.1:
            story.now += story.random.choice((1, 100, 1000))
            for store in (*stores, model):
                store.ask("now", story.now)
        if story.random.random() < 0.03:
            again = story.random.choice(stores)
            again.ask("close", "s")
            assert "ok" in again.ask("open", "s", kind, path)
        step = story.step()
        answer = story.random.choice(stores).ask(*step)
        expected = model.ask(*step)
        assert answer == expected, (seed, n, step)
        name = answer["error"]["code"] if "error" in answer else "ok"
        seen[name] = seen.get(name, 0) + 1
        if step[0] == "write" and "ok" in answer:
            for (method, given), said in zip(step[4], answer["ok"], strict=True):
                if method == "segment":
                    written[given[0]] = (given[1]["n"] + 1, said)
                elif method == "acquire":
                    story.leases.append(said)
            story.heads = dict(written)
        elif step[0] == "write":
            story.heads = dict(written)
        elif step[2] == "acquire" and "ok" in answer:
            story.leases.append(answer["ok"])
    expected = dump(model, "s")
    for store in stores:
        assert dump(store, "s") == expected, seed
        store.ask("close", "s")
        assert "ok" in store.ask("open", "look", f"overlay-{kind}", path)
        assert dump(store, "look") == expected, seed
        store.ask("close", "look")
    model.ask("close", "s")
    return seen


def stories(tmp_path: Path, kind: str, seeds: range, steps: int) -> dict[str, int]:
    total: dict[str, int] = {}
    with There() as there:
        for seed in seeds:
            for name, count in tell(seed, kind, str(tmp_path / f"{seed}"), there, steps).items():
                total[name] = total.get(name, 0) + count
    for wanted in ("ok", "conflict", "ref.moved", "lease.busy", "lease.fenced", "frozen", "corrupt"):
        assert total.get(wanted), f"no story came to {wanted}"
    tally(
        "node-store", f"model-{kind}-{seeds.start}", (seeds.start, seeds.stop), 0,
        stories=len(seeds), steps_in_turn=sum(total.values()),
    )  # fmt: skip
    return total


@pytest.mark.parametrize("kind", KINDS)
def test_two_languages_in_turn_answer_every_step_as_the_model_does(kind: str, tmp_path: Path) -> None:
    stories(tmp_path, kind, range(12), 150)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_great_many_stories_in_turn_end_as_the_model_says(kind: str, tmp_path: Path) -> None:
    stories(tmp_path, kind, range(1000, 1400), 300)
