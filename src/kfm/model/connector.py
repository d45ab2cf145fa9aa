"""A connector: an updater written as five methods. The engine runs it like every other updater.

    discover   lists what the source offers now           called by inputs()
    acquire    pins its bytes                             called by inputs()
    transform  lists the outputs by key                   called by plan() and perform()
    validate   decides whether they may be published      is the last step
    publish    may refuse the version or add metadata     is called at the commit

The engine calls the methods of an updater, and these call the five. So dry runs, resumed runs, receipts, lineage and
gates work as in every other run.
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
    """What a source offers now."""

    sources: tuple[str, ...]  # names in kfm.yml, URLs or paths that acquire() pins
    partitions: tuple[str, ...] = ()  # the partitions that can be requested; empty: only the whole
    complete: bool = False  # the list holds everything that the source has


class RawManifest(msgspec.Struct, frozen=True):
    """The acquired sources, each pinned to its bytes, in order; those that discover() read are among them."""

    sources: tuple[SourceRef, ...]

    def named(self, name: str) -> SourceRef:
        """Return the source with this name in kfm.yml or this address. Raise Refused if there is none."""
        for ref in self.sources:
            if name in (ref.name, ref.uri):
                return ref
        raise Refused("the manifest has no such source", hint="pin it in acquire()")


class WorkArtifacts(msgspec.Struct, frozen=True):
    """The outputs to build: for each key, a function from a Reader to an Output. Each becomes a step of its own, so a
    resumed run builds only what is missing."""

    artifacts: Mapping[Key, Make]
    complete: bool = False  # as in Plan: a key that is no longer here is deleted

    @staticmethod
    def name(key: Key) -> str:
        """Return the id of the step that builds this key; validate() reads the output by this id."""
        return "work/" + "/".join(key)


class Check(msgspec.Struct, frozen=True):
    """One check of a connector's outputs. Messages show its id, so the author must not build the id from data."""

    id: str  # letters, digits, `-`, `_`, `.`
    passed: bool


class ValidationReport(msgspec.Struct, frozen=True):
    """The result of validate(). If a check failed, or there is no check, nothing is published."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return bool(self.checks) and all(check.passed for check in self.checks)


class DatasetVersionRef(msgspec.Struct, frozen=True):
    """A published version by its digest, with additional metadata."""

    dataset: str
    version: str
    metadata: dict[str, Any] = {}


class Context:
    """What a method of a connector may use besides its arguments. A property that its stage does not have raises
    Refused."""

    __slots__ = ("_given", "_stage")

    def __init__(self, stage: str, **given: Any) -> None:
        self._stage = stage
        self._given = given

    def _get(self, name: str) -> Any:
        if name not in self._given:
            raise Refused(f"{self._stage}() has no {name}", hint="the guide to connectors lists what each method has")
        return self._given[name]

    @property
    def trigger(self) -> Trigger:
        """The request for the run, for `discover` and `acquire`."""
        found: Trigger = self._get("trigger")
        return found

    @property
    def sources(self) -> Sources:
        """The object that pins sources and reads pinned ones, for `discover` and `acquire`."""
        found: Sources = self._get("sources")
        return found

    @property
    def read(self) -> Reader:
        """The reader of the sources and, by `work.name(key)`, of the outputs, for `validate`."""
        found: Reader = self._get("read")
        return found

    @property
    def version(self) -> DatasetVersion:
        """The version that is about to be committed, for `publish`."""
        found: DatasetVersion = self._get("version")
        return found


class Connector(Updater):
    """Implement `discover`, `transform` and `validate`. By default `acquire` pins what was discovered, and `publish`
    accepts the version as built. Change `version` whenever a method would give another result for the same inputs."""

    _known: tuple[tuple[SourceRef, ...], WorkArtifacts] | None = (
        None  # the last inputs of transform(), and its result for them
    )

    def discover(self, ctx: Context) -> Capabilities:
        """Return what the source offers. A listing that this pins and reads also becomes an input."""
        raise NotImplementedError

    def acquire(self, ctx: Context, plan: Capabilities) -> RawManifest:
        """Return the pinned sources. Bytes can only be acquired through `ctx.sources`."""
        return RawManifest(tuple(ctx.sources.pin(source) for source in plan.sources))

    def transform(self, ctx: Context, manifest: RawManifest) -> WorkArtifacts:
        """Return the keys and a function that builds each. It must be pure, like plan()."""
        raise NotImplementedError

    def validate(self, ctx: Context, work: WorkArtifacts) -> ValidationReport:
        """Check all outputs before any of them is published. The engine may call it again."""
        raise NotImplementedError

    def publish(self, ctx: Context, work: WorkArtifacts, report: ValidationReport) -> DatasetVersionRef:  # noqa: ARG002
        """Return the version, with more `metadata` if wanted, or raise Refused. The ref moves after it, in the
        commit."""
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
                hint="check the source; nothing was published",
                discreet=f"validate() of {self.id}: {what}",
            )
        return Output.json({"checks": [{"id": check.id, "passed": check.passed} for check in report.checks]})

    def conclude(
        self, version: DatasetVersion, inputs: Sequence[SourceRef], made: Callable[[str], bytes]
    ) -> DatasetVersion:
        report = msgspec.json.decode(
            made(VALIDATE), type=ValidationReport
        )  # the stored result, also if a killed run wrote it
        said = self.publish(Context("publish", version=version), self._work(inputs), report)
        _check_type("publish", said, DatasetVersionRef)
        if (said.dataset, said.version) != (version.dataset, version.digest):
            raise Refused(
                f"publish() of {self.id} names a version that this run did not make",
                hint="return the dataset and digest of ctx.version",
            )
        return msgspec.structs.replace(version, metadata={**version.metadata, **said.metadata})

    def _work(self, inputs: Sequence[SourceRef]) -> WorkArtifacts:
        """Return the result of transform() for these inputs; it is called once for all steps of a run."""
        inputs, known = tuple(inputs), self._known
        if known is None or known[0] != inputs:
            work = self.transform(Context("transform"), RawManifest(inputs))
            _check_type("transform", work, WorkArtifacts)
            if not all(type(key) is tuple and all(type(part) is str for part in key) for key in work.artifacts):
                raise BadInput("a key of transform() is not a tuple of texts", hint='write ("counties", "Reno")')
            self._known = known = (inputs, work)
        return known[1]


class _Kept:
    """Wraps the Sources of a connector and remembers what was pinned: all of it is an input."""

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
        raise Refused(f"{method}() did not return a {wanted.__name__}", hint=f"return {wanted.__name__}(…)")


def _check_report(report: ValidationReport) -> None:
    _check_type(VALIDATE, report, ValidationReport)
    for check in report.checks:
        if type(check) is not Check or type(check.passed) is not bool or not _is_plain(check.id):
            raise Refused(
                "a check of validate() has no plain id, or its result is not true or false",
                hint='write Check("rows", True)',
            )


def _is_plain(text: object) -> bool:
    return type(text) is str and 0 < len(text) <= 60 and _PLAIN.issuperset(text)
