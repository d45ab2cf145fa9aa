"""A label that shows more than before needs two stewards and the community; after that it is in force, and nothing
else changes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.app.governance.people import ROOT, WRITE, by_order
from tests.app.governance.test_two_persons import killing
from tests.cli.conftest import Kfm
from tests.engine.protected.conftest import IDS, POINTS, SAFE, dataset, every_byte, hits, installation, table
from tests.sampling import sampled

OTHERS = "trinomial,kind,found,lat,lon,note\n" + "".join(
    f"14ZZ{n},camp,1950-06-01,{39.1234 + n / 7:.6f},{-97.4321 - n / 9:.6f},spring\n" for n in range(8)
)


def block(of: str, sensitivity: str, custodian: str = "office", **more: str) -> str:
    fields = {"sensitivity": sensitivity, "care": "open", "custodian": custodian, **more}
    return f"  - of: {{{of}}}\n" + "".join(f"    {name}: {value}\n" for name, value in fields.items())


RESTRICTED = (
    "version: 1\nlabels:\n" + block("source: sites.csv", "restricted") + block("source: others.csv", "restricted")
)


@pytest.fixture
def closed(site: Kfm) -> Kfm:
    """Two tables that are restricted, both read, nothing published; and a third steward."""
    installation(
        dataset("sites", "sites.csv", sensitivity="public"), dataset("others", "others.csv", sensitivity="public")
    )
    Path("others.csv").write_text(OTHERS)
    Path("labels.yml").write_text(RESTRICTED)
    signers = [word for name in ("ada", "sue", "sam") for word in ("--key", key(name))]
    person = ("keys", "new", "--person", "stu", "--role", "steward", "--custodian", "office", "--out", key("stu"))
    assert site(*person, *signers).code == 0
    for name in ("sites", "others"):
        assert site("run", name).code == 0
        assert by_order(site, SAFE, "promote", name).code in (4, 7)
    return site


def key(name: str) -> str:
    return str(SAFE / f"{name}.key")


LOWER = ("labels", "set", "source:sites.csv", "--sensitivity", "public", "--reason", "the council agreed")


def ask(kfm: Kfm, who: str = "olli", *more: str) -> str:
    asked = kfm(*LOWER, "--key", key(who), *more)
    assert asked.code == 4, asked.err
    found = [row for row in kfm("review", "list", "--json").data if row["state"] == "open"]
    assert [row["what"] for row in found] == ["label.lower"], asked.err
    return str(found[0]["id"])


def approve(kfm: Kfm, order: str, name: str) -> int:
    return int(kfm("review", "approve", order, "--key", key(name)).code)


def ledger(kfm: Kfm) -> list[tuple[str, str]]:
    rows = list(reversed(kfm("runs", "receipts", "--limit", "0", "--json").data))
    found = [kfm("runs", "receipt", row["run_id"], "--json").data for row in rows]
    return [(each["job_type"].rpartition(".")[2], each["outcome"]) for each in found]


def level(kfm: Kfm, name: str = "sites") -> str:
    return str(kfm("labels", "show", name, "--json").data[0]["level"])


def is_still_closed(kfm: Kfm) -> bool:
    """Nothing was written, and a run gives nothing that anybody could publish."""
    assert Path("labels.yml").read_text() == RESTRICTED
    assert level(kfm) == "restricted"
    kfm("run", "sites", "--force", "--reason", "again")
    assert by_order(kfm, SAFE, "promote", "sites").code in (4, 7)
    return hits() == []


def test_lowered_by_two_stewards_it_can_be_run_and_published(closed: Kfm) -> None:
    order = ask(closed)
    shown = closed("review", "show", order, "--json").data
    assert "-    sensitivity: restricted" in str(shown["more"]["diff"])
    assert approve(closed, order, "sue") == 0
    assert Path("labels.yml").read_text() == RESTRICTED, "one is not enough"
    assert approve(closed, order, "sam") == 0
    assert Path("labels.yml").read_text() == RESTRICTED.replace("restricted", "public", 1)
    assert ledger(closed)[-4:] == [("request", "done"), ("approve", "done"), ("approve", "done"), ("labels", "done")]
    assert closed("review", "show", order, "--json").data["state"] == "used"
    assert level(closed) == "public"
    ran = closed("run", "sites")
    assert ran.code == 0, ran.err
    promoted = by_order(closed, SAFE, "promote", "sites")
    assert promoted.code == 0, promoted.err
    public = [body for name, body in every_byte().items() if name.startswith("public/")]
    assert any(IDS[0].encode() in body and POINTS[0][0].encode() in body for body in public)
    assert closed("doctor", "--deep").code == 0


def test_what_is_known_of_others_is_held_against_it_as_before(closed: Kfm) -> None:
    order = ask(closed)
    assert approve(closed, order, "sue") == 0 and approve(closed, order, "sam") == 0
    assert closed("run", "sites").code == 0
    assert level(closed, "others") == "restricted"
    Path("sites.csv").write_text(table() + "".join(OTHERS.splitlines(keepends=True)[1:]))
    mixed = closed("run", "sites")
    assert mixed.code == 4 and "gate.id: 8" in mixed.err, mixed.err
    assert hits(["14ZZ3"]) == ["others.csv: 14ZZ3"], "in the source itself, and nowhere else"


def test_a_file_that_is_changed_by_hand_opens_nothing(closed: Kfm) -> None:
    """Also what the state has not read yet: the labels that were in force hold on, with those of the file."""
    Path("labels.yml").write_text("version: 1\nlabels: []\n")
    assert level(closed) == "restricted"
    Path("sites.csv").write_text(table().replace("note", "remark"))
    for refused in (closed("run", "sites"), by_order(closed, SAFE, "promote", "sites")):
        assert refused.code == 3 and "put it back under `labels:` - {of: {source: sites.csv}" in refused.err
    assert "labels.yml is not what is in force" in closed("labels", "show").err


def test_tightening_takes_one_signature_and_is_in_the_ledger(closed: Kfm) -> None:
    words = ("labels", "set", "source:sites.csv", "--sensitivity", "closed", "--reason", "asked for")
    assert closed(*words).code == 4, "signed by nobody"
    assert ledger(closed)[-1] == ("labels", "denied")
    assert closed(*words, "--key", key("olli")).code == 4, "an operator is no steward"
    assert Path("labels.yml").read_text() == RESTRICTED
    said = closed(*words, "--key", key("sue"))
    assert said.code == 0, said.err
    assert ledger(closed)[-1] == ("labels", "done")
    assert level(closed) == "closed"
    assert closed("run", "sites").code == 4


def test_nobody_signs_for_what_he_asked_for(closed: Kfm) -> None:
    order = ask(closed, "stu")
    assert approve(closed, order, "stu") == 4
    assert ledger(closed)[-1] == ("approve", "denied")
    assert approve(closed, order, "sue") == 0
    assert is_still_closed(closed)


def test_two_keys_of_one_person_are_one_person(closed: Kfm) -> None:
    signers = [word for name in ("ada", "stu", "sam") for word in ("--key", key(name))]
    words = ("keys", "new", "--person", "sue", "--role", "steward", "--out", key("sue-2"))
    assert closed(*words, *signers).code == 0
    order = ask(closed)
    assert approve(closed, order, "sue") == 0
    assert approve(closed, order, "sue-2") == 4
    assert ledger(closed)[-1] == ("approve", "denied")
    assert is_still_closed(closed)


def test_an_order_is_used_once(closed: Kfm) -> None:
    """Lowered, closed again, and the same order again: it is over, also as the very operation."""
    order = ask(closed)
    assert approve(closed, order, "sue") == 0 and approve(closed, order, "sam") == 0
    again = ("labels", "set", "source:sites.csv", "--sensitivity", "restricted", "--key", key("sue"), "--reason", "no")
    assert closed(*again).code == 0
    assert approve(closed, order, "stu") == 4
    assert ledger(closed)[-1] == ("approve", "denied")
    assert closed(*LOWER).code == 4
    assert ledger(closed)[-1] == ("labels", "denied")
    assert is_still_closed(closed)


def test_an_order_that_expired_is_over(closed: Kfm, monkeypatch: pytest.MonkeyPatch) -> None:
    order = ask(closed, "olli", "--days", "1")
    assert approve(closed, order, "sue") == 0
    monkeypatch.setenv("KFM_NOW", "2027-02-01T00:00:00Z")
    assert approve(closed, order, "sam") == 4
    assert ledger(closed)[-1] == ("expire", "done")
    monkeypatch.delenv("KFM_NOW")
    assert approve(closed, order, "sam") == 4
    assert is_still_closed(closed)


def test_a_file_that_changed_meanwhile_was_not_what_they_signed(closed: Kfm) -> None:
    order = ask(closed)
    assert approve(closed, order, "sue") == 0
    changed = RESTRICTED + "# a line more\n"
    Path("labels.yml").write_text(changed)
    assert approve(closed, order, "sam") == 4
    assert ledger(closed)[-1] == ("labels", "denied")
    assert Path("labels.yml").read_text() == changed
    assert level(closed) == "restricted"


def test_a_steward_who_is_revoked_between_does_not_count(closed: Kfm) -> None:
    order = ask(closed)
    assert approve(closed, order, "sue") == 0
    (row,) = [row for row in closed("keys", "list", "--json").data if row["person"] == "sue"]
    assert closed("keys", "revoke", row["key"], "--key", key("ada"), "--reason", "stolen").code == 0
    assert approve(closed, order, "sam") == 0
    assert Path("labels.yml").read_text() == RESTRICTED
    assert approve(closed, order, "stu") == 0
    assert level(closed) == "public"


@pytest.mark.parametrize("name", sampled(["sue", "olli", "ada", "root"]))
def test_a_name_proves_nothing(closed: Kfm, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFM_ACTOR", name)
    assert closed(*LOWER).code == 4
    assert ledger(closed)[-1] == ("labels", "denied")
    assert closed(*LOWER, "--actor", name).code == 4
    assert is_still_closed(closed)


def test_without_a_key_list_no_person_can(kfm: Kfm) -> None:
    installation(dataset("sites", "sites.csv", sensitivity="public"))
    Path("labels.yml").write_text(RESTRICTED)
    answer = kfm(*LOWER)
    assert answer.code == 4 and "two stewards" in answer.complaint
    assert Path("labels.yml").read_text() == RESTRICTED


def child(*words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """In a process of its own, with this run before the command: it may plant a fault."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", before + "\n" + WRITE, *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


