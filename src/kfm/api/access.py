"""Who asks, and how often: a request becomes an audience and a person, or ends with 401 or 429.

People and roles are those of keys.json. A token names a person there; the role counts at the moment of each request, so
a token that was revoked, or whose person lost the last valid key, gives nothing with the next one. A login lets a
person look and ask; what is decided is signed.
"""

from __future__ import annotations

import ipaddress
import secrets
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal, NamedTuple
from weakref import WeakKeyDictionary

from kfm.api.csrf import csrf_of
from kfm.api.problems import HttpProblem
from kfm.api.rate_limit import RateLimit, network_of
from kfm.api.readers import Stamp, stamp_of
from kfm.api.session_cookie import cookie_of
from kfm.app.authority import keyring
from kfm.app.authority.token_holders import Holder, digest_of_token, holder_by_name, holder_of
from kfm.app.session.key_list_file import FILE
from kfm.app.sign_in.provider import settings_of
from kfm.app.sign_in.sign_ins import PREFIX, SignIns, name_of
from kfm.errors import KfmError
from kfm.model import refs

if TYPE_CHECKING:
    from starlette.requests import Request

    from kfm.app.authority.token_holders import Keys
    from kfm.app.session.session import Session

Place = Literal["local", "shared", "open"]
PER_MINUTE = 600
MOST_KNOWN = 4096  # digests of tokens that were valid at their last request
BEARER = (("WWW-Authenticate", 'Bearer realm="kfm"'),)
# Headers that a proxy adds; a browser or a program on this machine sends none of them.
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "via")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class Caller(NamedTuple):
    """Who asks."""

    audience: str  # public, single, or the role of a person
    person: str = ""
    until: str = ""  # when the token ends


class Rules(NamedTuple):
    """Where a server stands, and how often one caller may ask.

    `local`: it listens on loopback, and without a key list its one user asks. `shared`: others can reach it. `open`:
    it answers the open internet; everybody is the public, and no token counts.
    """

    place: Place = "local"
    behind_proxy: bool = False
    per_minute: int | None = None  # None: PER_MINUTE, but callers on this machine are not counted; 0: no limit


