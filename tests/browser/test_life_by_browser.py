"""The life of a dataset by browser alone: a run, a quarantined row reviewed, two people who sign in two browsers,
promotions, a rollback, a freeze and a thaw. And what is refused: a login alone, a replay, a changed request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kfm.crypto.approvals import ApprovalRequest
from tests.api.console_server import console
from tests.api.test_up_serves import up
from tests.browser.chromium import chromium, violations
from tests.browser.signers import Person, enrolled, ledger, make_admin
from tests.browser.test_console import NARROW
from tests.cli.conftest import Kfm, done, kfm, plain_environment, ran, started

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

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


def test_one_person_signs_another_approves_and_only_then_exactly_that_is_published(browser: Browser, ran: Kfm) -> None:
    version = published(ran)
    done(ran("rollback", GAUGES, "--to", "nothing", "--reason", "a doubt"))
    make_admin(ran)
    with console() as server, people(browser, server.port) as (olli, sue):
        enrolled(ran, olli, "operator")
        enrolled(ran, sue, "steward")
        told = olli.ask("promote", GAUGES, "the doubt is gone", to=version)
        assert f"What the public sees of {GAUGES}: from nothing to {version}" in told
        assert "Digest that is signed" in told and "one steward (sue)" in told
        with olli.changed("**/v1/operations", '"purpose":"the doubt is gone"', '"purpose":"the doubt is gonE"') as sent:
            olli.press("Yes, sign and send it")
            olli.page.get_by_text("That did not work").wait_for()
        assert len(sent) == 1 and "signature" in olli.told
        assert ledger(ran)[-1] == ("promote", "denied", "olli")
        assert ["403" in said for said in olli.complaints] == [True], "the browser itself notes the refusal"
        olli.complaints.clear()
        count = len(olli.posts)
        olli.page.get_by_role("button", name="Yes, sign and send it").dblclick()
        carry_out(ran, olli.page.locator("#operation"))  # by hand: no `kfm up` runs
        assert len(olli.posts) == count + 1, "pressed twice and sent once"
        olli.page.get_by_text("Others must sign it").wait_for()
        place = sue.look(olli.request_id())
        assert "the doubt is gone" in place.inner_text() and version in place.inner_text()
        place.get_by_role("button", name="Approve").press("Enter")
        assert published(ran) == ""
        carry_out(ran, place)
        place.get_by_text("It is carried out").wait_for()
        assert published(ran) == version
        for person in (olli, sue):
            assert (person.complaints, person.elsewhere) == ([], [])


def carry_out(kfm: Kfm, place: Locator) -> None:
    """Type the command that the page names for what waits there."""
    place.get_by_text("kfm triggers retry").wait_for()
    done(kfm("triggers", "retry", place.inner_text().partition("kfm triggers retry ")[2].partition("`")[0]))


@pytest.mark.long
def test_a_dataset_lives_by_browser_alone(browser: Browser, started: Kfm) -> None:
    config = Path("kfm.yml")
    yearly = "rain-gauges:\n    schedule: {cadence: annual, at: '02:30'}"  # so that it is not run as it is polled
    config.write_text(config.read_text().replace("rain-gauges:", yearly, 1))
    make_admin(started)
    with up(Path()) as port, people(browser, port) as (olli, sue):
        enrolled(started, olli, "operator")
        enrolled(started, sue, "steward")

        told = olli.ask("run", GAUGES, "first")
        assert "Keys: 3 added" in told
        assert "Done: " in olli.say_yes()
        sue.go("/review")
        held = sue.page.locator(f"#held-{GAUGES}")
        assert "1 of 12 rows are quarantined" in held.inner_text() and "rain_mm" in held.inner_text()

        _decided(olli, sue, "promote", "the first version")
        first = published(started)
        source = Path("data/rain_gauges.csv")
        text = source.read_text()
        bad = next(line for line in text.splitlines() if line.count(",") and "-" in line.rpartition(",")[2])
        source.write_text(text.replace(bad, bad.rpartition(",")[0] + ",12.5"))
        sue.page.get_by_role("link", name=f"run {GAUGES} again").click()
        assert sue.page.locator("[name=operation]").input_value() == "run"
        olli.ask("run", GAUGES, "the row was read wrong, it is corrected at its source")
        assert "Done: " in olli.say_yes()
        sue.go("/review")
        assert sue.page.locator(f"#held-{GAUGES}").count() == 0, "the row is reviewed"

        _decided(olli, sue, "promote", "with the corrected row")
        assert published(started) not in ("", first)
        _decided(olli, sue, "rollback", "the row was right after all")
        assert published(started) == first

        olli.ask("freeze", GAUGES, "we look into it")
        assert "Done: " in olli.say_yes()
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


@pytest.mark.long
def test_a_sign_in_alone_a_replay_and_another_persons_signature_are_refused_and_in_the_ledger(
    browser: Browser, ran: Kfm
) -> None:
    version = published(ran)
    done(ran("rollback", GAUGES, "--to", "nothing", "--reason", "a doubt"))
    make_admin(ran)
    with console() as server, people(browser, server.port) as (olli, sue):
        enrolled(ran, olli, "operator")
        enrolled(ran, sue, "steward")
        olli.ask("promote", GAUGES, "the doubt is gone", to=version)
        olli.press("Yes, sign and send it")
        carry_out(ran, olli.page.locator("#operation"))
        olli.page.get_by_text("Others must sign it").wait_for()
        order, post = olli.request_id(), olli.posts[-1]
        assert "idempotency-key" in post[1]
        before = ledger(ran)
        assert olli.again(post)[0] == 202, "the same request with the same key is the same one"
        assert ledger(ran) == before
        sue.go("/review")
        alone = {name: value for name, value in json.loads(post[2]).items() if name != "signed"}
        refused = [
            (olli.again(post, idempotency_key="another"), "request.open"),
            (olli.again((post[0], post[1], json.dumps(alone)), idempotency_key="alone"), "signature.missing"),
            (sue.again(post, idempotency_key="sue", kfm_csrf=csrf(sue)), "signature.person"),
        ]
        assert [(status, said["code"]) for (status, said), _ in refused] == [(403, code) for _, code in refused]
        denied = [("promote", "denied", "olli")] * 2 + [("promote", "denied", "sue")]
        assert ledger(ran)[len(before) :] == denied
        before = ledger(ran)
        assert olli.again(post, kfm_csrf="", idempotency_key="forged")[1]["code"] == "csrf"
        assert ledger(ran) == before, "what a stranger may have sent is no act of olli's"

        approved(sue, order)
        carry_out(ran, sue.page.locator(f'[data-request="{order}"]'))
        sue.page.get_by_text("It is carried out").wait_for()
        assert published(ran) == version
        before = ledger(ran)
        status, said = sue.again(sue.posts[-1], idempotency_key="approve it once more")
        assert (status, said["code"]) == (403, "request.used")
        assert ledger(ran)[len(before) :] == [("approve", "denied", "sue")] and published(ran) == version
        olli.go("/ledger")
        assert olli.page.get_by_text("denied", exact=True).count() >= 4


def csrf(person: Person) -> str:
    return person.page.locator('meta[name="kfm-csrf"]').get_attribute("content") or ""


def approved(person: Person, order: str) -> None:
    person.look(order).get_by_role("button", name="Approve").press("Enter")


@pytest.mark.long
def test_a_browser_signs_nothing_but_what_it_shows(browser: Browser, ran: Kfm) -> None:
    version = published(ran)
    done(ran("rollback", GAUGES, "--to", "nothing", "--reason", "a doubt"))
    make_admin(ran)
    with console() as server, people(browser, server.port) as (olli, sue):
        enrolled(ran, olli, "operator")
        enrolled(ran, sue, "steward")
        olli.ask("promote", GAUGES, "the doubt is gone", to=version)
        olli.press("Yes, sign and send it")
        carry_out(ran, olli.page.locator("#operation"))
        olli.page.get_by_text("Others must sign it").wait_for()
        order = olli.request_id()
        address = f"**/v1/requests/{order}"
        found = sue.page.request.get(f"{sue.url}/v1/requests/{order}").json()
        other = {**found["request"], "purpose": "nothing to see"}
        altered = msgspec.convert(other, ApprovalRequest).digest
        for answer, why in (
            ({**found, "request": other}, "nothing is signed"),
            ({**found, "request": other, "digest": altered}, "not the request that this page lists"),
        ):
            sue.page.route(address, lambda route, *, sent=answer: route.fulfill(json=sent))
            before = len(sue.posts)
            place = sue.look(order)
            assert why in place.inner_text() and "nothing to see" not in place.inner_text()
            assert place.get_by_role("button", name="Approve").count() == 0 and len(sue.posts) == before
            sue.page.unroute(address)
        sue.page.route(f"{address}/approve", lambda route: (route.fetch(), route.abort()))
        place = sue.look(order)
        place.get_by_role("button", name="Approve").press("Enter")
        place.get_by_text("It is not known whether this arrived").wait_for()
        sue.page.unroute(f"{address}/approve")
        place.get_by_role("button", name="Send it again").press("Enter")
        carry_out(ran, place)
        place.get_by_text("It is carried out").wait_for()
        assert published(ran) == version
        assert ledger(ran).count(("approve", "done", "sue")) == 1 and ("approve", "denied", "sue") not in ledger(ran)


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_readable_on_a_phone_while_people_ask_and_decide(browser: Browser, ran: Kfm, scheme: str) -> None:
    version = published(ran)
    done(ran("rollback", GAUGES, "--to", "nothing", "--reason", "a doubt"))
    make_admin(ran)
    how = {"color_scheme": scheme, "viewport": NARROW, "bypass_csp": True}
    with console() as server, people(browser, server.port, **how) as (olli, sue):

        def is_readable(person: Person) -> None:
            page = person.page
            assert violations(page) == [], person.told if page.locator("#operation").count() else page.url
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]

        enrolled(ran, olli, "operator")
        olli.go("/my-key")
        olli.page.get_by_text("This browser has a key").wait_for()
        is_readable(olli)
        olli.press("Remove this key")
        is_readable(olli)
        enrolled(ran, sue, "steward")
        olli.ask("promote", GAUGES, "the doubt is gone", to=version)
        is_readable(olli)
        olli.press("Yes, sign and send it")
        place = olli.page.locator("#operation")
        place.get_by_text("kfm triggers retry").wait_for()
        assert olli.page.evaluate("document.activeElement.id") == "operation", (
            "the keyboard stays where the page changes"
        )
        is_readable(olli)
        carry_out(ran, place)
        olli.page.get_by_text("Others must sign it").wait_for()
        is_readable(olli)
        sue.look(olli.request_id())
        is_readable(sue)
        assert sue.page.locator("h1").count() == olli.page.locator("h1").count() == 1
