"""An OpenID Connect provider: what it says about itself, what it gives for a code, and whether it still stands by it.

Each call is bounded in time and bytes and goes to addresses that may be reached. What comes back is judged before
anything of it is used. Nothing of a code, a token or a claim is in an error.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus, urlencode

from kfm.clock import Clock
from kfm.config.openlineage_settings import address_fault
from kfm.crypto.id_tokens import MOST_KEYS, Wanted, has_key, verified_claims
from kfm.errors import BadInput, Denied, KfmError, Unavailable
from kfm.model.secret import Secret
from kfm.parsing.characters import is_printable
from kfm.parsing.strict_json import decode
from kfm.sources.http_call import HttpCaller
from kfm.sources.urls import parse

if TYPE_CHECKING:
    from kfm.app.session.session import Session

SILENCE_S, CALL_S = 4.0, 8.0  # how long a provider may be silent, and how long a call may take
MOST_ANSWER = 256 * 1024
SECONDS_OF_METADATA = 3600.0
SECONDS_BETWEEN_KEYS = 30.0  # the keys are not asked for again before, whatever tokens name
MOST_TOKEN = 32 * 1024
_JSON = {"Accept": "application/json"}
_FORM = {**_JSON, "Content-Type": "application/x-www-form-urlencoded"}


class ProviderSettings(NamedTuple):
    """The section `sign_in` of one moment."""

    issuer: str
    client_id: str
    claim: str
    scopes: tuple[str, ...]
    hours: int
    allow: tuple[str, ...]  # hosts that may be reached whatever their address
    secret: str  # its reference; empty: a client without a secret
    read_secret: Callable[[], Secret]

    @property
    def who(self) -> tuple[str, ...]:
        """What a session of another provider or client differs in."""
        return self.issuer, self.client_id, self.claim, self.secret

    @property
    def host(self) -> str:
        return parse(self.issuer).authority


class Metadata(NamedTuple):
    """What a provider says about itself, as far as it is used."""

    authorization: str
    token: str
    keys: str
    userinfo: str
    introspection: str
    secret_in_body: bool
    names_itself: bool  # its answers carry `iss` (RFC 9207)


class Granted(NamedTuple):
    """What a code was exchanged for."""

    person: str  # as the claim names it
    subject: str
    access_token: Secret
    lasts_s: float | None  # of the access token; None: it does not say


def settings_of(session: Session) -> ProviderSettings | None:
    """Return the configured provider; None without one."""
    said = session.resolved.config.sign_in
    if not said.issuer:
        return None
    here = parse(said.issuer)
    return ProviderSettings(
        issuer=said.issuer,
        client_id=said.client_id,
        claim=said.claim,
        scopes=said.scopes,
        hours=said.hours,
        allow=(*session.resolved.config.network.allow, f"{_bracketed(here.host)}:{here.port}"),
        secret=said.client_secret,
        read_secret=partial(_secret, session, said.client_secret),
    )


def _secret(session: Session, reference: str) -> Secret:
    try:
        return session.resolved.secret(reference, os.environ, shortest=1)
    except BadInput as problem:
        raise Unavailable(f"sign_in.client_secret: {problem.message}", hint=problem.hint) from None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def challenge_of(verifier: str) -> str:
    """Return the challenge of PKCE, by the method S256."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class Provider:
    """One provider. Its metadata and keys are remembered; threads share it."""

    def __init__(self, settings: ProviderSettings, clock: Clock) -> None:
        self.settings = settings
        self._clock = clock
        # Time limits are real, whatever clock says what time it is.
        self._http = HttpCaller(allow=settings.allow, timeout_s=SILENCE_S, total_s=CALL_S, most=MOST_ANSWER)
        self._own = threading.Lock()
        self._metadata: tuple[float, Metadata] | None = None
        self._keys: tuple[float, list[dict[str, Any]]] | None = None

    def metadata(self) -> Metadata:
        """Return what the provider says about itself, for at most an hour. Denied if it is not the provider of kfm.yml
        or lacks what is needed."""
        now = self._clock.monotonic()
        if self._metadata is not None and now - self._metadata[0] < SECONDS_OF_METADATA:
            return self._metadata[1]
        address = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = self._checked(self._answer("GET", address, _JSON))
        self._metadata = (now, found)
        return found

    def address(self, redirect: str, state: str, nonce: str, verifier: str) -> str:
        """Return where a browser goes to sign in."""
        said = self.settings
        query = {
            "response_type": "code",
            "client_id": said.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(said.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        found = self.metadata().authorization
        return f"{found}{'&' if '?' in found else '?'}{urlencode(query)}"

    def exchange(self, code: str, redirect: str, nonce: str, verifier: str) -> Granted:
        """Return what the provider gives for a code. Denied if it does not take the code, or if one check of what it
        gives fails."""
        said, known = self.settings, self.metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
        }
        status, given = self._posted(known.token, form)
        if status != 200:
            raise _refused("code", "the provider did not take its code; it counts once, and not for long")
        access, token = _token(given, "access_token"), _token(given, "id_token")
        if str(given.get("token_type")).lower() != "bearer":
            raise _refused("tokens", "its access token is of an unknown type")
        wanted = Wanted(said.issuer, said.client_id, nonce, self._clock.now_ms() / 1000, access)
        claims = verified_claims(token, self._keys_for(token), wanted)
        secret = Secret(access.encode())
        if said.claim not in claims:
            claims = {**self._userinfo(known, secret, claims["sub"]), **claims}
        return Granted(_person(claims, said.claim), claims["sub"], secret, _seconds(given.get("expires_in")))

    def still_grants(self, subject: str, access_token: Secret) -> bool:
        """Ask the provider whether an access token still counts. It says so by introspection (RFC 7662) if the client
        has a secret, else by answering with the claims of its person."""
        known, said = self.metadata(), self.settings
        if known.introspection and said.secret:
            form = {"token": access_token.reveal().decode(), "token_type_hint": "access_token"}
            status, found = self._posted(known.introspection, form)
            if status != 200:
                raise Unavailable("the provider did not say whether an access token counts", status=status)
            same_client = found.get("client_id", said.client_id) == said.client_id
            return found.get("active") is True and same_client and found.get("sub", subject) == subject
        try:
            self._userinfo(known, access_token, subject)
        except Denied:
            return False
        return True

    def _keys_for(self, token: str) -> list[dict[str, Any]]:
        """Return the keys of the provider; anew if a token names one that is not among them, but not too often."""
        with self._own:
            now = self._clock.monotonic()
            if self._keys is not None:
                age = now - self._keys[0]
                is_enough = age < SECONDS_OF_METADATA and has_key(token, self._keys[1])
                if is_enough or age < SECONDS_BETWEEN_KEYS:
                    return self._keys[1]
            listed = self._answer("GET", self.metadata().keys, _JSON).get("keys")
            keys = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
            if len(keys) > MOST_KEYS:
                raise _refused("keys", "the provider has too many keys")
            self._keys = (now, keys)
            return keys

    def _userinfo(self, known: Metadata, access_token: Secret, subject: str) -> dict[str, Any]:
        """Return the claims of the access token's person. Denied if the token does not count any more."""
        if not known.userinfo:
            raise _refused("userinfo", "the provider does not say who it is about")
        headers = {**_JSON, "Authorization": f"Bearer {access_token.reveal().decode()}"}
        status, body = self._http.call("GET", known.userinfo, headers)
        if status in (400, 401, 403):
            raise _refused("access_token", "the access token does not count any more")
        if status != 200:
            raise Unavailable("the provider did not answer with the claims of a person", status=status)
        found = _object(body)
        if not isinstance(found.get("sub"), str) or not hmac.compare_digest(found["sub"].encode(), subject.encode()):
            raise _refused("subject", "its claims are about somebody else")
        return found

    def _checked(self, said: Mapping[str, Any]) -> Metadata:
        if said.get("issuer") != self.settings.issuer:
            raise _refused("issuer", "the provider calls itself otherwise than sign_in.issuer of kfm.yml")
        challenges = said.get("code_challenge_methods_supported", ["S256"])
        if not isinstance(challenges, list) or "S256" not in challenges:
            raise _refused("metadata", "the provider does not offer PKCE with S256")
        ways = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        basic = isinstance(ways, list) and "client_secret_basic" in ways
        found = Metadata(
            authorization=self._endpoint(said, "authorization_endpoint"),
            token=self._endpoint(said, "token_endpoint"),
            keys=self._endpoint(said, "jwks_uri"),
            userinfo=self._endpoint(said, "userinfo_endpoint", needed=False),
            introspection=self._endpoint(said, "introspection_endpoint", needed=False),
            secret_in_body=not basic,
            names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        )
        if not found.userinfo and not (found.introspection and self.settings.secret):
            raise _refused("metadata", "the provider offers no way to ask whether a sign-in still holds")
        return found

    def _endpoint(self, said: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
        """Return an address that the provider names. It is encrypted, but for one on this machine."""
        found = said.get(name, "")
        if not found and not needed:
            return ""
        if (
            not isinstance(found, str)
            or len(found) > 2000
            or not is_printable(found)
            or address_fault(_bare(found), ())[0]
        ):
            raise _refused("metadata", f"the provider names no usable {name}")
        return found

    def _posted(self, address: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Send a form as this client. The answer to a mistake need not be JSON."""
        said, headers = self.settings, dict(_FORM)
        if not said.secret:
            form = {**form, "client_id": said.client_id}
        elif self.metadata().secret_in_body:
            form = {**form, "client_id": said.client_id, "client_secret": said.read_secret().reveal().decode("latin-1")}
        else:
            pair = f"{quote_plus(said.client_id)}:{quote_plus(said.read_secret().reveal())}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        status, body = self._http.call("POST", address, headers, urlencode(form).encode())
        if status >= 500 or status in (401, 403, 404, 429):
            raise Unavailable(f"the provider answers {status} to this client", hint="check sign_in in kfm.yml")
        return status, _object(body) if status == 200 else {}

    def _answer(self, method: str, address: str, headers: Mapping[str, str]) -> dict[str, Any]:
        status, body = self._http.call(method, address, headers)
        if status != 200:
            raise Unavailable(f"{parse(address).shown()} answers {status}", hint="check sign_in.issuer in kfm.yml")
        return _object(body)


def _person(claims: Mapping[str, Any], claim: str) -> str:
    """Return the person whom the claims name. Denied if they name nobody, or an address that nobody has verified."""
    found = claims.get(claim)
    if not isinstance(found, str) or not found:
        raise _refused("claim", f"it has no claim {claim}; see sign_in.claim and sign_in.scopes in kfm.yml")
    if claim == "email" and claims.get("email_verified") is not True:
        raise _refused("claim", "the provider has not verified the e-mail address")
    return found


def _seconds(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _token(given: Mapping[str, Any], name: str) -> str:
    found = given.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= MOST_TOKEN or not found.isascii() or not found.isprintable():
        raise _refused("tokens", "it has no ID token or no access token")
    return found


def _bare(address: str) -> str:
    return address.partition("?")[0]


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = decode(body, "the answer")
    except KfmError:
        found = None
    if not isinstance(found, dict):
        raise Unavailable("the provider does not answer with a JSON object", hint="check sign_in.issuer in kfm.yml")
    return found


def _refused(reason: str, words: str) -> Denied:
    return Denied(f"the provider's answer was refused: {words}", hint="sign in again", reason=reason)
