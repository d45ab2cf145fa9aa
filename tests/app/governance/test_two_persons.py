"""Actions that need two persons: every way around is denied and recorded."""

from __future__ import annotations

import json
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.store.sqlite import SqliteTables
from tests.app.governance.people import WRITE, Site
from tests.kept import once

GAUGES = "rain-gauges"
PUBLISHED = f"published/{GAUGES}"
LABELS = """\
version: 1
labels:
  - of: {dataset: rain-gauges}
    sensitivity: public
    care: open
    custodian: museum
"""


@pytest.fixture
def museum(site: Site) -> Site:
    """The gauges are the museum's; they were made, and are not published."""
    (site.folder / "labels.yml").write_text(LABELS)
    with (site.folder / "kfm.yml").open("a") as file:
        file.write("\nlabels: labels.yml\n")

    def make() -> None:
        site.make_list()
        assert site.kfm("run", GAUGES).code == 0

    once("museum", [site.folder, site.safe], make)
    return site


def ask(site: Site, who: str = "olli", *more: str) -> str:
    """The id of the order for a promotion."""
    asked = site.kfm("promote", GAUGES, "--key", site.key(who), "--reason", "spring release", *more)
    assert asked.code == 4, asked.err
    found = [row for row in site.kfm("review", "list", "--json").data if row["state"] == "open"]
    assert len(found) == 1, asked.err
    return str(found[0]["id"])


def approve(site: Site, order: str, name: str, **env: str) -> int:
    return site.kfm("review", "approve", order, "--key", site.key(name), **env).code


def state_of(site: Site, order: str) -> str:
    return str(site.kfm("review", "show", order, "--json").data["state"])


def denied(site: Site, op: str) -> bool:
    """The last thing in the ledger is that this was denied."""
    return site.ledger()[-1][:2] == (op, "denied")


def test_two_stewards_of_that_custodian_who_did_not_ask_are_enough(museum: Site) -> None:
    order = ask(museum)
    assert not museum.ref(PUBLISHED)
    assert approve(museum, order, "sue") == 0
    assert not museum.ref(PUBLISHED), "one is not enough"
    assert approve(museum, order, "sam") == 0
    assert museum.ref(PUBLISHED) == museum.ref(f"processed/{GAUGES}")
    assert state_of(museum, order) == "used"
    done = museum.ledger()[-4:]
    assert [each[:2] for each in done] == [
        ("request", "done"), ("approve", "done"), ("approve", "done"), ("promote", "done"),
    ]  # fmt: skip
    assert [each[2] for each in done] == ["olli", "sue", "sam", "olli"], "who did it is whose key it was"
    assert museum.kfm("doctor", "--deep").code == 0


def test_a_request_says_that_nothing_moved_who_signs_next_and_how(museum: Site) -> None:
    asked = museum.kfm("promote", GAUGES, "--key", museum.key("olli"), "--reason", "spring release")
    order = museum.kfm("review", "list", "--json").data[0]["id"]
    assert asked.code == 4
    said = f"{asked.out}{asked.err}"
    assert "done" not in said and "requested" in asked.out
    assert f"requested as change request {order}, nothing has moved: see `kfm review show {order}`" in said
    assert f"next to sign: 2 stewards (sam, stu, sue), with `kfm review approve {order} --key FILE`" in said
    assert (
        "next to sign: one steward (sam, stu)" in museum.kfm("review", "approve", order, "--key", museum.key("sue")).err
    )
    last = museum.kfm("review", "approve", order, "--key", museum.key("sam"))
    assert last.code == 0 and "next to sign" not in last.err and museum.ref(PUBLISHED)


def test_those_who_sign_see_that_the_version_was_withdrawn_by_whom_and_why(museum: Site) -> None:
    order = ask(museum)
    assert approve(museum, order, "sue") == 0 and approve(museum, order, "sam") == 0
    back = ("rollback", GAUGES, "--to", "nothing", "--key", museum.key("olli"), "--reason", "wrong units")
    assert museum.kfm(*back).code == 0
    order = ask(museum, "olli", "--to", museum.ref(f"processed/{GAUGES}"))
    shown = museum.kfm("review", "show", order, "--json").data["more"]["withdrawn"]
    assert shown.startswith("by olli at ") and shown.endswith(": wrong units")
    assert "wrong units" in museum.kfm("review", "show", order).out
    assert approve(museum, order, "sue") == 0 and approve(museum, order, "sam") == 0
    assert museum.ref(PUBLISHED) == museum.ref(f"processed/{GAUGES}")


