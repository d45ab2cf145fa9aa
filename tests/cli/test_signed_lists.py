"""What must be there is on signed lists: whatever is removed, altered or swapped is noticed by `kfm verify`,
`kfm doctor --deep` and `kfm reconcile`."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest

from kfm import config
from kfm.app.session.session import open_tables
from kfm.crypto.checkpoints import Verifier
from kfm.crypto.signatures import Signer
from kfm.model.ports import Tables
from kfm.model.secret import Secret
from tests.app.governance.people import by_order, make_list
from tests.cli.conftest import Kfm, done
from tests.crypto.world import seed
from tests.engine.protected.conftest import MASK, SECRETS, table
from tests.kept import once
from tests.sampling import sampled

SETTINGS = """
ledger: {sign_with: "file:../kept-by-people/checkpoint.key", origin: kfm.example.org/ledger, every: 1}
attest: {sign_with: "file:../kept-by-people/attest.key", builder: "https://kfm.example.org"}
pages: true
"""
PROTECTED = """
labels: labels.yml
custodians:
  office: {key: "env:KFM_SECRET_OFFICE"}
"""
MASKED = """
  sites:
    version: "1.0.0"
    title: Sites, as cells
    description: Sites of the office, as cells
    license: CC-BY-4.0
    sensitivity: public
    sources:
      sites: {uri: sites.csv, format: csv, mask: mask.yml}
    outputs:
      cells: {from: sites}
"""
LABELS = """
version: 1
labels:
  - {of: {source: sites.csv}, sensitivity: generalised, care: open, custodian: office, public_resolution: 6}
