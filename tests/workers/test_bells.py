"""What wakes workers, with a broker and without one: a message is a hint, whatever happens to it."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions

from kfm.clock import FixedClock
from kfm.errors import Denied, KfmError, Refused, Unavailable
from kfm.model.jobs.job_ports import Bell
from kfm.model.secret import Secret
from kfm.queues.broker_address import BrokerAddress, broker_address
from kfm.queues.celery_bell import CeleryBell
from kfm.queues.inbox_bell import InboxBell
from kfm.queues.wake_message import trigger_of
from tests.sampling import sampled
from tests.servers.redis import RedisServer, free_port, redis_server

pytestmark = pytest.mark.xdist_group("redis-bells")
PASSWORD = "pa/ss:w@rd canary-0451"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is silent is given up sooner."""
    monkeypatch.setattr("kfm.queues.celery_bell.CONNECT_S", 0.5)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis"), password=PASSWORD) as server:
        yield server


def bell_on(server: RedisServer, name: str = "", password: str = PASSWORD) -> CeleryBell:
    address = BrokerAddress("127.0.0.1", server.port, 0, "", Secret(password.encode()) if password else None)
    return CeleryBell(address, name or uuid.uuid4().hex)


@pytest.fixture(params=["inbox", "celery"])
def bell(request: pytest.FixtureRequest) -> Iterator[Bell]:
    if request.param == "inbox":
        yield InboxBell(FixedClock())
        return
    found = bell_on(request.getfixturevalue("server"))
    yield found
    found.close()


def taken(bell: Bell) -> list[str]:
    found: list[str] = []
    while ids := bell.wait(0):
        found += ids
    return found


def test_a_wait_without_a_message_ends_with_nothing(bell: Bell) -> None:
    assert bell.wait(0.05) == set()
    assert bell.wait(0) == set()


def test_a_ring_is_never_an_error_and_a_wait_names_only_what_was_rung(bell: Bell) -> None:
    bell.ring([])
    bell.ring(["000000000007", "000000000008"])
    assert bell.depth() in (0, 2)
    assert taken(bell) in ([], ["000000000007", "000000000008"])
    assert (bell.depth(), bell.discarded) == (0, 0)


def test_a_closed_bell_can_be_closed_again(bell: Bell) -> None:
    bell.close()
    bell.close()


def test_each_message_wakes_one_worker(server: RedisServer) -> None:
    sender = bell_on(server, "shared")
    workers = [bell_on(server, "shared") for _ in range(3)]
    sender.ring([f"{n:012d}" for n in range(3)])
    assert sorted(each for worker in workers for each in worker.wait(1)) == [f"{n:012d}" for n in range(3)]
    for each in (sender, *workers):
        each.close()


def test_a_message_wakes_a_worker_that_already_waits(server: RedisServer) -> None:
    sender, worker = bell_on(server, "sleepers"), bell_on(server, "sleepers")
    found: list[set[str]] = []

    def sleep() -> None:
        while not found:
            if ids := worker.wait(1):
                found.append(ids)

    thread = threading.Thread(target=sleep)
    thread.start()
    sender.ring(["000000000001"])
    thread.join(30)
    assert found == [{"000000000001"}]


def test_other_celery_clients_can_read_and_write_the_queue(server: RedisServer) -> None:
    from celery import Celery

    app = Celery("another", backend="disabled://", set_as_current=False)
    app.conf.update(broker_url=f"redis://127.0.0.1:{server.port}/0", broker_password=PASSWORD)
    bell = bell_on(server, "plain")
    bell.ring(["000000000042"])
    with app.connection() as connection:
        queue = connection.SimpleQueue("plain")
        message = queue.get(timeout=5)
        message.ack()
        queue.close()
    assert message.headers["task"] == "kfm.wake"
    assert message.payload[0] == ["000000000042"]
    assert message.content_type == "application/json"
    app.send_task("kfm.wake", ["000000000043"], queue="plain")
    assert bell.wait(1) == {"000000000043"}
    bell.close()
    app.close()


def test_the_environment_of_celery_changes_neither_place_nor_form(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "celeryconfig.py").write_text("task_serializer = 'pickle'\naccept_content = ['pickle']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CELERY_CONFIG_MODULE", "celeryconfig")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CELERY_BROKER_WRITE_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("CELERY_RESULT_BACKEND", "redis://127.0.0.1:1/0")
    bell = bell_on(server)
    bell.ring(["000000000001"])
    assert bell.wait(1) == {"000000000001"}
    bell.close()