def test_nobody_signs_for_what_he_asked_for(museum: Site) -> None:
    museum.add(
        "stu-works", "--role", "operator", "--custodian", "museum", person="stu", signed_by=("ada", "sue", "sam")
    )
    order = ask(museum, "stu")
    assert approve(museum, order, "stu") == 4
    assert denied(museum, "approve")
    assert approve(museum, order, "stu-works") == 4, "nor with another key"
    assert approve(museum, order, "sue") == 0
    assert not museum.ref(PUBLISHED)


def test_two_keys_of_one_person_are_one_person(museum: Site) -> None:
    assert museum.add("sue-2", "--role", "steward", person="sue", signed_by=("ada", "sam", "stu")).code == 0
    order = ask(museum)
    assert approve(museum, order, "sue") == 0
    assert approve(museum, order, "sue-2") == 4
    assert denied(museum, "approve")
    assert approve(museum, order, "sue") == 4
    assert not museum.ref(PUBLISHED)


@pytest.mark.parametrize("name", ["ada", "otto", "vic", "eve"])
def test_only_stewards_of_that_custodian_count(museum: Site, name: str) -> None:
    order = ask(museum)
    assert approve(museum, order, name) == 4
    assert denied(museum, "approve")


@pytest.mark.parametrize("name", ["ada", "sue", "vic", "eve"])
def test_who_may_not_ask_is_denied_and_nothing_is_kept(museum: Site, name: str) -> None:
    answer = museum.kfm("promote", GAUGES, "--key", museum.key(name), "--reason", "x")
    assert answer.code == 4
    assert denied(museum, "promote")
    assert [one for one in museum.kfm("review", "list", "--all", "--json").data if one["kind"] == "order"] == []


def test_a_key_that_is_not_listed_counts_for_nothing(museum: Site) -> None:
    stranger = museum.safe / "mallory.key"
    stranger.write_text("ab" * 31 + "cd\n")
    stranger.chmod(0o600)
    order = ask(museum)
    assert approve(museum, order, "mallory") == 4
    assert denied(museum, "approve")
    assert museum.kfm("promote", GAUGES, "--key", str(stranger), "--reason", "x").code == 4


@pytest.mark.parametrize(
    "words", [("promote", GAUGES), ("freeze",), ("thaw",), ("rollback", GAUGES, "--to", "nothing")]
)
def test_a_name_proves_nothing(museum: Site, words: tuple[str, ...]) -> None:
    """Whatever KFM_ACTOR and --actor say, what is not signed is not done."""
    if words[0] in ("rollback", "thaw"):
        order = ask(museum)
        assert approve(museum, order, "sue") == 0 and approve(museum, order, "sam") == 0
    if words[0] == "thaw":
        assert museum.kfm("freeze", "--key", museum.key("sue"), "--reason", "wait").code == 0
    refs = museum.kfm("refs", "list", "--json").data
    for name in ("olli", "sue", "ada", "root"):
        assert museum.kfm(*words, "--reason", "x", KFM_ACTOR=name).code == 4
        assert museum.kfm(*words, "--reason", "x", "--actor", name).code == 4
    assert museum.kfm("refs", "list", "--json").data == refs
    assert denied(museum, words[0])


def test_an_order_is_used_once(museum: Site) -> None:
    order = ask(museum)
    assert approve(museum, order, "sue") == 0 and approve(museum, order, "sam") == 0
    back = ("rollback", GAUGES, "--to", "nothing", "--key", museum.key("olli"), "--reason", "wrong")
    assert museum.kfm(*back).code == 0, "to make things safer takes one"
    assert not museum.ref(PUBLISHED)
    again = ("--to", museum.ref(f"processed/{GAUGES}"), "--reason", "right after all")
    assert museum.kfm("promote", GAUGES, *again).code == 4
    assert denied(museum, "promote")
    assert approve(museum, order, "stu") == 4, "it is over"
    assert denied(museum, "approve")
    assert not museum.ref(PUBLISHED)


def test_an_order_that_expired_is_over_and_that_is_written_down(museum: Site) -> None:
    order = ask(museum, "olli", "--days", "1")
    assert approve(museum, order, "sue") == 0
    later = {"KFM_NOW": "2099-01-01T00:00:00Z"}
    assert approve(museum, order, "sam", **later) == 4
    assert not museum.ref(PUBLISHED)
    assert state_of(museum, order) == "expired"
    assert museum.ledger()[-1][:2] == ("expire", "done")
    assert approve(museum, order, "sam") == 4, "also if the clock is put back"
    assert museum.kfm("promote", GAUGES).code == 4


