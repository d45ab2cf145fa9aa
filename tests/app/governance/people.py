"""An installation with a key list: people, their keys, and the command line as each of them types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
WRITE = "import sys; from kfm.cli.main import main; sys.exit(main())"


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Site:
    """Commands run in this process unless `env` or `child` asks for one of their own."""

    def __init__(self, folder: Path, capture: Any) -> None:
        self.folder = folder / "installation"
        self.safe = folder / "kept-by-people"  # nobody's workspace: where private keys are
        self.capture = capture
        self.folder.mkdir()
        self.safe.mkdir(mode=0o700)

    def kfm(self, *words: str, **env: str) -> Answer:
        from kfm.cli.main import main

        before = os.getcwd()
        kept = {name: os.environ.get(name) for name in env}
        os.chdir(self.folder)
        os.environ.update(env)
        try:
            self.capture.readouterr()
            code = main(list(words))
            out, err = self.capture.readouterr()
        finally:
            os.chdir(before)
            for name, value in kept.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        return Answer(code, out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace"))

    def child(self, *words: str, env: Mapping[str, str] | None = None, before: str = "") -> Answer:
        """In a process of its own, with this run before the command: it may plant a fault."""
        done = subprocess.run(
            [sys.executable, "-c", before + "\n" + WRITE, *words],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **(env or {})},
            capture_output=True,
            timeout=120,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def key(self, name: str) -> str:
        return str(self.safe / f"{name}.key")

    def add(self, name: str, *words: str, signed_by: tuple[str, ...] = ("ada",), person: str = "") -> Answer:
        """A key of this name; of the person of that name unless another is meant."""
        signatures = [word for each in signed_by for word in ("--key", self.key(each))]
        whose = () if "checkpoint" in words or "attest" in words else ("--person", person or name)
        return self.kfm("keys", "new", *whose, *words, "--out", self.key(name), *signatures, "--json")

    def make_list(self) -> None:
        """An admin, two operators, three stewards of the museum, one of nobody's, a viewer."""
        words: dict[str, tuple[str, ...]] = {
            "ada": ("--role", "admin"),
            "olli": ("--role", "operator"),
            "otto": ("--role", "operator"),
            "vic": ("--role", "viewer"),
            "sue": ("--role", "steward", "--custodian", "museum"),
            "sam": ("--role", "steward", "--custodian", "museum"),
            "stu": ("--role", "steward", "--custodian", "museum"),
            "eve": ("--role", "steward"),
        }
        signers = {"ada": (), "sam": ("ada", "sue"), "stu": ("ada", "sue", "sam")}
        for name, said in words.items():
            made = self.add(name, *said, signed_by=signers.get(name, ("ada",)))
            assert made.code == 0, (name, made.err)

    def ledger(self) -> list[tuple[str, str, str]]:
        """Operation, outcome and who, oldest first."""
        found = [self.kfm("runs", "receipt", row["run_id"], "--json").data for row in self.receipts()]
        return [(each["job_type"].rpartition(".")[2], each["outcome"], each["actor"]) for each in found]

    def receipts(self) -> list[dict[str, Any]]:
        rows = self.kfm("runs", "receipts", "--limit", "0", "--json").data
        return list(reversed(rows))

    def ref(self, name: str) -> str:
        return next((row["version"] for row in self.kfm("refs", "list", "--json").data if row["ref"] == name), "")


def make_list(kfm: Any, safe: Path, *custodians: str) -> None:
    """A key list by the command line of any test: an admin, an operator, two stewards of these custodians."""
    safe.mkdir(mode=0o700, exist_ok=True)
    own = [word for name in custodians for word in ("--custodian", name)]
    for name, role, signers in (
        ("ada", ("admin",), ()),
        ("olli", ("operator",), ("ada",)),
        ("sue", ("steward", *own), ("ada",)),
        ("sam", ("steward", *own), ("ada", "sue")),
    ):
        signed = [word for each in signers for word in ("--key", str(safe / f"{each}.key"))]
        made = kfm("keys", "new", "--person", name, "--role", *role, "--out", str(safe / f"{name}.key"), *signed)
        assert made.code == 0, made.err


def by_order(kfm: Any, safe: Path, *words: str) -> Any:
    """An operation that takes others: asked for by olli, approved by both stewards. The answer to the last of them, or
    to the first that did not go."""
    asked = kfm(*words, "--reason", "as agreed", "--key", str(safe / "olli.key"))
    waiting = [row for row in kfm("review", "list", "--json").data if row["kind"] == "order" and row["missing"]]
    if asked.code != 4 or not waiting:
        return asked
    for name in ("sue", "sam"):
        answer = kfm("review", "approve", waiting[-1]["id"], "--key", str(safe / f"{name}.key"))
        if answer.code or waiting[-1]["id"] not in str(kfm("review", "list", "--json").data):
            break
    return answer
