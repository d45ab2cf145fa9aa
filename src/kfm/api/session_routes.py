"""The routes for signing in and out in a browser: a token becomes a cookie, and the role is that of each request."""

from __future__ import annotations

from kfm.api.console.sign_in_page import sign_in_page
from kfm.api.csrf import csrf_of
from kfm.api.forms import form_of, record_of
from kfm.api.problems import HttpProblem
from kfm.api.routes import FORM, HTML, JSON, Answer, ApiRoute, Call, View
from kfm.api.run_routes import around
from kfm.api.session_cookie import clear_cookie, set_cookie
from kfm.app.authority.token_holders import Holder, holder_of_token, seconds_until
from kfm.app.serving.access_answers import Me, SignIn, SignInForm, SignOutForm

_UNKNOWN = "this token is not valid; `kfm token list` says which are"


def _me(view: View) -> Me:
    return Me(view.person, view.audience, view.until, view.entries, view.csrf)


def _cookie(view: View, call: Call, token: str, holder: Holder) -> tuple[str, str]:
    return set_cookie(token, seconds_until(view.session, holder.until), is_secure=call.is_secure)


def sign_in(view: View, call: Call) -> Answer:
    token = record_of(call.body, SignIn).token.strip()
    holder = holder_of_token(view.session, token)
    if holder is None:
        raise HttpProblem(401, _UNKNOWN, "token.invalid")
    me = Me(holder.person, holder.role, holder.until, view.entries, csrf_of(token.encode()))
    return Answer(me, headers=(_cookie(view, call, token, holder), _NOT_KEPT))


def sign_out(view: View, call: Call) -> Answer:
    """End the sign-in of a browser. A token stays valid until it ends or is revoked."""
    return Answer(Me("", "public", "", view.entries), headers=(clear_cookie(is_secure=call.is_secure), _NOT_KEPT))


def sign_in_form(view: View, _call: Call) -> Answer:
    return Answer(sign_in_page(_me(view), around(view)), HTML, headers=(_NOT_KEPT,))


def signed_in_by_form(view: View, call: Call) -> Answer:
    token = form_of(call.body).get("token", "").strip()
    holder = holder_of_token(view.session, token)
    if holder is None:
        return Answer(sign_in_page(_me(view), around(view), _UNKNOWN), HTML, 401, headers=(_NOT_KEPT,))
    return _to("/", _cookie(view, call, token, holder))


def signed_out_by_form(_view: View, call: Call) -> Answer:
    return _to("/sign-in", clear_cookie(is_secure=call.is_secure))


def _to(address: str, *headers: tuple[str, str]) -> Answer:
    return Answer(b"", HTML, 303, (("Location", address), _NOT_KEPT, *headers))


_NOT_KEPT = ("Cache-Control", "no-store")
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
        "POST", "/sign-out", "signOutForm", "Sign out with the button of that page", signed_out_by_form, media=HTML,
        tag="sign-in", body=FORM, takes=SignOutForm, successes=(303,), changes=True, for_strangers=True,
    ),
)  # fmt: skip
