"""A connector: the five words in which a source speaks, said as an updater, so that it takes the one walk.

    discover   what the source offers just now      inputs()
    acquire    the bytes of it, pinned              inputs()
    transform  what is made of them, by key         plan(), perform()
    validate   whether that may be published        the last step
    publish    the version that comes of it         at the commit

Nothing here runs by itself: the walk calls what an updater has, and that calls these. Dry runs, kills, receipts,
lineage and gates are therefore those of every other run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kfm.errors import BadInput, Refused
from kfm.model.records import DatasetVersion, SourceRef, Step, Trigger
from kfm.model.updater import Output, Plan, Reader, Sources, Updater

Key = tuple[str, ...]
Make = Callable[[Reader], Output]
VALIDATE = "validate"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class Capabilities(msgspec.Struct, frozen=True):
    """What a source offers just now."""

    sources: tuple[str, ...]  # names of kfm.yml, URLs or paths: what acquire() pins
    partitions: tuple[str, ...] = ()  # the parts it can be asked for; empty: only the whole
    complete: bool = False  # what is listed is all there is


class RawManifest(msgspec.Struct, frozen=True):
    """What was acquired: each source pinned to its bytes, those that discover() read among them, in their order."""

    sources: tuple[SourceRef, ...]

    def named(self, name: str) -> SourceRef:
        """By its name in kfm.yml, or by its address."""
        for ref in self.sources:
            if name in (ref.name, ref.uri):
                return ref
        raise Refused("the manifest has no such source", hint="pin it in acquire()")


class WorkArtifacts(msgspec.Struct, frozen=True):
    """What is to be made, by key, and how: a function of what perform() of an updater reads. Each becomes a step of
    its own, so that a killed run makes only what is missing."""

    artifacts: Mapping[Key, Make]
    complete: bool = False  # as in Plan: a key that is not here any more is a deletion

    @staticmethod
    def name(key: Key) -> str:
        """The step that makes it: by this name validate() reads it."""
        return "work/" + "/".join(key)


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at. Its id goes into messages: never make it from data."""

    id: str  # letters, digits, `-`, `_`, `.`
    passed: bool


