"""The answer about who asks, and what a caller sends to sign in."""

from __future__ import annotations

from kfm.model.records import Record


class Me(Record, frozen=True):
    """Who asks, as the server understood the request."""

    person: str  # of the key list; empty: nobody by name
    role: str  # public, single, viewer, operator, steward or admin
    until: str  # when the token ends; empty: without a token
    ledger_entries: int
    csrf: str = ""  # what a change has to carry as KFM-CSRF; empty: nothing


class SignIn(Record, frozen=True):
    """A token that a browser keeps as a cookie from then on."""

    token: str


class SignInForm(Record, frozen=True):
    """The same, from a form."""

    token: str
    csrf: str = ""


class SignOutForm(Record, frozen=True):
    """What the button for signing out sends."""

    csrf: str = ""
