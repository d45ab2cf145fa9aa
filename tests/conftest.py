"""Prints how much was really done: tests record a property `counted` as (what, how many)."""

from __future__ import annotations

import os
import re
import signal
import socketserver
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kfm.config import config_file
from kfm.config.config_file import AUTO, Config
from kfm.config.setting_values import given
from kfm.parsing.documents import Document
from tests import sampling
from tests.project import parts, recording
from tests.servers import stand_in

_recorder = recording.Recorder()
_DEFAULTS = config_file.with_defaults
_listen = socketserver.TCPServer.server_activate
ACCEPT_S = 5.0


def _listening(server: socketserver.TCPServer) -> None:
    """Let no server of the tests wait for ever for a caller that went away before it was accepted: nothing would stop
    that server any more, and its test would never end."""
    _listen(server)
    server.socket.settimeout(ACCEPT_S)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", choices=[*parts.PARTS], help="the part of the long suite that this run is")


def _without_pages(config: Config, document: Document) -> Config:
    """Leave out the catalog and the pages that are on by default: most tests are not about them, and would take longer.
    Tests about the default use the fixture `shown_by_default`, other processes have it anyway."""
    pages = config.pages and given(document.value, ("pages",))
    return msgspec.structs.replace(config, pages=pages, catalog="" if config.catalog == AUTO else config.catalog)


@pytest.fixture
def shown_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog and the pages are on by default, as in the product."""
    monkeypatch.setattr(config_file, "with_defaults", _DEFAULTS)


def pytest_configure(config: pytest.Config) -> None:
    """Started in the background of a script we are deaf to interruption, and so would be whatever the tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in [name for name in os.environ if name.startswith("KFM_") and not name.startswith("KFM_TEST_")]:
        del os.environ[name]  # settings of whoever starts the tests are none of theirs
    os.environ["KFM_REASON"] = "a test"  # or each of their many commands would have to say why
    config_file.with_defaults = _without_pages
    socketserver.TCPServer.server_activate = _listening  # type: ignore[method-assign]
    if stand_in.WANTED:
        stand_in.install()
    sampling.everything = config.option.markexpr != "not long"
    os.environ.pop("COLUMNS", None)  # nor is the width of their terminal


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Children that these tests fork use obstore, whose threads survive no fork: no test may have used it here before.
    items.sort(key=lambda item: _group_of(config.rootpath, item.nodeid.partition("::")[0]) != "seaweed")
    sampling.try_one_of_two(items)
    sampling.try_few_on_a_server(items)
    if config.option.part:
        items[:] = [item for item in items if parts.PARTS[config.option.part].holds(item.nodeid)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    recording.current = item


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files that name a group run in one process, in which what they share is made once.

    pytest-xdist 3.8 writes the group into the id of a test, which pytest 9.2 does not let it."""
    from xdist.scheduler import LoadGroupScheduling

    class ByGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group_of(config.rootpath, nodeid.partition("::")[0]) or nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][scope].values()):
                del self.assigned_work[node][scope]  # or it would be counted again after every test to come

    return ByGroup(config, log) if config.getvalue("dist") == "loadgroup" else None


@cache
def _group_of(root: Path, name: str) -> str:
    file = root / name
    found = re.search(r'xdist_group\("([^"]+)"\)', file.read_text(encoding="utf-8")) if file.is_file() else None
    return found[1] if found else ""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _recorder.hear(report)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    if ended and recording.ours() and recording.leaves_nothing_out(session.config.option, list(session.config.args)):
        _recorder.write_down(session.config.option.part)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    totals: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "counted":
                totals[value[0]] += value[1]
    if totals:
        terminalreporter.write_line("counted: " + ", ".join(f"{n:,} {what}" for what, n in sorted(totals.items())))


@pytest.fixture
def count(record_property: Any) -> Any:
    """`count("commands traced", 34)`: what this test did, added up over all tests at the end."""

    def add(what: str, number: int = 1) -> None:
        record_property("counted", (what, number))

    return add
