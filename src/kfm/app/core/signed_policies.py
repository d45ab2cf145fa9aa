"""Masking policies, and the policies that an installation adds, as they were signed.

With the first run under a key list each is in force as it is. From then on a changed file lets nothing be done until
those who must have signed exactly its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.core.keyring import Installed
from kfm.errors import BadInput, Denied, KfmError
from kfm.model.keys import digest
from kfm.model.masks import ColumnRule, MaskingPolicy, read_policy
from kfm.operations.rule_operations import MASKS as MASKS
from kfm.operations.rule_operations import POLICY as POLICY
from kfm.operations.rule_operations import RULED
from kfm.parsing import documents

if TYPE_CHECKING:
    from kfm.config import Resolved
    from kfm.config.source_settings import SourceConfig

ACTOR = "kfm"
COARSER = ("quarter", "year", "decade", "century")


def masked_source(resolved: Resolved, dataset: str, source: str) -> SourceConfig:
    declared = resolved.config.datasets.get(dataset)
    found = declared.sources.get(source) if declared is not None else None
    if found is None or not found.mask:
        raise BadInput(f"{dataset} has no source {source} with a masking policy", hint="see `kfm labels show`")
    return found


def mask_file(resolved: Resolved, dataset: str, source: str) -> bytes:
    path = masked_source(resolved, dataset, source).mask
    try:
        with open(resolved.in_tree(path), "rb") as file:
            return file.read(documents.MAX_BYTES + 1)
    except OSError as problem:
        reason = (problem.strerror or "").lower()
        raise BadInput(f"the masking policy at {path} cannot be read: {reason}", hint="correct the path") from None


def own_policies(resolved: Resolved) -> bytes:
    """What the installation adds, in one text; empty: nothing."""
    folder = resolved.config.policy.folder
    if not folder:
        return b""
    from kfm.policy.policy_bundle import read_files

    files = sorted(read_files(resolved.at(folder)).items())
    return b"".join(f"== {name} {len(text)}\n{text}\n".encode() for name, text in files)


def unsigned_masks(session: Installed, dataset: str) -> frozenset[str]:
    """Sources whose masking policy is not the one that was signed."""
    declared = session.resolved.config.datasets.get(dataset)
    found = set()
    for name, source in (declared.sources if declared is not None else {}).items():
        at = session.state.refs.at(f"{MASKS}{dataset}/{name}") if source.mask else ""
        if at and digest(mask_file(session.resolved, dataset, name)) != at:
            found.add(name)
    return frozenset(found)


def check_policies(session: Installed) -> None:
    at = session.state.refs.at(POLICY)
    if at and digest(own_policies(session.resolved)) != at:
        raise Denied(
            "the policies of this installation are not those that were signed",
            hint="put them back, or have them signed by two admins: `kfm policy deploy --key FILE --reason …`",
            rule="policy.unsigned",
        )


class Weighed(NamedTuple):
    action: str
    custodians: list[str]


def current(session: Installed, ref: str) -> bytes:
    """What a ref of these should lead to, as it lies there now."""
    if ref == POLICY:
        return own_policies(session.resolved)
    dataset, _, source = ref.removeprefix(MASKS).partition("/")
    return mask_file(session.resolved, dataset, source)


def weigh(session: Installed, ref: str, before: str) -> Weighed:
    """What a change of one of these is, and whose data it is about."""
    if ref == POLICY:
        return Weighed("policy.deploy", [])
    dataset, _, source = ref.removeprefix(MASKS).partition("/")
    old = _policy(session.objects.read(before)) if before else None
    new = _policy(mask_file(session.resolved, dataset, source))
    action = "mask.coarsen" if old is not None and is_coarser(old, new) else "mask.refine"
    return Weighed(action, _custodians(session, dataset, source))


def _policy(body: bytes) -> MaskingPolicy:
    if body.lstrip()[:1] == b"{":
        try:
            return read_policy(documents.read(body, "the masking policy", json=True))
        except KfmError:
            pass  # YAML may begin so too
    return read_policy(documents.read(body, "the masking policy", json=False))


def _custodians(session: Installed, dataset: str, source: str) -> list[str]:
    from kfm.engine.protected.source_classification import WayIn

    ports = session.ports(dataset)
    if ports.protection is None:
        return []
    uri = masked_source(session.resolved, dataset, source).known_as
    standing = WayIn(ports, ports.protection, dataset).stands(uri, session.resolved.root, "")
    return list(standing.custodians) if standing is not None else []


def is_coarser(old: MaskingPolicy, new: MaskingPolicy) -> bool:
    """Does the public surely see no more by the new one? Whatever is not plainly so is not."""
    plain = {"version": "", "resolution": 0, "columns": {}, "k": 5}
    if msgspec.structs.replace(old, **plain) != msgspec.structs.replace(new, **plain):
        return False
    if new.resolution > old.resolution or new.k < old.k:
        return False
    return all(name in old.columns and _says_less(old.columns[name], rule) for name, rule in new.columns.items())


def _says_less(old: ColumnRule, new: ColumnRule) -> bool:
    if (old.kind, old.name, old.step) != (new.kind, new.name, new.step):
        return False
    reviewed = new.reviewed_by in ("", old.reviewed_by)
    return reviewed and set(new.values) <= set(old.values) and COARSER.index(new.to) >= COARSER.index(old.to)


def take_first(session: Installed, dataset: str) -> None:
    """Each as it is when it is first used under a key list."""
    from kfm.app.core.keyring import in_force

    declared = session.resolved.config.datasets.get(dataset)
    sources = declared.sources if declared is not None else {}
    refs = [("mask", f"{MASKS}{dataset}/{name}") for name, source in sources.items() if source.mask]
    refs += [("policy", POLICY)] if session.resolved.config.policy.folder else []
    missing = [(op, ref) for op, ref in refs if not session.state.refs.at(ref)]
    if session.mode != "write" or not missing or in_force(session) is None:
        return
    for op, ref in missing:
        _take(session, op, dataset, ref)


def _take(session: Installed, op: str, dataset: str, ref: str) -> None:
    from kfm.engine.run import run
    from kfm.engine.stage_results import Warrant
    from kfm.scheduling.triggers import operation_trigger

    updater = RULED[op]()
    params = {"ref": ref, "to": session.objects.put(current(session, ref))}
    trigger = operation_trigger(updater, dataset, params, session.clock, actor=ACTOR, reason="as it is first used")
    ports = msgspec.structs.replace(session.ports(dataset), authority=lambda *_about: Warrant())
    try:
        run(trigger, updater, ports)
    except KfmError as problem:  # somebody else does it just now, or the next run does
        session.log.event("rules.untaken", error=problem)
