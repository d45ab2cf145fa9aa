"""Pins the inputs: every source becomes bytes in the store, known by their digest. Changes nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

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
    from kfm.engine.protected.source_classification import WayIn

T = TypeVar("T")
MOST_LISTED = 16 << 20  # bytes of a listing that is read while inputs are looked for


def acquire(context: RunContext) -> Acquired:
    context.stage = "ADMIT"
    unfinished = context.unfinished
    if unfinished is not None and (unfinished.plan_hash or context.updater.moves_only):
        context.reached.acquired = acquired = Acquired(unfinished.inputs)
        _inherit(context, unfinished.inputs)
        if context.guards.protection is not None and not context.updater.moves_only:
            from kfm.engine.protected.source_classification import take_up, way_of

            take_up(context, way_of(context, context.guards.protection), unfinished.inputs)
        return acquired
    pinner = Pinner(context)
    try:
        refs = author_call(context, "inputs", lambda: context.updater.inputs(context.trigger, pinner))
        if not isinstance(refs, list) or not all(pinner.vouches_for(ref) for ref in refs):
            raise Refused(
                f"inputs() of {context.updater.id} gave something that is not a list of SourceRef",
                hint="return what sources.pin() gave",
            )
    except BaseException:
        context.reached.acquired = Acquired(bytes_in=pinner.bytes_in)  # they came over the wire all the same
        raise
    _inherit(context, refs)
    if pinner.way is not None and not context.updater.moves_only:
        from kfm.engine.protected.source_classification import settle_standing

        given, refs = refs, [pinner.inherited(ref) for ref in refs]
        for old, new in zip(given, refs, strict=True):
            if (contract := pinner.contracts.get(id(old))) is not None:
                pinner.contracts[id(new)] = contract
        settle_standing(context, pinner.way, refs)
    contracts = {i: c for i, ref in enumerate(refs) if (c := pinner.contracts.get(id(ref))) is not None}
    context.reached.acquired = acquired = Acquired(list(refs), contracts, pinner.checkpoints, pinner.bytes_in)
    return acquired


def _inherit(context: RunContext, refs: Sequence[SourceRef]) -> None:
    if not context.updater.moves_only and any(ref.uri.startswith(REF) for ref in refs):
        from kfm.engine.dataset_inputs import inherit

        inherit(context, refs)


class Pinner:
    """The Sources an author is handed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._world = context.world
        self.checkpoints: list[Checkpoint] = []
        self.bytes_in = 0
        self.contracts: dict[int, DataContract] = {}  # by identity of the ref we gave
        self._given: dict[int, SourceRef] = {}  # likewise
        self._versions: Versions | None = None
        self.way: WayIn | None = None
        if context.guards.protection is not None:
            from kfm.engine.protected.source_classification import way_of

            self.way = way_of(context, context.guards.protection)

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
        # A forced run takes nothing for granted: what it fetches again puts right what lies damaged in the store. The
        # preview of a branch has files of its own: what is known of a file is of another, and stays so.
        trigger = self._context.trigger
        alone = bool(preview_of(trigger))
        checkpoint = None if trigger.force or alone else world.state.inbox.checkpoint(request.uri)
        objects = world.objects
        if self.way is not None:
            objects, checkpoint = self.way.objects_for(request), self.way.checkpoint(request, checkpoint)
        else:  # how large something protected is, is nobody's
            objects = counted(objects, world.progress, checkpoint.size if checkpoint is not None else 0)
        fetched = world.open_source(request.uri).fetch(request, checkpoint, objects)
        self.bytes_in += fetched.bytes_on_wire
        ref = fetched.ref
        if contract is not None:
            ref = msgspec.structs.replace(ref, contract_hash=digest(canonical(contract)), layout=layout_of(contract))
        if self.way is not None:
            ref = self.way.came(request, ref, contract)
        told = {} if is_restricted(ref) else {"size": ref.size}
        name = request.name or "unnamed"
        self._context.say("source.pinned", source=name, not_modified=fetched.not_modified, **told)
        kept = fetched.checkpoint if self.way is None else self.way.kept(fetched.checkpoint, ref)
        self.checkpoints += [] if alone else [kept]
        if contract is not None:
            self.contracts[id(ref)] = contract
        self._given[id(ref)] = ref
        return ref

    def names(self) -> list[str]:
        return sorted(self._world.sources)

    def bytes(self, ref: SourceRef) -> bytes:
        if id(ref) not in self._given:
            raise Refused("sources.bytes() is given what was not pinned here", hint="give what sources.pin() gave")
        if ref.uri.startswith(REF):
            raise Refused("sources.bytes() reads what was fetched, and no version", hint="read it in perform()")
        if ref.sealed_with or is_restricted(ref):
            raise Denied(
                "a listing that is restricted is not read before its contract was asked", hint="read it in perform()"
            )
        if ref.size > MOST_LISTED:
            raise Refused(f"a listing of {ref.size} bytes is too large to be read whole", hint="ask for fewer at once")
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
        """Another dataset: nothing is fetched, its version is named."""
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
                f"source {source} is at another version than was expected",
                hint="look at what became of it, then correct what inputs() expects",
                expected=expect_hash,
            )
        if contract is not None:
            ref = msgspec.structs.replace(ref, layout=layout_of(contract))
            self.contracts[id(ref)] = contract
        self._context.say("source.pinned", source=source, not_modified=False)
        self._given[id(ref)] = ref
        return ref

    def inherited(self, ref: SourceRef) -> SourceRef:
        """One that was not pinned stands as what it leads to."""
        if self.way is None or (id(ref) in self._given and not ref.uri.startswith(REF)):
            return ref
        return self.way.inherited(msgspec.structs.replace(ref, standing=None, sealed_with=""))

    def ref(self, name: str) -> SourceRef:
        """The digest a ref points to now; an empty content_hash if it does not exist."""
        check_ref(name)
        return SourceRef(uri=REF + name, content_hash=self._world.state.refs.at(name), size=0, name=name)

    def history(self, name: str) -> list[RefEntry]:
        check_ref(name)
        return list(self._world.state.refs.history(name))

    def vouches_for(self, ref: object) -> bool:
        """One that we gave, or that an author made: then its fields are of their types, and its bytes are here."""
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
    """Then no line says how much of it there is."""
    return ref.standing is not None and ref.standing.level not in ("public", "generalised")


def layout_of(contract: DataContract) -> Layout | None:
    """How perform() must read the source: kept with the input, so that a resumed run reads it the same."""
    names = () if contract.header else tuple(column.name for column in contract.columns)
    layout = Layout(encoding=contract.encoding, delimiter=contract.delimiter, columns=names)
    return None if layout == Layout() else layout


def author_call(context: RunContext, method: str, call: Callable[[], T]) -> T:
    """Run an author's method; what it raises becomes one line with its place, and its words where they may be told."""
    try:
        return call()
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:  # code that exits has failed: no run ends without its receipt
        what = f"{method}() of {context.updater.id} raised {type(problem).__name__} at {place_of(problem)}"
        raise StepFailed(
            what + words_of(context, problem),
            hint="fix the updater (KFM_LOG=debug shows the traceback); nothing was published",
        ) from problem
