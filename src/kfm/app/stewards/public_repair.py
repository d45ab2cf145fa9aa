"""Compares the public files with the refs, and repairs the files. No ref moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kfm.app.authority import label_match
from kfm.app.runs.settlement import settle_session
from kfm.app.session.datasets import public_retention
from kfm.app.session.protection_files import is_configured
from kfm.app.session.session import Session, published_files
from kfm.delivery.public_files import Telling, public_list
from kfm.delivery.public_layout import Layout
from kfm.errors import Broken, Frozen, KfmError, Refused
from kfm.model import refs
from kfm.model.canonical import canonical
from kfm.model.keys import digest
from kfm.model.records import Difference, Effect, RefEntry
from kfm.projections.file_paths import list_path, page_paths, pointer_path, version_path
from kfm.projections.live_versions import last_move, live_versions, pointer_of
from kfm.projections.signed_lists import marks

Problems = list[tuple[str, KfmError]]


def published_datasets(session: Session) -> list[str]:
    """Return the names of datasets that are or were published, or that have files in the public folder."""
    known = {entry.ref.partition("/")[2] for entry in session.state.refs.histories(refs.PUBLISHED)}
    return sorted(known | set(published_files(session).datasets()))


def differences(session: Session, dataset: str) -> list[Difference]:
    """Return the public files of a dataset that are missing, altered, or foreign, by comparison with the refs."""
    moves = list(session.state.refs.history(refs.published(dataset)))
    stay = live_versions(moves, public_retention(session, dataset))
    expected = {path: digest for path, digest, _ in expected_files(session, dataset)}
    if session.config.pages:
        from kfm.app.metadata.pages_sink import expected_page

        expected |= expected_page(session, dataset)
    found = published_files(session).differences(dataset, expected, _gone(dataset, moves, stay))
    if session.config.pages and found:
        from kfm.app.metadata.pages_sink import without_left

        return without_left(session, found)
    return found


def expected_files(session: Session, dataset: str) -> Iterator[tuple[str, str, str]]:
    """Yield every file that a dataset should have in public: path, digest and version. A signed list that the state
    has lost has no digest, so it is reported and never removed: the public copy may be the last one."""
    moves = list(session.state.refs.history(refs.published(dataset)))
    layout = Layout(session.state, session.objects, dataset)
    for version in live_versions(moves, public_retention(session, dataset)):
        for entry in layout.entries(version):
            yield layout.path(version, entry), entry.digest, version
        for listing in layout.listings(version):
            yield listing.path, listing.digest, version
        if (move := last_move(moves, version)) is not None:
            yield from _expected_list(session, dataset, move)
    if moves:
        yield pointer_path(dataset), digest(canonical(pointer_of(moves[-1]))), moves[-1].after


def _expected_list(session: Session, dataset: str, move: RefEntry) -> Iterator[tuple[str, str, str]]:
    found = [(path, digest(envelope), move.after) for path, envelope in public_list(session.state, dataset, move)]
    receipt = session.state.ledger.receipt(move.run_id)
    if not found and receipt is not None and marks(receipt, move.after):
        found = [(list_path(dataset, move.after, move.n), "", move.after)]
    return iter(found)


def withdraw_closed(session: Session) -> None:
    """Take tightened labels into force, withdraw what is closed now, and remove its public files. The session keeps
    what was withdrawn. A problem does not stop the command that follows, which may be the brake."""
    from kfm.app.authority.recall import recall
    from kfm.app.authority.rule_adoption import adopt_tightened

    try:
        adopt_tightened(session)
        found = recall(session)
        session.recalled += found
        if found:
            session.effects += settle_session(session)
    except Broken:
        raise
    except KfmError as problem:
        session.log.event("dataset.unrecalled", error=problem)


def take_back(session: Session) -> list[dict[str, Any]]:
    """Withdraw the datasets that labels close today, and remove their public files at once. Return for each dataset
    why, how many versions were public, how many files remain, and where it had been published."""
    from kfm.app.authority.recall import recall

    if not is_configured(session.resolved) and session.state.protected.is_empty():
        return []
    found = recall(session)
    if found:
        settle_session(session)
    return [
        {
            "dataset": one.dataset,
            "rules": list(one.rules),
            "versions": one.versions,
            "remaining": sum(difference.kind == "foreign" for difference in differences(session, one.dataset)),
            "received": [session.config.publish] if one.received_by else [],
            "problem": one.problem.message if one.problem is not None else "",
        }
        for one in found
    ]


def repair(session: Session, dataset: str) -> tuple[list[Difference], list[Effect]]:
    """Repair the public files of a dataset. Return the differences found and the effects of the repair.

    If the dataset is frozen, files that may not be public are removed, and Frozen is raised for the rest.
    """
    found = differences(session, dataset)
    if found and next(iter(session.state.ledger.entries(limit=1)), None) is None:
        raise Refused(
            "the state is empty, so nothing that is public is repaired or removed",
            hint="check `state` in kfm.yml; if the state was lost, restore it from a copy",
        )
    moves = list(session.state.refs.history(refs.published(dataset)))
    keep = public_retention(session, dataset)
    telling = Telling(session.state, session.objects, session.publisher, session.log, dataset, moves, keep)
    session.publisher.trace.clear()
    if found:
        foreign = [difference.path for difference in found if difference.kind == "foreign"]
        gone = _gone(dataset, moves, live_versions(moves, keep)) or ([] if moves else [f"datasets/{dataset}"])
        unknown = [path for path in foreign if path.count("/") == 3]  # a version that no ref ever named
        telling.clear(foreign, list(dict.fromkeys([*gone, *unknown])))
        if any(difference.kind != "foreign" for difference in found) and label_match.labels_match(session):
            altered = [difference.path for difference in found if difference.kind == "altered"]
            lost = {path for path, name, _ in expected_files(session, dataset) if not name}
            lost |= {pointer_path(dataset), *page_paths(dataset)}
            telling.mend([path for path in altered if path not in lost])
            if session.config.pages:
                from kfm.app.metadata.pages_sink import build

                build(session, repairs=True)
    effects = list(session.publisher.trace)
    session.publisher.trace.clear()
    return found, effects


def publish_lists(session: Session, dataset: str, before: dict[str, str]) -> None:
    """Write the public lists of a dataset that were signed again. `before` has the lists that were there: path and
    digest."""
    moves = list(session.state.refs.history(refs.published(dataset)))
    now = {path: name for path, name in public_lists(session, dataset).items() if before.get(path) != name}
    if now:
        keep = public_retention(session, dataset)
        telling = Telling(session.state, session.objects, session.publisher, session.log, dataset, moves, keep)
        telling.mend([path for path in now if path in before])


def public_lists(session: Session, dataset: str) -> dict[str, str]:
    """Return the paths of the public lists of a dataset with their digests."""
    moves = list(session.state.refs.history(refs.published(dataset)))
    last = (last_move(moves, version) for version in live_versions(moves, public_retention(session, dataset)))
    lists = (public_list(session.state, dataset, move) for move in last if move is not None)
    return {path: digest(envelope) for found in lists for path, envelope in found}


def _gone(dataset: str, moves: Sequence[RefEntry], stay: Sequence[str]) -> list[str]:
    """Return the folders of versions that were public and no longer are."""
    versions = dict.fromkeys(move.after for move in moves if move.after and move.after not in stay)
    return [version_path(dataset, version) for version in versions]


def check_all(session: Session, names: Sequence[str]) -> tuple[list[Difference], Problems]:
    """Return the differences and problems of these datasets, with masks and labels that do not match among the
    problems."""
    found, problems = compare_all(session, names)
    return found, [*problems, *_unfit(session)]


def _unfit(session: Session) -> Problems:
    return [(session.config.labels or "kfm.yml", problem) for problem in label_match.problems(session)]


def compare_all(session: Session, names: Sequence[str]) -> tuple[list[Difference], Problems]:
    """Return the differences of these datasets. A dataset that cannot be compared is returned as a problem and does not
    stop the others."""
    found: list[Difference] = []
    problems: Problems = []
    for name in names:
        try:
            found += differences(session, name)
        except KfmError as problem:
            problems.append((name, problem))
    return [*found, *_front(session)], problems


def _front(session: Session) -> list[Difference]:
    if not session.config.pages:
        return []
    from kfm.app.metadata.pages_sink import front_differs

    return list(front_differs(session))


def repair_all(session: Session, names: Sequence[str]) -> tuple[list[Difference], list[Effect], Problems]:
    """Repair these datasets and the index page. Return differences, effects and problems; one failure does not stop the
    rest."""
    found: list[Difference] = []
    effects: list[Effect] = []
    problems: Problems = _unfit(session)
    for name in names:
        try:
            wrong, done = repair(session, name)
        except Frozen as problem:
            problems.append((name, Frozen(problem.message, hint="what may not be public is removed; the rest waits")))
        except KfmError as problem:
            problems.append((name, problem))
        else:
            found += wrong
            effects += done
    if front := _front(session):
        from kfm.app.metadata.pages_sink import build

        build(session, repairs=True)
        found += front
    return found, effects, problems