def test_what_was_approved_is_exactly_what_is_done(museum: Site) -> None:
    """Killed when all had signed, and the processed version went on: what was signed is the old one, and no other."""
    order = ask(museum)
    old = museum.ref(f"processed/{GAUGES}")
    assert approve(museum, order, "sue") == 0
    words = ("review", "approve", order, "--key", museum.key("sam"))
    assert museum.child(*words, before=killing("kfm.store.ref_history", "RefsTx", "move", 2)).code == -signal.SIGKILL
    assert state_of(museum, order) == "approved"
    data = museum.folder / "data" / "rain_gauges.csv"
    data.write_text(data.read_text().replace("2026-01", "2026-02"))
    assert museum.kfm("run", GAUGES).code == 0
    assert museum.ref(f"processed/{GAUGES}") != old
    assert museum.kfm("promote", GAUGES).code == 4, "nobody approved the new one"
    assert not museum.ref(PUBLISHED)


@pytest.mark.parametrize("thorough", [False, True])
def test_an_order_that_was_changed_in_the_state_is_found_out(museum: Site, thorough: bool) -> None:
    """Also if its ref and its object are made to fit: no signature is under what it says now."""
    order = ask(museum)
    assert approve(museum, order, "sue") == 0
    tables = SqliteTables(str(museum.folder / ".kfm" / "state.db"))
    tables.begin()
    (key, body), *_ = tables.scan("orders")
    found = json.loads(body)
    found["request"]["expires_at"] = found["request"]["expires_at"].replace("2026", "2027")
    changed = canonical(found)
    tables.put("orders", key, changed)
    if thorough:
        tables.put("refs", f"orders/{order}", digest(changed).encode())
        tables.put("objects", digest(changed), changed)
    tables.commit()
    tables.close()
    assert approve(museum, order, "sam") == (4 if thorough else 65)
    assert museum.kfm("promote", GAUGES).code == (4 if thorough else 65)
    assert not museum.ref(PUBLISHED)


def test_a_steward_who_is_revoked_between_does_not_count_any_more(museum: Site) -> None:
    order = ask(museum)
    assert approve(museum, order, "sue") == 0
    key = next(row["key"] for row in museum.kfm("keys", "list", "--json").data if row["person"] == "sue")
    assert museum.kfm("keys", "revoke", key, "--key", museum.key("ada"), "--reason", "stolen").code == 0
    assert approve(museum, order, "sam") == 0
    assert not museum.ref(PUBLISHED), "one of the two counts"
    assert approve(museum, order, "stu") == 0
    assert museum.ref(PUBLISHED)


def test_one_steward_ends_an_order_for_good(museum: Site) -> None:
    order = ask(museum)
    assert museum.kfm("review", "reject", order, "--key", museum.key("otto"), "--reason", "no").code == 4
    assert denied(museum, "reject")
    assert museum.kfm("review", "reject", order, "--key", museum.key("sam"), "--reason", "not yet").code == 0
    assert state_of(museum, order) == "rejected"
    assert museum.ledger()[-1] == ("reject", "done", "sam")
    for name in ("sue", "sam", "stu"):
        assert approve(museum, order, name) == 4
    assert not museum.ref(PUBLISHED)


def test_the_older_list_put_back_and_the_list_deleted_open_nothing(museum: Site) -> None:
    order = ask(museum)
    file = museum.folder / "keys.json"
    older = file.read_bytes()
    key = next(row["key"] for row in museum.kfm("keys", "list", "--json").data if row["person"] == "sue")
    assert museum.kfm("keys", "revoke", key, "--key", museum.key("ada"), "--reason", "stolen").code == 0
    newer = file.read_bytes()
    for body in (older, None):
        file.write_bytes(body) if body is not None else file.unlink()
        assert approve(museum, order, "sue") == 4
        assert approve(museum, order, "sam") == 4
        assert museum.kfm("promote", GAUGES).code == 4
        assert museum.kfm("freeze", "--key", museum.key("sue"), "--reason", "x").code == 4
    file.write_bytes(newer)
    assert not museum.ref(PUBLISHED)
    assert approve(museum, order, "sam") == 0 and approve(museum, order, "stu") == 0
    assert museum.ref(PUBLISHED)