PLACES = {
    "before the approval commits": killing("kfm.store.ref_history", "RefsTx", "move", 1),
    "before the label commits": killing("kfm.store.ref_history", "RefsTx", "move", 2),
    "with what was learned forgotten and nothing committed": killing(
        "kfm.store.protected_records", "ProtectedTx", "lower", 2
    ),
    "between the ref and the file": """
import os, signal, kfm.app.runs.label_adoption as adoption
adoption.finish = lambda session: os.kill(os.getpid(), signal.SIGKILL)
""",
}


@pytest.mark.parametrize("where", sampled(PLACES, every=2))
def test_killed_on_the_way_it_is_done_once_or_not_at_all(closed: Kfm, where: str) -> None:
    order = ask(closed)
    assert approve(closed, order, "sue") == 0
    dead = child("review", "approve", order, "--key", key("sam"), before=PLACES[where])
    assert dead.returncode == -signal.SIGKILL
    assert Path("labels.yml").read_text() == RESTRICTED
    assert level(closed) == "restricted", "until the file says so too"
    closed("resume")
    closed("run", "others")
    if level(closed) != "public":
        state = closed("review", "show", order, "--json").data["state"]
        assert state in ("open", "approved")
        last = closed("review", "approve", order, "--key", key("sam")) if state == "open" else closed(*LOWER)
        assert last.code == 0, last.err
    assert level(closed) == "public"
    assert Path("labels.yml").read_text() == RESTRICTED.replace("restricted", "public", 1)
    assert ledger(closed).count(("labels", "done")) == 2, "as they were first used, and this one"
    assert sorted(str(path) for path in Path().glob("labels.yml*")) == ["labels.yml"]
    assert closed("run", "sites").code == 0
    assert closed("doctor", "--deep").code == 0


