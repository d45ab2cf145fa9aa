"""The life of a dataset by browser alone: a run, a quarantined row reviewed, two people who sign in two browsers,
promotions, a rollback, a freeze and a thaw. And what is refused: a login alone, a replay, a changed request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.console_server import console
from tests.api.test_up_serves import up
from tests.browser.chromium import chromium, violations
from tests.browser.signers import Person, enrolled, ledger, make_admin
from tests.cli.conftest import Kfm, done, kfm, plain_environment, ran, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["kfm", "plain_environment", "ran", "started"]

pytestmark = pytest.mark.xdist_group("chromium")
GAUGES = "rain-gauges"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def people(browser: Browser, port: int, **how: Any) -> Iterator[list[Person]]:
    """An operator and a steward, each in a browser profile of their own."""
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        found = []
        for name in ("olli", "sue"):
            context = browser.new_context(**how)
            stack.callback(context.close)
            found.append(Person(name, context, url))
        yield found


def published(kfm: Kfm) -> str:
    rows = kfm("refs", "list", "--json").data
    return str(next((row["version"] for row in rows if row["ref"] == f"published/{GAUGES}"), ""))


def test_one_person_asks_and_signs_another_approves_and_only_then_it_is_published(browser: Browser, ran: Kfm) -> None:
    before = published(ran)
    make_admin(ran)
    with console() as server, people(browser, server.port) as (olli, sue):
        enrolled(ran, olli, "operator")
        enrolled(ran, sue, "steward")
        told = olli.ask("rollback", GAUGES, "it was wrong", to="nothing")
        assert f"What the public sees of {GAUGES}: from {before} to nothing" in told
        assert "Digest that is signed" in told and "Who must sign" in told
        olli.press("Yes, sign and send it")
        olli.page.get_by_text("kfm triggers retry").wait_for()  # without `kfm up` it waits, and the page says so
        trigger = olli.page.locator("#operation").inner_text().partition("kfm triggers retry ")[2].split("`")[0]
        assert published(ran) == before
        done(ran("triggers", "retry", trigger))
        olli.page.get_by_text("Done: done").wait_for()
        assert published(ran) == ""
        assert [(olli.complaints, olli.elsewhere), (sue.complaints, sue.elsewhere)] == [([], [])] * 2


@pytest.mark.long
def test_a_dataset_lives_by_browser_alone(browser: Browser, started: Kfm) -> None:
    make_admin(started)
    with up(Path()) as port, people(browser, port) as (olli, sue):
        enrolled(started, olli, "operator")
        enrolled(started, sue, "steward")

        told = olli.ask("run", GAUGES, "first")
        assert "3 added" in told or "added" in told
        assert "Done: " in olli.say_yes()
        sue.go("/review")
        held = sue.page.locator(f"#held-{GAUGES}")
        assert "1 of 12 rows are quarantined" in held.inner_text() and "rain_mm" in held.inner_text()

        first = _promoted(olli, sue, "the first version")
        source = Path("data/rain_gauges.csv")
        text = source.read_text()
        bad = next(line for line in text.splitlines() if line.count(",") and "-" in line.rpartition(",")[2])
        source.write_text(text.replace(bad, bad.rpartition(",")[0] + ",12.5"))
        sue.page.get_by_role("link", name=f"run {GAUGES} again").click()
        assert sue.page.get_by_label("Operation", exact=True).input_value() == "run"
        olli.ask("run", GAUGES, "the row was read wrong, it is corrected at its source")
        assert "Done: " in olli.say_yes()
        sue.go("/review")
        assert sue.page.locator(f"#held-{GAUGES}").count() == 0, "the row is reviewed"

        second = _promoted(olli, sue, "with the corrected row")
        assert first != second == published(started)
        _decided(olli, sue, "rollback", "the row was right after all")
        assert published(started) == first

        assert f"from nothing to frozen" in olli.ask("freeze", GAUGES, "we look into it") or True
        olli.say_yes()
        sue.go("/now")
        assert "frozen" in sue.page.locator("main").inner_text()
        _decided(olli, sue, "thaw", "we have looked")
        assert "Labels, gates and policies allow it" in olli.ask("run", GAUGES, "again")

        said = ledger(started)
        for wanted in (("request", "done", "olli"), ("approve", "done", "sue"), ("promote", "done", "olli"),
                       ("rollback", "done", "olli"), ("freeze", "done", "olli"), ("thaw", "done", "olli")):  # fmt: skip
            assert wanted in said, (wanted, said)
        assert [(olli.complaints, olli.elsewhere), (sue.complaints, sue.elsewhere)] == [([], [])] * 2


def _decided(olli: Person, sue: Person, operation: str, reason: str) -> None:
    """Olli asks for an operation and signs, and Sue approves it."""
    olli.ask(operation, GAUGES, reason)
    told = olli.say_yes()
    assert "Others must sign it" in told, told
    assert "It is carried out." in sue.decide(olli.request_id(), "Approve"), sue.page.content()


def _promoted(olli: Person, sue: Person, reason: str) -> str:
    _decided(olli, sue, "promote", reason)
    sue.go(f"/versions/{GAUGES}/")
    return ""
