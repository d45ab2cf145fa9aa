"""Both verifiers notice every change of a ledger: ours, and the one that shares no code with it."""

from __future__ import annotations

import ast
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kfm.crypto.checkpoints import TreeHead, Verifier, sign_checkpoint
from kfm.crypto.commitments import Opening, commitment, concealed, is_opened
from kfm.crypto.ledger_verify import EXIT, export_lines, verify_export, verify_leaves
from kfm.crypto.merkle import Frontier, consistency_proof, inclusion_proof, leaf_hash
from kfm.crypto.signatures import Signer
from kfm.errors import BadInput
from kfm.model.canonical import canonical
from kfm.model.keys import GENESIS, digest
from kfm.model.records import LedgerEntry, RefMove
from tests.crypto.world import custodian_key, signer
from tests.project.bans import ROOT
from tests.sampling import sampled, tries

ORIGIN = "kfm.example.org/ledger"
SIZE = 1000
PARTS = 40
TOOL = ROOT / "tools" / "verify_ledger.py"
Leaves = list[bytes]


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_ledger", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = load_tool()
LEDGER = signer("ledger")
OURS = Verifier(ORIGIN, LEDGER.public)


def entry(index: int, prev: str, reason: str = "") -> LedgerEntry:
    return LedgerEntry(
        index=index,
        prev=prev,
        op_type="ingest",
        run_id=f"run-{index}",
        wal_ids=[f"run-{index}"],
        dataset="kfm://dataset/noaa-stations",
        outcome="done",
        reason=reason,
        operator="ops",
        receipt_digest=digest(b"%d" % index),
        moves=[RefMove(ref="processed/noaa-stations", before="", after=digest(b"v%d" % index))],
        ts="2026-01-01T00:00:00.000Z",
    )


def ledger(size: int, reason: str = "", start: Leaves | None = None) -> Leaves:
    """Chained entries, after these."""
    leaves = list(start or [])
    while len(leaves) < size:
        leaves.append(canonical(entry(len(leaves) + 1, digest(leaves[-1]) if leaves else GENESIS, reason)))
    return leaves


def checkpoint(leaves: Leaves, signed_by: Signer = LEDGER, origin: str = ORIGIN) -> str:
    tree = Frontier()
    for leaf in leaves:
        tree.append(leaf_hash(leaf))
    return sign_checkpoint(TreeHead(origin=origin, size=tree.size, root=tree.root().hex()), signed_by)


LEAVES = ledger(SIZE)
EARLY, FULL = checkpoint(LEAVES[:400]), checkpoint(LEAVES)


def export(leaves: Leaves, checkpoints: list[str], origin: str = ORIGIN) -> bytes:
    return b"".join(export_lines(origin, leaves, checkpoints))


def both(body: bytes, held: list[str] | None = None, key: Verifier = OURS) -> tuple[int, int]:
    """The exit codes of the two."""
    ours = verify_export(io.BytesIO(body), [key], held or [])
    theirs, _ = tool.verify(io.BytesIO(body), str(key), held or [])
    return EXIT[ours.kind], theirs


def test_a_whole_ledger_is_intact_and_the_export_is_json_whose_lines_are_the_leaves() -> None:
    body = export(LEAVES, [EARLY, FULL])
    assert both(body) == both(body, [EARLY]) == (0, 0)
    plain = json.loads(body)
    assert [canonical(each) for each in plain["entries"]] == LEAVES
    assert body.splitlines()[1 : SIZE + 1] == [leaf + b"," for leaf in LEAVES[:-1]] + [LEAVES[-1]]
    assert both(export([], [checkpoint([])])) == (0, 0)
    assert both(export(LEAVES[:1], [checkpoint(LEAVES[:1])])) == (0, 0)


def _modified(leaves: Leaves, at: int) -> Leaves:
    return [*leaves[:at], leaves[at].replace(b'"outcome":"done"', b'"outcome":"gone"'), *leaves[at + 1 :]]


def _rewritten(leaves: Leaves, at: int) -> Leaves:
    """From here on another history, chained as it should be: a fork."""
    return ledger(len(leaves), "another", leaves[:at])


