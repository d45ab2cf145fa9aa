"""Checks arguments before anything is opened for writing, alike for every interface. Each interface names them its own
way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kfm.config.upstream_datasets import in_order
from kfm.errors import BadInput
from kfm.model import refs
from kfm.model.names import dataset_id
from kfm.parsing.characters import is_printable, printable
from kfm.parsing.record_shape import nearest

if TYPE_CHECKING:
    from kfm.config import Resolved

Spelled = Callable[[str], str]  # how an interface spells an argument


def as_flag(name: str) -> str:
    """Return the name as a command-line flag."""
    return "--" + name.replace("_", "-")


def one_line(name: str, text: str, limit: int = 200) -> str:
    """Return the text. BadInput unless it is one short line."""
    if not isinstance(text, str):
        raise BadInput(f"{name} must be text", hint="give a str")
    if not is_printable(text) or len(text) > limit:
        raise BadInput(f"{name} must be one line of at most {limit} characters", hint="shorten it")
    return text


def person(reason: str, actor: str, spelled: Spelled) -> dict[str, str]:
    """Return reason and actor for the ledger. BadInput unless each is one line."""
    said = {"reason": reason, "actor": actor}
    return {name: one_line(spelled(name), text, 1000) for name, text in said.items()}


def reason_given(reason: str, environ: Mapping[str, str]) -> str:
    """Return the reason of an operation: as it was given, or as KFM_REASON says; empty if neither does."""
    return reason.strip() or one_line("KFM_REASON", environ.get("KFM_REASON", ""), 1000).strip()


def checked_overrides(
    *, force: bool, abandon: bool, allow_deletions: int, reason: str, spelled: Spelled
) -> dict[str, Any]:
    """Return the rules that a run sets aside. BadInput if one is given without a reason, or if the number of allowed
    deletions is not valid."""
    if type(allow_deletions) is not int or not 0 <= allow_deletions < 10**15:
        name = spelled("allow_deletions")
        raise BadInput(f"{name} is not a number of keys", hint="give a whole number, 1 or more")
    overrides = {"force": bool(force), "abandon": bool(abandon), "allow_deletions": allow_deletions}
    for name, given in overrides.items():
        if given and not reason.strip():
            added = f"add {spelled('reason')}" if spelled is as_flag else "give one"
            raise BadInput(f"{spelled(name)} needs a reason", hint=f"{added}; it goes into the ledger")
    return overrides


def known_dataset(resolved: Resolved, text: str, *, in_place: bool = True) -> str:
    """Return the name of a dataset that kfm.yml names, or that left it and still has refs. BadInput for others. The
    state is read in place, or else (`in_place`) from a copy that leaves no trace."""
    name = dataset_id(text)
    known = sorted(resolved.config.datasets)
    if name in known:
        return name
    from kfm.app.session.session import open_session

    with open_session(resolved, mode="read", in_place=in_place) as session:
        if any(
            session.state.refs.at(refs.in_zone(zone, name)) for zone in ("processed", "published", "switch/dataset")
        ):
            return name
    close = nearest(name, known)
    raise BadInput(
        f"there is no dataset {printable(name)}",
        hint=f"did you mean {close}?" if close else "the configuration names " + (", ".join(known[:20]) or "none"),
    )


def requested_datasets(
    resolved: Resolved, datasets: tuple[str, ...], partition: str, spelled: Spelled, *, in_place: bool = True
) -> list[str]:
    """Return the datasets of a run, each once; if none is named, all, upstream ones first."""
    if partition and len(set(datasets)) != 1:
        raise BadInput(f"{spelled('partition')} is of one dataset", hint="name the dataset it is a part of")
    names = [known_dataset(resolved, name, in_place=in_place) for name in datasets] or in_order(
        resolved.config.datasets
    )
    if not names:
        raise BadInput("the configuration names no dataset", hint="add one under `datasets:`")
    return list(dict.fromkeys(names))
