"""Masking policies, and the installation's own policies, as they were signed.

The first run under a key list takes each into force as it is. After that, a changed file stops every run that needs it,
until everyone who must has signed exactly its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.review_rules import declared_bytes
from kfm.errors import BadInput, Denied
from kfm.model import refs
from kfm.model.keys import digest
from kfm.parsing import documents

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.config.source_settings import SourceConfig


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
    """Return the installation's own policies as one text; empty if there are none."""
    folder = resolved.config.policy.folder
    if not folder:
        return b""
    from kfm.policy.policy_bundle import read_files

    files = sorted(read_files(resolved.at(folder)).items())
    return b"".join(f"== {name} {len(text)}\n{text}\n".encode() for name, text in files)


def check_policies(session: Session) -> None:
    at = session.state.refs.at(refs.POLICY)
    if at and digest(own_policies(session.resolved)) != at:
        raise Denied(
            "the policies of this installation are not those that were signed",
            hint="put them back, or have them signed by two admins: `kfm policy deploy --key FILE --reason …`",
            rule="policy.unsigned",
        )


def current(session: Session, ref: str) -> bytes:
    """Return the present bytes of the file or policies that the ref stands for."""
    if ref == refs.POLICY:
        return own_policies(session.resolved)
    if ref == refs.REVIEW:
        return declared_bytes(session.resolved)
    dataset, _, source = ref.removeprefix(refs.MASKS).partition("/")
    return mask_file(session.resolved, dataset, source)