class Access:
    """Decides who asks. One server has one; its reading threads share it."""

    def __init__(
        self, rules: Rules | None = None, limit: RateLimit | None = None, sign_ins: SignIns | None = None
    ) -> None:
        self._rules = rules or Rules()
        self._limit = limit if limit is not None else RateLimit()
        self.sign_ins = sign_ins or SignIns()
        self._secret = secrets.token_bytes(32)
        self._valid: OrderedDict[str, None] = OrderedDict()
        self._own = threading.Lock()
        self._lists: WeakKeyDictionary[Session, tuple[tuple[str, Stamp], Keys | None]] = WeakKeyDictionary()

    def credential(self, request: Request) -> str:
        """Return the digest of the token that a request carries; empty if it carries none. A header of another form has
        a digest, too, which is no token's."""
        sent = request.headers.getlist("authorization")
        if not sent:
            cookie = self.cookie(request)
            if cookie and not cookie.startswith("kfm_"):
                return name_of(cookie)
            return digest_of_token(cookie) if cookie else ""
        scheme, _, token = sent[0].partition(" ")
        is_bearer = scheme.lower() == "bearer"
        if self._rules.place == "open" and not is_bearer:
            return ""  # of the proxy
        is_whole = is_bearer and len(sent) == 1 and bool(token.strip())
        return digest_of_token(token.strip() if is_whole else "\x00".join(["", *sent]))

    def cookie(self, request: Request) -> str:
        """Return the cookie by which a request is signed in; empty without one, or if it has a header for that."""
        return "" if self._rules.place == "open" or "authorization" in request.headers else cookie_of(request)

    def csrf(self, request: Request, caller: Caller) -> str:
        """Return what a change of this caller has to carry; empty if a browser adds nothing by itself that lets the
        caller change something."""
        if caller.audience == "single":
            return csrf_of(self._secret)
        cookie = self.cookie(request) if caller.person else ""
        return csrf_of(cookie.encode("utf-8", "replace")) if cookie else ""

    def is_secure(self, request: Request) -> bool:
        """Return whether the caller came over TLS, which a proxy may have ended."""
        return self._rules.behind_proxy or request.url.scheme == "https"

    def stranger(self, session: Session, host: str) -> Caller:
        """Return who asks without a token."""
        if self._rules.place == "local" and not session.state.refs.at(refs.KEY_LIST) and _names_loopback(host):
            return Caller("single")
        return Caller("public")

    def count(self, request: Request, credential: str) -> None:
        """Count a request for its token, or for its address. HttpProblem 429 if there were too many. It is the same for
        every path."""
        address = self._address(request)
        per_minute = self._rules.per_minute
        if per_minute is None:
            per_minute = 0 if self._is_of_this_machine(address) and credential not in self._valid else PER_MINUTE
        if per_minute:
            known = credential in self._valid
            self._check(f"token {credential}" if known else f"address {network_of(address)}", per_minute)

    def throttle(self, request: Request, credential: str, dataset: str, per_minute: int) -> None:
        """Count a request for a dataset that may be read only so often. HttpProblem 429 if there were too many."""
        who = credential if credential in self._valid else network_of(self._address(request))
        self._check(f"{dataset} {who}", max(per_minute, 1))

    def caller(self, session: Session, credential: str, host: str) -> Caller:
        """Return who asks, inside the read transaction of the request. HttpProblem 401 if its token is unknown, ended,
        revoked or malformed, or if no key list can be read."""
        if not credential:
            return self.stranger(session, host)
        holder = self._holder(session, credential)
        with self._own:
            if holder is None or self._rules.place == "open":
                self._valid.pop(credential, None)
                raise HttpProblem(
                    401,
                    "this server takes no tokens; leave it out"
                    if self._rules.place == "open"
                    else "`kfm token list` says which tokens are valid; send one as `Authorization: Bearer TOKEN`",
                    "token.invalid",
                    BEARER,
                )
            self._valid[credential] = None
            self._valid.move_to_end(credential)
            while len(self._valid) > MOST_KNOWN:
                self._valid.popitem(last=False)
        return Caller(holder.role, holder.person, holder.until)

    def is_still(self, session: Session, credential: str, caller: Caller) -> bool:
        """Return whether a token still gives what it gave when an answer began."""
        if not credential:
            return True
        holder = self._holder(session, credential)
        return holder is not None and (holder.role, holder.person) == (caller.audience, caller.person)

    def _holder(self, session: Session, credential: str) -> Holder | None:
        """Return the person whom a token, or the session of a sign-in, names now."""
        if not credential.startswith(PREFIX):
            return holder_of(session, self._key_list(session), credential)
        found = self.sign_ins.find(credential, settings_of(session))
        return None if found is None else holder_by_name(session, self._key_list(session), found.person, found.until)

    def _key_list(self, session: Session) -> Keys | None:
        """Return the key list in force; None if there is none, or if it cannot be read: then nobody has a role."""
        stamp = (session.state.refs.at(refs.KEY_LIST), stamp_of(session.resolved.at(FILE)))
        known = self._lists.get(session)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            keys = keyring.in_force(session)
        except KfmError:
            return None
        self._lists[session] = (stamp, keys)
        return keys

    def _check(self, key: str, per_minute: int) -> None:
        if seconds := self._limit.wait(key, per_minute):
            raise HttpProblem(429, f"ask again in {seconds} s", "rate.limited", (("Retry-After", str(seconds)),))

    def _address(self, request: Request) -> str:
        """Return the address of the caller: behind a proxy, the one that the proxy itself wrote down last."""
        if self._rules.behind_proxy:
            sent = ",".join(request.headers.getlist("x-forwarded-for")).rpartition(",")[2].strip()
            if sent:
                return sent
        return request.client.host if request.client is not None else ""

    def _is_of_this_machine(self, address: str) -> bool:
        if self._rules.behind_proxy or self._rules.place == "open":
            return False
        try:
            return ipaddress.ip_address(address).is_loopback
        except ValueError:
            return False


def host_of(request: Request) -> str:
    """Return the host that a request names; empty if a proxy passed it on, so that it counts as nobody's machine also
    where the operator left out --behind-proxy."""
    return "" if any(name in request.headers for name in FORWARDED) else request.headers.get("host", "")


def _names_loopback(host: str) -> bool:
    """Return whether a Host header names this machine. A page of another site that resolves to loopback does not."""
    name = host.lower()
    if name.rpartition(":")[2].isdigit() and not name.endswith("]"):
        name = name.rpartition(":")[0]
    return name in _LOOPBACK or (name.startswith("127.") and name.replace(".", "").isdigit())
