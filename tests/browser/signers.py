"""People who act in browsers of their own: each makes a key there, signs in with a token, asks and decides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.conftest import Kfm, done

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Route

SAFE = Path("../kept-by-people")


class Person:
    """A person and a browser. What the browser complains of, and what it asks elsewhere, is kept."""

    def __init__(self, name: str, context: BrowserContext, url: str) -> None:
        self.name = name
        self.context = context
        self.url = url
        self.page: Page = context.pages[0] if context.pages else context.new_page()
        self.page.set_default_timeout(20_000)
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        self.posts: list[tuple[str, dict[str, str], str]] = []  # address, headers and body of each change
        self.page.on("console", self._complain)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._look)

    def _complain(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _look(self, request: Any) -> None:
        if not request.url.startswith(self.url):
            self.elsewhere.append(request.url)
        if request.method == "POST":
            self.posts.append((request.url, request.all_headers(), request.post_data or ""))

    def go(self, address: str) -> None:
        self.page.goto(f"{self.url}{address}")

    def press(self, name: str) -> None:
        """Press a button by keyboard."""
        button = self.page.get_by_role("button", name=name)
        button.focus()
        self.page.keyboard.press("Enter")

    def make_key(self) -> str:
        """Make a key, and return its public half."""
        self.go("/my-key")
        self.press("Make a key")
        self.page.get_by_text("This browser has a key").wait_for()
        return self.page.locator("#own-key dd").nth(1).inner_text()

    def sign_in(self, token: str) -> None:
        self.go("/sign-in")
        self.page.get_by_label("Token").fill(token)
        self.press("Sign in")
        self.page.get_by_role("link", name=f"{self.name} (").wait_for()

    def ask(self, operation: str, dataset: str, reason: str, **fields: str) -> str:
        """Ask what an operation would do, and return what the page says."""
        self.go("/operations")
        self.page.locator("[name=operation]").select_option(operation)
        self.page.locator("[name=dataset]").select_option(dataset)
        self.page.get_by_label("Reason").fill(reason)
        for name, value in fields.items():
            field = self.page.locator(f"#operation-form [name={name}]")
            (field.select_option if name == "level" else field.fill)(value)
        self.press("Show what would happen")
        self.page.get_by_text(
            re.compile("It would be refused|Labels, gates and policies allow|did not work")
        ).wait_for()
        return self.told

    @property
    def told(self) -> str:
        return self.page.locator("#operation").inner_text()

    def say_yes(self) -> str:
        """Press the button that sends, wait until it has ended, and return what the page says."""
        self.press("Yes, ")
        self.page.get_by_text(re.compile(r"Done: |It was not done|did not work")).first.wait_for()
        self.page.wait_for_load_state("networkidle")
        return self.told

    def request_id(self) -> str:
        link = self.page.get_by_role("link", name="change request")
        return (link.get_attribute("href") or "").rpartition("#")[2]

    def decide(self, request: str, button: str, reason: str = "") -> str:
        """Look at a change request, sign what the button says, and return what the page says then."""
        place = self.look(request)
        if reason:
            place.get_by_label("Reason").fill(reason)
        place.get_by_role("button", name=button).press("Enter")
        place.get_by_text(re.compile(r"Others must|It is carried|It is rejected|did not work")).first.wait_for()
        found: str = place.inner_text()
        return found

    def look(self, request: str) -> Any:
        self.go("/review")
        place = self.page.locator(f'[data-request="{request}"]')
        place.get_by_role("button", name="Look at it and decide").press("Enter")
        place.get_by_text(re.compile("exact request|did not work|cannot be signed")).first.wait_for()
        return place

    @contextmanager
    def changed(self, address: str, old: str, new: str) -> Iterator[list[str]]:
        """Alter what this browser sends to an address, as somebody between it and the server would; yields what was
        altered."""
        altered: list[str] = []

        def alter(route: Route) -> None:
            body = route.request.post_data or ""
            if route.request.method == "POST" and '"signature"' in body:
                assert old in body, (old, body)
                altered.append(body)
                route.continue_(post_data=body.replace(old, new, 1))
            else:
                route.continue_()

        self.page.route(address, alter)
        try:
            yield altered
        finally:
            self.page.unroute(address)

    def again(self, post: tuple[str, dict[str, str], str], **headers: str) -> tuple[int, Any]:
        """Send a recorded change once more, from this browser, with the cookie that it has now."""
        address, sent, body = post
        kept = {name: sent[name] for name in ("content-type", "kfm-csrf", "idempotency-key") if name in sent}
        found = self.page.evaluate(
            """async ([address, headers, body]) => {
                 const answer = await fetch(address, { method: "POST", headers, body });
                 return [answer.status, await answer.json()];
               }""",
            [address, kept | {name.replace("_", "-"): value for name, value in headers.items()}, body],
        )
        return found[0], found[1]


def make_admin(kfm: Kfm) -> None:
    """The first key of a list, whose admin types commands."""
    SAFE.mkdir(mode=0o700, exist_ok=True)
    done(kfm("keys", "new", "--person", "ada", "--role", "admin", "--out", str(SAFE / "ada.key")))


def enrolled(kfm: Kfm, person: Person, role: str) -> None:
    """The person makes a key in the browser, an admin lists it and makes a token, and the person signs in."""
    public, signed = person.make_key(), ("--key", str(SAFE / "ada.key"))
    done(kfm("keys", "new", "--person", person.name, "--role", role, "--public", public, *signed))
    made = kfm("token", "new", "--person", person.name, *signed)
    assert made.code == 0, made.err
    person.sign_in(made.out.split()[0])


def ledger(kfm: Kfm) -> list[tuple[str, str, str]]:
    """Operation, outcome and person of every entry, the oldest first."""
    rows = kfm("runs", "receipts", "--limit", "0", "--json").data
    found = [kfm("runs", "receipt", row["run_id"], "--json").data for row in reversed(rows)]
    return [(each["job_type"].rpartition(".")[2], each["outcome"], each["actor"]) for each in found]
