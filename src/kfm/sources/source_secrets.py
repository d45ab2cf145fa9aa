"""Add a source's secrets to its request at the last moment, so that no record holds them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kfm.model.ports import Objects, Source
from kfm.model.records import Checkpoint, Fetched, FetchRequest
from kfm.model.secret import Secret
from kfm.model.secret_refs import percent, with_query

Secrets = tuple[str, dict[str, Secret], dict[str, Secret]]  # the URL without secrets, headers, query


class SecretSource:
    """A source that is requested with secret headers and query values. `secrets_of` reads them by source name."""

    def __init__(self, source: Source, secrets_of: Callable[[str], Secrets]) -> None:
        self._source = source
        self._secrets_of = secrets_of

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        uri, headers, query = self._secrets_of(request.name)
        if headers or query:
            texts = {name: secret.reveal().decode("latin-1") for name, secret in headers.items()}
            words = [word for text in texts.values() for word in text.split(" ")]
            values = {name: secret.reveal() for name, secret in query.items()}
            pairs = [(percent(name.encode()), percent(values[name])) for name in sorted(values)]
            request = msgspec.structs.replace(
                request,
                address=with_query(uri, pairs),
                headers=(*request.headers, *texts.items()),
                secrets=(*words, *(value.decode("latin-1") for value in values.values())),
            )
        return self._source.fetch(request, known, objects)
