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


_EVERYTHING = "`kfm freeze` stops everything"


def datasets_in(session: Session, scope: str) -> list[str]:
    """Return the datasets in a scope such as `updater/ID` or `community/NAME`. BadInput if there are none: a freeze
    that stops nothing would look like one."""
    kind, _, name = scope.partition("/")
    found = _made_by(session, name) if kind == "updater" else _labelled(session, name)
    if found:
        return found
    what = "no dataset is made by updater" if kind == "updater" else "no label in force names"
    hint = "write what `updater:` says in kfm.yml" if kind == "updater" else "see `kfm labels list`"
    raise BadInput(f"{what} {printable(name, 80)}", hint=f"{hint}; {_EVERYTHING}")


def _made_by(session: Session, name: str) -> list[str]:
    """Return the datasets whose `updater:` in kfm.yml is this, whose current version an updater of this id made or
    which it is making now, and all that have the same `updater:` as these. No code is loaded: a freeze works while the
    code does not. BadInput while kfm.yml has a mistake, because a dataset may be misspelt."""
    if session.resolved.mistakes:
        raise BadInput("kfm.yml has a mistake, so it does not say what an updater makes", hint=_EVERYTHING)
    found = {dataset for dataset, said in session.config.datasets.items() if said.updater == name}
    for ref, version in session.state.refs.all(refs.PROCESSED):
        dataset = refs.parse(ref).dataset
        made = session.state.ledger.version(dataset, version) if version else None
        run = session.state.runs.get(made.run_id) if made is not None else None
        if run is not None and run.updater_id == name:
            found.add(dataset)
    found |= {run.dataset for run in session.state.runs.unfinished() if run.updater_id == name}
    said = {dataset: one.updater for dataset, one in session.config.datasets.items() if one.updater}
    same = {said[dataset] for dataset in found if dataset in said}
    return sorted(found | {dataset for dataset, updater in said.items() if updater in same})


def _labelled(session: Session, name: str) -> list[str]:
    """Return the datasets under labels of this community, and all that read them."""
    labels = [label for label in labels_in_force(session).labels if _folded(name) in _names_of(label)]
    return datasets_under(session, labels) if labels else []


def _names_of(label: Label) -> set[str]:
    return {_folded(each) for each in (label.authority, label.custodian, *label.community_labels) if each}


def _folded(name: str) -> str:
    return " ".join(name.casefold().split())
