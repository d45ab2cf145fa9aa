"""Whatever is done to the ledger of an installation, `kfm audit verify` sees it, and so does the other program.

Who does it here may write every row: the rows follow each other, the head, the counter and the tree are made to fit,
the copies of the checkpoints outside are gone. Only the key is not theirs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm import config
from kfm.app.provenance.audit import audit, export
from kfm.app.session.session import open_session, open_tables
from kfm.cli.main import main
from kfm.crypto.checkpoints import TreeHead, Verifier, sign_checkpoint
from kfm.crypto.ledger_verify import verify_export
from kfm.crypto.merkle import Frontier, leaf_hash
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.ports import Tables
from tests.crypto.test_ledger_proofs import ATTACKS, tool
from tests.crypto.world import seed, signer
from tests.power.tally import tally
from tests.sampling import sampled
from tests.store.records import receipt

SIZE = 1000
PARTS = 125
ORIGIN = "kfm.example.org/ledger"
KEY = str(Verifier(ORIGIN, signer("ledger").public))
CONFIG = f"""\
accept_weak_storage: true
state: sqlite:state.db
ledger: {{sign_with: env:KFM_SECRET_LEDGER, origin: {ORIGIN}, every: 400}}
datasets: {{}}
"""
Leaves = list[bytes]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Leaves]]:
    """An installation with a thousand entries, signed at 400, 800 and 1000."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "kfm.yml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KFM_SECRET_LEDGER", seed("ledger").hex())
        with open_session(config.load(str(folder / "kfm.yml"), {})) as session:
            with session.state.transaction() as tx:
                for n in range(SIZE):
                    tx.ledger.append(receipt(run_id=f"run-{n}", provenance={}), op="ingest")
                tx.ledger.checkpoint()
            leaves = list(session.state.ledger.leaves())
        yield folder, leaves


def rewrite(tables: Tables, leaves: Leaves) -> None:
    """All of it, as if it had always been so."""
    tree = Frontier()
    known = dict(tables.scan("ledger"))
    tables.begin()
    for n, leaf in enumerate(leaves, 1):
        tree.append(leaf_hash(leaf))
        if known.pop(f"{n:012d}", b"") != leaf:
            tables.put("ledger", f"{n:012d}", leaf)
    for key in known:
        tables.delete("ledger", key)
    counters = json.loads(tables.get("meta", "counters") or b"{}")
    tables.put("meta", "counters", msgspec.json.encode({**counters, "ledger": len(leaves)}, order="sorted"))
    tables.put("meta", "ledger_head", digest(leaves[-1]).encode() if leaves else b"")
    tables.put("ledger_tree", "frontier", tree.packed())
    tables.commit()


class Told:
    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self._config = str(folder / "kfm.yml")

    def __call__(self, *words: str) -> tuple[int, str]:
        self._capsys.readouterr()
        code = main(["audit", *words, "--config", self._config])
        return code, self._capsys.readouterr().out

    def both(self) -> tuple[int, int]:
        """What our own command says of the state, and the other program of its export."""
        exported = self("export", "--stdout")[1].encode()
        return self("verify", "--json")[0], tool.verify(exported.splitlines(keepends=True), KEY)[0]


@pytest.fixture
def bent(made: tuple[Path, Leaves], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Leaves], None]]:
    """Puts other entries in the place of those that are there; all is mended in the end."""
    monkeypatch.setenv("KFM_SECRET_LEDGER", seed("ledger").hex())
    folder, leaves = made
    resolved = config.load(str(folder / "kfm.yml"), {})

    def bend(other: Leaves) -> None:
        tables = open_tables(resolved, "write")
        rewrite(tables, other)
        tables.close()

    yield bend
    bend(leaves)