def message(**changes: Any) -> bytes:
    whole: dict[str, Any] = {
        "body": b64encode(b'[["000000000001"], {}, {}]').decode(),
        "content-type": "application/json",
        "headers": {"task": "kfm.wake"},
        "properties": {"body_encoding": "base64"},
    }
    return json.dumps({**whole, **changes}).encode()


GARBAGE = {
    "empty": b"",
    "no JSON": b"\x80\x04\x95pickle",
    "half a text": b'{"body": "',
    "a list": b"[]",
    "a number": b"7",
    "deep": b"[" * 4000,
    "nothing in it": b"{}",
    "another task": message(headers={"task": "os.system"}),
    "no headers": message(headers=None),
    "pickle": message(**{"content-type": "application/x-python-serialize"}),
    "compressed": message(headers={"task": "kfm.wake", "compression": "application/x-gzip"}),
    "another encoding": message(properties={"body_encoding": "utf-8"}),
    "no base64": message(body="!!!!"),
    "no arguments": message(body=b64encode(b"[[], {}, {}]").decode()),
    "a mapping": message(body=b64encode(b'[{"0": "x"}, {}, {}]').decode()),
    "no text": message(body=b64encode(b"[[7], {}, {}]").decode()),
    "an empty id": message(body=b64encode(b'[[""], {}, {}]').decode()),
    "a long id": message(body=b64encode(b'[["' + b"7" * 500 + b'"], {}, {}]').decode()),
    "a new line": message(body=b64encode(b'[["1\\n2"], {}, {}]').decode()),
    "a long body": message(body=b64encode(b'[["1"], {"x": "' + b"7" * 1100 + b'"}, {}]').decode()),
    "a long message": message(more="7" * 5000),
    "a megabyte": b"7" * (1 << 20),
}


def test_the_message_that_the_garbage_is_made_from_is_a_good_one() -> None:
    assert trigger_of(message()) == "000000000001"


@pytest.mark.parametrize("what", GARBAGE)
def test_a_message_of_another_form_is_discarded_and_counted(server: RedisServer, what: str) -> None:
    bell = bell_on(server)
    bell.ring(["000000000001"])
    server.client().rpush(bell._name, GARBAGE[what])
    assert bell.wait(1) == set()
    assert bell.discarded == 1
    assert bell.wait(1) == {"000000000001"}
    assert bell.discarded == 1
    bell.close()


