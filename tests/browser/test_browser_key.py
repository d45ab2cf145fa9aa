"""The key that a person keeps in a browser: who can use it, what it signs, and that Python accepts exactly that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from kfm.api.console.static_files import address_of
from kfm.crypto.approvals import Act, ApprovalRequest, decide
from kfm.crypto.key_list import KeyList
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from tests.api.console_server import console
from tests.browser.chromium import chromium
from tests.browser.test_console import looking
from tests.cli.conftest import Kfm, kfm, plain_environment, ran, started
from tests.crypto.world import FIRST, KAW, NOW, T0, key, request, trusted

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["kfm", "plain_environment", "ran", "started"]

pytestmark = pytest.mark.xdist_group("chromium")
VECTORS = Path(__file__).resolve().parents[2] / "conformance" / "canonical"
AWKWARD = [
    "",
    'a "quoted" text, a back\\slash and a / slash',
    "Kaŵ Nation\u0000\u001f\u007f\u0080\ufeff\u200b\u2028",
    "e\u0301 is not \u00e9, and \U0001f33e is one character",
    "line\r\nline\ttab",
    "</script><b>&amp;",
    "\U0010ffff\ue000\uffff",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, ran: Kfm) -> Iterator[Page]:
    with console() as server, looking(browser, server) as (found, elsewhere, complaints):
        yield found
        assert (elsewhere, complaints) == ([], [])


def called(page: Page, module: str, function: str, *given: Any) -> Any:
    """What a function of a module of the console gives."""
    return page.evaluate(
        "async ([address, name, given]) => (await import(address))[name](...given)",
        [address_of(module), function, list(given)],
    )


def made(page: Page) -> str:
    """Make a key by keyboard, and return its public half."""
    page.goto("/my-key")
    button = page.get_by_role("button", name="Make a key")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_text("This browser has a key").wait_for()
    return page.locator("#own-key dd").nth(1).inner_text()


def signed(page: Page, kind: str, wanted: dict[str, Any], at: str) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(
        """async ([keys, signatures, kind, wanted, at]) => {
             const key = await (await import(keys)).ownKey();
             return (await import(signatures)).signAct(kind, JSON.parse(wanted), key, at);
           }""",
        [address_of("browser_key.js"), address_of("signature.js"), kind, json.dumps(wanted), at],
    )
    return found


def listed_with(public: str, person: str) -> KeyList:
    more = msgspec.structs.replace(key("sue", person), public=public)
    return msgspec.structs.replace(FIRST, keys=[*FIRST.keys, more])


def test_what_is_shown_is_what_is_signed_and_nothing_hides_in_it(page: Page) -> None:
    page.goto("/my-key")

    def shown(wanted: ApprovalRequest, told: str) -> str:
        return str(
            page.evaluate(
                """async ([address, request, told]) => (await import(address)).wholeRequest(request, told)
                     .then((whole) => whole.list.textContent, (problem) => `not shown: ${problem.message}`)""",
                [address_of("request_parts.js"), msgspec.to_builtins(wanted), told],
            )
        )

    wanted = request("promote", purpose="ok\u202e\u200b\u2028", params={"ref": "published/sites", "a\u2066b": ""})
    text = shown(wanted, wanted.digest)
    said = (r"ok\u{202e}\u{200b}\u{2028}", r"a\u{2066}b", "published/sites", "olli", wanted.subject, wanted.digest)
    assert all(each in text for each in said), text
    other = msgspec.structs.replace(wanted, after="sha256:" + "0" * 64)
    assert "nothing is signed" in shown(other, wanted.digest) and other.after not in shown(other, wanted.digest)


def test_python_accepts_what_a_browser_signed_and_nothing_that_was_changed_afterwards(page: Page) -> None:
    public = made(page)
    is_readable = "async (address) => (await (await import(address)).ownKey()).privateKey.extractable"
    assert page.evaluate(is_readable, address_of("browser_key.js")) is False
    keys = trusted(listed_with(public, "sue"))
    for text in AWKWARD:
        wanted = request("label.tighten", requester="sue", purpose=f"permit {text}", params={text: text, "ref": "x"})
        plain = msgspec.to_builtins(wanted)
        act = signed(page, "request", plain, NOW)
        assert called(page, "signature.js", "digestOf", plain) == wanted.digest

        def allows(about: ApprovalRequest, act: dict[str, str] = act, **how: str) -> bool:
            said = {"kind": "request", "request": about.digest, "request_id": about.id, "key": act["key"]} | how
            one = msgspec.convert({**said, "signed_at": act["at"], "signature": act["signature"]}, Act)
            return decide(about, [one], keys, now=NOW, used=()).allow

        assert allows(wanted)
        assert not allows(msgspec.structs.replace(wanted, custodian=KAW))
        assert not allows(msgspec.structs.replace(wanted, purpose=wanted.purpose + " "))
        assert not allows(wanted, kind="approve")
        assert not allows(wanted, act={**act, "at": T0})


@pytest.mark.long
def test_nothing_reads_the_private_half_and_a_second_key_does_not_replace_the_first(page: Page) -> None:
    public = made(page)
    told = page.evaluate(
        """async (address) => {
             const { ownKey, makeKey } = await import(address);
             const key = await ownKey();
             const tried = async (work) => work().then(() => "given", (problem) => problem.name);
             const formats = ["raw", "pkcs8", "jwk"];
             const found = await Promise.all(
               formats.map((form) => tried(() => crypto.subtle.exportKey(form, key.privateKey))));
             return [found, await tried(makeKey), JSON.stringify(key.privateKey), key.privateKey.extractable];
           }""",
        address_of("browser_key.js"),
    )
    assert told[0][1:] == ["InvalidAccessError"] * 2 and "given" not in told[0], told
    assert told[1:] == ["ConstraintError", "{}", False]
    page.reload()
    assert page.locator("#own-key dd").nth(1).inner_text() == public
    assert public in page.locator("#own-key pre").inner_text()


@pytest.mark.long
def test_a_key_is_removed_only_after_a_second_word(page: Page) -> None:
    made(page)
    page.get_by_role("button", name="Remove this key").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_text("This browser has a key").wait_for()
    page.get_by_role("button", name="Remove this key").click()
    page.get_by_role("button", name="Remove it for good").click()
    page.get_by_text("This browser has no key").wait_for()
    page.reload()
    page.get_by_text("This browser has no key").wait_for()


def test_a_browser_writes_the_canonical_form_of_every_vector_as_python_does(page: Page) -> None:
    page.goto("/my-key")
    values = json.loads((VECTORS / "values.json").read_text())["vectors"]
    numbers = json.loads((VECTORS / "numbers.json").read_text())["vectors"]
    refused = [one for one in json.loads((VECTORS / "refused.json").read_text())["vectors"] if "double" in one]
    texts = [one["json"] for one in values if "json" in one]
    assert len(texts) > 20 and len(numbers) > 20 and len(refused) > 2
    written = page.evaluate(
        """async ([address, texts, doubles]) => {
             const { formOf } = await import(address);
             const double = (hex) => new DataView(
               Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16)).buffer).getFloat64(0);
             const of = (value) => { try { return formOf(value); } catch (found) { return found.constructor.name; } };
             return [texts.map((text) => of(JSON.parse(text))), doubles.map((hex) => of(double(hex)))];
           }""",
        [address_of("canonical_form.js"), texts, [one["double"] for one in (*numbers, *refused)]],
    )
    assert written[0] == [one["canonical"] for one in values if "json" in one]
    assert written[1] == [one["canonical"] for one in numbers] + ["Unfit"] * len(refused)
    for text in AWKWARD:
        value = {text: [text, {"more": text, text + "!": 1.5}], "b": None}
        assert called(page, "signature.js", "digestOf", value) == digest(canonical(value))


@pytest.mark.long
def test_the_page_of_the_key_says_what_to_do_without_script(browser: Browser, ran: Kfm) -> None:
    with console() as server, looking(browser, server, java_script_enabled=False) as (page, _, _):
        page.goto("/my-key")
        assert "kfm keys new" in page.locator("main").inner_text()