ATTACKS: dict[str, Callable[[Leaves, int], Leaves]] = {
    "modify": _modified,
    "delete": lambda leaves, at: leaves[:at] + leaves[at + 1 :],
    "insert": lambda leaves, at: [*leaves[:at], canonical(entry(at + 1, digest(leaves[at - 1]))), *leaves[at:]],
    "swap": lambda leaves, at: [*leaves[:at], *leaves[at : at + 2][::-1], *leaves[at + 2 :]],
    "duplicate": lambda leaves, at: [*leaves[: at + 1], *leaves[at:]],
    "truncate": lambda leaves, at: leaves[:at],
    "rewrite": _rewritten,
}


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_every_change_at_every_place_is_seen_by_both(part: int, record_property: Callable[[str, object], None]) -> None:
    tried = 0
    for at in range(part, SIZE, PARTS):
        for name, attack in ATTACKS.items():
            bent = attack(LEAVES, at)
            if bent == LEAVES:
                assert name == "swap" and at == SIZE - 1, "the last has none to be swapped with"
                continue
            codes = both(export(bent, [EARLY, FULL]))
            assert 0 not in codes and set(codes) <= {65, 66}, f"{name} at {at}: {codes}"
            tried += 1
    record_property("counted", ("changes of a ledger", tried))


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_a_ledger_cut_together_with_its_checkpoints_is_noticed_with_a_kept_checkpoint(part: int) -> None:
    for at in range(part, SIZE, PARTS):
        cut = LEAVES[:at]
        earlier = export(cut, [checkpoint(cut)])
        assert both(earlier) == (0, 0), "it is what the ledger once was"
        assert both(earlier, [FULL]) == (66, 66)
        forked = _rewritten(LEAVES, at)
        assert both(export(forked, [checkpoint(forked)])) == (0, 0), "whoever has the key can write another history"
        assert both(export(forked, [checkpoint(forked)]), [FULL]) == (66, 66)


def test_wrong_keys_other_ledgers_and_missing_checkpoints_are_seen() -> None:
    forged = checkpoint(LEAVES, signer("mallory"))
    assert both(export(LEAVES, [forged])) == (67, 67)
    assert both(export(LEAVES, [FULL]), key=Verifier(ORIGIN, signer("mallory").public)) == (67, 67)
    assert both(export(LEAVES, [FULL]), [forged]) == (67, 67)
    assert both(export(LEAVES, [FULL, checkpoint(LEAVES, origin="elsewhere")])) == (67, 67)
    assert both(export(LEAVES, [FULL], "elsewhere")) == (67, 67)
    assert both(export(LEAVES, [])) == both(export(LEAVES, [EARLY])) == (68, 68)
    assert both(export(LEAVES, [FULL, checkpoint(_rewritten(LEAVES, 10))])) == (66, 66)


def test_entries_that_are_numbered_wrong_are_seen_although_they_are_chained_and_signed() -> None:
    for numbers in ((0, 1, 2), (1, 3, 4), (1, 1, 2), (2, 3, 4)):
        leaves: Leaves = []
        for number in numbers:
            leaves.append(canonical(entry(number, digest(leaves[-1]) if leaves else GENESIS)))
        assert both(export(leaves, [checkpoint(leaves)])) == (65, 65)
    assert both(export([b"[]"], [checkpoint([b"[]"])])) == (65, 65)
    deep = b"[" * 100_000
    assert both(export([deep], [checkpoint([deep])])) == (65, 65)


@settings(max_examples=tries(60), deadline=None)
@given(st.data())
def test_an_edited_export_is_seen(data: st.DataObject) -> None:
    small = LEAVES[:20]
    body = bytearray(export(small, [checkpoint(small[:7]), checkpoint(small)]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "drop", "double"]))
        if how == "flip":
            body[at] ^= 1 << data.draw(st.integers(0, 7))
        elif how == "cut":
            del body[at:]
        elif how == "drop":
            del body[at]
        else:
            body[at:at] = body[at : at + 1]
        if not body:
            break
    if bytes(body) != export(small, [checkpoint(small[:7]), checkpoint(small)]):
        assert 0 not in both(bytes(body))


def test_what_was_found_names_the_first_entry_that_is_not_good() -> None:
    heads = [TreeHead(origin=ORIGIN, size=400, root=_root(400)), TreeHead(origin=ORIGIN, size=SIZE, root=_root(SIZE))]
    assert verify_leaves(LEAVES, heads).root == _root(SIZE)
    assert verify_leaves(_modified(LEAVES, 500), heads).first_bad == 502, "the one whose chain breaks"
    assert verify_leaves(_rewritten(LEAVES, 500), heads).first_bad == 401
    assert verify_leaves(LEAVES[:700], heads).first_bad == 701
    assert verify_leaves(LEAVES, heads[:1]).first_bad == 401


def _root(size: int) -> str:
    tree = Frontier()
    for leaf in LEAVES[:size]:
        tree.append(leaf_hash(leaf))
    return tree.root().hex()


def proofs(size: int) -> list[dict[str, object]]:
    """Every proof of a ledger of this size."""
    leaves = LEAVES[:size]
    hashes, head = [leaf_hash(leaf) for leaf in leaves], checkpoint(leaves)
    kinds: list[dict[str, object]] = [
        {"kind": "inclusion", "index": at + 1, "entry": leaf.decode(), "hashes": inclusion_proof(hashes, at)}
        for at, leaf in enumerate(leaves)
    ]
    for old in range(1, size + 1):
        way = consistency_proof(hashes, old)
        kinds.append({"kind": "consistency", "old": checkpoint(leaves[:old]), "hashes": way})
    return [{**each, "hashes": [way.hex() for way in each["hashes"]], "checkpoint": head} for each in kinds]  # type: ignore[attr-defined]


