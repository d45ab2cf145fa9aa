"""Node holds only what its two commands reach, in layers, and little enough of it is written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.project import twin
from tests.sampling import sampled


def test_everything_in_node_is_reached_by_run_or_webhook_verify() -> None:
    there = twin.modules()
    assert len(twin.reached(there)) > 80
    assert [str(finding) for finding in twin.check_reached(there)] == []


def test_node_keeps_its_layers() -> None:
    assert [str(finding) for finding in twin.check_layers(twin.modules())] == []


def test_what_is_written_by_hand_stays_small(count: Any) -> None:
    there = twin.modules()
    lines = twin.by_hand(there)
    assert 10_000 < lines < twin.MOST_LINES
    count("lines of Node written by hand", lines)


SEEDED = {
    "a module nobody imports": ("node/extra.mjs", "export const A = 1;\n"),
    "an export nobody asks for": ("node/streams.mjs", "export function unasked() {}\n"),
    "a method nobody calls": ("node/render.mjs", "class A {\n  neverCalled() {\n  }\n}\n"),
    "the ground that sees an edge": ("node/streams.mjs", 'import { StoredState } from "./store/state.mjs";\n'),
    "the engine that sees an edge": ("node/engine/run.mjs", 'import { StoredState } from "../store/state.mjs";\n'),
    "an edge that sees another": ("node/sources/http.mjs", 'import { StoredState } from "../store/state.mjs";\n'),
    "an edge that sees a door": ("node/sources/http.mjs", 'import { Screen } from "../render.mjs";\n'),
    "a door that passes the runtime": ("node/cli.mjs", 'import { StoredState } from "./store/state.mjs";\n'),
}


@pytest.mark.parametrize("seed", sampled(SEEDED, every=2))
def test_what_does_not_belong_is_noticed(seed: str) -> None:
    name, more = SEEDED[seed]
    there = twin.modules()
    seeded = {**there, name: more + there.get(name, "")}
    assert [*twin.check_reached(seeded), *twin.check_layers(seeded)]
