"""Read an object of an S3 store, `s3://bucket/key`, over KFM's own HTTP.

So the store's address is judged, and its bytes and time are limited, like those of any web server; an S3 client library
would open its own connections. An unchanged ETag saves the download. Requests are signed (Signature Version 4) with a
key that never leaves this machine.
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


class S3Keys(NamedTuple):
    access: Secret
    secret: Secret
    token: Secret | None


class S3Store(NamedTuple):
    """Where a bucket is, and the keys to read it."""

    endpoint: str  # empty: Amazon
    region: str
    keys: S3Keys | None  # None: requests are anonymous


AMAZON = S3Store("", "us-east-1", None)


class S3Source:
    def __init__(
        self,
        store_of: Callable[[str], S3Store] = lambda _: AMAZON,
        *,
        http: Source | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`now_ms` is the real time and not the clock of the run: a signature is valid for minutes only."""
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
            headers = signed_headers(address, store.region, store.keys, rfc3339(self._now_ms()))
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
                    f"s3://{bucket} answers {status}: access is denied, or the object does not exist",
                    hint="check the keys, endpoint and region of this bucket under `s3:`",
                    status=status,
                ) from None
            raise


def parts_of(uri: str) -> tuple[str, str]:
    """Return the bucket and the key of an s3:// URI. Raise BadInput if it does not name one object."""
    found = re.fullmatch(r"s3://([a-z0-9][a-z0-9._-]{1,98}[a-z0-9])/([^?#]+)", uri.partition("#")[0])
    if found is None:
        raise BadInput("the address does not name an S3 object", hint="write s3://BUCKET/KEY, without ? and #")
    bucket, key = found.groups()
    if key.endswith("/") or not {"", ".", ".."}.isdisjoint(key.split("/")):
        raise BadInput("the key of an object is a folder, or has an empty part or dots", hint="name one object")
    return bucket, key


def address_of(store: S3Store, bucket: str, key: str) -> str:
    path = "/".join(percent(part.encode("utf-8", "surrogateescape")) for part in key.split("/"))
    if store.endpoint:
        return f"{store.endpoint.rstrip('/')}/{bucket}/{path}"
    if "." in bucket:  # a wildcard certificate does not cover a bucket name with dots
        return f"https://s3.{store.region}.amazonaws.com/{bucket}/{path}"
    # An anonymous request finds the region by the bucket's name alone.
    region = f".{store.region}" if store.keys is not None or store.region != AMAZON.region else ""
    return f"https://{bucket}.s3{region}.amazonaws.com/{path}"


def signed_headers(address: str, region: str, keys: S3Keys, now: str, also: Mapping[str, str] = {}) -> dict[str, str]:
    """Return the headers of a GET request, among them the signature."""
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
    del named["host"]  # the connection sends it
    return named
