"""`kfm reproduce`: repeats a recorded run in memory, from its recorded inputs, and compares the results.

The dry session reads the real installation and writes only to memory. Reports hold ids, digests and rules, never a
value; for data that is not public also no name that an author may have derived from data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kfm.app.authority.classification import declared_settings
from kfm.app.authority.run_setup import context_of
from kfm.app.runs.queries import steps
from kfm.app.runs.resolve import find_thing
from kfm.app.session.datasets import dataset_updater
from kfm.app.session.protection_files import readable_objects
from kfm.app.session.recorded_config import recorded_config, with_config
from kfm.app.session.session import Session, open_session
from kfm.clock import rfc3339
from kfm.engine.reproduction import again, again_trigger, rewind, went_out_from
from kfm.errors import BadInput, Corrupt, Denied, KfmError, Refused
from kfm.model import manifests, refs
from kfm.model.operation_target import REF
from kfm.model.ports import Objects
from kfm.model.preview_records import preview_of
from kfm.model.records import Receipt, Record, Run, SourceRef
from kfm.model.updater import Updater
from kfm.operations.registry import operations

if TYPE_CHECKING:
    from kfm.config import Resolved

What = Literal["input", "object", "code", "configuration", "plan", "gate", "step", "output"]


class Divergence(Record, frozen=True):
    """A difference between the recorded run and its repetition."""

    what: What
    name: str  # name of the input, module, step …
    message: str
    recorded: str = ""
    found: str = ""


class Reproduced(Record, frozen=True):
    """The result of repeating a recorded run. `identical` means that every byte of the version is the same."""

    run_id: str
    dataset: str
    version: str
    identical: bool
    made: str  # digest of the new version; empty if there is none
    inputs: int
    steps: int
    configuration: Literal["recorded", "today"]  # the settings of the dataset that were used: the run's, or kfm.yml's
    config_hash: str  # their digest; empty if there were none
    first: Divergence | None  # None if identical
    others: list[Divergence]  # further differences; if identical, those without effect


def reproduce(resolved: Resolved, text: str, *, today: bool = False) -> Reproduced:
    """Repeat the run that made the named thing, and return how its result compares. The settings of the dataset are
    those of the run; with `today`, and for runs that recorded none, those of kfm.yml."""
    with open_session(resolved, mode="dry") as session:
        run = recorded_run(session, text)
        stored = list(_stored(session, run))
        config_hash, unusable = ("", []) if today else _use_recorded(session, run)
        updater, unloadable = (None, unusable) if unusable else _updater(session, run)
        found = [*stored, *unloadable]
        if updater is not None:
            found += [*_code(session, run, updater)]
        readable = all(one.what not in ("input", "object") or one.name == "version" for one in stored)
        receipt = None
        if updater is not None and readable:
            receipt, failed = _again(session, run, updater)
            found += [*_otherwise(session, run, receipt), *failed]
        made = _made(session, receipt)
        same = made == run.version_digest
        if not same:
            found += _first_step(session, run, receipt)
        whole = same and not any(one.what == "object" for one in found)
        return Reproduced(
            run_id=run.run_id,
            dataset=run.dataset,
            version=run.version_digest,
            identical=whole,
            made=made,
            inputs=len(run.inputs),
            steps=run.steps,
            configuration="recorded" if config_hash else "today",
            config_hash=config_hash or declared_settings(session, run.dataset).config_hash,
            first=None if whole else (found or [_unexplained(run, made)])[0],
            others=found if whole else found[1:],
        )


def recorded_run(session: Session, text: str) -> Run:
    """Return the run that made the named version, dataset or ref, or the named run itself. Refused if it made no
    version."""
    thing = find_thing(session, text)
    if thing.version and thing.kind != "run":
        version = session.state.ledger.version(thing.dataset, thing.version)
        run = session.state.runs.get(version.run_id) if version is not None else None
        if run is None:
            raise Corrupt(f"the run that made {thing.version} is not recorded", hint="see `kfm doctor --deep`")
        return run
    if thing.kind != "run":
        raise BadInput(f"{thing.name} is no version and no run", hint="name a dataset, a version or a run")
    run, receipt = session.state.runs.get(thing.run_id), session.state.ledger.receipt(thing.run_id)
    if run is not None and run.status == "COMMITTED" and run.version_digest:
        return run
    if run is not None and run.status == "RUNNING":
        raise Refused(f"run {thing.run_id} is unfinished", hint=f"`kfm resume {thing.run_id}` ends it")
    moves_only = receipt is not None and receipt.updater_id in {kind.id for kind in operations().values()}
    said = "moved refs and made no bytes" if moves_only else "made no version"
    outcome = f" ({receipt.outcome})" if receipt is not None else ""
    raise Refused(
        f"run {thing.run_id} {said}{outcome}", hint="name the version; see `kfm why-not` for why it made none"
    )


# -- recorded bytes


def _stored(session: Session, run: Run) -> Iterator[Divergence]:
    """Yield objects that are missing or altered: the inputs of the run, the version it started from, and its result."""
    for number, ref in enumerate(run.inputs):
        name = ref.name or f"input {number + 1}"
        for digest in dict.fromkeys((ref.content_hash, ref.accepted_hash)):
            if digest and (wrong := _damage(session.objects, digest)):
                missing = "is missing" in wrong
                said = "is missing" if missing else "has other bytes than were recorded"
                what: What = "object" if missing else "input"
                yield Divergence(what=what, name=name, message=f"input {name} ({digest}) {said}", recorded=digest)
    before = next((move.before for move in run.moves if move.ref == refs.processed(run.dataset)), "")
    if preview_of(run.trigger):
        before = went_out_from(session.state, run)
    for which, version in (("before", before), ("version", run.version_digest)):
        if version:
            yield from _whole(session, which, version)


def _whole(session: Session, which: str, version: str) -> Iterator[Divergence]:
    readable = readable_objects(session)
    try:
        named = [*manifests.parts(readable, version)]
        if which == "version":
            named += [entry.digest for entry in manifests.entries(readable, version)]
    except Corrupt as problem:
        yield Divergence(what="object", name=which, message=f"the manifest of {version}: {problem.message}")
        return
    for digest in dict.fromkeys(named):
        if wrong := _damage(session.objects, digest):
            said = f"{wrong}; it belongs to {'what the run made' if which == 'version' else 'the version before'}"
            yield Divergence(what="object", name=which, message=said, recorded=digest)
            return


def _damage(objects: Objects, digest: str) -> str:
    """Return what is wrong with an object; empty if nothing is."""
    try:
        with objects.open(digest) as file:
            while file.read(1 << 20):
                pass
    except Corrupt as problem:
        return problem.message
    return ""


# -- the configuration and the code


def _use_recorded(session: Session, run: Run) -> tuple[str, list[Divergence]]:
    """Give the session the settings of the dataset that the run recorded. Return their digest, empty if it recorded
    none; and what is wrong with them."""
    receipt = session.state.ledger.receipt(run.run_id)
    then = receipt.config_hash if receipt is not None else ""
    same = then == declared_settings(session, run.dataset).config_hash
    if not then or (same and session.state.inline_object(then) is None):
        return then, []
    try:
        recorded = recorded_config(session, then, f"see `kfm reproduce {run.run_id} --today`, with that of kfm.yml")
    except (Corrupt, Refused) as problem:
        what: What = "object" if isinstance(problem, Corrupt) else "configuration"
        return then, [Divergence(what=what, name="configuration", message=str(problem), recorded=then)]
    session.resolved = with_config(session.resolved, run.dataset, recorded)
    session.config = session.resolved.config
    return then, []


def _updater(session: Session, run: Run) -> tuple[Updater | None, list[Divergence]]:
    """Return the updater that the settings name; None and the reason if there is none."""
    if run.dataset not in session.config.datasets:
        said = f"kfm.yml names no dataset {run.dataset} any more"
        return None, [Divergence(what="configuration", name=run.dataset, message=said)]
    try:
        return dataset_updater(session, run.dataset), []
    except KfmError as problem:
        return None, [Divergence(what="code", name=run.updater_id, message=problem.message)]


def _code(session: Session, run: Run, updater: Updater) -> Iterator[Divergence]:
    if (updater.id, updater.version) != (run.updater_id, run.updater_version):
        then, now = f"{run.updater_id} {run.updater_version}", f"{updater.id} {updater.version}"
        yield Divergence(
            what="code", name=updater.id, message=f"{then} made it, and here is {now}", recorded=then, found=now
        )
    if not run.code_hash or run.code_hash == updater.code_hash:
        return
    if updater.declared:
        said = f"what kfm.yml declares for {run.dataset} is other than it was"
        yield Divergence(
            what="configuration", name="outputs", message=said, recorded=run.code_hash, found=updater.code_hash
        )
        return
    then_, now_ = _listing(session.state.inline_object(run.code_hash)), _listing(updater.code_listing)
    named = sorted(name for name in {*then_, *now_} if then_.get(name) != now_.get(name)) if then_ else []
    for name in named:
        kind = "package" if name.startswith("package ") else "module"
        said = "is other than it was" if name in then_ and name in now_ else "is new" if name in now_ else "is gone"
        shown = name.removeprefix("package ")
        yield Divergence(
            what="code",
            name=shown,
            message=f"{kind} {shown} {said}",
            recorded=then_.get(name, ""),
            found=now_.get(name, ""),
        )
    if not named:
        said = "the code is other than it was; which of its modules is not recorded"
        yield Divergence(what="code", name=updater.id, message=said, recorded=run.code_hash, found=updater.code_hash)


def _listing(body: bytes | None) -> dict[str, str]:
    """Parse a code listing: return modules by path and packages by name, each with its digest or release."""
    if not body:
        return {}
    try:
        said = msgspec.json.decode(body, type=dict[str, Any])
        modules = {str(name): str(digest) for name, digest in said["modules"]}
        return modules | {f"package {name}": str(release) for name, release in said["releases"]}
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return {}


# -- the repetition


def _again(session: Session, run: Run, updater: Updater) -> tuple[Receipt | None, list[Divergence]]:
    rewind(session.tables, session.state, run, rfc3339(session.clock.now_ms()))
    try:
        context = context_of(session, again_trigger(run), updater)
        receipt = again(run, context, readable_objects(session))
    except Denied:
        raise  # without the custodian's key nothing can be compared
    except KfmError as problem:
        return None, [Divergence(what="step", name=problem.code, message=problem.message)]
    if receipt.status == "SUCCESS" or not receipt.errors:
        return receipt, []
    note = receipt.errors[0]
    if note.code.startswith("denied") and receipt.plan_hash == "":
        raise Denied(note.message)
    whats: dict[str, What] = {"plan.changed": "plan", "plan.impure": "plan", "denied": "gate", "source.held": "gate"}
    return receipt, [Divergence(what=whats.get(note.code, "step"), name=note.code, message=note.message)]


def _made(session: Session, receipt: Receipt | None) -> str:
    run = session.state.runs.get(receipt.run_id) if receipt is not None else None
    return run.version_digest if run is not None and run.status == "COMMITTED" else ""


def _otherwise(session: Session, run: Run, receipt: Receipt | None) -> Iterator[Divergence]:
    """Yield inputs that the repetition read differently: the same bytes under another contract, label or mask."""
    now = session.state.runs.get(receipt.run_id) if receipt is not None else None
    if now is None:
        return
    then = {(ref.name, ref.uri, ref.partition): ref for ref in run.inputs}
    for number, ref in enumerate(now.inputs):
        old = then.pop((ref.name, ref.uri, ref.partition), None)
        name = ref.name or f"input {number + 1}"
        if old is None:
            yield Divergence(what="configuration", name=name, message=f"input {name} is read, and was not")
            continue
        yield from _read_otherwise(name, old, ref)
    for ref in then.values():
        shown = ref.name or ref.uri.removeprefix(REF) if ref.uri.startswith(REF) else ref.name or "an input"
        yield Divergence(what="configuration", name=shown, message=f"input {shown} was read, and is not")


def _read_otherwise(name: str, old: SourceRef, new: SourceRef) -> Iterator[Divergence]:
    differs: list[tuple[str, str, str, str]] = [
        ("has another content", "content_hash", old.content_hash, new.content_hash),
        ("is checked against another contract, label or mask", "contract_hash", old.contract_hash, new.contract_hash),
        ("passes with other rows", "accepted_hash", old.accepted_hash, new.accepted_hash),
        ("is declared complete otherwise", "complete", str(old.complete), str(new.complete)),
    ]
    for said, field, then, now in differs:
        if then != now and (now or field != "accepted_hash"):
            yield Divergence(what="configuration", name=name, message=f"input {name} {said}", recorded=then, found=now)


def _first_step(session: Session, run: Run, receipt: Receipt | None) -> list[Divergence]:
    """Return the first step of the same plan that gave other bytes."""
    if receipt is None or receipt.plan_hash != run.plan_hash:
        return []
    then, now = (_digests(session, run_id) for run_id in (run.run_id, receipt.run_id))
    position = min((at for at in then if at in now and then[at] != now[at]), default=-1)
    if position < 0:
        return []
    today = declared_settings(session, run.dataset).metadata.get("sensitivity")
    public = today == run.metadata.get("sensitivity") == "public" and all(
        ref.standing is None or ref.standing.level == "public" for ref in run.inputs
    )
    name = _step_id(session, run, position) if public else ""
    shown = f"step {name} ({position + 1} of {run.steps})" if name else f"step {position + 1} of {run.steps}"
    said = f"{shown} gives other bytes"
    return [Divergence(what="output", name=name or shown, message=said, recorded=then[position], found=now[position])]


def _digests(session: Session, run_id: str) -> dict[int, str]:
    return {at: digest for segment, _ in session.state.journal.segments(run_id) for at, digest, _, _ in segment.done}


def _step_id(session: Session, run: Run, position: int) -> str:
    return next((step.id for at, (step, _, _) in enumerate(steps(session, run)) if at == position), "")


def _unexplained(run: Run, made: str) -> Divergence:
    said = "other bytes came out" if made else "nothing came out"
    return Divergence(what="output", name="version", message=said, recorded=run.version_digest, found=made)
