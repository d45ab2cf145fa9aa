"""The scopes of a freeze that stand for several datasets: what an updater makes, or what labels of a community cover.

The datasets are named when the freeze is requested. One that is added to kfm.yml later is not frozen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kfm.app.authority.effective_levels import datasets_under
from kfm.app.authority.labels_in_force import labels_in_force
from kfm.errors import BadInput
from kfm.model import refs
from kfm.parsing.characters import printable

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.labels import Label


def datasets_in(session: Session, scope: str) -> list[str]:
    """Return the datasets in a scope such as `updater/ID` or `community/NAME`. BadInput if there are none: a freeze
    that stops nothing would look like one."""
    kind, _, name = scope.partition("/")
    found = _made_by(session, name) if kind == "updater" else _labelled(session, name)
    if found:
        return found
    what = "no dataset is made by updater" if kind == "updater" else "no label in force names"
    hint = "write what `updater:` says in kfm.yml" if kind == "updater" else "see `kfm labels list`"
    raise BadInput(f"{what} {printable(name, 80)}", hint=f"{hint}; `kfm freeze` stops everything")


def _made_by(session: Session, name: str) -> list[str]:
    """Return the datasets whose `updater:` in kfm.yml is this, or whose current version an updater of this id made. No
    code is loaded: a freeze works while the code does not."""
    found = {dataset for dataset, said in session.config.datasets.items() if said.updater == name}
    for ref, version in session.state.refs.all(refs.PROCESSED):
        dataset = refs.parse(ref).dataset
        made = session.state.ledger.version(dataset, version) if version else None
        run = session.state.runs.get(made.run_id) if made is not None else None
        if run is not None and run.updater_id == name:
            found.add(dataset)
    return sorted(found)


def _labelled(session: Session, name: str) -> list[str]:
    """Return the datasets under labels of this community, and all that read them."""
    labels = [label for label in labels_in_force(session).labels if _folded(name) in _names_of(label)]
    return datasets_under(session, labels) if labels else []


def _names_of(label: Label) -> set[str]:
    return {_folded(each) for each in (label.authority, label.custodian, *label.community_labels) if each}


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())