def test_the_list_that_changes_while_it_is_decided_stops_the_commit(museum: Site) -> None:
    """Asked again in the transaction: between the decision and the commit another process brings in the next list."""
    order = ask(museum)
    assert approve(museum, order, "sue") == 0
    words = [
        "keys",
        "new",
        "--person",
        "new",
        "--role",
        "viewer",
        "--out",
        museum.key("new"),
        "--key",
        museum.key("ada"),
    ]
    plant = f"""
import subprocess, sys
import kfm.app.authority.authorization as authority
real = authority._using
def using(*given):
    warrant = real(*given)
    subprocess.run([sys.executable, "-c", {WRITE!r}, *{words!r}], check=True, capture_output=True)
    print("the fault fired", file=sys.stderr)
    return warrant
authority._using = using
"""
    answer = museum.child("review", "approve", order, "--key", museum.key("sam"), before=plant)
    assert "the fault fired" in answer.err
    assert answer.code == 4
    assert not museum.ref(PUBLISHED)
    assert denied(museum, "promote")
    assert museum.kfm("promote", GAUGES).code == 0, "by the list that is in force now it is still approved"


def test_an_order_that_another_signer_has_just_carried_out_is_no_failure_of_mine(museum: Site) -> None:
    order = ask(museum)
    assert approve(museum, order, "sue") == 0
    plant = f"""
import subprocess, sys
import kfm.app.runs.change_requests as ordering
real = ordering._do
def late(*given, **named):
    subprocess.run([sys.executable, "-m", "kfm", "promote", {GAUGES!r}], check=True, capture_output=True)
    print("the fault fired", file=sys.stderr)
    return real(*given, **named)
ordering._do = late
"""
    answer = museum.child("review", "approve", order, "--key", museum.key("sam"), before=plant)
    assert "the fault fired" in answer.err
    assert answer.code == 0, answer.err
    assert state_of(museum, order) == "used"
    assert museum.ref(PUBLISHED) == museum.ref(f"processed/{GAUGES}")


def test_a_signature_that_comes_in_between_is_kept_next_to_the_other(museum: Site) -> None:
    order = ask(museum)
    words = ["review", "approve", order, "--key", museum.key("sam")]
    plant = f"""
import subprocess, sys
import kfm.app.runs.change_requests as ordering
real = ordering._with
def late(*given):
    made = real(*given)
    ordering._with = real
    subprocess.run([sys.executable, "-m", "kfm", *{words!r}], check=True, capture_output=True)
    print("the fault fired", file=sys.stderr)
    return made
ordering._with = late
"""
    answer = museum.child("review", "approve", order, "--key", museum.key("sue"), before=plant)
    assert "the fault fired" in answer.err
    assert answer.code == 0, answer.err
    assert state_of(museum, order) == "used"
    assert not any(each[1] == "denied" for each in museum.ledger())


def test_two_who_approve_at_once_are_both_heard(museum: Site) -> None:
    order = ask(museum)

    def sign(name: str) -> int:
        words = ["review", "approve", order, "--key", museum.key(name)]
        for _ in range(5):
            code = museum.child(*words).code
            if code != 6:  # another has it just now: look again
                return code
        return 6

    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(sign, ("sue", "sam")))
    assert codes == [0, 0]
    shown = museum.kfm("review", "show", order, "--json").data
    assert sorted(each["person"] for each in shown["more"]["signed"]) == ["olli", "sam", "sue"]
    if shown["state"] == "approved":
        assert museum.kfm("promote", GAUGES).code == 0
    assert museum.ref(PUBLISHED)
    assert [each[:2] for each in museum.ledger()].count(("promote", "done")) == 1


def killing(module: str, kind: str, method: str, nth: int) -> str:
    """Ends the process when this is called for the n-th time."""
    return f"""
import os, signal
from {module} import {kind}
real, calls = {kind}.{method}, [0]
def stopped(*given, **named):
    calls[0] += 1
    if calls[0] == {nth}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **named)
{kind}.{method} = stopped
"""


PLACES = {
    "before the approval commits": ("kfm.store.ref_history", "RefsTx", "move", 1),
    "before the promotion commits": ("kfm.store.ref_history", "RefsTx", "move", 2),
    "with the order used and nothing committed": ("kfm.store.ref_history", "RefsTx", "move", 3),
}


@pytest.mark.parametrize("where", PLACES)
def test_killed_on_the_way_it_is_done_once_or_not_at_all(museum: Site, where: str) -> None:
    order = ask(museum)
    assert approve(museum, order, "sue") == 0
    plant = killing(*PLACES[where])
    assert museum.child("review", "approve", order, "--key", museum.key("sam"), before=plant).code == -signal.SIGKILL
    assert not museum.ref(PUBLISHED)
    museum.kfm("resume")
    if not museum.ref(PUBLISHED):
        assert state_of(museum, order) in ("open", "approved")
        if state_of(museum, order) == "open":
            assert approve(museum, order, "sam") == 0
        else:
            assert museum.kfm("promote", GAUGES).code == 0
    assert museum.ref(PUBLISHED)
    assert state_of(museum, order) == "used"
    assert [each[:2] for each in museum.ledger()].count(("promote", "done")) == 1
    assert museum.kfm("doctor", "--deep").code == 0