def test_a_whole_ledger_is_intact(made: tuple[Path, Leaves], bent: Any, capsys: pytest.CaptureFixture[str]) -> None:
    told = Told(capsys, made[0])
    assert told.both() == (0, 0)
    bent(made[1])
    assert told.both() == (0, 0), "what the tests do when they change nothing is no change"
    found = json.loads(told("verify", "--json")[1])
    assert (found["entries"], found["covered"], found["checkpoints"]) == (SIZE, SIZE, 3)


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_every_change_at_every_place_is_seen_by_both(
    part: int, made: tuple[Path, Leaves], bent: Callable[[Leaves], None], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, leaves = made
    told, tried = Told(capsys, folder), 0
    for at in range(part, SIZE, PARTS):
        for name, attack in ATTACKS.items():
            other = attack(leaves, at)
            if other == leaves:
                assert name == "swap" and at == SIZE - 1, "the last has none to be swapped with"
                continue
            bent(other)
            codes = told.both()
            assert set(codes) <= {65, 66}, f"{name} at {at}: {codes}"
            tried += 1
    tally("ledger_tampering", f"state-{part}", changes_of_a_ledger_seen_by_both=tried)


def test_receipts_rows_and_notes_that_do_not_fit_are_seen(
    made: tuple[Path, Leaves], bent: Callable[[Leaves], None], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, leaves = made
    told = Told(capsys, folder)
    resolved = config.load(str(folder / "kfm.yml"), {})
    forged = _note(leaves, "mallory")
    tampered: list[tuple[int, str, str, bytes | None]] = [
        (65, "receipts", "run-500", b"{}"),
        (65, "receipts", "run-500", None),
        (65, "receipts", "run-500", canonical(receipt(run_id="run-501", provenance={}))),  # of another run, whole
        (65, "ledger", f"{500:012d}", None),
        (66, "ledger", f"{SIZE:012d}", None),
        (65, "ledger", f"{SIZE + 1:012d}", leaves[0]),
        (65, "meta", "ledger_head", digest(leaves[3]).encode()),
        (65, "ledger_tree", "frontier", Frontier().packed()[:3]),
        (65, "ledger_tree", "frontier", _tree(leaves[:700] + leaves[:300]).packed()),
        (66, "ledger_tree", "frontier", _tree([*leaves, b"more"]).packed()),
        (67, "ledger_checkpoints", f"{SIZE:012d}", forged.encode()),
        (67, "ledger_checkpoints", f"{SIZE:012d}", b"\xff nonsense"),
        (66, "ledger_checkpoints", f"{SIZE + 5:012d}", _note([*leaves, b"1"], "ledger").encode()),
        (66, "ledger_checkpoints", f"{SIZE:012d}", _note([*leaves[:-1], b"1"], "ledger").encode()),
    ]
    for code, table, key, body in tampered:
        tables = open_tables(resolved, "write")
        before = tables.get(table, key)
        for value in (body, before):
            tables.begin()
            if value is None:
                tables.delete(table, key)
            else:
                tables.put(table, key, value)
            tables.commit()
            if value is body:
                tables.close()
                assert told("verify")[0] == code, (table, key)
                tables = open_tables(resolved, "write")
        tables.close()
    assert told.both() == (0, 0)
    tally("ledger_tampering", "rows", rows_and_notes_that_do_not_fit=len(tampered))


def _tree(leaves: Leaves) -> Frontier:
    tree = Frontier()
    for leaf in leaves:
        tree.append(leaf_hash(leaf))
    return tree


def _note(leaves: Leaves, who: str) -> str:
    tree = _tree(leaves)
    return sign_checkpoint(TreeHead(origin=ORIGIN, size=tree.size, root=tree.root().hex()), signer(who))


def test_of_a_receipt_that_was_altered_the_entry_is_named(
    made: tuple[Path, Leaves], bent: Callable[[Leaves], None], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = made
    resolved = config.load(str(folder / "kfm.yml"), {})
    tables = open_tables(resolved, "write")
    kept = tables.get("receipts", "run-500")
    assert kept is not None
    for body in (b"{}", kept):
        tables.begin()
        tables.put("receipts", "run-500", body)
        tables.commit()
        with open_session(resolved, mode="read") as session:
            found = audit(session)
        assert found.first_bad == (0 if body is kept else 501) and (found.verdict == "intact") is (body is kept)
    tables.close()


MANY = 1_000_000


@pytest.mark.long
def test_a_million_entries_are_verified_by_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their receipts lie in another order than the entries, as those of real runs do. Then one receipt and one entry
    are altered, each at its place."""
    monkeypatch.setenv("KFM_SECRET_LEDGER", seed("ledger").hex())
    (tmp_path / "kfm.yml").write_text(CONFIG.replace("every: 400", "every: 250000"))
    resolved = config.load(str(tmp_path / "kfm.yml"), {})
    one = receipt(provenance={})
    with open_session(resolved) as session:
        for start in range(0, MANY, 100_000):
            with session.state.transaction(durable=False) as tx:
                for n in range(start, start + 100_000):
                    tx.ledger.append(msgspec.structs.replace(one, run_id=_run(n)), op="ingest")
        with session.state.transaction() as tx:
            tx.ledger.checkpoint()
        with (tmp_path / "export.json").open("wb") as out:
            out.writelines(export(session))
    with open_session(resolved, mode="read") as session:
        found = audit(session)
    assert (found.verdict, found.entries, found.covered, found.checkpoints >= 1) == ("intact", MANY, MANY, True)
    with (tmp_path / "export.json").open("rb") as lines:
        assert verify_export(lines, [Verifier.parsed(KEY)]).kind == "intact"
    with (tmp_path / "export.json").open("rb") as lines:
        assert tool.verify(lines, KEY)[0] == 0
    with (tmp_path / "export.json").open("rb") as lines:
        bent = (line.replace(b'"a"', b'"b"', 1) if n == MANY // 2 else line for n, line in enumerate(lines))
        assert tool.verify(bent, KEY)[0] in (65, 66)
    tables = open_tables(resolved, "write")
    tables.begin()
    tables.put("receipts", _run(MANY - 7), b"{}")
    tables.commit()
    tables.close()
    with open_session(resolved, mode="read") as session:
        assert audit(session).first_bad == MANY - 6
    tally("ledger_tampering", "million", entries_verified_by_both=MANY)


def _run(n: int) -> str:
    return hashlib.sha256(b"%d" % n).hexdigest()[:32]