class ValidationReport(msgspec.Struct, frozen=True):
    """What validate() found. One check that failed, or no check at all, and nothing is published."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.passed for check in self.checks)


class DatasetVersionRef(msgspec.Struct, frozen=True):
    """A version that is published, by its digest; with what is said of it besides."""

    dataset: str
    version: str
    metadata: dict[str, Any] = {}


class Context:
    """What a connector is handed beside its own results. What a stage does not have, it refuses by name."""

    __slots__ = ("_given", "_stage")

    def __init__(self, stage: str, **given: Any) -> None:
        self._stage = stage
        self._given = given

    def _get(self, name: str) -> Any:
        if name not in self._given:
            raise Refused(f"{self._stage}() has no {name}", hint="see the guide to connectors for who has what")
        return self._given[name]

    @property
    def trigger(self) -> Trigger:
        """discover, acquire: who asked, and for what."""
        found: Trigger = self._get("trigger")
        return found

    @property
    def sources(self) -> Sources:
        """discover, acquire: pins sources, and reads what was pinned."""
        found: Sources = self._get("sources")
        return found

    @property
    def read(self) -> Reader:
        """validate: the sources and, by `work.name(key)`, what was made."""
        found: Reader = self._get("read")
        return found

    @property
    def version(self) -> DatasetVersion:
        """publish: what is about to be committed."""
        found: DatasetVersion = self._get("version")
        return found


class Connector(Updater):
    """Write `discover`, `transform` and `validate`; `acquire` pins what was discovered, and `publish` lets the version
    be what the walk made. `version` changes whenever one of them would answer differently for the same inputs."""

    _known: tuple[tuple[SourceRef, ...], WorkArtifacts] | None = None  # what transform() last made, and of what

    def discover(self, ctx: Context) -> Capabilities:
        """What the source offers. It may pin a listing and read it; that is then an input as well."""
        raise NotImplementedError

    def acquire(self, ctx: Context, plan: Capabilities) -> RawManifest:
        """The bytes. Nothing is acquired but through `ctx.sources`."""
        return RawManifest(tuple(ctx.sources.pin(source) for source in plan.sources))

    def transform(self, ctx: Context, manifest: RawManifest) -> WorkArtifacts:
        """Pure, as plan(): which keys there will be, and a function that makes each."""
        raise NotImplementedError

    def validate(self, ctx: Context, work: WorkArtifacts) -> ValidationReport:
        """Everything that was made, looked at before any of it counts. It may be called again."""
        raise NotImplementedError

    def publish(self, ctx: Context, work: WorkArtifacts, report: ValidationReport) -> DatasetVersionRef:  # noqa: ARG002
        """The last word: it may say more in `metadata`, or raise Refused. The ref moves after it, in the commit."""
        return DatasetVersionRef(ctx.version.dataset, ctx.version.digest)

    # -- as an updater

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:
        kept = _Kept(sources)
        found = self.discover(Context("discover", trigger=trigger, sources=kept))
        _check_type("discover", found, Capabilities)
        manifest = self.acquire(Context("acquire", trigger=trigger, sources=kept), found)
        _check_type("acquire", manifest, RawManifest)
        others = [ref for ref in manifest.sources if not any(ref is pinned for pinned in kept.pinned)]
        return kept.pinned + others

    def plan(self, inputs: Sequence[SourceRef]) -> Plan:
        work = self._work(inputs)
        steps = [Step(id=work.name(key), key=key) for key in work.artifacts]
        last = Step(id=VALIDATE, needs=tuple(step.id for step in steps))
        return Plan([*steps, last], complete=work.complete)

    def perform(self, step: Step, read: Reader) -> Output:
        work = self._work(read.inputs)
        if step.key is not None:
            return work.artifacts[tuple(step.key)](read)
        report = self.validate(Context("validate", read=read), work)
        _check_report(report)
        failed = [check.id for check in report.checks if not check.passed]
        if not report.passed:
            what = f"{len(failed)} of {len(report.checks)} checks failed" if failed else "it checked nothing"
            raise Refused(
                f"validate() of {self.id}: {what}" + (f": {', '.join(failed[:10])}" if failed else ""),
                hint="look at the source; nothing was published",
                discreet=f"validate() of {self.id}: {what}",
            )
        return Output.json({"checks": [{"id": check.id, "passed": check.passed} for check in report.checks]})

    def conclude(
        self, version: DatasetVersion, inputs: Sequence[SourceRef], made: Callable[[str], bytes]
    ) -> DatasetVersion:
        report = msgspec.json.decode(made(VALIDATE), type=ValidationReport)  # as it was found, also by a killed run
        said = self.publish(Context("publish", version=version), self._work(inputs), report)
        _check_type("publish", said, DatasetVersionRef)
        if (said.dataset, said.version) != (version.dataset, version.digest):
            raise Refused(
                f"publish() of {self.id} names another version than the one that was made",
                hint="give the dataset and digest of ctx.version",
            )
        return msgspec.structs.replace(version, metadata={**version.metadata, **said.metadata})

    def _work(self, inputs: Sequence[SourceRef]) -> WorkArtifacts:
        """What transform() makes of these; asked once for all steps of a run."""
        inputs, known = tuple(inputs), self._known
        if known is None or known[0] != inputs:
            work = self.transform(Context("transform"), RawManifest(inputs))
            _check_type("transform", work, WorkArtifacts)
            if not all(type(key) is tuple and all(type(part) is str for part in key) for key in work.artifacts):
                raise BadInput("a key of transform() is not a tuple of texts", hint='write ("counties", "Reno")')
            self._known = known = (inputs, work)
        return known[1]


class _Kept:
    """The Sources of a connector: it remembers what was pinned, since all of that is an input."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.pinned: list[SourceRef] = []

    def pin(self, source: str, **how: Any) -> SourceRef:
        ref = self._sources.pin(source, **how)
        self.pinned.append(ref)
        return ref

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sources, name)


def _check_type(method: str, found: object, wanted: type[object]) -> None:
    if type(found) is not wanted:
        raise Refused(f"{method}() gave something that is no {wanted.__name__}", hint=f"return {wanted.__name__}(…)")


def _check_report(report: ValidationReport) -> None:
    _check_type(VALIDATE, report, ValidationReport)
    for check in report.checks:
        if type(check) is not Check or type(check.passed) is not bool or not _is_plain(check.id):
            raise Refused("a check of validate() has no plain id or no answer", hint='write Check("rows", True)')


def _is_plain(text: object) -> bool:
    return type(text) is str and 0 < len(text) <= 60 and _PLAIN.issuperset(text)
