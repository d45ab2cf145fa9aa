"""The source `kfm://context/NAME`: the public records of a published dataset, answered from the state.

It is fetched, hashed and stored like any other source, so a run that read it can be replayed and reproduced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.errors import Refused
from kfm.model.canonical import canonical
from kfm.model.names import check_id
from kfm.model.operation_target import CONTEXT
from kfm.model.records import Checkpoint, Fetched, SourceRef

if TYPE_CHECKING:
    from kfm.model.ports import Objects, State
    from kfm.model.records import FetchRequest

MEDIA_TYPE = "application/json"


class ContextSource:
    """Reads the context of a dataset as a source. `own` are the objects of the installation, with its versions."""

    def __init__(self, state: State, own: Objects) -> None:
        self._state = state
        self._own = own

    def fetch(self, request: FetchRequest, known: Checkpoint | None, objects: Objects) -> Fetched:
        from kfm.delivery.dataset_context import dataset_context

        dataset = check_id(request.uri.removeprefix(CONTEXT), "dataset")
        body = canonical(dataset_context(self._state, self._own, dataset))
        staging = objects.stage()
        try:
            staging.write(body)
            content_hash, size = staging.commit()
        except BaseException:
            staging.abort()
            raise
        if request.expect_hash and content_hash != request.expect_hash:
            raise Refused(
                f"the context of {dataset} is not what was expected",
                hint="look at the new one, then correct what inputs() expects",
                expected=request.expect_hash,
            )
        checkpoint = Checkpoint(
            uri=request.uri,
            content_hash=content_hash,
            size=size,
            media_type=MEDIA_TYPE,
            etag="",
            last_modified="",
            fetched_ms=request.now_ms,
            checked_ms=request.now_ms,
        )
        ref = SourceRef(
            uri=request.uri,
            content_hash=content_hash,
            size=size,
            name=request.name,
            media_type=MEDIA_TYPE,
            partition=request.partition,
            complete=request.complete,
        )
        return Fetched(
            ref=ref, checkpoint=checkpoint, not_modified=known is not None and known.content_hash == content_hash
        )
