"""Opens a source by its address, with the settings of kfm.yml. Layers are added only where a setting needs them:

reader of the address     file, http, s3
retry                     tries again, where network.retries is set
secrets                   headers and parameters, read from their references at each fetch
decompression             gzip, a member of an archive
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kfm.config.s3_settings import BucketConfig
from kfm.errors import BadInput, Denied, KfmError
from kfm.model.ports import Source
from kfm.model.secret import Secret
from kfm.sources import open_source, scheme_of

if TYPE_CHECKING:
    from kfm.app.session.retry_guards import SourceGuards
    from kfm.clock import Clock
    from kfm.config import DatasetConfig, Resolved
    from kfm.config.source_settings import SourceConfig
    from kfm.engine.protected.protection import Protection
    from kfm.model.ports import Log, Objects
    from kfm.model.records import Checkpoint, Fetched, FetchRequest
    from kfm.sources.decompression import Wrapping
    from kfm.sources.s3 import S3Store
    from kfm.sources.source_secrets import Secrets


class SourceOpener:
    """Opens the sources of one installation."""

    def __init__(
        self,
        resolved: Resolved,
        clock: Clock,
        log: Log,
        protection_of: Callable[[str], Protection | None],
        *,
        dry: bool,
        guards: Callable[[str, str], SourceGuards | None] = lambda _dataset, _uri: None,
    ) -> None:
        self._resolved = resolved
        self._clock = clock
        self._log = log
        self._protection_of = protection_of
        self._dry = dry
        self._guards = guards

    def open(self, dataset: str, declared: DatasetConfig | None, uri: str) -> Source:
        """Return the reader of an address for a dataset, with its retries, secrets and decompression."""
        reader = self._reader(dataset, uri)
        sources = declared.sources if declared is not None else {}
        if any(source.headers or source.query for source in sources.values()):
            from kfm.sources.source_secrets import SecretSource

            reader = SecretSource(reader, lambda name: self._secrets_of(sources.get(name)))
        if any(source.is_packed for source in sources.values()):
            from kfm.sources.decompression import UnpackSource

            look, time = partial(self._look, dataset), self._clock.monotonic
            reader = UnpackSource(
                reader, lambda name: _wrapped(sources.get(name)), look, in_memory=self._dry, monotonic=time
            )
        return reader

    def _reader(self, dataset: str, uri: str) -> Source:
        scheme, network = scheme_of(uri), self._resolved.config.network
        if scheme == "s3":
            from kfm.sources.http import HttpSource
            from kfm.sources.s3 import S3Source

            reader: Source = S3Source(self._store, http=HttpSource(per_host=network.per_host))
        else:
            reader = open_source(uri, network.per_host)
        if scheme in ("", "file"):
            return reader
        if network.retries:
            from kfm.sources.retry import RetrySource

            guards = self._guards(dataset, uri)
            if guards is None:
                reader = RetrySource(reader, network.retries, self._clock, self._tell)
            else:
                breaker, budget = guards.breaker, guards.budget
                reader = RetrySource(
                    reader, network.retries, self._clock, self._tell, breaker=breaker, budget=budget, stop=guards.halt
                )
        return _IdleSource(reader)

    def _tell(self, source: str, attempt: int, wait_ms: int, problem: KfmError) -> None:
        self._log.event("source.retried", source=source or "unnamed", attempt=attempt, wait_ms=wait_ms, error=problem)

    def _secrets_of(self, source: SourceConfig | None) -> Secrets:
        if source is None:
            return "", {}, {}
        headers = {name: self._secret(reference) for name, reference in source.headers.items()}
        return source.uri, headers, {name: self._secret(reference) for name, reference in source.query.items()}

    def _secret(self, reference: str) -> Secret:
        return self._resolved.secret(reference, env=os.environ, shortest=1)

    def _store(self, bucket: str) -> S3Store:
        from kfm.sources.s3 import S3Keys, S3Store

        said = self._resolved.config.s3.get(bucket, BucketConfig())
        keys = None
        if said.identity == "workload":
            raise BadInput(
                f"s3.{bucket}.identity is workload, which works for objects and public files, not for sources",
                hint=f"name keys that may read it: s3.{bucket}.access_key and secret_key",
            )
        if said.access_key:
            token = self._secret(said.session_token) if said.session_token else None
            keys = S3Keys(self._secret(said.access_key), self._secret(said.secret_key), token)
        return S3Store(said.endpoint, said.region, keys)

    def _look(self, dataset: str, digest: str) -> None:
        """Raise Denied if the bytes of an archive have a label: such a label would say something about every member,
        and the bytes of a member do not show it."""
        protection = self._protection_of(dataset)
        if protection is not None and any(label.of.bytes_ == digest for label in protection.labels.labels):
            raise Denied(
                f"a source of {dataset} is in an archive whose bytes have a label",
                hint="put the label on the address of the archive, and on the bytes of what is in it",
                rule="label.archive",
            )


class _IdleSource:
    """A source over the network: while a job waits for it, another job computes."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        from kfm.app.session.work_slots import idle  # only a source over the network needs it

        with idle():
            return self._source.fetch(request, known, objects)


def _wrapped(source: SourceConfig | None) -> Wrapping | None:
    from kfm.sources.decompression import Wrapping

    if source is None or not source.is_packed:
        return None
    return Wrapping(source.packed_as, source.member or "")
