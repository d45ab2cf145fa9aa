"""The commands of a script on the command line: exit codes and output as a user gets them."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import NamedTuple

import msgspec

from kfm.cli.main import main
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Receipt
from tests.crash.harness import REASON, Voice
from tests.crash.updaters import NOW, Command, Script, lay_out

STORAGE = 74


class Typed(NamedTuple):
    """One command and its answer."""

    code: int
    out: str
    err: str

    def acks(self) -> dict[str, str]:
        """What standard output told: run id → digest of the receipt."""
        found = json.JSONDecoder().raw_decode(self.out)[0] if self.out.strip() else {}
        receipts = found.get("receipts", []) if isinstance(found, dict) else []
        return {r["run_id"]: digest(canonical(msgspec.convert(r, Receipt))) for r in receipts}


def words(folder: str, command: Command) -> list[str]:
    reason = [] if command.verb == "run" else ["--reason", REASON]
    config = ["--config", os.path.join(folder, "kfm.yml"), "--json"]
    return [*config, command.verb, command.dataset, "--actor", "operator", *reason]


def type_one(folder: str, command: Command) -> Typed:
    os.environ["KFM_NOW"] = NOW
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words(folder, command))
    return Typed(code, out.getvalue(), err.getvalue())


def type_all(folder: str, script: Script, voice: Voice) -> None:
    """Every command, until one says that the disk failed."""
    for n, command in enumerate(script.commands):
        lay_out(folder, command, n)
        typed = type_one(folder, command)
        voice.say("typed", *typed)
        for run_id, name in typed.acks().items():
            voice.say("ack", run_id, name)
        if typed.code == STORAGE:
            return


def check_manners(typed: Typed, story: str) -> None:
    """A line a problem that says what happened (advice on the data may stand before it), no traceback, and nothing
    acknowledged after a failure, but with the words that it is committed: then it must not be lost, as nothing that was
    acknowledged."""
    assert "Traceback" not in typed.err and "internal error" not in typed.err, f"{story}\n{typed.err}"
    if typed.code == STORAGE:
        # Closing comes last, after the answer; that it failed is said all the same.
        told_before = "cannot close" in typed.err or "committed, but not delivered yet" in typed.err
        assert told_before or not typed.acks(), f"{story}: acknowledged after the disk failed\n{typed.out}"
        of_problems = [line for line in typed.err.splitlines() if ": advice: " not in line]
        assert all(line.startswith("kfm: ") for line in of_problems), f"{story}\n{typed.err}"
        assert "cannot" in typed.err.splitlines()[-1], f"{story}\n{typed.err}"
