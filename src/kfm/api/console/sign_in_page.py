"""The page on which people sign in and out. It works without script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from kfm.api.console.frame import Around, console_page, page
from kfm.api.console.parts import json_link, section
from kfm.projections.pages.page_style import time_tag

if TYPE_CHECKING:
    from kfm.app.serving.access_answers import Me


def sign_in_page(me: Me, around: Around, problem: str = "", provider: str = "") -> bytes:
    """Return the page for this caller. `problem` says why nobody was signed in; `provider` is the host of one."""

    def inside() -> Iterator[str]:
        if problem:
            yield f'<p class="check bad" role="alert">{escape(problem)}</p>'
        if me.person:
            yield from _signed_in(me)
        elif me.role == "single":
            yield from _alone()
        else:
            yield from _with_provider(provider) if provider else ()
            yield from _with_token(me)
        yield '<p>With a <a href="/my-key">key of this browser</a> you sign what is decided.</p>'
        yield json_link("/v1/me")

    lead = '<p class="lead">A sign-in lets you look and ask. What is decided is signed with your key.</p>'
    return console_page("Sign in", around, list(inside()), "/sign-in", lead=lead)


def _signed_in(me: Me) -> Iterator[str]:
    until = f", until {time_tag(me.until, clock=True)}" if me.until else ""
    yield f"<p>You are signed in as <strong>{escape(me.person)}</strong>, {escape(me.role)}{until}.</p>"
    yield '<form class="choose" method="post" action="/sign-out">'
    yield f'<input type="hidden" name="csrf" value="{escape(me.csrf)}"><button>Sign out</button></form>'


def _alone() -> Iterator[str]:
    yield "<p>This installation has no key list. You are its one user, and nobody signs in.</p>"
    yield "<p>A list is made with <code>kfm keys new --person NAME --role admin</code>.</p>"


def signed_in_page(person: str, around: Around) -> bytes:
    """Return the page between the provider and the console. A cookie that no other site sends does not come with the
    request that another site caused, so the browser has to ask once more."""
    body = [f"<p>You are signed in as <strong>{escape(person)}</strong>.</p>", '<p><a href="/">Go on</a></p>']
    return console_page("Signed in", around, body)


def ended_page(words: str) -> bytes:
    """Return the page for a browser whose sign-in gives nothing any more, wherever it was."""
    body = ['<div class="in one">', "<h1>Signed out</h1>", f'<p class="lead">{escape(words)}.</p>']
    return page("Signed out", "Archive", [*body, '<p><a class="get" href="/sign-in">Sign in</a></p></div>'])


def _with_provider(host: str) -> Iterator[str]:
    link = f'<p><a class="get" href="/sign-in/start">Sign in with {escape(host)}</a></p>'
    yield from section("With your account", [link], "account")


def _with_token(me: Me) -> Iterator[str]:
    def form() -> Iterator[str]:
        yield '<form class="choose" method="post" action="/sign-in">'
        yield f'<input type="hidden" name="csrf" value="{escape(me.csrf)}">'
        yield '<label>Token <input type="password" name="token" autocomplete="off" required maxlength="128"></label>'
        yield "<button>Sign in</button></form>"
        yield '<p class="note"><code>kfm token new</code> makes a token for a person of the key list.</p>'

    yield from section("With a token", form(), "token")
