"""Compares a source with the bytes that the current version was made from: is it still the same kind of file?

An error page with status 200 is a readable text, and a table without declared columns accepts every header. So a change
of the recognised kind, or of the header of such a table, quarantines the source until a person has looked.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfm.engine.partition_base import maker
from kfm.engine.run_context import RunContext
from kfm.errors import Corrupt
from kfm.model import refs
from kfm.model.operation_target import REF
from kfm.model.ports import Objects
from kfm.model.records import DataContract, Finding, Run, SourceRef
from kfm.model.source_formats import KINDS

EARLIER = 20  # versions that are searched for the same bytes
HEAD = 1 << 16  # bytes in which kind and header are looked for
UNRECOGNISED = "text or a table"
DOCUMENTS = ("json", "geojson", "stac")  # a source is one document: malformed bytes quarantine it whole


class EarlierSources:
    """The sources of the current version and of those before it. Each is read when it is first needed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._versions = self._by_version()
        self._known: list[dict[str, SourceRef]] = []

    def current(self, ref: SourceRef, i: int) -> SourceRef | None:
        """Return this source as the current version, or its partition, was made from it; None if it was not."""
        state, partition = self._context.world.state, self._context.trigger.partition
        if partition:
            run = maker(state, self._context.world.objects, self._context.dataset, partition, i)
            return _by_name(run).get(ref.name or ref.uri) if run is not None else None
        return next((each.get(ref.name or ref.uri) for each in self._all()), None)

    def had(self, ref: SourceRef) -> bool:
        """Return whether one of the last versions was made from exactly these bytes."""
        found = (each.get(ref.name or ref.uri) for each in self._all())
        return any(before is not None and before.content_hash == ref.content_hash for before in found)

    def _all(self) -> Iterator[dict[str, SourceRef]]:
        yield from self._known
        for one in self._versions:
            self._known.append(one)
            yield one

    def _by_version(self) -> Iterator[dict[str, SourceRef]]:
        state, dataset = self._context.world.state, self._context.dataset
        at = state.refs.at(refs.processed(dataset))
        for _ in range(EARLIER):
            version = state.ledger.version(dataset, at) if at else None
            if version is None:
                return
            run = state.runs.get(version.validated_by or version.run_id)
            yield _by_name(run) if run is not None else {}
            at = version.supersedes


def _by_name(run: Run) -> dict[str, SourceRef]:
    return {ref.name or ref.uri: ref for ref in reversed(run.inputs)}


def source_change(
    context: RunContext,
    ref: SourceRef,
    contract: DataContract | None,
    before: SourceRef | None,
    earlier: EarlierSources,
) -> Finding | None:
    """Return the change that quarantines this source; None if it is of the kind of the current version, is forced, or
    was in a version before. A changed media type is only noted."""
    if before is None or before.content_hash == ref.content_hash or ref.uri.startswith(REF):
        return None
    if ref.sealed_with or before.sealed_with or context.world.encryption is not None:
        return None
    if ref.contract_hash != before.contract_hash:  # a person declared it differently
        return None
    name = ref.name or "source"
    if before.media_type != ref.media_type:
        context.say("source.relabelled", source=name, before=before.media_type, after=ref.media_type)
    change = _change(context.world.objects, ref, before, contract)
    if change is None or context.trigger.force or earlier.had(ref):
        return None
    rule, what = change
    return Finding(source=name, rule=rule, message=f"{what}; the source is held")


def _change(
    objects: Objects, ref: SourceRef, before: SourceRef, contract: DataContract | None
) -> tuple[str, str] | None:
    now, then = (_head(objects, each.content_hash) for each in (ref, before))
    if now is None or then is None:
        return None
    kind = kind_of(now)
    if kind == UNRECOGNISED and contract is not None and contract.format in DOCUMENTS:
        return None  # the reader of the format says where and why it cannot read this
    if kind != kind_of(then):
        return "source.kind", f"it is {kind} now, and was {kind_of(then)}"
    if contract is None or contract.format != "csv" or not contract.header or contract.columns:
        return None
    if _header(now, contract) == _header(then, contract):
        return None
    return "source.header", "its header has changed, and its contract names no columns"


def kind_of(head: bytes) -> str:
    """Return the kind of file that begins like this, in words."""
    text = "".join(head[:200].decode("latin-1").removeprefix("\xef\xbb\xbf").split()).lower()
    return next((kind for kind, begin in KINDS if text.startswith(begin)), UNRECOGNISED)


def _header(head: bytes, contract: DataContract) -> bytes:
    """Return the names of a table, without quotes and blanks around them: the first line that is not skipped."""
    lines = head.split(b"\n")[contract.skip_lines or 0 :]
    sign = contract.comment.encode() if contract.comment else b"\n"
    first = next((line for line in lines if not line.startswith(sign)), b"")
    return first.removeprefix(b"\xef\xbb\xbf").replace(b'"', b"").strip()


def _head(objects: Objects, digest: str) -> bytes | None:
    """Return the first bytes of a source; None if they are not stored any more."""
    try:
        with objects.open(digest) as file:
            return file.read(HEAD)
    except Corrupt:
        return None
