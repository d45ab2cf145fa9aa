"""An updater that does everything wrong gives one clear line and the right exit code, and nothing is published."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kfm.app.session.session import open_session
from kfm.config import load
from tests.engine.installations import Answer, Installation, contents
from tests.engine.site_under_test import folder_site
from tests.sampling import sampled

Count = Callable[..., None]

# A whole updater that works; each case replaces one part of it.
WHOLE = {
    "module": "",
    "fields": 'id = "demo"\n    version = "1.0.0"',
    "init": "",
    "inputs": 'return [sources.pin("source")]',
    "plan": 'return Plan([Step(id="a", key=("a",)), Step(id="b", key=("b",))])',
    "perform": "return Output.text(step.id)",
}
TEXT = """
import os, signal, sys, threading, time
from kfm import Output, Plan, SourceRef, Step, Updater
from kfm.model.records import RefMove
{module}

class U(Updater):
    {fields}
    {init}

    def inputs(self, trigger, sources):
        {inputs}

    def plan(self, inputs):
        {plan}

    def perform(self, step, read):
        {perform}
"""
DEEP = "deep = []\n        for _ in range(100_000):\n            deep = [deep]\n        "
LOOP = "loop = {}\n        loop['x'] = loop\n        "
FAILED, REFUSED = 1, 3
AT = "step 'a': perform() of demo at updaters.py:19:"

# what is replaced, by what, the exit code, and what the line must say
Cases = dict[str, tuple[dict[str, str], int, str]]
CASES: Cases = {
    # ---- when it is loaded
    "a syntax error": ({"module": "def ("}, REFUSED, "cannot be loaded: SyntaxError at updaters.py:"),
    "bytes that are no text": ({"module": "x = '\udcff\udcfe'"}, REFUSED, "cannot be loaded: SyntaxError"),
    "NUL": ({"module": "\0"}, REFUSED, "cannot be loaded: "),
    "deeply nested code": ({"module": "x = " + "-" * 100_000 + "1"}, REFUSED, "cannot be loaded: "),
    "an exception at import": ({"module": "raise ValueError('CANARY')"}, REFUSED, "ValueError at updaters.py:5"),
    "a missing module": (
        {"module": "import no_such_module"},
        REFUSED,
        "no module no_such_module (imported at updaters.py:5)",
    ),
    "exit at import": ({"module": "sys.exit(0)"}, REFUSED, "cannot be loaded: SystemExit at updaters.py:5"),
    "endless recursion at import": ({"module": "def f(): f()\nf()"}, REFUSED, "RecursionError at updaters.py"),
    "no memory at import": ({"module": "raise MemoryError"}, REFUSED, "MemoryError at updaters.py:5"),
    "an exception when it is made": (
        {"init": "def __init__(self): raise KeyError('CANARY')"},
        REFUSED,
        "KeyError at updaters.py:",
    ),
    "a constructor that wants more": ({"init": "def __init__(self, x): pass"}, REFUSED, "cannot be made: TypeError"),
    "exit when it is made": ({"init": "def __init__(self): sys.exit(0)"}, REFUSED, "cannot be made: SystemExit"),
    "an id that is a number": ({"fields": "id = 5\n    version = '1.0.0'"}, REFUSED, "its id is not"),
    "an id that climbs": ({"fields": "id = '../x'\n    version = '1.0.0'"}, REFUSED, "is not a valid name"),
    "an id that colours": ({"fields": "id = '\\x1b[31m'\n    version = '1.0.0'"}, REFUSED, "its id is not"),
    "an id that raises": (
        {"fields": "version = '1.0.0'\n    @property\n    def id(self): raise OSError('CANARY')"},
        REFUSED,
        "OSError at",
    ),
    "a version that is a number": ({"fields": "version = 5"}, REFUSED, "its version is not"),
    "a version of two lines": ({"fields": "version = '1\\n2'"}, REFUSED, "its version is not"),
    "a version without end": ({"fields": "version = '1' * 10_000_000"}, REFUSED, "its version is not"),
    "half a character as version": ({"fields": "version = '\\ud800'"}, REFUSED, "its version is not"),
    "no version": ({"fields": ""}, REFUSED, "has no version"),
    "a job type that climbs": (
        {"fields": "version = '1.0.0'\n    job_type = '../../x'"},
        REFUSED,
        "its job_type is not",
    ),
    "a job type that is a number": ({"fields": "version = '1.0.0'\n    job_type = 5"}, REFUSED, "its job_type is not"),
    "an op that is a number": ({"fields": "version = '1.0.0'\n    op = 5"}, REFUSED, "its op is not"),
    "an op of two lines": ({"fields": "version = '1.0.0'\n    op = 'a\\nb'"}, REFUSED, "its op is not"),
    "a target that is no number": (
        {"fields": "version = '1.0.0'\n    slo_target_latency_ms = 'soon'"},
        REFUSED,
        "slo_target_latency_ms is not",
    ),
    # ---- inputs()
    "inputs: nothing": ({"inputs": "return None"}, REFUSED, "not a list of SourceRef"),
    "inputs: a generator": ({"inputs": "yield sources.pin('source')"}, REFUSED, "not a list of SourceRef"),
    "inputs: texts": ({"inputs": "return ['source']"}, REFUSED, "not a list of SourceRef"),
    "inputs: the class": ({"inputs": "return [SourceRef]"}, REFUSED, "not a list of SourceRef"),
    "inputs: an exception": (
        {"inputs": "raise ValueError('no such well')"},
        FAILED,
        "inputs() of demo raised ValueError at",
    ),
    "inputs: exit": ({"inputs": "sys.exit(0)"}, FAILED, "inputs() of demo raised SystemExit at updaters.py:"),
    "inputs: recursion": ({"inputs": "return self.inputs(trigger, sources)"}, FAILED, "raised RecursionError"),
    "inputs: no memory": ({"inputs": "raise MemoryError"}, FAILED, "raised MemoryError"),
    "inputs: an unknown source": ({"inputs": "return [sources.pin('zzz')]"}, REFUSED, "no source is called 'zzz'"),
    "inputs: a source that is a number": ({"inputs": "return [sources.pin(5)]"}, FAILED, "inputs() of demo raised"),
    "inputs: a hostile source": ({"inputs": "return [sources.pin('\\x1b[31m/a\\nb')]"}, REFUSED, "does not exist"),
    "inputs: outside": ({"inputs": "return [sources.pin('../../../etc/passwd')]"}, REFUSED, "without '..'"),
    "inputs: an absolute path": ({"inputs": "return [sources.pin('/etc/passwd')]"}, REFUSED, "outside of the folder"),
    "inputs: another scheme": ({"inputs": "return [sources.pin('gopher://x/')]"}, REFUSED, "kfm: demo: "),
    "inputs: a password": ({"inputs": "return [sources.pin('http://u:CANARY@127.0.0.1/')]"}, REFUSED, "password"),
    "inputs: no digest": (
        {"inputs": "return [SourceRef(uri='x', content_hash='../../etc', size=1)]"},
        REFUSED,
        "not a list of SourceRef",
    ),
    "inputs: wrong types": (
        {"inputs": "return [SourceRef(uri=5, content_hash=None, size='x')]"},
        REFUSED,
        "not a list of SourceRef",
    ),
    "inputs: bytes nobody has": (
        {"inputs": "return [SourceRef(uri='x', content_hash='sha256:' + 'a' * 64, size=1)]"},
        REFUSED,
        "not a list of SourceRef",
    ),
    "inputs: a ref that climbs": ({"inputs": "return [sources.ref('../x')]"}, REFUSED, "is not a ref"),
    "inputs: half a character": ({"inputs": "return [sources.pin('source', partition=['\\ud800'])]"}, REFUSED, "kfm: "),
    # ---- plan()
    "plan: nothing": ({"plan": "return None"}, REFUSED, "returned something that is not a Plan"),
    "plan: a list": ({"plan": "return [Step(id='a')]"}, REFUSED, "returned something that is not a Plan"),
    "plan: a generator": ({"plan": "yield Step(id='a')"}, REFUSED, "returned something that is not a Plan"),
    "plan: the class": ({"plan": "return Plan"}, REFUSED, "returned something that is not a Plan"),
    "plan: steps that are nothing": ({"plan": "return Plan(None)"}, REFUSED, "whose steps are not"),
    "plan: steps that are a number": ({"plan": "return Plan(5)"}, REFUSED, "whose steps are not"),
    "plan: steps that are texts": ({"plan": "return Plan('ab')"}, REFUSED, "is not a Step"),
    "plan: a mapping of steps": ({"plan": "return Plan({Step(id='a').id: 1})"}, REFUSED, "is not a Step"),
    "plan: no truth": ({"plan": "return Plan([], complete='yes')"}, REFUSED, "complete"),
    "plan: an id that is a number": ({"plan": "return Plan([Step(id=5)])"}, REFUSED, "has no printable id"),
    "plan: no key": ({"plan": "return Plan([Step(id='a', key=5)])"}, REFUSED, "its key is not a tuple"),
    "plan: a key of numbers": ({"plan": "return Plan([Step(id='a', key=(1,))])"}, REFUSED, "its key is not a tuple"),
    "plan: half a character": ({"plan": "return Plan([Step(id='a', key=('\\ud800',))])"}, REFUSED, "canonical form"),
    "plan: params that are nothing": ({"plan": "return Plan([Step(id='a', params=None)])"}, REFUSED, "its params are"),
    "plan: params that are a list": ({"plan": "return Plan([Step(id='a', params=[1])])"}, REFUSED, "its params are"),
    "plan: params by number": ({"plan": "return Plan([Step(id='a', params={1: 2})])"}, REFUSED, "canonical form"),
    "plan: params without end": (
        {"plan": DEEP + "return Plan([Step(id='a', params={'x': deep})])"},
        REFUSED,
        "nested deeper",
    ),
    "plan: params that hold themselves": (
        {"plan": LOOP + "return Plan([Step(id='a', params=loop)])"},
        REFUSED,
        "nested deeper",
    ),
    "plan: params by object": (
        {"plan": "return Plan([Step(id='a', params={object(): 2})])"},
        REFUSED,
        "canonical form",
    ),
    "plan: params by nothing": ({"plan": "return Plan([Step(id='a', params={None: 2})])"}, REFUSED, "canonical form"),
    "plan: two of a name, out of order": (
        {"plan": "return Plan([Step(id='x', needs=('a',)), Step(id='a'), Step(id='a')])"},
        REFUSED,
        "two steps are called",
    ),
    "plan: a bad step after one out of order": (
        {"plan": "return Plan([Step(id='x', needs=('a',)), Step(id='a'), 5])"},
        REFUSED,
        "kfm: demo: ",
    ),
    "plan: a cycle of thousands": (
        {"plan": "return Plan([Step(id=f's{n}', needs=(f's{(n + 1) % 5000}',)) for n in range(5000)])"},
        REFUSED,
        "cycle",
    ),
    "plan: something else the second time": (
        {
            "module": "calls = []",
            "plan": "calls.append(1)\n        return Plan([Step(id='a')] if len(calls) % 2 else [5])",
        },
        REFUSED,
        "two different plans",
    ),
    "plan: nothing the second time": (
        {"module": "calls = []", "plan": "calls.append(1)\n        return Plan([]) if len(calls) % 2 else None"},
        REFUSED,
        "not a Plan",
    ),
    "plan: an object as param": (
        {"plan": "return Plan([Step(id='a', params={'x': object()})])"},
        REFUSED,
        "canonical form",
    ),
    "plan: needs that are nothing": ({"plan": "return Plan([Step(id='a', needs=None)])"}, REFUSED, "its needs are"),
    "plan: needs that are a text": ({"plan": "return Plan([Step(id='a', needs='bc')])"}, REFUSED, "its needs are"),
    "plan: needs that are a number": ({"plan": "return Plan([Step(id='a', needs=5)])"}, REFUSED, "its needs are"),
    "plan: needs that are lists": ({"plan": "return Plan([Step(id='a', needs=([],))])"}, REFUSED, "its needs are"),
    "plan: needs of numbers, streamed": (
        {"plan": "return Plan(iter([Step(id='a', needs=(5,))]))"},
        REFUSED,
        "its needs",
    ),
    "plan: a need of itself": ({"plan": "return Plan([Step(id='a', needs=('a',))])"}, REFUSED, "cycle: a → a"),
    "plan: a move that is a text": ({"plan": "return Plan([Step(id='a', move='x')])"}, REFUSED, "move"),
    "plan: a move of the switch": (
        {"plan": "return Plan([Step(id='a', move=RefMove(ref='switch/global', before='', after='frozen'))])"},
        REFUSED,
        "move",
    ),
    "plan: a move into Published": (
        {
            "plan": "move = RefMove(ref='published/demo', before='', after='')\n"
            "        return Plan([Step(id='a', move=move)])"
        },
        REFUSED,
        "move",
    ),
    "plan: a step that is an instance of something else": (
        {"module": "class Better(Step, frozen=True): pass", "plan": "return Plan([Better(id='a')])"},
        REFUSED,
        "is not a Step",
    ),
    "plan: an exception": ({"plan": "raise ValueError('no such well')"}, FAILED, "plan() of demo raised ValueError at"),
    "plan: an exception while it streams": (
        {"plan": "return Plan(Step(id=str(1 // (2 - n))) for n in range(4))"},
        FAILED,
        "plan() of demo raised ZeroDivision",
    ),
    "plan: exit": ({"plan": "sys.exit(0)"}, FAILED, "plan() of demo raised SystemExit"),
    "plan: exit while it streams": (
        {"plan": "return Plan(sys.exit(0) for n in range(4))"},
        FAILED,
        "raised SystemExit",
    ),
    "plan: recursion": ({"plan": "return self.plan(inputs)"}, FAILED, "plan() of demo raised RecursionError"),
    "plan: no memory": ({"plan": "raise MemoryError"}, FAILED, "plan() of demo raised MemoryError"),
    "plan: print": ({"plan": "print('CANARY')\n        return Plan([])"}, REFUSED, "it made the call print"),
    "plan: an object that lies about its class": (
        {
            "module": "class Liar:\n    __class__ = Plan\n    steps = None\n    complete = False",
            "plan": "return Liar()",
        },
        REFUSED,
        "not",
    ),
    # ---- perform()
    "perform: nothing": ({"perform": "return None"}, FAILED, "perform() returned something that is not an Output"),
    "perform: bytes": ({"perform": "return b'x'"}, FAILED, "perform() returned something that is not an Output"),
    "perform: a generator": (
        {"perform": "yield Output(b'x')"},
        FAILED,
        "perform() returned something that is not an Output",
    ),
    "perform: a body that is a text": ({"perform": "return Output('CANARY')"}, FAILED, "its body"),
    "perform: a body that is a number": ({"perform": "return Output(5)"}, FAILED, "its body"),
    "perform: a body that is nothing": ({"perform": "return Output(None)"}, FAILED, "its body"),
    "perform: a stream of texts": ({"perform": "return Output(iter(['CANARY']))"}, FAILED, "its body"),
    "perform: a stream of numbers": ({"perform": "return Output([1, 2])"}, FAILED, "its body"),
    "perform: a stream that breaks": (
        {"perform": "return Output(bytes(9) * (1 // (2 - n)) for n in range(4))"},
        FAILED,
        "ZeroDivisionError at updaters.py",
    ),
    "perform: a stream that exits": ({"perform": "return Output(sys.exit(0) for n in 'ab')"}, FAILED, "SystemExit"),
    "perform: a type that is a number": ({"perform": "return Output(b'x', 5)"}, FAILED, "its media_type"),
    "perform: a type that is nothing": ({"perform": "return Output(b'x', None)"}, FAILED, "its media_type"),
    "perform: a type of two lines": ({"perform": "return Output(b'x', 'a/b\\r\\nX: y')"}, FAILED, "its media_type"),
    "perform: half a character as type": ({"perform": "return Output(b'x', '\\ud800')"}, FAILED, "its media_type"),
    "perform: a type without end": ({"perform": "return Output(b'x', 'a' * 10_000_000)"}, FAILED, "its media_type"),
    "perform: an exception": (
        {"perform": "raise ValueError('no such well')"},
        FAILED,
        "raised ValueError at updaters.py:",
    ),
    "perform: an exception without a text": (
        {"module": "class Mute(Exception):\n    def __str__(self): raise ValueError", "perform": "raise Mute"},
        FAILED,
        "raised Mute at updaters.py:",
    ),
    "perform: an exception with a hostile name": (
        {"perform": "raise type('\\x1b[31mOops\\nkfm: done', (Exception,), {})"},
        FAILED,
        "raised ",
    ),
    "perform: exit": ({"perform": "sys.exit(0)"}, FAILED, "raised SystemExit at updaters.py:"),
    "perform: exit in a thread": (
        {"perform": "time.sleep(0.01)\n        sys.exit(0)"},
        FAILED,
        "raised SystemExit at updaters.py:",
    ),
    "perform: recursion": ({"perform": "return self.perform(step, read)"}, FAILED, "raised RecursionError"),
    "perform: no memory": ({"perform": "raise MemoryError"}, FAILED, "raised MemoryError"),
    "perform: really no memory": ({"perform": "return Output(bytes(1 << 62))"}, FAILED, "raised MemoryError"),
    "perform: an unknown input": ({"perform": "return Output(read.bytes(7))"}, REFUSED, f"{AT} there is no input 7"),
    "perform: an unknown step": (
        {"perform": "return Output(read.bytes('zzz'))"},
        REFUSED,
        f"{AT} 'zzz' is neither an input nor a finished step",
    ),
    "perform: an input that is nothing": (
        {"perform": "return Output(read.bytes(None))"},
        REFUSED,
        f"{AT} perform() reads what is neither the number nor the name",
    ),
    "perform: a text of no step": (
        {"perform": "return Output.text(read.text('typo'))"},
        REFUSED,
        f"{AT} 'typo' is neither an input nor a finished step",
    ),
    "perform: rows of no step": (
        {"perform": "return Output.csv(read.csv('typo'))"},
        REFUSED,
        f"{AT} 'typo' is neither an input nor a finished step",
    ),
    "perform: JSON that is none": (
        {"perform": "return Output.json(read.json('source'))"},
        REFUSED,
        f"{AT} source is not JSON",
    ),
    "perform: JSON that cannot be": (
        {"perform": "return Output.json({'x': float('nan')})"},
        REFUSED,
        f"{AT} $.x ",
    ),
    "perform: a set as JSON": (
        {"perform": "return Output.json({1, 2})"},
        REFUSED,
        f"{AT} $ is of type set, which JSON does not have",
    ),
    "perform: a stream that is refused": (
        {"perform": "return Output(Output.json({n}).body for n in 'ab')"},
        REFUSED,
        f"{AT} $ is of type set, which JSON does not have",
    ),
    "perform: a refusal of its own kind": (
        {
            "module": "import kfm\nclass Own(kfm.errors.Refused):\n    def __init__(self): super().__init__('no')",
            "perform": "raise Own",
        },
        REFUSED,
        "step 'a': perform() of demo at updaters.py:21: no",
    ),
    "perform: a message of its own": (
        {"module": "from kfm.errors import Refused", "perform": "raise Refused('\\x1b[31mred\\nkfm: all is well')"},
        REFUSED,
        "red",
    ),
}


def laid_out(folder: Path, replaced: dict[str, str]) -> Installation:
    text = TEXT.format(**(WHOLE | replaced))
    folder_site(folder, "", b"a,b\n1,2\n", config="execute: {threads: 2}")
    (folder / "updaters.py").write_bytes(text.encode("utf-8", "surrogateescape"))
    return Installation(folder)


def complaint(answer: Answer) -> str:
    """The one line; fails if there is more or less than one, or anything that could steer a terminal."""
    lines = answer.err.splitlines()
    assert len([line for line in lines if line.startswith("kfm: ")]) == 1, answer
    assert [line for line in lines if not line.startswith("kfm: ")] in ([], ["dry run: nothing was changed"]), answer
    (line,) = [line for line in lines if line.startswith("kfm: ")]
    assert line.isprintable() and len(line) < 1000, answer
    assert "internal error" not in line, answer
    assert "CANARY" not in answer.err + answer.out
    return line


def published(site: Installation) -> tuple[dict[str, str], dict[str, str]]:
    """Everything but receipts."""
    with open_session(load(str(site.folder / "kfm.yml"), {}), mode="read") as session:
        return dict(session.state.refs.all()), contents(site.folder / "public")


def statuses(site: Installation) -> list[str]:
    with open_session(load(str(site.folder / "kfm.yml"), {}), mode="read") as session:
        assert not list(session.state.runs.unfinished()), "nothing is left open"
        ledger = session.state.ledger
        return [receipt.status for entry in ledger.entries() if (receipt := ledger.receipt(entry.run_id))]


@pytest.mark.parametrize("case", sampled(CASES, every=6))
def test_a_hostile_updater_gets_one_line_and_publishes_nothing(case: str, place: Path, count: Count) -> None:
    replaced, code, said = CASES[case]
    site = laid_out(place, replaced)
    foretold = site.kfm("run", "--dry-run", expect=None)
    assert said in complaint(foretold)
    assert foretold.code == code
    assert not (site.folder / ".kfm").exists() and not (site.folder / "public").exists()

    answer = site.kfm("run", expect=None)
    assert complaint(answer) == complaint(foretold)
    assert answer.code == code
    assert published(site) == ({}, {})
    assert statuses(site) in ([], ["FAILED"])

    told = site.kfm("run", "--json", expect=code)
    problems = [*told.data["errors"], *(note for receipt in told.data["receipts"] for note in receipt["errors"])]
    assert len(problems) == 1 and problems[0]["code"] and problems[0]["message"]
    count("hostile updaters")

    # Mended, it runs: nothing that went wrong stands in the way.
    laid_out(site.folder, {"fields": 'id = "demo"\n    version = "1.0.1"'})
    assert site.kfm("run", "--json").data["receipts"][0]["outcome"] == "done"


def test_the_updater_all_these_were_made_from_works(place: Path) -> None:
    assert laid_out(place, {}).kfm("run", "--json").data["receipts"][0]["outcome"] == "done"


def test_a_hostile_update_of_good_code_leaves_what_was_published(place: Path) -> None:
    site = laid_out(place, {})
    site.kfm("run")
    site.kfm("promote", "demo")
    before = published(site)
    for case in ("exit at import", "plan: exit", "perform: exit", "perform: a type that is a number", "no version"):
        replaced, code, _ = CASES[case]
        laid_out(place, {"fields": 'id = "demo"\n    version = "2.0.0"'} | replaced)
        site.kfm("run", expect=code)
        assert published(site) == before, case


@pytest.mark.parametrize("raised", ["BaseException", "GeneratorExit", "type('Own', (BaseException,), {})"])
@pytest.mark.parametrize("where", ["module", "init", "inputs", "plan", "perform"])
def test_what_no_program_should_raise_is_one_line_too(where: str, raised: str, place: Path) -> None:
    line = f"def __init__(self): raise {raised}" if where == "init" else f"raise {raised}"
    site = laid_out(place, {where: line})
    for flags in ([], ["--dry-run"], ["--json"]):
        answer = site.kfm("run", *flags, expect=None)
        assert answer.code in (1, 3), answer
        assert complaint(answer)
        if flags == ["--json"]:
            json.loads(answer.out)
    assert published(site) == ({}, {})
    laid_out(place, {})
    assert site.kfm("resume", "--json").code == 0
    site.kfm("run")
    assert published(site)[0]


@pytest.mark.parametrize("where", ["module", "init", "inputs", "perform"])
def test_what_an_updater_prints_is_not_taken_for_data(where: str, place: Path) -> None:
    line = "def __init__(self): print('hello')" if where == "init" else "print('hello')"
    if where in ("inputs", "perform"):
        line += "\n        " + WHOLE[where]
    site = laid_out(place, {where: line})
    answer = site.kfm("run", "--json")
    assert answer.data["receipts"][0]["outcome"] == "done"
    assert "hello" in answer.err
    plan = site.kfm("plan", "demo", "--json")
    assert plan.data["steps"] == 2