"""
SAFE = Path("../kept-by-people")
WORLDS = sampled(["rain-gauges", "sites"])  # a public dataset; in the long suite a masked one with a key list, too


@pytest.fixture(params=WORLDS)
def listed(request: pytest.FixtureRequest, started: Kfm, monkeypatch: pytest.MonkeyPatch) -> Kfm:
    """An installation with one dataset that was published twice."""
    monkeypatch.setenv("KFM_SECRET_OFFICE", seed("office").hex())
    make = {"rain-gauges": _public, "sites": _masked}[request.param]
    once(f"listed {request.param}", [Path(), SAFE], lambda: make(started))
    return started


def dataset() -> str:
    return "sites" if Path("labels.yml").exists() else "rain-gauges"


def _public(kfm: Kfm) -> None:
    SAFE.mkdir(mode=0o700)
    for purpose in ("checkpoint", "attest"):
        _write_key(purpose)
    settings, gauges = Path("kfm.yml"), Path("data/rain_gauges.csv")
    settings.write_text(settings.read_text() + SETTINGS)
    for rain in ("61.5", "62.5"):
        gauges.write_text(gauges.read_text() + f"G-9,riley,2026-03,{rain}\n")
        done(kfm("run"), kfm("publish", "rain-gauges", "--reason", "as agreed"))


def _write_key(purpose: str) -> None:
    key = SAFE / f"{purpose}.key"
    key.write_text(seed(purpose).hex())
    key.chmod(0o600)


def _masked(kfm: Kfm) -> None:
    make_list(kfm, SAFE, "office")
    for purpose in ("checkpoint", "attest"):
        made = ("keys", "new", "--purpose", purpose, "--out", str(SAFE / f"{purpose}.key"))
        done(kfm(*made, "--key", str(SAFE / "ada.key")))
    settings = Path("kfm.yml")
    text = settings.read_text()
    settings.write_text(text[: text.index("  rain-gauges:")] + MASKED + SETTINGS + PROTECTED)
    Path("labels.yml").write_text(LABELS)
    Path("mask.yml").write_text(MASK)
    for more in ("", "14QX619,camp,1961-06-03,39.561,-98.561,deep\n"):
        Path("sites.csv").write_text(table() + more)
        done(kfm("run"), by_order(kfm, SAFE, "publish", "sites"))


def public_key(purpose: str) -> bytes:
    return Signer(Secret((SAFE / f"{purpose}.key").read_bytes().strip())).public


def outsider() -> tuple[str, ...]:
    return ("--key", public_key("attest").hex())


def auditor() -> tuple[str, ...]:
    return (*outsider(), "--key", str(Verifier("kfm.example.org/ledger", public_key("checkpoint"))))


def verdicts(kfm: Kfm) -> dict[str, int]:
    return {
        "verify": kfm("verify", dataset()).code,
        "doctor": kfm("doctor", "--deep").code,
        "reconcile": kfm("reconcile").code,
    }


def test_what_was_not_touched_verifies_for_the_installation_and_for_an_outsider(listed: Kfm) -> None:
    answer = listed("verify", dataset(), "--json")
    assert answer.code == 0 and {check["state"] for check in answer.data["checks"]} == {"ok"}, answer.out
    assert verdicts(listed) == {"verify": 0, "doctor": 0, "reconcile": 0}
    answer = listed("verify", "public", *auditor(), "--json")
    assert answer.code == 0, answer.out
    answer = listed("verify", "public", *outsider())
    assert answer.code == 0 and "verified, except: checkpoints, pages" in answer.err, answer.err


# Each kind of exported file: where it is, and whether an outsider with the public folder and its key notices.
FILES = {
    "data": ("public/datasets/*/versions/*/*.csv", True),
    "listing": ("public/datasets/*/versions/*.ndjson", True),
    "list": ("public/datasets/*/versions/*.list-*.json", True),
    "receipt": (".kfm/receipts/operation.promote/*/*/*/*.json", False),
    "artifact": (".kfm/artifacts/*.jsonl", False),
    "pointer": ("public/datasets/*/current.json", True),
    "page": ("public/datasets/*/index.html", False),
    "checkpoint": ("public/ledger/checkpoints/*", False),
    "receipt of a run": (".kfm/receipts/ingest.pull_source/*/*/*/*.json", False),
    "collection": ("catalog/*/collection.json", False),
    "proof": ("catalog/*/runs/*.proof.json", False),
    "lineage": ("catalog/*/runs/*.prov.json", False),
    "table of runs": (".kfm/artifacts/idempotency.json", False),
    "list of artifacts": (".kfm/artifacts/signed_list.json", False),
}


def removed(one: Path, _other: Path) -> None:
    one.unlink()


def altered(one: Path, _other: Path) -> None:
    body = one.read_bytes()
    one.write_bytes(body[:-2] + bytes([body[-2] ^ 1]) + body[-1:])


def swapped(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    assert first != second
    one.write_bytes(second)
    other.write_bytes(first)


HOW = {"removed": removed, "altered": altered, "swapped": swapped}


@pytest.mark.parametrize(("kind", "how"), sampled([(kind, how) for how in HOW for kind in FILES], every=9))
def test_an_exported_file_that_was_removed_altered_or_swapped_is_noticed(listed: Kfm, kind: str, how: str) -> None:
    pattern, outside = FILES[kind]
    one, *others = sorted(Path().glob(pattern))
    HOW[how](one, others[-1] if others else _older_pointer(listed))
    assert all(verdicts(listed).values()), (one, others)
    if outside or (kind == "checkpoint" and how != "removed"):
        assert listed("verify", "public", *auditor()).code


def _older_pointer(kfm: Kfm) -> Path:
    """The pointer as it was after the first publication."""
    first = kfm("refs", "history", f"published/{dataset()}", "--json").data[0]
    pointer = {"before": "", "dataset": dataset(), "run_id": first["run_id"], "seq": 1, "version": first["after"]}
    Path("older.json").write_text(json.dumps(pointer, separators=(",", ":")))
    return Path("older.json")


# Each kind of evidence in the state: its table, and what the key of the row holds.
ROWS = {
    "provenance": ("attestations", "/provenance/"),
    "quality": ("attestations", "/quality/"),
    "verdict": ("attestations", "/verdict-"),
    "list": ("attestations", "/list-"),
    "masking": ("attestations", "/masking-"),
    "receipt": ("receipts", ""),
    "checkpoint": ("ledger_checkpoints", ""),
}


@pytest.mark.parametrize(
    ("kind", "how"), sampled([(kind, how) for how in ("removed", "swapped") for kind in ROWS], every=3)
)
def test_evidence_that_was_removed_or_swapped_in_the_state_is_noticed(listed: Kfm, kind: str, how: str) -> None:
    table, part = ROWS[kind]
    wrong: list[str] = []

    def change(tables: Tables) -> None:
        rows = sorted(_rows(tables, table, part))
        if not rows:
            assert (kind, dataset()) == ("masking", "rain-gauges")
            return
        (first, one), *_, (last, other) = *rows, rows[-1]
        wrong.extend((first, last))
        if how == "removed":
            tables.delete(table, last)
        else:
            assert one != other
            tables.put(table, first, other)
            tables.put(table, last, one)

    _change(change)
    assert not wrong or all(verdicts(listed).values()), wrong


def test_a_version_from_before_the_lists_is_said_to_have_none_until_it_is_attested_again(started: Kfm) -> None:
    SAFE.mkdir(mode=0o700)
    for purpose in ("checkpoint", "attest"):
        _write_key(purpose)
    settings = Path("kfm.yml")
    ledger, attest, *_ = SETTINGS.strip().splitlines()
    settings.write_text(f"{settings.read_text()}\n{ledger}\n")
    done(started("run"), started("publish", "rain-gauges", "--reason", "before"))
    settings.write_text(f"{settings.read_text()}\n{attest}\n")
    done(started("attest", "rain-gauges"))
    answer = started("verify", "rain-gauges", "--json")
    assert answer.code == 0 and "unverified" not in answer.out, answer.out
    assert started("verify", "public", *auditor()).code == 0
    _change(lambda tables: [tables.delete("attestations", key) for key, _ in _rows(tables, "attestations", "/list-")])
    next(Path("public").rglob("*.list-*.json")).unlink()
    done(started("reconcile", "--repair"))
    answer = started("verify", "rain-gauges")  # as an older KFM left it: statements, and neither lists nor marks
    assert answer.code == 0 and "published before signed lists; verified without" in answer.out, answer.out
    assert "verified, except: list" in answer.err
    assert started("verify", "public", *auditor()).code == 68, "an outsider cannot know that there never was a list"


def test_signing_again_does_not_hide_that_a_list_was_removed(listed: Kfm) -> None:
    _change(lambda tables: [tables.delete("attestations", key) for key, _ in _rows(tables, "attestations", "/list-")])
    answer = listed("attest", dataset())
    assert answer.code == 65 and "was removed; restore the state from a backup" in answer.complaint
    assert all(verdicts(listed).values())
    lists = sorted(Path("public").rglob("*.list-*.json"))
    assert listed("reconcile", "--repair").code != 0
    assert sorted(Path("public").rglob("*.list-*.json")) == lists, "the public copy may be the last one"


def test_signing_again_keeps_the_chain_of_lists_when_several_runs_made_the_same_version(listed: Kfm) -> None:
    for _ in range(3):
        assert listed("run", dataset(), "--force", "--reason", "the same bytes").code == 0
    for _ in range(2):
        assert listed("attest", dataset()).code == 0
        assert verdicts(listed) == {"verify": 0, "doctor": 0, "reconcile": 0}


def test_repair_writes_removed_and_altered_exports_again(listed: Kfm) -> None:
    for kind in ("data", "list", "receipt", "checkpoint", "pointer"):
        first, *_, last = sorted(Path().glob(FILES[kind][0])) * 2
        first.unlink()
        if last != first:
            altered(last, last)
    answer = listed("reconcile", "--repair")
    assert answer.code == 0, answer.out + answer.err
    assert verdicts(listed) == {"verify": 0, "doctor": 0, "reconcile": 0}
    assert listed("verify", "public", *auditor()).code == 0


def test_a_list_names_no_place_address_or_masking_policy(listed: Kfm) -> None:
    for path in Path("public").rglob("*.list-*.json"):
        payload = json.loads(b64decode(json.loads(path.read_bytes())["payload"]))
        text = json.dumps(payload)
        assert not any(word in text for word in (*SECRETS, "sites.csv", "masking-", "as agreed", "olli", "tester"))
        kinds = {one["kind"].partition("-")[0] for one in payload["predicate"]["statements"]}
        assert kinds <= {"provenance", "quality", "masking", "verdict"}


def test_a_version_that_returns_has_one_list_of_its_last_publication(listed: Kfm) -> None:
    if dataset() != "rain-gauges":
        return
    first = listed("refs", "history", "published/rain-gauges", "--json").data[0]["after"]
    done(listed("rollback", "rain-gauges", "--to", first[7:23], "--reason", "back"))
    assert [path.name for path in Path("public").rglob("*.list-*.json")] == [f"{first[7:23]}.list-3.json"]
    assert verdicts(listed) == {"verify": 0, "doctor": 0, "reconcile": 0}
    assert listed("verify", "public", *auditor()).code == 0
    done(listed("rollback", "rain-gauges", "--to", "nothing", "--reason", "not for the public"))
    assert not list(Path("public").rglob("*.list-*.json"))
    assert listed("doctor", "--deep").code == listed("reconcile").code == 0
    answer = listed("verify", "public", *auditor())
    assert answer.code == 0 and "only the installation can verify that" in answer.out


def _rows(tables: Tables, table: str, part: str = "") -> list[tuple[str, bytes]]:
    own = f'"dataset":"{dataset()}"'.encode()
    return [(key, body) for key, body in tables.scan(table) if part in key and (table != "receipts" or own in body)]


def _change(change: Callable[[Tables], object]) -> None:
    tables = open_tables(config.load("kfm.yml", {}), "write")
    tables.begin()
    change(tables)
    tables.commit()
    tables.close()
