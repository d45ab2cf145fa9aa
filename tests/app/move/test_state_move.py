"""`kfm move` of the state: there and back, and one place in force at every moment."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from kfm.app.move.table_copy import total_of
from kfm.app.session.backends import open_tables_at
from kfm.app.session.session import open_session
from kfm.app.session.state_place import Place, read_place
from kfm.errors import Busy, Refused
from tests.app.move.carried import (
    HERE,
    THERE,
    kfm,
    killed_at,
    laid_out,
    places_of,
    refusal,
    resolved_in,
    saved,
    sums,
)
from tests.crash.harness import Voice, begin, end, in_child
from tests.crash.points import Points, boundary, fail, install
from tests.sampling import everything, sampled

HOME = Place(objects="file:.kfm/objects", publish="file:public")


def test_a_state_that_moved_there_and_back_has_the_same_rows(house: str) -> None:
    receipts = kfm(house, "runs", "receipts", "--json").out
    assert kfm(house, "move", "--to", THERE, "--edit", "--reason", "a larger disk").code == 0
    assert f'state: "{THERE}"' in Path(house, "kfm.yml").read_text()
    there = sums(house, THERE)
    assert there == sums(house, HERE) and sum(each.rows for each in there) > 20
    after = kfm(house, "runs", "receipts", "--json").out
    assert receipts[2:] in after and '"operation.move"' in after and "a larger disk" in after
    assert kfm(house, "run").out.count("noop") == 1
    assert kfm(house, "audit", "verify", "--json").out.count('"unverifiable"') == 1  # as before: nothing signs here
    assert kfm(house, "doctor", "--deep").code == 0

    assert kfm(house, "move", "--to", HERE, "--edit").code == 0
    back = sums(house, HERE)
    assert back == sums(house, THERE) and total_of(back) != total_of(there)
    assert refusal(house) is None
    assert kfm(house, "run").out.count("noop") == 1
    assert kfm(house, "doctor", "--deep").code == 0
    assert "moved to sqlite:" in str(refusal(house, state=THERE))


def test_the_old_place_refuses_writers_and_warns_readers(house: str) -> None:
    assert kfm(house, "move", "--to", THERE).code == 0
    problem = refusal(house)
    assert isinstance(problem, Refused) and problem.message == f"the state was moved to {THERE}"
    assert problem.hint == f"change kfm.yml to `state: {THERE}`"
    answer = kfm(house, "run")
    assert answer.code == 3 and f"state: {THERE}" in answer.err
    looked = kfm(house, "status")
    assert looked.code == 0 and "may be old" in looked.err
    assert refusal(house, state=THERE) is None
    again = kfm(house, "move", "--to", THERE)
    assert again.code == 0 and "moved to jsonl:there/state.jsonl before" in again.err
    elsewhere = kfm(house, "move", "--to", "sqlite:third.db")
    assert elsewhere.code == 3 and not os.path.exists(os.path.join(house, "third.db"))


def test_a_session_that_was_open_before_the_move_writes_nothing_after_it(house: str) -> None:
    with open_session(resolved_in(house)) as session:
        with session.state.transaction() as tx:
            tx.touch()
        assert kfm(house, "move", "--to", THERE).code == 0
        with pytest.raises(Refused, match="was moved to"), session.state.transaction() as tx:
            tx.touch()


def test_a_dry_run_says_what_would_move_and_writes_nothing(house: str) -> None:
    def files() -> dict[str, tuple[int, bytes]]:
        found = (path for path in sorted(Path(house).rglob("*")) if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

    before = files()
    answer = kfm(house, "move", "--to", THERE, "--dry-run")
    assert answer.code == 0 and "nothing was written" in answer.err and "receipts" in answer.out
    assert files() == before


def test_a_place_that_holds_another_installation_is_refused(house: str, scratch: str) -> None:
    other = laid_out(os.path.join(scratch, "other"))
    kept = sums(other, HERE)
    answer = kfm(house, "move", "--to", f"sqlite://{other}/.kfm/state.db")
    assert answer.code == 3 and "holds an installation already" in answer.err
    assert kfm(other, "move", "--to", THERE).code == 0
    answer = kfm(house, "move", "--to", f"sqlite://{other}/.kfm/state.db")
    assert answer.code == 3 and "runs that this state does not know" in answer.err
    assert refusal(house) is None
    rows = {each.table: each.rows for each in kept}
    assert {each.table: each.rows for each in sums(other, HERE)}["runs"] == rows["runs"] + 1  # its own move


def test_a_worker_that_holds_a_lease_stops_the_move(house: str) -> None:
    with open_session(resolved_in(house)) as session:
        lease = session.state.leases.acquire("smallest/smallest", "far:1:2:3:4", 600_000)
        answer = kfm(house, "move", "--to", THERE)
        assert answer.code == 6 and "1 worker is at work: smallest/smallest" in answer.err
        assert not os.path.exists(os.path.join(house, "there"))
        session.state.leases.release(lease)
    assert kfm(house, "move", "--to", THERE).code == 0


def test_a_move_waits_for_a_worker_if_it_may(house: str) -> None:
    def work(voice: Voice) -> None:
        with open_session(resolved_in(house)) as session:
            lease = session.state.leases.acquire("smallest/smallest", "far:1:2:3:4", 600_000)
            voice.say("ready")
            session.clock.sleep(0.7)
            session.state.leases.release(lease)

    pid, pipe = begin(work)
    while (read_place_of := _leases(house)) == 0:
        assert read_place_of == 0
    answer = kfm(house, "move", "--to", THERE, "--wait", "60")
    assert end(pid, pipe).code == 0
    assert answer.code == 0 and "waiting: 1 worker is at work" in answer.err


def _leases(house: str) -> int:
    with open_session(resolved_in(house), mode="read") as session:
        lease = session.state.leases.of("smallest/smallest")
        return 0 if lease is None else lease.expires_ms


def test_writers_at_work_during_a_move_lose_nothing(house: str) -> None:
    """Every row that a writer was told to be written is at the new place, and no other."""

    def write(voice: Voice) -> str:
        try:
            with open_session(resolved_in(house)) as session:
                for n in range(1_000_000):
                    try:
                        with session.state.transaction():
                            session.tables.put("plans", f"written/{os.getpid()}/{n:07}", b"{}")
                    except Busy:
                        session.clock.sleep(0.001)
                        continue
                    voice.say("wrote")
        except Refused as problem:
            return problem.message
        return "never refused"

    writers = [begin(write) for _ in range(2)]
    answer = kfm(house, "move", "--to", THERE)
    ended = [end(*each) for each in writers]
    assert answer.code == 0, answer.err
    assert {each.answer for each in ended} == {f"the state was moved to {THERE}"}
    wrote = sum(line[0] == "wrote" for each in ended for line in each.said)
    assert wrote > 0, "no writer was at work"
    tables = open_tables_at(resolved_in(house), THERE, "read")
    assert sum(1 for _ in tables.scan("plans", "written/")) == wrote


def test_of_two_movers_at_once_one_wins(house: str) -> None:
    def work(to: str) -> int:
        return kfm(house, "move", "--to", to).code

    children = [begin(lambda _voice, to=to: work(to)) for to in (THERE, "sqlite:third.db")]  # type: ignore[misc]
    codes = [end(*each).answer for each in children]
    assert sorted(codes)[0] == 0 and sorted(codes)[1] in (3, 6), codes
    there = {HERE: ".kfm/state.db", THERE: "there/state.jsonl", "sqlite:third.db": "third.db"}
    made = [url for url, path in there.items() if os.path.exists(os.path.join(house, path))]
    assert [refusal(house, state=url) is None for url in made].count(True) == 1


PARTS = 8


@pytest.mark.parametrize("part", sampled(range(PARTS)))
def test_a_move_killed_anywhere_leaves_one_place_in_force_and_is_continued(house: str, part: int) -> None:
    words = ("move", "--to", THERE)
    only = None if everything else boundary
    places = places_of(house, *words, only=only)
    assert len(places) > 80
    in_force = set()
    for at in range(part + 1, len(places) + 1, PARTS * (1 if everything else 3)):
        with saved(house) as copy:
            assert killed_at(copy, at, *words, only=only), f"nothing was killed at {at}"
            there = os.path.exists(os.path.join(copy, "there/state.jsonl"))
            writable = [refusal(copy) is None, there and refusal(copy, state=THERE) is None]
            label = f"killed at {at} of {len(places)}, {places[at - 1]}"
            if writable == [True, True]:  # the copy was not begun: an empty state is nobody's
                assert not any(each.rows for each in sums(copy, THERE) if each.table not in ("meta",)), label
                os.remove(os.path.join(copy, "there/state.jsonl"))
                os.remove(os.path.join(copy, "there/state.jsonl.ack"))
            else:
                assert writable.count(True) == 1, label
            in_force.add(tuple(writable))
            assert kfm(copy, *words).code == 0, label
            assert sums(copy, HERE) == sums(copy, THERE) or writable == [False, True], label
            assert refusal(copy) is not None and refusal(copy, state=THERE) is None, label
            assert kfm(copy, "doctor", "--deep").code == 3, label  # it names the old place
    assert (True, False) in in_force and (False, True) in in_force


def test_a_mover_that_was_paused_too_long_writes_nothing(house: str) -> None:
    from kfm.app.move.move_claim import TTL_MS, brake
    from kfm.clock import FixedClock
    from kfm.errors import Fenced

    clock = FixedClock(1_800_000_000_000)
    tables = open_tables_at(resolved_in(house), HERE, "write")
    claim = brake(tables, clock, what="state", to=THERE, move="m")
    with open_session(resolved_in(house), clock=clock, mode="read") as session:
        assert session.moved == ""
    with pytest.raises(Busy, match="is being moved"):
        open_session(resolved_in(house), clock=clock)
    late = FixedClock(1_800_000_000_000 + TTL_MS)
    with open_session(resolved_in(house), clock=late) as session, session.state.transaction() as tx:
        tx.touch()
    with pytest.raises(Fenced):
        claim.change(claim.place)
    assert read_place(tables).status == "home"
    tables.close()


def test_a_full_disk_at_the_new_place_leaves_the_old_one_in_force(house: str) -> None:
    def work(voice: Voice) -> int:
        points = Points(12, fail(28), only=lambda label: label == "fs.write before", forever=True)
        install(points)
        answer = kfm(house, "move", "--to", THERE)
        voice.say("acted", points.acted, answer.err)
        return answer.code

    ended = in_child(work)
    acted, err = next(line[1:] for line in ended.said if line[0] == "acted")
    assert acted > 0 and ended.answer == 74, (acted, err)
    assert "disk is full" in err
    assert refusal(house) is None
    assert kfm(house, "move", "--to", THERE).code == 0
    assert sums(house, HERE) == sums(house, THERE)


def test_a_damaged_row_is_refused_and_not_copied(house: str) -> None:
    assert kfm(house, "run").code == 0  # a log that was checkpointed: SQLite reads the file
    path = os.path.join(house, ".kfm/state.db")
    with sqlite3.connect(path) as db:
        changed = db.execute("UPDATE receipts SET value = value || x'20' WHERE key = (SELECT max(key) FROM receipts)")
        assert changed.rowcount == 1
    db.close()
    answer = kfm(house, "move", "--to", THERE)
    assert answer.code == 65 and "is damaged" in answer.err
    assert not os.path.exists(os.path.join(house, "there"))


def test_a_copy_is_completed_by_its_first_writer_once_the_old_place_says_so(
    house: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("kfm.app.move.state_move.complete", interrupted)
        assert kfm(house, "move", "--to", THERE).code == 130
    assert place_at(house, HERE).status == "moved" and place_at(house, THERE).status == "sealed"
    with open_session(resolved_in(house, state=THERE), mode="read") as session:
        assert session.moved == ""  # it may be read, too
    assert refusal(house, state=THERE) is None
    assert place_at(house, THERE) == HOME


def test_a_sealed_copy_is_refused_until_the_old_place_says_that_it_moved(
    house: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kfm.app.move.move_claim import Claim

    change = Claim.change

    def interrupted(claim: Claim, place: Place, *, durable: bool = True) -> None:
        if place.status == "moved":
            raise KeyboardInterrupt
        change(claim, place, durable=durable)

    with monkeypatch.context() as patched:
        patched.setattr(Claim, "change", interrupted)
        assert kfm(house, "move", "--to", THERE).code == 130
    assert place_at(house, HERE) == HOME and place_at(house, THERE).status == "sealed"
    assert refusal(house) is None
    assert "copy of an unfinished move" in str(refusal(house, state=THERE))
    with pytest.raises(Refused, match="copy of an unfinished move"):
        open_session(resolved_in(house, state=THERE), mode="read")
    assert kfm(house, "run").code == 0  # the state goes on where it is, and the copy is brought up to date
    assert kfm(house, "move", "--to", THERE).code == 0
    assert sums(house, HERE) == sums(house, THERE) and refusal(house, state=THERE) is None


def place_at(house: str, url: str) -> Place:
    tables = open_tables_at(resolved_in(house), url, "read")
    try:
        return read_place(tables)
    finally:
        tables.close()


def test_rows_that_are_gone_are_gone_at_a_place_that_is_brought_up_to_date(house: str) -> None:
    def written(value: bytes | None) -> None:
        with open_session(resolved_in(house)) as session, session.state.transaction():
            if value is None:
                session.tables.delete("plans", "extra")
            else:
                session.tables.put("plans", "extra", value)

    written(b"{}")
    assert kfm(house, "move", "--to", THERE, "--edit").code == 0
    written(None)
    assert kfm(house, "move", "--to", HERE, "--edit").code == 0
    tables = open_tables_at(resolved_in(house), HERE, "read")
    assert tables.get("plans", "extra") is None
    tables.close()