def test_the_program_takes_every_proof_and_none_that_was_bent() -> None:
    tried = 0
    for size in (1, 2, 3, 5, 8, 11):
        for proof in proofs(size):
            assert tool.verify([json.dumps(proof).encode()], str(OURS))[0] == 0, proof
            way = list(proof["hashes"])  # type: ignore[call-overload]
            other = checkpoint(LEAVES[100 : 100 + size])
            bent = [
                {**proof, "checkpoint": other},
                {**proof, "checkpoint": checkpoint(LEAVES[:size], signer("mallory"))},
                {**proof, "hashes": [*way, "00" * 32]},
                {**proof, "hashes": ["00" * 32, *way]},
                {**proof, "hashes": [7]},
                {**proof, "checkpoint": 5},
                *({**proof, "hashes": way[:at] + way[at + 1 :]} for at in range(len(way))),
                *({**proof, "hashes": [*way[:at], "ab" * 32, *way[at + 1 :]]} for at in range(len(way))),
            ]
            if proof["kind"] == "inclusion":
                bent += [{**proof, "index": 0}, {**proof, "index": size + 1}, {**proof, "entry": LEAVES[500].decode()}]
            else:
                bent += [{**proof, "old": other}, {**proof, "old": checkpoint(LEAVES[: size + 1])}]
            for each in bent:
                assert tool.verify([json.dumps(each).encode()], str(OURS))[0] in (65, 66, 67), each
                tried += 1
    assert tried > 500
    for nonsense in (b"", b"[]", b"7", b"{}", b'{"checkpoint": "x"}', b"\xff", b"[" * 100_000):
        assert tool.verify([nonsense], str(OURS))[0] in (65, 67)


def test_the_program_says_it_with_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, cut, kept = tmp_path / "l.json", tmp_path / "cut.json", tmp_path / "kept"
    whole.write_bytes(export(LEAVES, [FULL]))
    cut.write_bytes(export(LEAVES[:400], [EARLY]))
    kept.write_text(FULL, encoding="utf-8")
    key = ["--key", str(OURS)]
    assert tool.main([str(whole), *key, "--checkpoint", str(kept)]) == 0
    assert f"intact: {SIZE} entries, root {_root(SIZE)}" in capsys.readouterr().out
    assert tool.main([str(cut), *key, "--checkpoint", str(kept)]) == 66
    assert "cut off" in capsys.readouterr().err
    assert tool.main([str(cut), "--key", "nonsense"]) == 2


def test_the_program_is_small_and_shares_nothing_with_us() -> None:
    text = TOOL.read_text(encoding="utf-8")
    assert text.count("\n") <= 200
    modules = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    standard = {"__future__", "argparse", "base64", "collections", "hashlib", "json", "sys"}
    assert modules == standard | {"cryptography"}


def test_what_is_concealed_can_be_shown_later_and_nothing_else_in_its_place() -> None:
    whole = entry(7, GENESIS, "grave goods at 39.0437, -95.6892")
    public, committed, openings = concealed(whole, ["reason", "operator", "moves"], custodian_key(), whole.run_id)
    body = canonical(public)
    assert b"39.0437" not in body and (public.reason, public.operator, public.moves) == ("", "", [])
    assert sorted(committed) == ["moves", "operator", "reason"]
    assert all(is_opened(each, committed) for each in openings)
    assert concealed(whole, ["moves", "reason", "operator"], custodian_key(), whole.run_id) == (
        public,
        committed,
        openings,
    )
    shown = next(each for each in openings if each.name == "reason")
    assert shown.value == whole.reason
    for bent in (
        Opening(name="reason", salt=shown.salt, value="nothing"),
        Opening(name="operator", salt=shown.salt, value=shown.value),
        Opening(name="reason", salt="00" * 32, value=shown.value),
        Opening(name="reason", salt="00", value=shown.value),
        Opening(name="reason", salt="zz", value=shown.value),
        Opening(name="ts", salt=shown.salt, value=whole.ts),
    ):
        assert not is_opened(bent, committed)
    other_run = concealed(whole, ["reason"], custodian_key(), "run-8")[1]
    other_key = concealed(whole, ["reason"], custodian_key("two"), whole.run_id)[1]
    assert len({committed["reason"], other_run["reason"], other_key["reason"]}) == 3
    salt = bytes(range(32))
    told = {commitment(name, salt, value) for name in ("reason", "reaso", "") for value in ("x", "nx", ["x"], "")}
    assert len(told) == 12, "no name and value read as another name and value"
    with pytest.raises(BadInput):
        concealed(whole, ["index"], custodian_key(), whole.run_id)
