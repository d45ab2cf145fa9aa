"""Receivers that are down, slow, gone or hostile: nobody waits for them, and nothing is lost."""

from __future__ import annotations

import http.server
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from kfm.app.metadata.ledger_sinks import retry, sink_progress
from kfm.app.runs.settlement import settle_session
from kfm.cli.main import main
from kfm.delivery.followers import Progress
from tests.app.notices.receivers import (
    OTHER,
    SECRET,
    Answer,
    Got,
    Receiver,
    Site,
    receiver_lines,
    receiving,
    status,
)
from tests.servers.postgres import free_port

WELL = "n\n1\n2\n3\n"


def progress_of(site: Site, name: str = "ops") -> Progress:
    with site.open("read") as session:
        return next(each for each in sink_progress(session) if each.name == f"notify.{name}")


def problems(site: Site) -> list[str]:
    """What a settlement says of the receivers."""
    with site.open() as session:
        settle_session(session)
        return [str(problem) for problem in session.sink_problems]


@pytest.mark.parametrize("code", [500, 408, 429])
def test_what_may_pass_is_tried_again_after_a_pause_with_the_same_id(site: Site, receiver: Receiver, code: int) -> None:
    receiver.answers = [status(code), status(code)]
    site.run()
    site.settle()
    assert receiver.take() == ["version.pending"]  # and not once more during the pause
    stopped = progress_of(site).stopped
    assert stopped is not None and f"answers {code}" in stopped.message
    site.advance(seconds=1.1)
    site.settle()
    site.advance(seconds=1.1)
    site.settle()  # the second pause is longer
    ids = {each.id for each in receiver.got}
    assert receiver.take() == ["version.pending"]
    site.advance(seconds=1.1)
    site.settle()
    assert {each.id for each in receiver.got} == ids and len(receiver.got) == 1
    assert progress_of(site).stopped is None and progress_of(site).lag == 0


def test_each_attempt_has_its_own_timestamp_and_a_signature_of_it(site: Site, receiver: Receiver) -> None:
    receiver.answers = [status(500)]
    site.run()
    site.advance(minutes=5)
    site.settle()
    first, second = receiver.got
    assert (first.id, first.body) == (second.id, second.body)
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 300
    assert first.is_signed_with(SECRET) and second.is_signed_with(SECRET)
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


@pytest.mark.parametrize("said", ["120", "Thu, 01 Jan 2026 00:02:00 GMT"])
def test_retry_after_makes_the_pause_longer(site: Site, receiver: Receiver, said: str) -> None:
    receiver.answers = [status(429, Retry_After=said)]
    site.run()
    site.advance(seconds=110)
    site.settle()
    assert len(receiver.got) == 1
    site.advance(seconds=11)
    site.settle()
    assert len(receiver.got) == 2


def test_a_receiver_that_asks_for_years_waits_an_hour(site: Site, receiver: Receiver) -> None:
    receiver.answers = [status(503, Retry_After="99999999999")]
    site.run()
    site.advance(minutes=61)
    site.settle()
    assert len(receiver.got) == 2


def test_a_receiver_that_is_gone_is_left_alone_until_an_operator_retries(site: Site, receiver: Receiver) -> None:
    receiver.answers = [status(410)]
    site.run()
    site.run(text=WELL)
    for _ in range(3):
        site.advance(days=30)
        (line,) = problems(site)
        assert "answers 410: the endpoint is gone" in line and "not tried again by itself" in line
    assert len(receiver.got) == 1
    with site.open() as session:
        assert retry(session, "notify.ops")[0] == []
    assert receiver.kinds[1:3] == ["version.pending", "version.pending"]
    assert progress_of(site).stopped is None


@pytest.mark.parametrize("code", [302, 308])
def test_a_redirect_is_never_followed(tmp_path: Path, receiver: Receiver, code: int) -> None:
    with receiving() as elsewhere:
        receiver.always = status(code, Location=elsewhere.url)
        site = Site(tmp_path, receiver_lines(receiver.url))
        site.run()
        (line,) = problems(site)
        assert f"redirects ({code})" in line and elsewhere.got == [] and len(receiver.got) == 1


@pytest.mark.parametrize("code", [401, 404])
def test_a_wrong_address_or_secret_is_no_dead_letter(site: Site, receiver: Receiver, code: int) -> None:
    receiver.answers = [status(code)]
    site.run()
    assert progress_of(site).stopped is not None and progress_of(site).dead == []
    site.advance(seconds=2)
    site.settle()
    assert receiver.kinds == ["version.pending"] * 2