def test_two_who_approve_at_once_are_both_heard(closed: Kfm) -> None:
    order = ask(closed)

    def sign(name: str) -> int:
        for _ in range(5):
            code = child("review", "approve", order, "--key", key(name)).returncode
            if code != 6:  # another has it just now: look again
                return code
        return 6

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(sign, ("sue", "sam"))) == [0, 0]
    if closed("review", "show", order, "--json").data["state"] == "approved":
        assert closed(*LOWER).code == 0
    assert level(closed) == "public"
    assert ledger(closed).count(("labels", "done")) == 2


def planted(what: str) -> str:
    """Somebody changes the labels between the decision and the commit."""
    return f"""
import sys, kfm.engine.upsert as upsert
real = upsert.assemble
def late(*given):
    made = real(*given)
    with open("labels.yml", "a") as file:
        file.write("# {what}\\n")
    print("the fault fired", file=sys.stderr)
    return made
upsert.assemble = late
"""


@pytest.mark.parametrize("words", [("freeze",), ("run", "others", "--force"), ("promote", "towns")])
def test_labels_that_change_while_it_is_done_stop_every_commit(closed: Kfm, words: tuple[str, ...]) -> None:
    Path("towns.csv").write_text("town\nDodge City\n")
    with Path("kfm.yml").open("a") as file:
        file.write(dataset("towns", "towns.csv", sensitivity="public"))
    assert closed("run", "towns").code == 0
    refs = closed("refs", "list", "--json").data
    signed = () if words[0] == "run" else ("--key", key("olli"))
    if words[0] == "promote":
        assert closed(*words, "--reason", "x", *signed).code == 4
        (order,) = [row["id"] for row in closed("review", "list", "--json").data if row["dataset"] == "towns"]
        words, signed = ("review", "approve", order), ("--key", key("sue"))
    refs = closed("refs", "list", "--json").data
    answer = child(*words, "--reason", "x", *signed, before=planted("a line more"))
    assert "the fault fired" in answer.stderr
    assert answer.returncode == 6, answer.stderr
    assert closed("refs", "list", "--json").data == refs


def test_an_order_is_stopped_by_labels_that_change_while_it_is_done(closed: Kfm) -> None:
    order = ask(closed)
    assert approve(closed, order, "sue") == 0
    plant = planted("a line more").replace("    made = real", "    made = real", 1)
    answer = child("review", "approve", order, "--key", key("sam"), before=plant)
    assert "the fault fired" in answer.stderr and answer.returncode == 6, answer.stderr
    assert level(closed) == "restricted"
