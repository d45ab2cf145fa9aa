"""What the ledger and attestations cost: `python bench/ledger.py [ENTRIES]` (default: 1,000,000).

An append is one transaction that is not synced, with the tree and without; verifying is that of an export, by the
product and by tools/verify_ledger.py, and of a state, with every receipt; an attestation is made, signed, and verified
with the objects of its version and its entry in the ledger. Seconds of the process, so that other work does not count.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from kfm import config
from kfm.app.provenance.attestation import verify
from kfm.app.provenance.audit import audit
from kfm.app.session.attester import Attester
from kfm.app.session.session import open_session, trust_of
from kfm.crypto.checkpoints import TreeHead, Verifier, sign_checkpoint
from kfm.crypto.ledger_verify import export_lines, verify_export
from kfm.crypto.merkle import Frontier, leaf_hash
from kfm.store.ledger import LedgerTx
from tests.crypto.world import seed, signer
from tests.store.records import receipt

ROOT = Path(__file__).resolve().parents[1]
ORIGIN = "kfm.example.org/ledger"
SIGNED = f"""
ledger: {{sign_with: env:KFM_SECRET_LEDGER, origin: {ORIGIN}, every: 100000}}
attest: {{sign_with: env:KFM_SECRET_LEDGER}}
"""


def spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def exported(size: int, file: Path) -> None:
    """An export of so many entries, each as long as that of a run."""
    leaf = b'{"dataset":"d","index":%d,"moves":[],"op_type":"ingest","operator":"a","outcome":"done","overrides":[],'
    leaf += (
        b'"prev":"sha256:%s","reason":"","receipt_digest":"sha256:%s","run_id":"%032d","ts":"2026-01-01T00:00:00.000Z",'
    )
    leaf += b'"wal_ids":["%032d"]}'
    tree, before, leaves = Frontier(), b"0" * 64, []
    for n in range(1, size + 1):
        made = leaf % (n, before, before, n, n)
        before = hashlib.sha256(made).hexdigest().encode()
        tree.append(leaf_hash(made))
        leaves.append(made)
    note = sign_checkpoint(TreeHead(origin=ORIGIN, size=size, root=tree.root().hex()), signer("ledger"))
    with file.open("wb") as out:
        out.writelines(export_lines(ORIGIN, leaves, [note]))


def verifying(size: int, folder: Path) -> None:
    file, key = folder / "ledger.json", Verifier(ORIGIN, signer("ledger").public)
    exported(size, file)
    with file.open("rb") as lines:
        print(f"verify an export, ours       {spent(lambda: verify_export(lines, [key])):8.2f} s")
    spec = importlib.util.spec_from_file_location("verify_ledger", ROOT / "tools" / "verify_ledger.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    with file.open("rb") as lines:
        print(f"verify an export, the tool   {spent(lambda: tool.verify(lines, str(key))):8.2f} s")
    file.unlink()


def appending(size: int, folder: Path) -> None:
    resolved = config.load(str(folder / "kfm.yml"), os.environ)
    one = receipt()
    with open_session(resolved) as session:

        def append(start: int, count: int) -> None:
            for n in range(start, start + count):
                with session.state.transaction(durable=False) as tx:
                    tx.ledger.append(msgspec.structs.replace(one, run_id=f"run-{n:09d}"), op="ingest")

        part = min(size // 4, 5000)
        took = spent(lambda: append(0, part)) / part
        grow = LedgerTx._grow
        LedgerTx._grow = lambda *_: None  # type: ignore[method-assign, assignment]
        bare = spent(lambda: append(part, part)) / part
        LedgerTx._grow = grow  # type: ignore[method-assign]
        print(f"append, with the tree        {took * 1e6:8.1f} µs\nappend, without              {bare * 1e6:8.1f} µs")
        with session.state.transaction() as tx:
            for n in range(2 * part, size):
                tx.ledger.append(msgspec.structs.replace(one, run_id=f"run-{n:09d}"), op="ingest")
            tx.ledger.checkpoint()
    with open_session(resolved, mode="read") as session:
        print(f"verify a state, its receipts {spent(lambda: print(end=audit(session).why[:0])):8.2f} s")


def attesting(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "kfm", "run"], cwd=folder, check=True, capture_output=True)
    with open_session(config.load(str(folder / "kfm.yml"), os.environ)) as session:
        version, trust = session.state.refs.at("processed/rain-gauges"), trust_of(session)
        made = session.state.ledger.version("rain-gauges", version)
        assert made is not None
        known, run = session.state.ledger.receipt(made.run_id), session.state.runs.get(made.run_id)
        assert known is not None and run is not None

        def attest() -> None:
            with session.state.transaction(durable=False) as tx:
                Attester(trust, "urn:kfm:bench")(known, run.inputs, {}, tx)

        def check() -> None:
            verify(session, "rain-gauges", version, trust.believed("attest"))

        attest(), check()
        print(f"attest a version, warm       {min(spent(attest) for _ in range(20)) * 1e3:8.2f} ms")
        print(f"verify a version, warm       {min(spent(check) for _ in range(20)) * 1e3:8.2f} ms")


def main(size: int) -> None:
    os.environ["KFM_SECRET_LEDGER"] = seed("ledger").hex()
    os.environ["KFM_ACCEPT_WEAK_STORAGE"] = "true"
    print(f"{size:,} entries; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for work in (lambda folder: verifying(size, folder), lambda folder: appending(size, folder), attesting):
        with tempfile.TemporaryDirectory(prefix="kfm-ledger-") as name:
            subprocess.run([sys.executable, "-m", "kfm", "init", name], check=True, capture_output=True)
            with (Path(name) / "kfm.yml").open("a", encoding="utf-8") as file:
                file.write(SIGNED)
            work(Path(name))


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["1000000"])[0].replace(",", "")))