def test_a_full_queue_takes_no_more_messages(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kfm.queues.celery_bell.MOST_WAITING", 3)
    bell = bell_on(server)
    for n in range(9):
        bell.ring([f"{n:012d}"])
    assert bell.depth() == 3
    bell.close()


def told(bell: CeleryBell) -> list[KfmError]:
    found = []
    for one in (lambda: bell.ring(["000000000001"]), lambda: bell.wait(1), bell.depth):
        with pytest.raises(KfmError) as problem:
            one()
        found.append(problem.value)
        assert problem.value.__cause__ is None
    return found


def test_every_trouble_of_a_broker_is_one_line_without_its_secrets(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found = told(bell_on(server, password="wrong-canary-0451"))
    found += told(bell_on(server, password=""))
    assert {type(each) for each in found} == {Denied}
    silent = broker_address("redis", "127.0.0.1:1/0", Secret(PASSWORD.encode()))
    found += told(CeleryBell(silent, "q"))
    found += told(CeleryBell(broker_address("rediss", f"127.0.0.1:{server.port}/0", None), "q"))
    found += told(CeleryBell(broker_address("redis", f"127.0.0.1:{server.port}/9999", Secret(PASSWORD.encode())), "q"))
    found += told(CeleryBell(broker_address("redis", "no-such-host.invalid:6379/0", Secret(PASSWORD.encode())), "q"))
    server.client().set("no-list", "x")
    found += told(bell_on(server, "no-list"))
    assert {type(each) for each in found[6:]} == {Unavailable}
    texts = [str(each) for each in found] + [str(vars(each)) for each in found] + [caplog.text]
    assert not any("canary" in text or "w@rd" in text or "%40" in text for text in texts)
    assert not any("\n" in str(each) for each in found)


@pytest.mark.parametrize(
    ("problem", "kind", "said"),
    [
        (exceptions.BusyLoadingError("canary"), Unavailable, "still loading"),
        (exceptions.ReadOnlyError("canary"), Unavailable, "a replica"),
        (exceptions.OutOfMemoryError("canary"), Unavailable, "no memory"),
        (exceptions.NoPermissionError("canary"), Denied, "refuses the password or the user"),
        (exceptions.TimeoutError("canary"), Unavailable, "does not answer"),
        (exceptions.ResponseError("canary"), Unavailable, "answers with an error"),
        (OSError("canary"), Unavailable, "does not answer"),
        (ValueError("canary"), Unavailable, r"cannot be used \(ValueError\)"),
    ],
)
def test_each_kind_of_trouble_has_words_of_its_own(
    problem: Exception, kind: type[KfmError], said: str, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise problem

    bell = bell_on(server)
    monkeypatch.setattr("redis.Redis.llen", fail)
    with pytest.raises(kind, match=said) as found:
        bell.depth()
    assert "canary" not in str(found.value)


CERTIFICATES = Path(__file__).parents[1] / "sources" / "tls"


@pytest.mark.parametrize(
    ("certificate", "is_trusted", "works"),
    sampled(
        [("localhost", True, True), ("localhost", False, False), ("elsewhere", True, False), ("expired", True, False)],
        2,
    ),
)
def test_with_tls_only_a_broker_that_proves_its_name_is_spoken_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: str, is_trusted: bool, works: bool
) -> None:
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
    else:
        monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with redis_server(tmp_path / "redis", password=PASSWORD) as server:
        port = free_port()
        files = {"tls-cert-file": f"{certificate}.pem", "tls-key-file": "key.pem", "tls-ca-cert-file": "authority.pem"}
        set_at_once = [word for name, file in files.items() for word in (name, str(CERTIFICATES / file))]
        server.client().config_set(*set_at_once, "tls-auth-clients", "no", "tls-port", str(port))
        bell = CeleryBell(broker_address("rediss", f"localhost:{port}/0", Secret(PASSWORD.encode())), "kfm")
        if works:
            bell.ring(["000000000001"])
            assert bell.wait(1) == {"000000000001"}
        else:
            (said,) = {str(each) for each in told(bell)}
            assert said.startswith(f"the broker at localhost:{port} does not prove its name; correct its certificate")
            monkeypatch.setattr(CeleryBell, "depth", lambda self: 0)
            with pytest.raises(Denied, match="does not prove its name"):  # the sender has a connection of its own
                bell.ring(["000000000001"])
        bell.close()


def test_a_broker_without_memory_refuses_rings_and_still_gives_what_it_has(server: RedisServer) -> None:
    bell = bell_on(server)
    bell.ring(["000000000001"])
    server.fill()
    try:
        with pytest.raises(Unavailable, match="no memory"):
            bell.ring(["000000000002"])
        with pytest.raises(Unavailable, match="no memory"):
            bell.try_out()
        assert bell.wait(1) == {"000000000001"}
        with pytest.raises(Unavailable, match="no memory"):
            bell.try_out()
    finally:
        server.empty()
    bell.ring(["000000000003"])
    assert bell.try_out() == 1 and bell.wait(1) == {"000000000003"}
    assert bell.try_out() == 0 and bell.wait(0) == set(), "to try it out sends nothing"
    bell.close()


def test_a_bell_works_again_after_its_broker_was_killed_flushed_or_silent(tmp_path: Path) -> None:
    with redis_server(tmp_path / "redis") as server:
        bell = bell_on(server, password="")
        bell.ring(["000000000001"])
        server.kill()
        told(bell)
        server.start()
        bell.ring(["000000000002"])
        server.flush()
        assert bell.wait(0.1) == set()
        bell.ring(["000000000003"])
        assert bell.wait(1) == {"000000000003"}
        server.stop()
        assert {str(each) for each in told(bell)} == {
            f"the broker at 127.0.0.1:{server.port} does not answer; start it, or correct `queue`"
        }
        server.go_on()
        bell.ring(["000000000004"])
        assert "000000000004" in taken(bell)
        bell.close()


def test_without_its_libraries_a_queue_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Refused, match=r"pip install 'kansas-frontier-matrix\[queue\]'"):
        CeleryBell(BrokerAddress("127.0.0.1", 1, 0), "kfm")


@pytest.mark.parametrize(
    ("rest", "parts"),
    [
        ("127.0.0.1:7000/3", ("127.0.0.1", 7000, 3, "")),
        ("host", ("host", 6379, 0, "")),
        ("me@host:1", ("host", 1, 0, "me")),
        ("[::1]:7000/1", ("::1", 7000, 1, "")),
        ("[::1]", ("::1", 6379, 0, "")),
    ],
)
def test_an_address_is_taken_apart(rest: str, parts: tuple[str, int, int, str]) -> None:
    assert broker_address("redis", rest, None)[:4] == parts
