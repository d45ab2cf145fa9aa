"""Reads an object of an S3 store over our own HTTP: `s3://bucket/key`.

The address of the store is judged, its bytes are counted and its time is measured as those of any web server, which a
client with a connection of its own would not let us do. An object is asked for by its ETag, so that one that has not
changed is not sent. What is signed (Signature Version 4) is made with a key that never leaves this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kfm.clock import SystemClock, rfc3339
from kfm.errors import BadInput, Refused
from kfm.model.ports import Objects, Source
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.model.secret import Secret
from kfm.model.secret_refs import percent
from kfm.sources.http import HttpSource
from kfm.sources.urls import parse

_NOTHING = hashlib.sha256(b"").hexdigest()


class Keys(NamedTuple):
    access: Secret
    secret: Secret
    token: Secret | None


class Store(NamedTuple):
    """Where a bucket lies."""

    endpoint: str  # empty: Amazon's
    region: str
    keys: Keys | None  # None: asked as anybody may


AMAZON = Store("", "us-east-1", None)


class S3Source:
    def __init__(
        self,
        store_of: Callable[[str], Store] = lambda _: AMAZON,
        *,
        http: Source | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """now_ms: the time as the store has it, and not the one that a run is told: a signature is good for minutes."""
        self._store_of = store_of
        self._http = HttpSource() if http is None else http
        self._now_ms = SystemClock().now_ms if now_ms is None else now_ms

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        from msgspec.structs import replace

        bucket, key = parts_of(request.uri)
        store = self._store_of(bucket)
        address = address_of(store, bucket, key)
        headers: dict[str, str] = {}
        secrets: tuple[str, ...] = ()
        if store.keys is not None:
            headers = signed(address, store.region, store.keys, rfc3339(self._now_ms()))
            secrets = tuple(headers.values())
        asked = replace(
            request,
            address=address,
            headers=(*request.headers, *headers.items()),
            secrets=(*request.secrets, *secrets),
        )
        try:
            return self._http.fetch(asked, known, objects)
        except Refused as problem:
            status = problem.fields.get("status")
            if status in (400, 401, 403):
                raise Refused(
                    f"s3://{bucket} answers {status}: it does not let us in, or there is no such object",
                    hint="check the keys, endpoint and region of this bucket under `s3:`",
                    status=status,
                ) from None
            raise


def parts_of(uri: str) -> tuple[str, str]:
    """The bucket and the key of what an address names."""
    found = re.fullmatch(r"s3://([a-z0-9][a-z0-9._-]{1,98}[a-z0-9])/([^?#]+)", uri.partition("#")[0])
    if found is None:
        raise BadInput("the address is not one of an object", hint="write s3://BUCKET/KEY, without ? and #")
    bucket, key = found.groups()
    if key.endswith("/") or not {"", ".", ".."}.isdisjoint(key.split("/")):
        raise BadInput("the key of an object is a folder, or has an empty part or dots", hint="name one object")
    return bucket, key


def address_of(store: Store, bucket: str, key: str) -> str:
    path = "/".join(percent(part.encode("utf-8", "surrogateescape")) for part in key.split("/"))
    if store.endpoint:
        return f"{store.endpoint.rstrip('/')}/{bucket}/{path}"
    if "." in bucket:  # no certificate is for a name below a name below
        return f"https://s3.{store.region}.amazonaws.com/{bucket}/{path}"
    # Anybody's question finds its region by the name alone.
    region = f".{store.region}" if store.keys is not None or store.region != AMAZON.region else ""
    return f"https://{bucket}.s3{region}.amazonaws.com/{path}"


def signed(address: str, region: str, keys: Keys, now: str, also: Mapping[str, str] = {}) -> dict[str, str]:
    """The headers of a GET, with the one that proves whose question it is."""
    here = parse(address)
    day, moment = now[:10].replace("-", ""), re.sub(r"[-:]|\.\d+", "", now)
    named = {"host": here.authority, "x-amz-content-sha256": _NOTHING, "x-amz-date": moment}
    named |= {name.lower(): value for name, value in also.items()}
    if keys.token is not None:
        named["x-amz-security-token"] = keys.token.reveal().decode("latin-1")
    names = ";".join(sorted(named))
    lines = [f"{name}:{named[name].strip()}" for name in sorted(named)]
    path, _, query = here.target.partition("?")
    question = "\n".join(["GET", path, query, *lines, "", names, _NOTHING])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(question.encode()).hexdigest()])
    key = b"AWS4" + keys.secret.reveal()
    for word in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    proof = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    access = keys.access.reveal().decode("latin-1")
    named["authorization"] = f"AWS4-HMAC-SHA256 Credential={access}/{scope},SignedHeaders={names},Signature={proof}"
    del named["host"]  # the connection says it
    return named
