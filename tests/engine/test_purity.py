"""plan() is pure: every way to the outside is refused, and the refusal names the call."""

from __future__ import annotations

import datetime
import functools
import glob
import locale
import os
import pathlib
import platform
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from time import time as captured_time
from typing import Any

import pytest

from kfm.engine.isolation.purity import pure
from kfm.errors import PlanImpure
from kfm.model.records import SourceRef, Step
from kfm.model.updater import Plan
from tests.engine.site_under_test import Lines, MemorySite

captured_random = random.Random(7).random
_counter = iter(range(10**9))


def in_a_generator() -> Iterator[Step]:
    for n in range(3):
        yield Step(id=f"{n}-{time.time()}")


class Stateful:
    calls = 0


def changes_each_time() -> str:
    Stateful.calls += 1
    return str(Stateful.calls)


IMPURE: dict[str, tuple[Callable[[], Any], str]] = {
    "time.time": (lambda: time.time(), "time.time"),
    "a captured time.time": (lambda: captured_time(), "time.time"),
    "time.monotonic": (lambda: time.monotonic(), "time.monotonic"),
    "time.time_ns": (lambda: time.time_ns(), "time.time_ns"),
    "time.sleep": (lambda: time.sleep(0), "time.sleep"),
    "time.localtime": (lambda: time.localtime(), "time.localtime"),
    "datetime.now": (lambda: datetime.datetime.now(), "now"),
    "datetime.utcnow": (lambda: datetime.datetime.utcnow(), "utcnow"),
    "date.today": (lambda: datetime.date.today(), "today"),
    "random.random": (lambda: random.random(), "random"),
    "random.choice": (lambda: random.choice([1, 2]), "random"),
    "a captured Random": (lambda: captured_random(), "random"),
    "random.Random": (lambda: random.Random(), "random"),
    "secrets.token_hex": (lambda: secrets.token_hex(), "secrets"),
    "os.urandom": (lambda: os.urandom(8), "urandom"),
    "uuid4": (lambda: uuid.uuid4(), "uuid"),
    "uuid1": (lambda: uuid.uuid1(), "uuid"),
    "os.environ[]": (lambda: os.environ["PATH"], "environ"),
    "os.environ.get": (lambda: os.environ.get("HOME"), "environ"),
    "os.getenv": (lambda: os.getenv("HOME"), "os."),
    "open": (lambda: open(__file__), "open"),  # noqa: SIM115
    "pathlib read_text": (lambda: pathlib.Path(__file__).read_text(), "pathlib.read_text"),
    "pathlib exists": (lambda: pathlib.Path(__file__).exists(), "pathlib.exists"),
    "os.listdir": (lambda: os.listdir("."), "listdir"),
    "os.stat": (lambda: os.stat("."), "stat"),
    "os.getpid": (lambda: os.getpid(), "getpid"),
    "os.getcwd": (lambda: os.getcwd(), "getcwd"),
    "os.path.exists": (lambda: os.path.exists("."), "stat"),
    "glob": (lambda: glob.glob("*"), "glob"),
    "tempfile": (lambda: tempfile.mkdtemp(), "tempfile"),
    "socket": (lambda: socket.socket(), "socket"),
    "getaddrinfo": (lambda: socket.getaddrinfo("localhost", 80), "socket"),
    "gethostname": (lambda: socket.gethostname(), "gethostname"),
    "subprocess": (lambda: subprocess.run(["true"], check=False), "subprocess"),
    "os.system": (lambda: os.system("true"), "system"),
    "platform.node": (lambda: platform.node(), "platform"),
    "threading": (lambda: threading.Thread(target=print).start(), "thread"),
    "print": (lambda: print("x"), "print"),
    "input": (lambda: input(), "input"),
    "id": (lambda: id(object()), "id"),
    "hash of a text": (lambda: hash("x"), "hash"),
    "locale": (lambda: locale.getlocale(), "locale"),
    "through partial": (functools.partial(open, __file__), "open"),
    "through map": (lambda: list(map(os.listdir, ["."])), "listdir"),
    "a thread": (lambda: threading.get_ident(), "get_ident"),
}


@pytest.mark.parametrize("name", IMPURE)
def test_an_impure_plan_is_refused_and_its_call_is_named(name: str) -> None:
    call, named = IMPURE[name]

    def plan(_inputs: Sequence[SourceRef]) -> Plan:
        call()
        return Plan([Step(id="x", key=("x",))])

    site = MemorySite()
    updater = Lines(plan)
    receipt = site.run(updater)
    assert receipt.status == "FAILED"
    assert receipt.errors[0].code == "plan.impure"
    assert named in receipt.errors[0].message
    assert updater.performed == []
    assert site.state.refs.at("processed/demo") == ""


def test_the_corpus_is_large_enough() -> None:
    assert len(IMPURE) >= 15


def test_a_generator_that_reads_the_clock_is_refused_while_it_is_read() -> None:
    receipt = MemorySite().run(Lines(lambda _inputs: Plan(in_a_generator())))
    assert receipt.errors[0].code == "plan.impure"
    assert "time.time" in receipt.errors[0].message


def test_two_plans_that_differ_are_refused_although_no_call_was_impure() -> None:
    receipt = MemorySite().run(Lines(lambda _inputs: Plan([Step(id=changes_each_time(), key=("x",))])))
    assert receipt.errors[0].code == "plan.impure"
    assert "two different plans" in receipt.errors[0].message


def test_what_a_plan_may_do() -> None:
    def plan(inputs: Sequence[SourceRef]) -> Plan:
        import math

        day = datetime.date(2026, 1, 1) + datetime.timedelta(days=2)
        parsed = datetime.datetime.fromisoformat("2026-01-01T00:00:00+00:00")
        keys = sorted({"b", "a"})
        text = "|".join([*keys, day.isoformat(), parsed.isoformat(), f"{math.pi:.3f}", str(len(inputs))])
        return Plan([Step(id=text, key=tuple(keys), params={"n": 0.5, "deep": {"x": [1, None, True]}})])

    receipt = MemorySite().run(Lines(plan))
    assert receipt.status == "SUCCESS", receipt.errors


def test_after_a_plan_the_clock_is_free_again() -> None:
    MemorySite().run(Lines(lambda _inputs: Plan([Step(id=str(time.time()))])))
    assert time.time() > 0
    assert os.environ.get("NO SUCH NAME") is None
    assert MemorySite().run(Lines()).status == "SUCCESS"


def test_two_threads_that_plan_at_once_are_both_watched() -> None:
    """Under a profiler only the audit hook watches; a second planner must not draw its eyes away from the first."""
    second_plans = threading.Event()
    caught: list[str] = []

    def first() -> None:
        sys.setprofile(lambda _frame, _event, _argument: None)
        try:
            with pure():
                second_plans.wait(30)
                os.scandir(".")
        except PlanImpure as problem:
            caught.append(str(problem))
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=first)
    thread.start()
    with pure():
        sys.setprofile(None)  # what this thread does from here on is no plan
        second_plans.set()
        thread.join(30)
    assert len(caught) == 1 and "os.scandir" in caught[0]
