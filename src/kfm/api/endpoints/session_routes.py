"""The routes for signing in and out in a browser: a token becomes a cookie, and the role is that of each request."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from kfm.api.console.sign_in_page import sign_in_page, signed_in_page
from kfm.api.csrf import csrf_of
from kfm.api.endpoints.run_routes import around
from kfm.api.forms import form_of, record_of
from kfm.api.problems import HttpProblem, not_found
from kfm.api.routes import FORM, HTML, JSON, Answer, ApiRoute, Call, Parameter, View
from kfm.api.session_cookie import RETURN, bind_cookie, binding_of, clear_cookie, set_cookie
from kfm.app.authority.token_holders import Holder, holder_named, holder_of_token, seconds_until
from kfm.app.serving.access_answers import Me, SignIn, SignInForm, SignOutForm
from kfm.app.sign_in.provider import settings_of
from kfm.app.sign_in.sign_ins import SECONDS_TO_RETURN
from kfm.errors import Denied, KfmError

if TYPE_CHECKING:
    from kfm.app.sign_in.provider import ProviderSettings
    from kfm.app.sign_in.sign_ins import Begun, Identity, SignIns

_UNKNOWN = "this token is not valid; `kfm token list` says which are"


def _me(view: View) -> Me:
    return Me(view.person, view.audience, view.until, view.entries, view.csrf)


def _cookie(view: View, call: Call, token: str, holder: Holder) -> tuple[str, str]:
    return set_cookie(token, seconds_until(view.session, holder.until), is_secure=call.is_secure)


def _page(view: View, problem: str = "", status: int = 200) -> Answer:
    settings = settings_of(view.session)
    body = sign_in_page(_me(view), around(view), problem, settings.host if settings is not None else "")
    return Answer(body, HTML, status, (_NOT_KEPT,))


def _ended(view: View, call: Call) -> None:
    """End the session that the browser had."""
    if view.sign_ins is not None:
        view.sign_ins.end(call.credential)


def sign_in(view: View, call: Call) -> Answer:
    token = record_of(call.body, SignIn).token.strip()
    holder = holder_of_token(view.session, token)
    if holder is None:
        raise HttpProblem(401, _UNKNOWN, "token.invalid")
    _ended(view, call)
    me = Me(holder.person, holder.role, holder.until, view.entries, csrf_of(token.encode()))
    return Answer(me, headers=(_cookie(view, call, token, holder), _NOT_KEPT))


def sign_out(view: View, call: Call) -> Answer:
    """End the sign-in of a browser. A token stays valid until it ends or is revoked."""
    _ended(view, call)
    return Answer(Me("", "public", "", view.entries), headers=(clear_cookie(is_secure=call.is_secure), _NOT_KEPT))


def sign_in_form(view: View, _call: Call) -> Answer:
    return _page(view)


def signed_in_by_form(view: View, call: Call) -> Answer:
    token = form_of(call.body).get("token", "").strip()
    holder = holder_of_token(view.session, token)
    if holder is None:
        return _page(view, _UNKNOWN, 401)
    _ended(view, call)
    return _to("/", _cookie(view, call, token, holder))


def signed_out_by_form(view: View, call: Call) -> Answer:
    _ended(view, call)
    return _to("/sign-in", clear_cookie(is_secure=call.is_secure))


class Failed(NamedTuple):
    """Why nobody was signed in."""

    status: int
    words: str


def asks_to_begin(sign_ins: SignIns, settings: ProviderSettings | None, call: Call) -> Begun | Failed:
    if settings is None:
        raise not_found()
    scheme = "https" if call.is_secure else "http"
    try:
        return sign_ins.begin(settings, f"{scheme}://{call.base.partition('://')[2]}{RETURN}")
    except KfmError as problem:
        return _failed(problem)


def asks_to_finish(sign_ins: SignIns, settings: ProviderSettings | None, call: Call) -> Identity | Failed:
    if settings is None:
        raise not_found()
    try:
        return sign_ins.finish(settings, call.given, binding_of(call.headers.get("cookie", "")))
    except KfmError as problem:
        return _failed(problem)


def _failed(problem: KfmError) -> Failed:
    """Return an error for people. One that is not about the sign-in itself goes to the operator, too."""
    if isinstance(problem, Denied) and "reason" in problem.fields:
        return Failed(403, str(problem))
    _log.error("the sign-in provider: %s", problem)
    return Failed(503, "the sign-in provider does not answer as it should; try again later, or sign in with a token")


def begun(view: View, call: Call) -> Answer:
    found = call.asked
    if isinstance(found, Failed):
        return _page(view, found.words, found.status)
    cookie = bind_cookie(found.cookie, int(SECONDS_TO_RETURN), is_secure=call.is_secure)
    return _to(found.address, cookie)


def returned(view: View, call: Call) -> Answer:
    """Sign in the person of the key list whom the provider named. No other person is known."""
    found = call.asked
    if isinstance(found, Failed):
        return _page(view, found.words, found.status)._replace(headers=(_NOT_KEPT, _UNNAMED))
    holder = holder_named(view.session, found.granted.person)
    if holder is None or view.sign_ins is None:
        return _page(view, _NOBODY, 403)._replace(headers=(_NOT_KEPT, _UNNAMED))
    _ended(view, call)
    session_id, made = view.sign_ins.open(found, holder.person)
    seconds = int(made.ends - view.sign_ins.clock.monotonic())
    cookie = set_cookie(session_id, seconds, is_secure=call.is_secure)
    headers = (_NOT_KEPT, _UNNAMED, ("Refresh", "0; url=/"), cookie)
    return Answer(signed_in_page(holder.person, around(view)), HTML, headers=headers)


def _to(address: str, *headers: tuple[str, str]) -> Answer:
    return Answer(b"", HTML, 303, (("Location", address), _NOT_KEPT, *headers))


_NOT_KEPT = ("Cache-Control", "no-store")
_UNNAMED = ("Referrer-Policy", "no-referrer")  # the address holds a code
_NOBODY = "the key list has no person with a valid key by the name that the provider gave; ask an admin for one"
_log = logging.getLogger("uvicorn.error")
# A provider may add parameters; they are not looked at.
_RETURNED = (
    Parameter("code", "what the provider gives for a sign-in, once"),
    Parameter("state", "which sign-in it belongs to"),
    Parameter("iss", "the provider"),
    Parameter("error", "why the provider signed nobody in"),
)
ROUTES = (
    ApiRoute(
        "POST", "/v1/session", "signIn", "Sign in with a token: it becomes a cookie", sign_in, Me, tag="sign-in",
        body=JSON, takes=SignIn, changes=True, for_strangers=True,
    ),
    ApiRoute(
        "DELETE", "/v1/session", "signOut", "Sign out: the cookie is cleared", sign_out, Me, tag="sign-in",
        changes=True, for_strangers=True,
    ),
    ApiRoute(
        "GET", "/sign-in", "signInPage", "The page for signing in and out", sign_in_form, media=HTML, tag="sign-in",
        for_strangers=True,
    ),
    ApiRoute(
        "POST", "/sign-in", "signInForm", "Sign in with the form of that page", signed_in_by_form, media=HTML,
        tag="sign-in", body=FORM, takes=SignInForm, successes=(303,), changes=True, for_strangers=True,
    ),
    ApiRoute(
        "GET", "/sign-in/start", "signInStart", "Go to the provider of `sign_in` in kfm.yml", begun, media=HTML,
        tag="sign-in", successes=(303,), problems=(400, 403, 404), for_strangers=True, asks=asks_to_begin,
    ),
    ApiRoute(
        "GET", RETURN, "signInReturn", "Where that provider sends the browser back to", returned, media=HTML,
        parameters=_RETURNED, tag="sign-in", problems=(400, 403, 404), free_query=True, for_strangers=True,
        asks=asks_to_finish,
    ),
    ApiRoute(
        "POST", "/sign-out", "signOutForm", "Sign out with the button of that page", signed_out_by_form, media=HTML,
        tag="sign-in", body=FORM, takes=SignOutForm, successes=(303,), changes=True, for_strangers=True,
    ),
)  # fmt: skip