def test_neither_resume_nor_retry_nor_watch_goes_around_it(museum: Site) -> None:
    """A promotion that a freeze kept is asked for its signatures when it is taken up."""
    assert museum.kfm("freeze", "--key", museum.key("sue"), "--reason", "wait").code == 0
    assert museum.kfm("promote", GAUGES, KFM_ACTOR="olli").code == 5, "frozen: its trigger is kept"
    kept = museum.kfm("triggers", "list", "--json").data
    assert [each["kind"] for each in kept] == ["operation"]
    assert museum.kfm("thaw", "--key", museum.key("olli"), "--reason", "go on").code == 4, "two, one of them a steward"
    order = museum.kfm("review", "list", "--json").data[0]["id"]
    assert approve(museum, order, "otto") == 0
    assert museum.kfm("refs", "list", "--json").data[-1]["version"] == "frozen", "two operators, and no steward"
    assert approve(museum, order, "sue") == 0
    museum.kfm("triggers", "watch", "--once")
    assert museum.kfm("triggers", "retry", kept[0]["trigger_id"]).code == 4
    assert museum.kfm("resume").code in (0, 4)
    assert not museum.ref(PUBLISHED)
    assert denied(museum, "promote")


def test_what_was_signed_for_a_schedule_opens_the_schedule_and_not_its_dataset(museum: Site) -> None:
    files = museum.folder / "pipelines" / "schedules"
    files.mkdir(parents=True)
    (files / "nightly.yml").write_text(
        f"version: 1\nschedules:\n  nightly: {{dataset: {GAUGES}, cadence: daily, at: '02:30', timezone: UTC}}\n"
    )
    sue, olli = ("--key", museum.key("sue"), "--reason", "wait"), ("--key", museum.key("olli"), "--reason", "go on")
    assert museum.kfm("schedule", "pause", "nightly", *sue).code == 0
    assert museum.kfm("freeze", GAUGES, *sue).code == 0
    assert museum.kfm("schedule", "resume", "nightly", *olli).code == 4, "two, one of them a steward"
    order = museum.kfm("review", "list", "--json").data[0]["id"]
    assert approve(museum, order, "sue") == 0
    refs = {each["ref"]: each["version"] for each in museum.kfm("refs", "list", "--json").data}
    assert (refs["switch/schedule/nightly"], refs[f"switch/dataset/{GAUGES}"]) == ("open", "frozen")


def test_public_data_without_a_custodian_take_an_operator_and_one_steward(site: Site) -> None:
    site.make_list()
    assert site.kfm("run", GAUGES).code == 0
    order = ask(site)
    assert approve(site, order, "otto") == 4
    assert approve(site, order, "eve") == 0
    assert site.ref(PUBLISHED)


def test_what_is_asked_for_twice_is_one_order(museum: Site) -> None:
    order = ask(museum)
    again = museum.kfm("promote", GAUGES, "--key", museum.key("otto"), "--reason", "me too")
    assert again.code == 4 and order in again.err
    assert [one["kind"] for one in museum.kfm("review", "list", "--json").data].count("order") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("review", "approve", "ffff", "--key", "KEY"), 3),
        (("review", "approve", "ORDER"), 3),
        (("review", "approve", "ORDER", "--key", "KEY", "--key", "KEY"), 3),
        (("review", "show", "ff"), 3),
        (("promote", GAUGES, "--key", "labels.yml", "--reason", "x"), 3),
        (("promote", GAUGES, "--key", "KEY", "--reason", "x", "--days", "8"), 2),
    ],
)
def test_what_is_typed_wrong_gets_one_line(museum: Site, words: tuple[str, ...], code: int) -> None:
    named = {"ORDER": ask(museum), "KEY": museum.key("sue")}
    answer = museum.kfm(*(named.get(word, word) for word in words))
    assert answer.code == code
    assert answer.err.count("kfm: ") == 1 and "Traceback" not in answer.err


def test_a_key_is_for_an_installation_that_has_a_list(site: Site) -> None:
    path = site.safe / "lone.key"
    path.write_text("ab" * 31 + "cd\n")
    path.chmod(0o600)
    assert site.kfm("freeze", "--key", str(path), "--reason", "x").code == 3
    assert site.kfm("freeze").code == 0, "as ever"
    assert [one for one in site.kfm("review", "list", "--json").data if one["kind"] == "order"] == []
