"""The serve gate of an installation: may this version be shown to this audience now?

It is asked for every version that an answer over HTTP shows. It looks at the files and the state as they are, so that a
label that a person tightens in the file counts at the next request, before any command withdraws what it closes. A
decision is remembered only as long as nothing that it came from has changed.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kfm.app.authority.classification import classification_now, declared_now, protection_for
from kfm.app.authority.gates import Gates
from kfm.app.authority.recall import closing_rules
from kfm.app.runs.visibility import Visibility
from kfm.app.serving.closed_records import record_rules
from kfm.app.session.protection_files import is_needed
from kfm.config import load
from kfm.config.upstream_datasets import above, metadata_of, upstreams
from kfm.errors import KfmError
from kfm.model import refs
from kfm.model.labels import joined
from kfm.policy.decision import Decider
from kfm.policy.questions import PolicyDecision
from kfm.policy.serve_gate import earliest_end_ms, no_version, serve_gate

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import Classification, DatasetVersion, Level

MOST = 10_000  # remembered decisions
DAY_MS = 86_400_000
Stamp = tuple[tuple[str, int, int, int], ...]


class _Remembered(NamedTuple):
    decision: PolicyDecision
    since_ms: int
    until_ms: int


class _Rules(NamedTuple):
    """What the files of the installation say, read once for each of their states."""

    stamp: Stamp
    session: Session
    decider: Decider
    policies: Stamp
    signed: str


class ServeGate:
    """Decides for one session, and remembers decisions over its requests. Use it in one thread at a time."""

    def __init__(self, session: Session) -> None:
        self._opened = session
        self._rules: _Rules | None = None
        self._known: OrderedDict[tuple[object, ...], _Remembered] = OrderedDict()

    def decision(self, dataset: str, version: str, status: str, audience: str) -> PolicyDecision:
        """Decide about a version. Its status is that of the published ref: `current`, `superseded`, `withdrawn`,
        `rolled back` or `none`. A failure does not raise: it is a denial, and is not remembered."""
        when_ms = self._opened.clock.now_ms()
        try:
            return self._decided(dataset, version, status, audience, when_ms)
        except KfmError:
            pass
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception:  # nothing that goes wrong here may end in a yes
            self._opened.log.event("serve.failed", dataset=dataset)
        return no_version(audience, when_ms)

    def forget(self) -> None:
        """Forget every decision, and read the files again at the next question."""
        self._known.clear()
        self._rules = None

    def _decided(self, dataset: str, version: str, status: str, audience: str, when_ms: int) -> PolicyDecision:
        rules = self._current_rules()
        session = rules.session
        gates = Gates(session.resolved, dataset, metadata_of(session.config.datasets, dataset), session)
        epoch = gates.epoch()
        made = session.state.ledger.version(dataset, version)
        if made is None:
            return no_version(audience, when_ms, rules.decider)
        key = (
            rules.decider.policy_digest,
            epoch,
            rules.stamp,
            _memory(session),
            dataset,
            version,
            made.validated_by,
            status,
            audience,
        )
        known = self._known.get(key)
        if known is not None and known.since_ms <= when_ms < known.until_ms:
            self._known.move_to_end(key)
            return known.decision
        decision, end = _decide(session, made, status, audience, when_ms, epoch, rules.decider)
        if not any(rule.startswith(("engine.", "question.")) for rule in decision.rules):
            self._remember(key, _Remembered(decision, when_ms, end))
        return decision

    def _remember(self, key: tuple[object, ...], found: _Remembered) -> None:
        self._known.pop(key, None)
        while len(self._known) >= MOST:
            self._known.popitem(last=False)
        self._known[key] = found

    def _current_rules(self) -> _Rules:
        """Return the configuration and the policies as their files say now. KfmError if they cannot be read."""
        opened, known = self._opened, self._rules
        path = opened.resolved.path
        stamp = _stamp([path])
        session = opened if known is None else known.session
        if known is None or known.stamp[0] != stamp[0]:
            session = _as_written(opened, path)
        masks = {one.mask for each in session.config.datasets.values() for one in each.sources.values() if one.mask}
        stamp += _stamp(sorted(session.resolved.in_tree(mask) for mask in masks))
        policies, signed = _policy_files(session), session.state.refs.at(refs.POLICY) or ""
        if known is None or (known.session, known.policies, known.signed) != (session, policies, signed):
            decider = Gates(session.resolved, "", {}, session).decider()
        else:
            decider = known.decider
        self._rules = _Rules(stamp, session, decider, policies, signed)
        return self._rules


def _decide(
    session: Session, made: DatasetVersion, status: str, audience: str, when_ms: int, epoch: int, decider: Decider
) -> tuple[PolicyDecision, int]:
    """Return the decision, and the instant at which it must be asked for again."""
    level: Level = Visibility(session).level(made.dataset, made)
    standing = _standing(session, made)
    if closing_rules(session, made.dataset, [made.digest]) is not None or record_rules(session, made):
        level = "closed"
    decision = serve_gate(
        made, level, standing, audience=audience, status=status, when_ms=when_ms, epoch=epoch, decider=decider
    )
    midnight = (when_ms // DAY_MS + 1) * DAY_MS
    end = earliest_end_ms(made, standing)
    return decision, midnight if end is None else min(midnight, end)


def _standing(session: Session, made: DatasetVersion) -> Classification | None:
    """Return today's classification of a version by labels, by kfm.yml and by what it was made of."""
    _check_readable(session, made)
    found = [
        classification_now(session, made.dataset, made.digest),
        declared_now(session, made.dataset, made.digest),
    ]
    known = [one for one in found if one is not None]
    return joined(known) if known else None


def _check_readable(session: Session, made: DatasetVersion) -> None:
    """Raise if a file or a key that the classification needs cannot be read: `classification_now` does without it, and
    then finds less."""
    for dataset in (made.dataset, *above(upstreams(session.config.datasets), made.dataset)):
        protection = protection_for(session, dataset)
        if protection is not None and made.standing is not None:
            for custodian in made.standing.custodians:
                protection.key_of(custodian)


def _memory(session: Session) -> str:
    """Return a text that changes with what the state remembers of protected data, and with the signed labels."""
    if not is_needed(session.resolved, session.state):
        return ""
    return f"{session.state.refs.at(refs.LABELS)} {session.state.ledger.head()}"


def _as_written(opened: Session, path: str) -> Session:
    """Return the session under kfm.yml as it is now. Its state, its objects and the paths of a preview stay."""
    if opened.resolved.is_proposal:
        return opened
    resolved = load(path, os.environ)
    return msgspec.structs.replace(
        opened, resolved=resolved, config=resolved.config, updaters={}, declared={}, custodians=None
    )


def _policy_files(session: Session) -> Stamp:
    folder = session.resolved.config.policy.folder
    if not folder:
        return ()
    full = session.resolved.at(folder)
    try:
        names = sorted(name for name in os.listdir(full) if name.endswith(".rego"))
    except OSError:
        names = []
    return _stamp([full, *(os.path.join(full, name) for name in names)])


def _stamp(paths: list[str]) -> Stamp:
    """Return names, times, sizes and numbers of files. The value changes if one is written, replaced or removed."""
    found = []
    for path in paths:
        try:
            seen = os.stat(path)
        except OSError:
            found.append((path, 0, 0, 0))
        else:
            found.append((path, seen.st_mtime_ns, seen.st_size, seen.st_ino))
    return tuple(found)
