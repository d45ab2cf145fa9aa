"""`review:` says how many stewards besides the requester must approve what is published: none, one or two.

Under a key list a lower word in kfm.yml takes effect only once it is signed, because it opens; a higher one takes
effect at once. Protected data, and data with a custodian or a community, always need two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kfm.errors import BadInput, Denied
from kfm.model import refs
from kfm.model.canonical import canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kfm.app.session.session import Session
    from kfm.config import Resolved
    from kfm.model.records import Classification, RefMove

WORDS = ("none", "one", "two")  # from the least to the most
USUAL = "one"  # under a key list, unless kfm.yml says something else


class ReviewRules(msgspec.Struct, frozen=True):
    """The declared words of an installation. An empty default is the usual word."""

    default: str = ""
    datasets: dict[str, str] = {}

    def word(self, dataset: str) -> str:
        return self.datasets.get(dataset) or self.default or USUAL


def declared(resolved: Resolved) -> ReviewRules:
    """Return what kfm.yml says today."""
    config = resolved.config
    return ReviewRules(
        default=config.review or "",
        datasets={name: each.review for name, each in config.datasets.items() if each.review},
    )


def declared_bytes(resolved: Resolved) -> bytes:
    """Return what kfm.yml says today as the text that people sign."""
    return canonical(msgspec.to_builtins(declared(resolved)))


def signed(session: Session) -> ReviewRules:
    """Return the rules as they were signed; the usual ones if none were."""
    at = session.state.refs.at(refs.REVIEW)
    return msgspec.json.decode(session.objects.read(at), type=ReviewRules) if at else ReviewRules()


def is_lower(old: ReviewRules, new: ReviewRules) -> bool:
    """Return whether the new rules need fewer people for a dataset, or for one that is not declared yet."""
    names = {*old.datasets, *new.datasets, ""}
    return any(WORDS.index(new.word(name)) < WORDS.index(old.word(name)) for name in names)


def in_force(session: Session, dataset: str) -> str:
    """Return the word for a public dataset under a key list: the stricter one of kfm.yml and of what was signed."""
    return max(declared(session.resolved).word(dataset), signed(session).word(dataset), key=WORDS.index)


def review_of(session: Session, dataset: str, move: RefMove) -> str:
    """Return how many stewards must approve a move to Published under a key list: none, one or two."""
    return "two" if is_guarded(session, dataset, move) else in_force(session, dataset)


def is_guarded(session: Session, dataset: str, move: RefMove | None = None) -> bool:
    """Return whether a dataset, or a version that a move concerns, has a custodian or a community, or is not plainly
    public."""
    from kfm.app.authority.labels_in_force import labelled

    config = session.resolved.config.datasets.get(dataset)
    if config is not None and (
        config.sensitivity not in (None, "public") or any(source.mask for source in config.sources.values())
    ):
        return True
    found = [labelled(session, dataset, said=config.sensitivity if config is not None else None)]
    for at in (move.before, move.after) if move is not None else ():
        version = session.state.ledger.version(dataset, at) if at else None
        found.append(version.standing if version is not None else None)
    return any(map(_is_closed, found))


def _is_closed(said: Classification | None) -> bool:
    return said is not None and (said.level != "public" or said.care != "open" or bool(said.custodians))


def check_possible(session: Session, dataset: str) -> None:
    """Raise Denied if kfm.yml demands a review and there is no key list by which anyone could approve."""
    word = session.resolved.config.datasets[dataset].review if dataset in session.resolved.config.datasets else None
    said = word or session.resolved.config.review or "none"
    if said != "none":
        raise Denied(
            f"{dataset} is review: {said}, and there is no key list by which anyone could approve",
            hint="make one: `kfm keys new --person NAME --role admin`; or write review: none",
            rule="review.keys",
        )


def problems(session: Session) -> Iterator[BadInput]:
    """Yield each dataset that is protected and declares a lower word than two."""
    for name, each in session.resolved.config.datasets.items():
        if each.review in ("none", "one") and is_guarded(session, name):
            place = session.resolved.document.place(("datasets", name, "review"))
            yield BadInput(
                f"{place}: review: {each.review} is too few for {name}: protected and community data need two",
                hint="write review: two, or remove the line",
                key=f"datasets.{name}.review",
            )
