"""The gates of an installation: the policy engine, its policies, and the evidence that labels and approvals give."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kfm.app.session.protection_files import labels_of
from kfm.clock import rfc3339
from kfm.config import Resolved
from kfm.config.upstream_datasets import metadata_of
from kfm.errors import BadInput, KfmError
from kfm.model import refs
from kfm.model.format_rules import gap_of
from kfm.model.labels import joined, label_classification
from kfm.model.names import dataset_id
from kfm.model.ports import Objects, State
from kfm.model.records import Classification, DataContract, Decision, RefMove
from kfm.model.zone_requests import Asking, Correction, StepUp

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config.config_file import Config
    from kfm.policy.decision import Decider
    from kfm.policy.policy_bundle import Policies
    from kfm.policy.question_builder import Evidence


class Gates:
    """The gates of one dataset. Policies and engine are loaded at the first question."""

    def __init__(
        self, resolved: Resolved, dataset: str, declared: Mapping[str, Any], session: Session | None = None
    ) -> None:
        self._resolved = resolved
        self._session = session  # its key list and change requests show who approved
        self._dataset = dataset
        self._declared = declared
        self._decider: Decider | None = None
        self._has_signed_policies: bool | None = None

    def published(
        self,
        state: State,
        objects: Objects,
        move: RefMove,
        *,
        asking: Asking,
        correction: Correction | None = None,
        read: bool = True,
    ) -> Decision:
        """Return the decision about a move to Published. If the policies permit it, lineage and catalog are checked
        too. A move of another dataset is decided by the gates of that one."""
        from kfm.policy.promotion_gate import promotion_gate

        if (other := refs.parse(move.ref).dataset) != self._dataset:
            return self._of(other).published(state, objects, move, asking=asking, correction=correction, read=read)

        decision = promotion_gate(
            state,
            objects,
            move,
            self._declared,
            asking=asking,
            correction=correction,
            read=read,
            decider=self.decider(),
            evidence=self.evidence(asking.when_ms, move.after),
        )
        if decision.allow is not True or self._session is None or not read:
            return decision
        from kfm.app.metadata.catalog_gate import checked_decision

        fixes = correction.fixes if correction is not None else ""
        return checked_decision(self._session, decision, move, asking.when_ms, fixes)

    def _of(self, dataset: str) -> Gates:
        """Return the gates of another dataset of this installation."""
        return Gates(self._resolved, dataset, metadata_of(self._resolved.config.datasets, dataset), self._session)

    def step(self, step: StepUp) -> Decision:
        """Return the decision about a step between zones."""
        from kfm.policy.promotion_gate import step_gate

        return step_gate(step, decider=self.decider(), evidence=self.evidence(step.asking.when_ms))

    def both(self, work: StepUp, processed: StepUp) -> Decision | None:
        """Return the decision about Processed if Work and Processed are allowed in one evaluation; None if each gate
        must be asked alone."""
        from kfm.policy.promotion_gate import both_gates

        evidence = self.evidence(processed.asking.when_ms)
        return both_gates(work, processed, decider=self.decider(), evidence=evidence)

    def may_wait(self) -> bool:
        """Return whether the gate before Work may be asked together with the one before Processed: nothing here is
        labelled, and only the shipped policies decide."""
        config = self._resolved.config
        if config.labels or config.custodians or config.policy.folder or config.policy.url:
            return False
        return not self.has_signed_policies()

    def has_signed_policies(self) -> bool:
        """Return whether signed policies are in force here. It is read once for a run."""
        if self._has_signed_policies is None:
            self._has_signed_policies = self._session is not None and bool(self._session.state.refs.at(refs.POLICY))
        return self._has_signed_policies

    def rules(self) -> tuple[str, int]:
        """Return the digest of the policies and the epoch of the labels. The commit compares both again."""
        if not self._resolved.config.policy.folder:
            return self.decider().policy_digest, self.epoch()
        return policies_of(self._resolved).digest, self.epoch()

    def check_policies(self) -> None:
        """Raise BadInput if a policy of the installation cannot be read."""
        policies_of(self._resolved)

    def decider(self) -> Decider:
        if self._decider is None:
            if self._session is not None and self.has_signed_policies():
                from kfm.app.authority.signed_policies import check_policies

                check_policies(self._session)
            from kfm.policy.decision import decider_of

            said = self._resolved.config.policy
            self._decider = decider_of(policies_of(self._resolved), said.url, said.timeout_s)
        return self._decider

    def epoch(self) -> int:
        """Return a number that changes with the label file or its signed state; 0 if there are no labels."""
        path = self._resolved.config.labels
        if not path:
            return 0
        try:
            with open(self._resolved.at(path), "rb") as file:
                known = hashlib.sha256(file.read())
        except OSError:
            raise BadInput(f"labels at {path} cannot be read", hint="correct the path in kfm.yml") from None
        signed = self._session.state.refs.at(refs.LABELS) if self._session is not None else ""
        if signed and signed != "sha256:" + known.hexdigest():
            known.update(signed.encode())
        return int.from_bytes(known.digest()[:6], "big") + 1

    def evidence(self, now_ms: int, subject: str = "") -> Evidence:
        """Return what labels and approvals say, for a decision about `subject`."""
        from kfm.policy.question_builder import NO_EVIDENCE

        config = self._resolved.config
        gaps = tuple(sorted(contract_gaps(config, self._dataset).items()))
        known = msgspec.structs.replace(NO_EVIDENCE, gaps=gaps, attestation=self._attestation(subject))
        if not config.labels and not config.custodians:
            return known
        found = msgspec.structs.replace(known, standing=self._classification(now_ms), epoch=self.epoch(), labelled=True)
        return self._approved(found, subject, now_ms) if subject and self._session is not None else found

    def _approved(self, found: Evidence, subject: str, now_ms: int) -> Evidence:
        """Add the approval of exactly this version to the evidence: who signed, including the community's own key where
        needed."""
        from kfm.app.authority.authorization import approval

        assert self._session is not None
        said = approval(self._session, self._dataset, subject)
        if said is None:
            return found
        from kfm.policy.questions import Consent, Review

        people, at_ms = said
        count = len(people)
        return msgspec.structs.replace(
            found,
            review=Review(subject=subject, outcome="approved", by=people[0], at=at_ms),
            consent=Consent(subject=subject, threshold=count, signatures=count, until=max(now_ms, at_ms) + 1),
        )

    def _attestation(self, subject: str) -> str:
        """Return whether a valid statement says how this version was made, if the installation signs statements."""
        if not subject or self._session is None or not self._resolved.config.attest.sign_with:
            return "not required"
        from kfm.app.session.session import trust_of
        from kfm.projections.attestations import PROVENANCE, verify_envelope

        keys = trust_of(self._session).believed("attest").public
        for key, envelope in self._session.state.ledger.attestations(f"{self._dataset}@{subject}"):
            if key.partition("/")[2].startswith("provenance/"):
                with contextlib.suppress(KfmError):
                    verify_envelope(envelope, keys, subject, PROVENANCE)
                    return "verified"
        return "missing"

    def _classification(self, now_ms: int) -> Classification | None:
        from kfm.app.authority.labels_in_force import labels_in_force

        today = rfc3339(now_ms)[:10]
        labels = labels_in_force(self._session) if self._session is not None else labels_of(self._resolved)
        found = [one for one in labels.labels if one.of.dataset == self._dataset]
        return joined([label_classification(one, today) for one in found]) if found else None


def contract_gaps(config: Config, dataset: str, seen: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return the sources of a dataset whose declared contract says too little, and what it lacks. A source that is
    another dataset relies on the contracts of that one."""
    declared = config.datasets.get(dataset)
    if declared is None or dataset in seen:
        return {}
    found = {}
    for name, source in declared.sources.items():
        contract = source.data_contract()
        if contract == DataContract() or not (gap := gap_of(contract)):
            continue
        if not source.dataset or contract_gaps(config, dataset_id(source.dataset), seen | {dataset}):
            found[name] = gap
    return found


def policies_of(resolved: Resolved) -> Policies:
    """Return the shipped policies together with those of the installation."""
    from kfm.policy.policy_bundle import read_files, shipped, with_own

    folder = resolved.config.policy.folder
    return with_own(read_files(resolved.at(folder))) if folder else shipped()
