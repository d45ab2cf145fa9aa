"""Pins the inputs of a run: fetches every source into the object store, where its digest names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kfm.engine.changes.object_damage import whole_checkpoint
from kfm.engine.progress import counted
from kfm.engine.run_context import RunContext, words_of
from kfm.engine.stage_results import Acquired
from kfm.errors import BadInput, Denied, KfmError, Refused, StepFailed, place_of
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.names import check_ref
from kfm.model.operation_target import REF, TARGET
from kfm.model.preview_records import preview_of
from kfm.model.records import Checkpoint, DataContract, Layout, RefEntry, SourceRef
from kfm.model.secret_refs import key_in_clear
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.engine.dataset_inputs import Versions
    from kfm.engine.protected.source_classification import SourceClassifier

T = TypeVar("T")
MOST_LISTED = 16 << 20  # the most bytes of a listing that inputs() may read


def acquire(context: RunContext) -> Acquired:
    """Return the pinned inputs of the run. A resumed run that was planned, and every resumed operation, keeps its
    recorded inputs."""
    context.stage = "ADMIT"
    unfinished = context.unfinished
    if context.guards.protection is not None and not context.updater.moves_only:
        from kfm.engine.protected.verdict import hide_until_judged

        hide_until_judged(context)
    if unfinished is not None and (unfinished.plan_hash or context.updater.moves_only):
        context.reached.acquired = acquired = Acquired(unfinished.inputs)
        _inherit(context, unfinished.inputs)
        if context.guards.protection is not None and not context.updater.moves_only:
            from kfm.engine.protected.source_classification import check_resumed, classifier_of

            check_resumed(context, classifier_of(context, context.guards.protection), unfinished.inputs)
        return acquired
    pinner = Pinner(context)
    try:
        refs = author_call(context, "inputs", lambda: context.updater.inputs(context.trigger, pinner))
        if not isinstance(refs, list) or not all(pinner.vouches_for(ref) for ref in refs):
            raise Refused(
                f"inputs() of {context.updater.id} returned something that is not a list of SourceRef",
                hint="return what sources.pin() returned",
            )
    except BaseException:
        context.reached.acquired = Acquired(bytes_in=pinner.bytes_in)  # these bytes were downloaded in any case
        raise
    _inherit(context, refs)
    if pinner.classifier is not None and not context.updater.moves_only:
        from kfm.engine.protected.source_classification import settle_classification

        given, refs = refs, [pinner.inherited(ref) for ref in refs]
        for old, new in zip(given, refs, strict=True):
            if (contract := pinner.contracts.get(id(old))) is not None:
                pinner.contracts[id(new)] = contract
        settle_classification(context, pinner.classifier, refs)
    contracts = {i: c for i, ref in enumerate(refs) if (c := pinner.contracts.get(id(ref))) is not None}
    context.reached.acquired = acquired = Acquired(list(refs), contracts, pinner.checkpoints, pinner.bytes_in)
    return acquired


def _inherit(context: RunContext, refs: Sequence[SourceRef]) -> None:
    if not context.updater.moves_only and any(ref.uri.startswith(REF) for ref in refs):
        from kfm.engine.dataset_inputs import inherit

        inherit(context, refs)


class Pinner:
    """The `Sources` object that an author's inputs() gets."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._world = context.world
        self.checkpoints: list[Checkpoint] = []
        self.bytes_in = 0
        self.contracts: dict[int, DataContract] = {}  # by the identity of the ref that pin() returned
        self._given: dict[int, SourceRef] = {}  # likewise
        self._versions: Versions | None = None
        self.classifier: SourceClassifier | None = None
        if context.guards.protection is not None:
            from kfm.engine.protected.source_classification import classifier_of

            self.classifier = classifier_of(context, context.guards.protection)

    def pin(
        self,
        source: str,
        *,
        partition: Sequence[str] = (),
        partition_by: str = "",
        contract: DataContract | None = None,
        complete: bool | None = None,
        expect_hash: str = "",
    ) -> SourceRef:
        world = self._world
        if source in world.datasets:
            return self._version(source, contract, partition, complete, expect_hash, partition_by)
        named = world.sources.get(source)
        if named is None and "/" not in source and ":" not in source and "." not in source:
            known = ", ".join(sorted([*world.sources, *world.datasets])) or "none"
            raise BadInput(f"no source is called {printable(source)}", hint=f"the configuration names: {known}")
        if named is None and (key := key_in_clear(source)):
            raise BadInput(
                f"the URL of a source holds a key in clear, as the parameter {printable(key, 40)}",
                hint="name the source in kfm.yml, with the key by reference under `query:`",
            )
        request, declared = named or (msgspec.structs.replace(world.request, uri=source), None)
        request = msgspec.structs.replace(
            request,
            now_ms=world.clock.now_ms(),
            partition=tuple(partition) or request.partition,
            complete=request.complete if complete is None else complete,
            expect_hash=expect_hash or request.expect_hash,
        )
        contract = contract or declared
        if partition_by:
            contract = msgspec.structs.replace(contract or DataContract(format="csv"), partition_by=partition_by)
        world.progress("fetch", 0, 0)
        # A forced run fetches everything again, which also repairs damaged objects. The preview of a branch reads the
        # files of that branch, so it neither uses nor changes the checkpoints of the installation.
        trigger = self._context.trigger
        alone = bool(preview_of(trigger))
        checkpoint = None if trigger.force or alone else world.state.inbox.checkpoint(request.uri)
        objects = world.objects
        if self.classifier is not None:
            request = self.classifier.guarded(request)
            objects, checkpoint = self.classifier.objects_for(request), self.classifier.checkpoint(request, checkpoint)
        else:  # progress would reveal the size of a protected source
            checkpoint = whole_checkpoint(self._context, checkpoint)
            objects = counted(objects, world.progress, checkpoint.size if checkpoint is not None else 0)
        fetched = world.open_source(request.uri).fetch(request, checkpoint, objects)
        self.bytes_in += fetched.bytes_on_wire
        ref = fetched.ref
        if contract is not None:
            ref = msgspec.structs.replace(ref, contract_hash=digest(canonical(contract)), layout=layout_of(contract))
        if self.classifier is not None:
            ref = self.classifier.classified(request, ref, contract)
        told = {} if is_restricted(ref) else {"size": ref.size}
        name = request.name or "unnamed"
        self._context.say("source.pinned", source=name, not_modified=fetched.not_modified, **told)
        kept = fetched.checkpoint if self.classifier is None else self.classifier.kept(fetched.checkpoint, ref)
        self.checkpoints += [] if alone else [kept]
        if contract is not None:
            self.contracts[id(ref)] = contract
        self._given[id(ref)] = ref
        return ref

    def names(self) -> list[str]:
        return sorted(self._world.sources)

    def bytes(self, ref: SourceRef) -> bytes:
        if id(ref) not in self._given:
            raise Refused("sources.bytes() got a source that was not pinned", hint="pass what sources.pin() returned")
        if ref.uri.startswith(REF):
            raise Refused("sources.bytes() reads fetched sources, not datasets", hint="read the dataset in perform()")
        if ref.sealed_with or is_restricted(ref):
            raise Denied(
                "a restricted listing is not read before it is checked against its contract",
                hint="read it in perform()",
            )
        if ref.size > MOST_LISTED:
            raise Refused(
                f"a listing of {ref.size} bytes is too large to be read at once", hint="request fewer entries"
            )
        return self._world.objects.read(ref.content_hash)

    def _version(
        self,
        source: str,
        contract: DataContract | None,
        partition: Sequence[str],
        complete: bool | None,
        expect_hash: str,
        partition_by: str,
    ) -> SourceRef:
        """Pin a version of another dataset. Nothing is fetched."""
        if self._versions is None:
            from kfm.engine.dataset_inputs import Versions

            self._versions = Versions(self._context)
        wanted, declared = self._world.datasets[source]
        contract = contract or declared
        if partition_by:
            contract = msgspec.structs.replace(contract or DataContract(format="csv"), partition_by=partition_by)
        whole = wanted.complete if complete is None else complete
        ref = self._versions.pin(source, wanted, contract, tuple(partition), whole)
        if expect_hash and ref.content_hash != expect_hash:
            raise Refused(
                f"source {source} has another version than inputs() expects",
                hint="look at the new version, then correct what inputs() expects",
                expected=expect_hash,
            )
        if contract is not None:
            ref = msgspec.structs.replace(ref, layout=layout_of(contract))
            self.contracts[id(ref)] = contract
        self._context.say("source.pinned", source=source, not_modified=False)
        self._given[id(ref)] = ref
        return ref

    def inherited(self, ref: SourceRef) -> SourceRef:
        """Return the ref with its classification. A ref that was not pinned gets that of the object it points to."""
        if self.classifier is None or (id(ref) in self._given and not ref.uri.startswith(REF)):
            return ref
        return self.classifier.inherited(msgspec.structs.replace(ref, standing=None, sealed_with=""))

    def ref(self, name: str) -> SourceRef:
        """Return what a ref points to now, with an empty content_hash if the ref does not exist."""
        check_ref(name)
        return SourceRef(uri=REF + name, content_hash=self._world.state.refs.at(name), size=0, name=name)

    def history(self, name: str) -> list[RefEntry]:
        check_ref(name)
        return list(self._world.state.refs.history(name))

    def vouches_for(self, ref: object) -> bool:
        """Return whether inputs() may return this: a pinned source, or a valid SourceRef whose bytes are stored."""
        if id(ref) in self._given:
            return True
        try:
            made = type(ref) is SourceRef and msgspec.convert(msgspec.to_builtins(ref), SourceRef)
            if not made:
                return False
            canonical(made)
        except (TypeError, ValueError, RecursionError, BadInput):
            return False
        if made.uri.startswith(TARGET):
            return self._context.updater.moves_only
        return made.uri.startswith(REF) or self._world.objects.has(made.content_hash)


def is_restricted(ref: SourceRef) -> bool:
    """Return whether the log must not show the size of this source."""
    return ref.standing is not None and ref.standing.level not in ("public", "generalised")


def layout_of(contract: DataContract) -> Layout | None:
    """Return how perform() must read the source. It is kept with the input, so a resumed run reads it the same way."""
    names = () if contract.header else tuple(column.name for column in contract.columns)
    layout = Layout(encoding=contract.encoding, delimiter=contract.delimiter, columns=names)
    return None if layout == Layout() else layout


def author_call(context: RunContext, method: str, call: Callable[[], T]) -> T:
    """Call an author's method and return its result.

    StepFailed if it raises, with the place in the author's file, and the exception's text if the data is public.
    """
    try:
        return call()
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:  # code that exits has failed: every run ends with a receipt
        what = f"{method}() of {context.updater.id} raised {type(problem).__name__} at {place_of(problem)}"
        raise StepFailed(
            what + words_of(context, problem),
            hint="fix the updater (KFM_LOG=debug shows the traceback); nothing was published",
        ) from problem
