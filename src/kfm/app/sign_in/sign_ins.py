"""Sign-ins that this process knows: those that were begun, and the sessions of people who are signed in.

Nothing is stored: after a restart one signs in again. A session is an opaque random id in a cookie. The server keeps
the SHA-256 of it, the person, and the access token with which it asks the provider whether the sign-in still holds.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from kfm.app.sign_in.provider import Granted, Provider, ProviderSettings
from kfm.clock import Clock, SystemClock, rfc3339
from kfm.errors import Denied, KfmError, Unavailable
from kfm.model.secret import Secret

MOST_BEGUN, SECONDS_TO_RETURN = 10_000, 600.0
MOST_SESSIONS = 10_000
SECONDS_BELIEVED = 5.0  # for so long the provider's last answer about a session counts
PREFIX = "session:"  # of the names of sessions, so that none is the digest of a token
_MOST_CODE = 4096


class Begun(NamedTuple):
    """Where a browser goes to sign in, and the cookie that binds the sign-in to it."""

    address: str
    cookie: str


class Identity(NamedTuple):
    """A person as the provider named one who has just signed in."""

    provider: Provider
    granted: Granted


class SignedIn(NamedTuple):
    """A session."""

    provider: Provider
    person: str
    subject: str
    access_token: Secret
    ends: float  # monotonic
    until: str
    believed: float  # when the provider was last asked and said yes; monotonic


class _Pending(NamedTuple):
    provider: Provider
    browser: str  # SHA-256 of the cookie
    nonce: str
    verifier: str
    redirect: str
    ends: float


def name_of(cookie: str) -> str:
    """Return the name of the session that a cookie holds the id of."""
    return PREFIX + _digest(cookie)


class SignIns:
    """Keeps the sign-ins of one server. Threads share it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self._own = threading.Lock()
        self._provider: Provider | None = None
        self._begun: OrderedDict[str, _Pending] = OrderedDict()
        self._sessions: OrderedDict[str, SignedIn] = OrderedDict()
        self._unanswered: dict[str, float] = {}  # when the provider last did not say whether a session holds

    def begin(self, settings: ProviderSettings, redirect: str) -> Begun:
        """Begin a sign-in. Unavailable if the provider does not answer."""
        provider = self._provider_of(settings)
        state, nonce, verifier, cookie = (secrets.token_urlsafe(32) for _ in range(4))
        address = provider.address(redirect, state, nonce, verifier)
        now = self.clock.monotonic()
        pending = _Pending(provider, _digest(cookie), nonce, verifier, redirect, now + SECONDS_TO_RETURN)
        with self._own:
            self._begun[state] = pending
            while len(self._begun) > MOST_BEGUN or next(iter(self._begun.values())).ends <= now:
                self._begun.popitem(last=False)
        return Begun(address, cookie)

    def finish(self, settings: ProviderSettings, returned: Mapping[str, str], cookie: str) -> Identity:
        """Return whom the provider names in the answer that a browser brings back. Denied if one check fails: then it
        has to begin anew, because an answer counts once."""
        with self._own:
            pending = self._begun.pop(returned.get("state", ""), None)
        if pending is None or pending.ends <= self.clock.monotonic():
            raise _refused("state", "it belongs to no sign-in of this server, or came too late, or a second time")
        if not cookie or not hmac.compare_digest(_digest(cookie), pending.browser):
            raise _refused("browser", "another browser began this sign-in")
        provider = pending.provider
        if provider.settings.who != settings.who:
            raise _refused("settings", "kfm.yml has changed meanwhile")
        named = returned.get("iss", "" if provider.metadata().names_itself else settings.issuer)
        if named != settings.issuer:
            raise _refused("issuer", "it comes from another provider")
        code = returned.get("code", "")
        if "error" in returned or not 0 < len(code) <= _MOST_CODE:
            raise _refused("error", "the provider signed nobody in")
        return Identity(provider, provider.exchange(code, pending.redirect, pending.nonce, pending.verifier))

    def open(self, identity: Identity, person: str) -> tuple[str, SignedIn]:
        """Open a session for a person of the key list. Return its id, which goes into the cookie, and the session."""
        provider, granted = identity
        hours = provider.settings.hours * 3600.0
        lasts = hours if granted.lasts_s is None else max(0.0, min(hours, granted.lasts_s))
        now = self.clock.monotonic()
        until = rfc3339(self.clock.now_ms() + round(lasts * 1000))
        session_id = secrets.token_urlsafe(32)
        made = SignedIn(provider, person, granted.subject, granted.access_token, now + lasts, until, now)
        with self._own:
            self._sessions[name_of(session_id)] = made
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return session_id, made

    def end(self, name: str) -> None:
        with self._own:
            self._sessions.pop(name, None)
            self._unanswered.pop(name, None)

    def find(self, name: str, settings: ProviderSettings | None) -> SignedIn | None:
        """Return a session that has not ended, under the provider of kfm.yml; None if there is none."""
        found = self._sessions.get(name)
        if found is None:
            return None
        if found.ends <= self.clock.monotonic() or settings is None or settings.who != found.provider.settings.who:
            self.end(name)
            return None
        return found

    def is_believed(self, name: str) -> bool:
        """Return whether the provider need not be asked about a session now: it said yes a moment ago, or there is no
        such session."""
        found = self._sessions.get(name)
        return found is None or self.clock.monotonic() - found.believed < SECONDS_BELIEVED

    def confirm(self, name: str) -> None:
        """Ask the provider whether a session still holds, unless it said so a moment ago, and end it if not.
        Unavailable if the provider does not say it: then nothing is shown."""
        found = self._sessions.get(name)
        if found is None or self.is_believed(name):
            return
        now = self.clock.monotonic()
        if now - self._unanswered.get(name, now - SECONDS_BELIEVED) < SECONDS_BELIEVED:
            raise _unsaid()
        try:
            holds = found.provider.still_grants(found.subject, found.access_token)
        except KfmError as problem:
            with self._own:
                if name in self._sessions:
                    self._unanswered[name] = now
            raise _unsaid() from problem
        with self._own:
            self._unanswered.pop(name, None)
            if not holds:
                self._sessions.pop(name, None)
            elif name in self._sessions:
                self._sessions[name] = found._replace(believed=now)

    def _provider_of(self, settings: ProviderSettings) -> Provider:
        """Return the provider of kfm.yml, with what is remembered of it."""
        with self._own:
            if self._provider is None or self._provider.settings[:7] != settings[:7]:
                self._provider = Provider(settings, self.clock)
            return self._provider


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _refused(reason: str, words: str) -> Denied:
    return Denied(f"the provider's answer was refused: {words}", hint="sign in again", reason=reason)


def _unsaid() -> Unavailable:
    return Unavailable(
        "the sign-in provider does not say whether your sign-in still holds", hint="try again, or sign out at /sign-in"
    )