def test_a_refused_notice_is_a_dead_letter_and_delays_no_other(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = [status(422)]
    site.run()
    site.operate("promote")
    assert receiver.kinds == ["version.pending", "version.published"]
    (letter,) = progress_of(site).dead
    assert (letter.dataset, letter.code) == ("rain", "refused") and "answers 422 to a notice" in letter.message
    monkeypatch.chdir(site.folder)
    assert main(["sinks"]) == 69
    assert "answers 422 to a notice" in capsys.readouterr().err
    assert main(["sinks", "retry", "notify.ops"]) == 0
    assert receiver.got[2].id == receiver.got[0].id and progress_of(site).dead == []


def test_a_refused_state_is_a_dead_letter_too(site: Site, receiver: Receiver) -> None:
    site.run()
    site.operate("promote")
    receiver.answers = [status(400)]
    site.advance(hours=27)
    site.settle()
    site.run(text=WELL)
    assert [letter.index for letter in progress_of(site).dead] == [-1]
    with site.open() as session:
        assert retry(session, "notify.ops")[0] == []
    assert [each.kind for each in receiver.got if each.kind == "dataset.late"] == ["dataset.late"] * 2
    assert progress_of(site).dead == [] and progress_of(site).lag == 0


def drips(handler: http.server.BaseHTTPRequestHandler, _got: Got) -> None:
    """A header that never ends, a byte at a time: no single wait is long."""
    handler.wfile.write(b"HTTP/1.1 204 No Content\r\nx-long: ")
    for _ in range(600):
        handler.wfile.write(b"a")
        handler.wfile.flush()
        time.sleep(0.05)


def never_ends(handler: http.server.BaseHTTPRequestHandler, _got: Got) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _ in range(100_000):
        handler.wfile.write(b"x" * 65_536)


def is_silent(handler: http.server.BaseHTTPRequestHandler, _got: Got) -> None:
    time.sleep(20)


@pytest.mark.parametrize("answer", [drips, is_silent])
def test_a_receiver_that_is_slow_is_given_up_and_the_other_gets_its_notice(
    tmp_path: Path, receiver: Receiver, answer: Answer
) -> None:
    with receiving() as slow:
        slow.always = answer
        lines = receiver_lines(slow.url, "slow", more=", timeout_s: 0.3") + receiver_lines(receiver.url)
        site = Site(tmp_path, lines)
        (receipt,) = site.run()
        assert receipt.status == "SUCCESS" and receiver.kinds == ["version.pending"]
        assert len(slow.got) == 1  # it was tried
        stopped = progress_of(site, "slow").stopped
        assert stopped is not None and "does not answer" in stopped.message
        site.operate("promote")  # its pause is not over: nobody waits for it
        assert len(slow.got) == 1 and receiver.kinds == ["version.pending", "version.published"]


def test_the_text_of_an_answer_is_not_read_even_if_it_never_ends(site: Site, receiver: Receiver) -> None:
    receiver.always = never_ends
    site.run()
    assert receiver.kinds == ["version.pending"] and progress_of(site).lag == 0


def test_a_receiver_that_is_down_gets_everything_later_in_order(tmp_path: Path, receiver: Receiver) -> None:
    port = free_port()
    site = Site(tmp_path, receiver_lines(f"http://127.0.0.1:{port}/hook"))
    site.run()
    assert "does not answer (ConnectionRefusedError)" in problems(site)[0]
    site.operate("promote")
    site.operate("rollback", params={"to": "nothing"})
    site.configure(receiver_lines(receiver.url))
    site.advance(hours=1)
    site.settle()
    assert receiver.kinds == ["version.pending", "version.published", "version.withdrawn"]


def test_a_slow_receiver_gets_the_rest_in_the_next_pass(tmp_path: Path, receiver: Receiver) -> None:
    from kfm.clock import SystemClock

    def dawdles(handler: http.server.BaseHTTPRequestHandler, got: Got) -> None:
        time.sleep(0.25)
        status(204)(handler, got)

    site = Site(tmp_path, "  {}\n")
    site.clock = SystemClock()
    site.configure(receiver_lines(receiver.url, more=", timeout_s: 0.4"))
    receiver.always = status(503)
    for text in ("n\n1\n", WELL, "n\n4\n5\n6\n"):
        site.run(text=text)
    assert len(receiver.take()) >= 1
    receiver.always = dawdles
    with site.open() as session:
        retry(session, "notify.ops")
    assert len(receiver.got) == 2  # after the second one its time was over
    site.settle()
    assert receiver.kinds == ["version.pending"] * 3 and progress_of(site).lag == 0


def test_no_command_fails_because_of_a_receiver_and_each_says_what_is_wrong(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.always = status(500)
    monkeypatch.chdir(site.folder)
    assert main(["run", "rain"]) == 0
    assert main(["resume"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(receiver.got) >= 1
    assert all(
        "a receiver of notices was not told yet: notify.ops: 127.0.0.1" in line for line in said if "500" in line
    )
    assert sum("answers 500" in line for line in said) == 2


def test_what_waits_for_a_thaw_comes_with_it_and_a_withdrawal_before(site: Site, receiver: Receiver) -> None:
    site.run()
    site.operate("promote")
    receiver.take()
    receiver.always = status(503)
    site.run(text=WELL)
    receiver.take()
    receiver.always = status(204)
    site.operate("freeze", params={"scope": "rain"})
    site.advance(hours=1)
    site.settle()
    assert receiver.got == [] and progress_of(site).waiting > 0
    site.operate("rollback", params={"to": "nothing"})
    assert receiver.take() == ["version.withdrawn"]
    site.operate("thaw", params={"scope": "rain"})
    site.settle()
    assert receiver.take() == ["version.pending"] and progress_of(site).waiting == 0


# -- kills and crowds


def test_a_kill_between_the_answer_and_the_note_sends_the_same_id_again(site: Site, receiver: Receiver) -> None:
    killed = threading.Event()

    def kills(handler: http.server.BaseHTTPRequestHandler, got: Got) -> None:
        """Answer, and stop the sender before it can note that."""
        os.kill(child, signal.SIGSTOP)
        status(204)(handler, got)
        handler.wfile.flush()
        os.kill(child, signal.SIGKILL)
        killed.set()

    receiver.answers = [kills]
    child = os.fork()
    if not child:
        try:
            time.sleep(0.2)  # the parent knows its number by then
            site.run()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL and killed.wait(10)
    assert receiver.kinds == ["version.pending"]
    site.settle()
    assert receiver.kinds == ["version.pending"] * 2 and receiver.got[0].id == receiver.got[1].id
    site.settle()
    assert len(receiver.got) == 2


def test_two_processes_at_once_lose_nothing_and_keep_the_order(site: Site, receiver: Receiver) -> None:
    """Each of two processes makes versions of its own dataset; one of them may find the other one sending."""
    site.settle()
    children = []
    for name in ("rain", "snow"):
        child = os.fork()
        if not child:
            code = 1
            try:
                for n in range(4):
                    site.run(name, f"n\n{n}\n{n + 1}\n{n + 2}\n")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    with site.open("read") as session:
        runs = [entry.run_id for entry in session.state.ledger.entries() if entry.outcome == "done"]
    assert len(runs) == 8
    assert [each.event["data"]["run_id"] for each in receiver.got] == runs


# -- secrets


@pytest.mark.parametrize(
    "value",
    [
        "",
        "short",
        "whsec_",
        "whsec_dG9vc2hvcnQ=",
        "whsec_not base64 at all",
        SECRET.removeprefix("whsec_"),
        OTHER + "é",
    ],
)
def test_a_secret_of_another_form_sends_nothing_and_is_not_shown(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("KFM_SECRET_HOOK", value)
    site.run()
    (line,) = problems(site)
    assert "the secret env:KFM_SECRET_HOOK is" in line and (len(value) < 8 or value not in line)
    assert receiver.got == []
    monkeypatch.setenv("KFM_SECRET_HOOK", SECRET)
    site.advance(seconds=2)
    site.settle()
    assert receiver.kinds == ["version.pending"]


def test_an_address_in_the_environment_is_checked_as_one_in_the_file_is(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, receiver_lines("env:KFM_SECRET_URL"))
    monkeypatch.setenv("KFM_SECRET_URL", "http://hooks.example.org/path-that-is-secret")
    site.run()
    (line,) = problems(site)
    assert "is not encrypted" in line and "path-that-is-secret" not in line
    monkeypatch.setenv("KFM_SECRET_URL", receiver.url)
    site.advance(seconds=2)
    site.settle()
    assert receiver.kinds == ["version.pending"]


# -- `kfm sinks test`


def test_a_test_event_is_signed_recorded_and_answered(
    site: Site, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(site.folder)
    assert main(["sinks", "test", "--dry-run"]) == 0
    assert '"type": "org.kfm.notice.test.v1"' in capsys.readouterr().out
    assert receiver.got == [] and not (site.folder / ".kfm").exists()
    assert main(["sinks", "test", "ops"]) == 0
    (got,) = receiver.got
    assert got.kind == "notice.test" and got.is_signed_with(SECRET)
    assert re.search(r"notify\.ops\s+204\s+yes", capsys.readouterr().out)
    with site.open("read") as session:
        assert [entry.op_type for entry in session.state.ledger.entries()] == ["sinks"]
    receiver.answers = [status(403)]
    assert main(["sinks", "test"]) == 69
    assert re.search(r"notify\.ops\s+403\s+no", capsys.readouterr().out)
    assert main(["sinks", "test", "nobody"]) == 3
    assert "there is no receiver of this name" in capsys.readouterr().err
    assert len(receiver.got) == 2
