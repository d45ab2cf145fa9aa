"""`kfm publish`: is the outside what the refs say, and how it becomes so again. Nothing of the state moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kfm.contract import manifests
from kfm.contract.canonical import canonical
from kfm.contract.keys import digest
from kfm.contract.records import Difference, Effect, RefEntry
from kfm.engine.deliver import Telling, listed
from kfm.errors import Frozen, KfmError
from kfm.house import matching
from kfm.house.opening import House
from kfm.projections.artifacts import pointer_path, published_path, version_path
from kfm.projections.standing import pointer_of, standing

Problems = list[tuple[str, KfmError]]


def published_datasets(house: House) -> list[str]:
    """Of which anything is, was or seems to be public, by name."""
    known = {entry.ref.partition("/")[2] for entry in house.state.refs.histories("published/")}
    return sorted(known | set(house.outside.datasets()))


def differences(house: House, dataset: str) -> list[Difference]:
    """Where the outside is not what the refs say: what is missing, altered, or not known to be there at all."""
    moves = list(house.state.refs.history(f"published/{dataset}"))
    stay = standing(moves, house.retention(dataset))
    expected = {path: digest for path, digest, _ in expected_files(house, dataset)}
    if house.config.pages:
        from kfm.house.pages import expected_page

        expected |= expected_page(house, dataset)
    return house.outside.differences(dataset, expected, _gone(dataset, moves, stay))


def expected_files(house: House, dataset: str) -> Iterator[tuple[str, str, str]]:
    """Every file of a dataset that belongs outside: its path, its digest, and the version it is of."""
    moves = list(house.state.refs.history(f"published/{dataset}"))
    for version in standing(moves, house.retention(dataset)):
        for entry in manifests.entries(house.objects, version):
            yield published_path(dataset, version, entry), entry.digest, version
        yield f"{version_path(dataset, version)}.ndjson", listed(house.objects, version)[0], version
    if moves:
        yield pointer_path(dataset), digest(canonical(pointer_of(moves[-1]))), moves[-1].after


def take_back(house: House) -> list[dict[str, Any]]:
    """What labels close today is withdrawn, and the outside told at once. Of each dataset: why, how many versions were
    public, how many files are outside that should not be, and where it had been published."""
    from kfm.house.protection import is_configured
    from kfm.house.recalling import recall

    if not is_configured(house.resolved) and house.state.protected.is_empty():
        return []
    found = recall(house)
    if found:
        house.settle()
    return [
        {
            "dataset": one.dataset,
            "rules": list(one.rules),
            "versions": one.versions,
            "remaining": sum(difference.kind == "foreign" for difference in differences(house, one.dataset)),
            "received": [house.config.publish] if one.told else [],
            "problem": one.problem.message if one.problem is not None else "",
        }
        for one in found
    ]


def repair(house: House, dataset: str) -> tuple[list[Difference], list[Effect]]:
    """Make the outside what the refs say; returns what was not so, and what was done.

    Frozen: what does not belong there is removed, and the rest waits.
    """
    found = differences(house, dataset)
    moves = list(house.state.refs.history(f"published/{dataset}"))
    keep = house.retention(dataset)
    telling = Telling(house.state, house.objects, house.publisher, house.log, dataset, moves, keep)
    house.publisher.trace.clear()
    if found:
        foreign = [difference.path for difference in found if difference.kind == "foreign"]
        gone = _gone(dataset, moves, standing(moves, keep)) or ([] if moves else [f"datasets/{dataset}"])
        unknown = [path for path in foreign if path.count("/") == 3]  # a version that no ref ever led to
        telling.clear(foreign, list(dict.fromkeys([*gone, *unknown])))
        if any(difference.kind != "foreign" for difference in found) and matching.are_right(house):
            altered = [difference.path for difference in found if difference.kind == "altered"]
            page = f"datasets/{dataset}/index.html"
            telling.mend([path for path in altered if path not in (pointer_path(dataset), page)])
            if house.config.pages:
                from kfm.house.pages import build

                build(house)
    effects = list(house.publisher.trace)
    house.publisher.trace.clear()
    return found, effects


def _gone(dataset: str, moves: Sequence[RefEntry], stay: Sequence[str]) -> list[str]:
    """The folders of versions that were public and no longer are."""
    versions = dict.fromkeys(move.after for move in moves if move.after and move.after not in stay)
    return [version_path(dataset, version) for version in versions]


def check_all(house: House, names: Sequence[str]) -> tuple[list[Difference], Problems]:
    """Masks and labels that do not fit together are a difference, too: what lies outside should not."""
    found, problems = compare_all(house, names)
    return found, [*problems, *_unfit(house)]


def _unfit(house: House) -> Problems:
    return [(house.config.labels or "kfm.yml", problem) for problem in matching.problems(house)]


def compare_all(house: House, names: Sequence[str]) -> tuple[list[Difference], Problems]:
    """One that cannot be compared, because what it consists of is damaged, strands no other."""
    found: list[Difference] = []
    problems: Problems = []
    for name in names:
        try:
            found += differences(house, name)
        except KfmError as problem:
            problems.append((name, problem))
    return [*found, *_front(house)], problems


def _front(house: House) -> list[Difference]:
    if not house.config.pages:
        return []
    from kfm.house.pages import front_differs

    return list(front_differs(house))


def repair_all(house: House, names: Sequence[str]) -> tuple[list[Difference], list[Effect], Problems]:
    found: list[Difference] = []
    effects: list[Effect] = []
    problems: Problems = _unfit(house)
    for name in names:
        try:
            wrong, done = repair(house, name)
        except Frozen as problem:
            problems.append((name, Frozen(problem.message, hint="what may not be public is removed; the rest waits")))
        except KfmError as problem:
            problems.append((name, problem))
        else:
            found += wrong
            effects += done
    if front := _front(house):
        from kfm.house.pages import build

        build(house)
        found += front
    return found, effects, problems
