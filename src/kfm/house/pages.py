"""The pages of the public folder, and the sink of that name: who tells them, what they should be, and making them so.

What a page should be is what was told of it last: so it is the same as long as nothing moves, frozen or not.
"""

from __future__ import annotations

from collections.abc import Iterator

from kfm.contract.keys import digest
from kfm.contract.records import Difference
from kfm.engine.following import Follower, taking_turns
from kfm.engine.paged import PAGES, PageLetters, front, path_of
from kfm.house.followed import House, lock_of
from kfm.projections.shelf import PAGE
from kfm.publish.catalog import CatalogFolder


class PublicPages(CatalogFolder):
    name = PAGES


def pages_follower(house: House) -> Follower:
    letters = _letters(house)
    return Follower(_sink(house), letters, lock_of(house, PAGES), note=letters.note)


def _sink(house: House) -> PublicPages:
    return PublicPages(house.resolved.location(house.resolved.config.publish)[1])


def _letters(house: House) -> PageLetters:
    return PageLetters(house.state, house.objects, house.retention)


def expected_page(house: House, dataset: str) -> dict[str, str]:
    """The page of a dataset with its digest, where it has one."""
    told = _letters(house).told().get(dataset) if house.resolved.config.pages else None
    return {path_of(dataset): told.page} if told is not None and told.page else {}


def expected_pages(house: House) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Every page with its digest, and the versions that it was made from, by dataset."""
    told = _letters(house).told() if house.resolved.config.pages else {}
    made_from = {dataset: str(each.dcat["version"]) for dataset, each in sorted(told.items()) if each.page}
    for dataset, version in made_from.items():
        yield path_of(dataset), told[dataset].page, {dataset: version}
    if told:
        yield PAGE, digest(front(told)), made_from


def front_differs(house: House) -> Iterator[Difference]:
    """Where the page of all is not what it was told to be."""
    told = _letters(house).told() if house.resolved.config.pages else {}
    if told:
        expected = {PAGE: digest(front(told))}
        for path, kind in _sink(house).differences(expected, ""):
            yield Difference(dataset="", path=path, kind=kind)  # type: ignore[arg-type]


def build(house: House) -> int:
    """All of them anew, from the state; how many were written or removed."""
    follower, letters = pages_follower(house), _letters(house)
    sink = _sink(house)
    with taking_turns(follower, house.clock):
        sink.send(list(letters.letters(sorted(letters.told()))))
        with house.state.transaction() as tx:
            letters.note(tx)
    return sink.written + sink.removed
