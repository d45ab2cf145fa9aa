"""The real `stac-api-validator` without a network: schemas come from the files that KFM ships. A request to anything
else but loopback fails and is kept."""

from __future__ import annotations

import io
import json
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.projections.samples import schema_files

# Each conformance class as that tool names it. It names no class of its own for CQL2: `filter` covers it.
CLASSES = (
    "core", "collections", "features", "item-search", "item-search#sort", "item-search#fields", "item-search#filter",
)  # fmt: skip
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Validated(NamedTuple):
    errors: list[str]
    warnings: list[str]
    schemas: list[str]  # that were asked for and are shipped
    refused: list[str]  # addresses that are neither


class Offline:
    """Answers requests for schemas from files and lets requests to loopback through."""

    def __init__(self, folder: Path) -> None:
        self.files = schema_files(folder)
        self.schemas: set[str] = set()
        self.refused: set[str] = set()

    def known(self, url: str) -> bytes | None:
        """Return the schema at an address; None if it is on loopback. OSError for anything else."""
        bare = url.partition("#")[0]
        if urlsplit(url).hostname in LOOPBACK:
            return None
        if bare not in self.files:
            self.refused.add(url)
            raise OSError(f"there is no network: {url}")
        self.schemas.add(bare)
        return Path(self.files[bare]).read_bytes()

    def install(self) -> None:
        """Put this between the process and the network. There is no way back: use a process of its own."""
        import requests
        from pystac.stac_io import DefaultStacIO, StacIO
        from requests.adapters import HTTPAdapter

        def sent(adapter: Any, request: Any, *more: Any, **named: Any) -> Any:
            body = self.known(request.url)
            if body is None:
                return send(adapter, request, *more, **named)
            found = requests.Response()
            found.status_code, found.raw, found.url, found.request = 200, io.BytesIO(body), request.url, request
            return found

        def opened(request: Any, *more: Any, **named: Any) -> Any:
            url = request if isinstance(request, str) else request.full_url
            body = self.known(url)
            return urlopen(request, *more, **named) if body is None else io.BytesIO(body)

        def looked_up(host: Any, *more: Any, **named: Any) -> Any:
            if host not in LOOPBACK:
                if not str(host).startswith("127.0.0.1:"):  # that tool puts the host before a link to kfm://
                    self.refused.add(str(host))
                raise OSError(f"there is no network: {host}")
            return getaddrinfo(host, *more, **named)

        class Files(DefaultStacIO):  # type: ignore[misc]
            def read_text_from_href(files, href: str) -> str:
                body = self.known(href)
                return super(Files, files).read_text_from_href(href) if body is None else body.decode()

        StacIO.set_default(Files)
        send, urlopen, getaddrinfo = HTTPAdapter.send, urllib.request.urlopen, socket.getaddrinfo
        HTTPAdapter.send = sent  # type: ignore[method-assign]
        urllib.request.urlopen = opened
        socket.getaddrinfo = looked_up


def validate(root: str, collection: str, geometry: dict[str, Any], folder: Path, classes: tuple[str, ...]) -> Validated:
    offline = Offline(folder)
    offline.install()
    from stac_api_validator.validations import QueryConfig, validate_api

    found = validate_api(
        root_url=root,
        ccs_to_validate=list(classes),
        collection=collection,
        geometry=json.dumps(geometry),
        auth_bearer_token=None,
        auth_query_parameter=None,
        fields_nested_property="properties.version",
        validate_pagination=True,
        query_config=QueryConfig(*[None] * 13),
        transaction_collection=None,
        headers={},
        open_assets_urls=True,
    )
    warnings, errors = (list(each) for each in found)
    return Validated(errors, warnings, sorted(offline.schemas), sorted(offline.refused))


if __name__ == "__main__":
    root, collection, geometry, folder, *classes = sys.argv[1:]
    found = validate(root, collection, json.loads(geometry), Path(folder), tuple(classes) or CLASSES)
    print(json.dumps(found._asdict()))
