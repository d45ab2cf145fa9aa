"""The version that a person names for an operation: by its digest, or by the start of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.withdrawals import publishable_versions
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.names import is_digest
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session


def version_to_publish(session: Session, dataset: str, text: str) -> str:
    """Return the version that is to be published. BadInput unless it is the processed version or a withdrawn one."""
    known = publishable_versions(session, dataset)
    public = session.state.refs.at(refs.published(dataset))
    if is_digest(text) and text not in known | {public}:
        raise BadInput(
            f"{text[:19]} is neither the processed version of {dataset} nor a withdrawn one",
            hint=f"to return to an earlier version: `kfm rollback {dataset} --to {text[7:23]} --reason …`",
        )
    return digest_meant(text, known | {public}, refs.published(dataset))


def version_of_ref(session: Session, ref: str, text: str) -> str:
    """Return the version that a ref was at, by its digest; the start of it, as tables show it, is enough if only one
    version of the ref begins so. `nothing` is itself."""
    if text == "nothing" or is_digest(text):
        return text
    return digest_meant(text, {entry.after for entry in session.state.refs.history(ref)} - {""}, ref)


def digest_meant(text: str, known: set[str], ref: str) -> str:
    """Return the digest among `known` that begins with the text. BadInput unless there is exactly one."""
    start = text.removeprefix("sha256:")
    if not (4 <= len(start) <= 64 and all(c in "0123456789abcdef" for c in start)):
        raise BadInput(
            f"{printable(text)} is not a digest", hint="give sha256:… or the start of it, see `kfm refs history REF`"
        )
    found = [digest for digest in known if digest.startswith(f"sha256:{start}")]
    if len(found) != 1:
        how_many = "no version" if not found else f"{len(found)} versions"
        raise BadInput(
            f"{how_many} of {ref} begins with {start}" if not found else f"{how_many} of {ref} begin with {start}",
            hint=f"see `kfm refs history {ref}`",
        )
    return found[0]
