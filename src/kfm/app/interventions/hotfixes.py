"""Applies hotfixes, takes them back, and shows them. Each is one operation that moves `hotfix/DATASET`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kfm.app.interventions.hotfix_file import PATHS, HotfixFile, fix_of
from kfm.app.metadata.catalogs import documents_with
from kfm.delivery.corrections import fixes_at, fixes_of
from kfm.errors import BadInput, Refused
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.interventions.hotfix_set import Fix, FixSet, corrected, waiting
from kfm.operations.move_updater import NOTHING
from kfm.parsing.characters import printable
from kfm.parsing.record_shape import nearest
from kfm.parsing.yaml_edit import quoted

if TYPE_CHECKING:
    from kfm.app.session.session import Session
    from kfm.model.records import DatasetVersion
    from kfm.parsing.documents import Document


class HotfixStatus(NamedTuple):
    """A hotfix of a dataset as it stands."""

    name: str
    dataset: str
    state: str  # applied: it holds; waits: the published version says something else; unpublished
    document: str
    changes: list[tuple[str, str | None, str | None]]  # field, before, after
    since: str
    by: str


def applying(session: Session, document: Document, file: HotfixFile) -> dict[str, str]:
    """Return the parameters of the operation that applies a hotfix. Raise Refused if its preconditions fail, or if
    another hotfix has its name. The new hotfixes are stored; no ref leads to them yet."""
    dataset, fixes = file.dataset, fixes_of(session.state, session.objects, file.dataset)
    made = published(session, dataset)
    known = next((each for each in fixes if each.name == file.hotfix), None)
    others = [each for each in fixes if each.name != file.hotfix]
    fix = fix_of(document, file, corrected(made.metadata, made.digest, others), dataset, made.digest)
    if known is not None and known != fix:
        raise Refused(
            f"{dataset} has another hotfix called {file.hotfix}",
            hint=f"`kfm hotfix revert {file.hotfix} --reason …` takes it back first; or give this one another name",
        )
    return _params(session, dataset, fixes if known is not None else [*fixes, fix])


def reverting(session: Session, dataset: str, name: str) -> dict[str, str]:
    """Return the parameters of the operation that takes a hotfix back. Raise Refused if another one builds on it."""
    fixes = fixes_of(session.state, session.objects, dataset)
    left = [each for each in fixes if each.name != name]
    made = session.state.ledger.version(dataset, _shown_last(session, dataset))
    if made is not None:
        held = {each.name for each in waiting(made.metadata, made.digest, fixes)}
        lost = [each.name for each in waiting(made.metadata, made.digest, left) if each.name not in held]
        if lost:
            raise Refused(
                f"hotfix {lost[0]} of {dataset} builds on {name}",
                hint=f"take that one back first: `kfm hotfix revert {lost[0]} --reason …`",
            )
    return _params(session, dataset, left)


def _shown_last(session: Session, dataset: str) -> str:
    """Return the published version of a dataset, or the one that was withdrawn last; empty: none."""
    history = session.state.refs.history(refs.published(dataset), reverse=True)
    return next((version for entry in history for version in (entry.after, entry.before) if version), "")


def _params(session: Session, dataset: str, fixes: Sequence[Fix]) -> dict[str, str]:
    target = session.objects.put(canonical(FixSet(dataset=dataset, fixes=list(fixes)))) if fixes else NOTHING
    return {"to": target, "before": session.state.refs.at(refs.hotfix(dataset)) or NOTHING}


def published(session: Session, dataset: str) -> DatasetVersion:
    """Return the published version of a dataset. Raise Refused if it has none."""
    at = session.state.refs.at(refs.published(dataset))
    made = session.state.ledger.version(dataset, at) if at else None
    if made is None:
        raise Refused(
            f"{dataset} is not published, so there is nothing to correct",
            hint=f"correct it in kfm.yml under datasets.{dataset}, and run it",
        )
    return made


def dataset_with(session: Session, name: str, dataset: str = "") -> str:
    """Return the dataset that has a hotfix of this name. BadInput unless there is exactly one."""
    all_ = {(each.dataset, each.name) for each in statuses(session) if dataset in ("", each.dataset)}
    found = sorted(one for one, own in all_ if own == name)
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(f"{', '.join(found)} have a hotfix {name}", hint="name one of them with --dataset")
    close = nearest(name, sorted({own for _, own in all_}))
    hint = f"did you mean {close}?" if close else "see `kfm hotfix list`"
    raise BadInput(f"no hotfix is called {printable(name, 60)}", hint=hint)


def statuses(session: Session, dataset: str = "") -> Iterator[HotfixStatus]:
    """Yield every hotfix of a dataset, or of all, in the order in which they were applied."""
    for ref, _ in session.state.refs.all(refs.HOTFIX):
        name = refs.parse(ref).dataset
        if dataset not in ("", name):
            continue
        at = session.state.refs.at(refs.published(name))
        made = session.state.ledger.version(name, at) if at else None
        fixes = fixes_of(session.state, session.objects, name)
        lost = {each.name for each in waiting(made.metadata, made.digest, fixes)} if made is not None else set()
        moved = _applied(session, name)
        for fix in fixes:
            state = "unpublished" if made is None else "waits" if fix.name in lost else "applied"
            since, by = moved.get(fix.name, ("", ""))
            changes = [(field, fix.before.get(field), value) for field, value in fix.after.items()]
            yield HotfixStatus(fix.name, name, state, fix.document, changes, since, by)


def _applied(session: Session, dataset: str) -> dict[str, tuple[str, str]]:
    """Return when and by whom each hotfix that is there now was applied last."""
    found: dict[str, tuple[str, str]] = {}
    for entry in session.state.refs.history(refs.hotfix(dataset)):
        there = _names_in(session, entry.after)
        found = {name: found.get(name, (entry.ts, entry.actor)) for name in there}
    return found


def _names_in(session: Session, digest: str) -> list[str]:
    return [fix.name for fix in fixes_at(session.objects, digest)]


def changed_documents(session: Session, dataset: str, params: dict[str, str]) -> dict[str, tuple[Any, Any]]:
    """Return the catalog documents that an operation with these parameters changes, each before and after it."""
    now = documents_with(session, dataset, session.state.refs.at(refs.hotfix(dataset)))
    then = documents_with(session, dataset, "" if params["to"] == NOTHING else params["to"])
    paths = sorted({*now, *then})
    return {path: (now.get(path), then.get(path)) for path in paths if now.get(path) != then.get(path)}


def new_file(session: Session, name: str, dataset: str, made: DatasetVersion, wanted: dict[str, str]) -> str:
    """Return the text of a file that corrects these fields. What the dataset says now is its precondition."""
    now = corrected(made.metadata, made.digest, fixes_of(session.state, session.objects, dataset))
    shown = {**now, "title": now.get("title") or dataset}
    shown["description"] = now.get("description") or shown["title"]
    paths = {field: path for path, field in PATHS["stac"].items()}
    lines = [f"hotfix: {name}", f"dataset: {dataset}", "reason: ''  # why; goes into the ledger", "stac:", "  patch:"]
    for field, value in wanted.items():
        if shown.get(field) is None:
            raise Refused(
                f"{dataset} has no {field} that could be corrected",
                hint=f"write it in kfm.yml under datasets.{dataset}",
            )
        for op, text in (("test", str(shown[field])), ("replace", value)):
            lines.append(f"    - {{op: {op}, path: {paths[field]}, value: {quoted(text)}}}")
    return "\n".join(lines) + "\n"
