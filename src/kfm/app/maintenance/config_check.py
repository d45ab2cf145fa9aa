"""`kfm config check`: reports all mistakes of kfm.yml and of the files it names, each with its place and its cure.

It runs no updater, fetches no source and writes nothing. A configuration with mistakes is read as it was probably
meant, so that the files it names are checked too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kfm.app.authority.gates import policies_of
from kfm.app.metadata.archive_places import outline_of
from kfm.app.runs.due_schedules import mistakes_in
from kfm.app.session.protection_files import is_configured
from kfm.app.session.session import Session, open_session
from kfm.config import backfill_files, config_loader, objective_files, schedule_files
from kfm.config.config_loader import Resolved
from kfm.config.config_mistakes import mistakes_of
from kfm.errors import BadInput, KfmError
from kfm.model.labels import read_labels
from kfm.model.licences import problem_of
from kfm.model.masks import read_policy
from kfm.parsing import document_recovery, documents
from kfm.parsing.documents import Document, Path, dotted
from kfm.updaters.updater_search import search
from kfm.validation.source_check import contract_problems

ENVIRONMENT = "environment"  # the `file` of a mistake in an environment variable
_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>[0-9]+)(?::(?P<column>[0-9]+))?: ")


class Mistake(NamedTuple):
    """One mistake: where it is, what is wrong, and what to do. `key` is empty if it concerns no single key."""

    file: str
    line: int
    column: int
    key: str
    message: str
    hint: str
    code: str

    def __str__(self) -> str:
        place = "" if self.file == ENVIRONMENT else f"{self.file}:{self.line}:{self.column}: "
        return f"{place}{self.message}; {self.hint}"


class Report(NamedTuple):
    """The checked file, the files it names, and all their mistakes: first the one that `kfm run` would report alone,
    then the others in the order of the files."""

    path: str
    files: list[str]
    mistakes: list[Mistake]


def _gathered(problems: Iterator[BadInput]) -> list[BadInput]:
    """Return every mistake. A mistake that ends the search is the last one."""
    found: list[BadInput] = []
    try:
        found.extend(problems)
    except BadInput as problem:
        found.append(problem)
    return found


def check(path: str | None, env: Mapping[str, str]) -> Report:
    """Check kfm.yml and every file it names, and return the report. Mistakes are not raised."""
    first: BadInput | None = None
    found: list[BadInput] = []
    try:
        resolved: Resolved | None = config_loader.load(path, env)
    except BadInput as problem:
        first = problem
        found, resolved = mistakes_of(path, env)
    where = config_loader.shown_path(path or env.get("KFM_CONFIG") or "kfm.yml")
    if resolved is None:
        return Report(where, [where], [_mistake(problem, where) for problem in found])
    where = resolved.document.where
    files: list[str] = [where]
    collected = [*found, *_gathered(_of_files(resolved, files))]
    said = first.message if first is not None else ""
    unique = dict.fromkeys(problem.message for problem in collected if problem.message != said)
    by_message = {problem.message: problem for problem in reversed(collected)}
    others = [_mistake(by_message[message], where) for message in unique]
    others.sort(key=lambda each: (files.index(each.file) if each.file in files else -1, each.line, each.column))
    return Report(where, files, [*([_mistake(first, where)] if first is not None else []), *others])


def refuse_mistakes(path: str | None, env: Mapping[str, str]) -> None:
    """Raise BadInput with all mistakes of a configuration if one of them is in a schedule or a backfill. No run reads
    those. A run refuses all other mistakes itself, leaves a receipt, and does not keep other datasets from running."""
    resolved = config_loader.load(path, env)
    if any(_gathered(mistakes(resolved, [])) for mistakes in (_of_schedules, _of_backfills)):
        first, *others = map(_as_error, check(path, env).mistakes)
        first.others = tuple(others)
        raise first


def with_others(problem: BadInput, path: str | None, env: Mapping[str, str]) -> BadInput:
    """Return the first mistake of a configuration, as it was raised, with all others in its `others`."""
    _, *others = check(path, env).mistakes
    problem.others = tuple(map(_as_error, others))
    return problem


def _as_error(mistake: Mistake) -> BadInput:
    """Return a mistake as the error that reports it."""
    message = str(mistake).removesuffix(f"; {mistake.hint}")
    return BadInput(message, hint=mistake.hint, key=mistake.key or None)


def _mistake(problem: BadInput, where: str) -> Mistake:
    """Return a problem as a mistake. A problem without a place concerns the file as a whole."""
    found = _PLACE.match(problem.message)
    message = problem.message[found.end() :] if found else problem.message
    line, column = (int(found["line"]), int(found["column"] or 1)) if found else (1, 1)
    file = found["file"] if found else ENVIRONMENT if problem.message.startswith("KFM_") else where
    return Mistake(
        file=file,
        line=line,
        column=column,
        key=str(problem.fields.get("key") or ""),
        message=message,
        hint=problem.hint or "correct it there",
        code=problem.code,
    )


# -- the files that kfm.yml names


def _of_files(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    """Yield the mistakes of each kind of file. A mistake in kfm.yml itself has its place there."""
    yield from _of_schedules(resolved, files)
    yield from _of_backfills(resolved, files)
    yield from _of_objectives(resolved, files)
    yield from _of_energy(resolved, files)
    labels_are_right = True
    for problem in _of_labels(resolved, files):
        labels_are_right = False
        yield problem
    yield from _of_masks(resolved, files)
    if labels_are_right:
        yield from _of_matches(resolved)
    yield from _of_policies(resolved)
    yield from _of_outline(resolved)
    yield from _of_datasets(resolved)


def _of_outline(resolved: Resolved) -> Iterator[BadInput]:
    try:
        outline_of(resolved)
    except BadInput as problem:
        said = problem.message.removeprefix("archive.outline ")
        yield resolved.document.mistake(("archive", "outline"), said, problem.hint)


def _of_schedules(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    files += schedule_files.files_of(resolved)
    mistakes, schedules = schedule_files.mistakes_of(resolved)
    yield from _about_datasets(resolved, mistakes)
    yield from _about_datasets(resolved, list(mistakes_in(resolved, schedules)))


def _of_backfills(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    files += backfill_files.files_of(resolved)
    yield from _about_datasets(resolved, backfill_files.mistakes_of(resolved))


def _of_objectives(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    files += objective_files.files_of(resolved)
    yield from _about_datasets(resolved, _gathered(objective_files.mistakes_of(resolved)))


def _of_energy(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    energy = resolved.config.energy
    if not (energy.grid or energy.region) or _is_mistaken(resolved.document, ("energy",)):
        return
    from kfm.app.session.energy_meter import read_grid

    if energy.grid:
        files.append(energy.grid)
    yield from read_grid(resolved)[1]


def _about_datasets(resolved: Resolved, mistakes: list[BadInput]) -> Iterator[BadInput]:
    """Yield these mistakes. If the section `datasets` could not be read, leave out those about unknown datasets."""
    unknown = bool({(), ("datasets",)} & resolved.document.assumed)
    yield from (each for each in mistakes if not (unknown and "dataset" in each.message))


def _of_labels(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    if resolved.config.labels:
        full = resolved.at(resolved.config.labels)
        yield from _read(resolved, ("labels",), full, resolved.config.labels, read_labels, files)


def _of_masks(resolved: Resolved, files: list[str]) -> Iterator[BadInput]:
    seen: set[str] = set()
    for name, dataset in resolved.config.datasets.items():
        for source_name, source in dataset.sources.items():
            if source.mask and source.mask not in seen:
                seen.add(source.mask)
                path = ("datasets", name, "sources", source_name, "mask")
                full = resolved.in_tree(source.mask)
                yield from _read(resolved, path, full, source.mask, read_policy, files)


def _read(
    resolved: Resolved, path: Path, full: str, where: str, read: Callable[[Document], object], files: list[str]
) -> Iterator[BadInput]:
    """Yield the mistakes of one file. A missing file is a mistake of the line that names it."""
    try:
        with open(full, "rb") as file:
            body = file.read(documents.MAX_BYTES + 1)
    except (OSError, ValueError) as problem:
        reason = (problem.strerror or "").lower() if isinstance(problem, OSError) else "not a path"
        hint = "write the file, or correct the path: it starts at the folder of kfm.yml"
        yield resolved.document.mistake(path, f"names {where}, which cannot be read: {reason}", hint)
        return
    files.append(where)
    document = document_recovery.read_all(body, where, json=where.endswith(".json"))
    with document:
        read(document)
    yield from document.collect()


def _of_matches(resolved: Resolved) -> Iterator[BadInput]:
    """Yield masks without labels, and labels that match nothing. The state is read too, because it knows datasets that
    kfm.yml named before."""
    if not is_configured(resolved):
        return
    try:
        with open_session(resolved, mode="read") as session:
            found = list(match_mistakes(session))
    except KfmError:  # the state cannot be opened, so no label can be matched; `kfm doctor` says why
        return
    yield from found


def match_mistakes(session: Session) -> Iterator[BadInput]:
    """Yield masks without labels, each at its place in kfm.yml, and labels that match nothing."""
    from kfm.app.authority.label_match import mistakes

    for masked, problem in mistakes(session):
        if masked is None:
            yield problem
        else:
            place = session.resolved.document.place(("datasets", masked.dataset, "sources", masked.name, "mask"))
            yield BadInput(f"{place}: {problem.message}", hint=problem.hint)


def _of_policies(resolved: Resolved) -> Iterator[BadInput]:
    if not resolved.config.policy.folder:
        return
    try:
        policies_of(resolved)
    except BadInput as problem:
        place = resolved.document.place(("policy", "folder"))
        yield BadInput(f"{place}: {problem.message}", hint=problem.hint, key="policy.folder")


def _of_datasets(resolved: Resolved) -> Iterator[BadInput]:
    """Yield updaters that cannot be found, and data contracts that are impossible, unsafe or without effect."""
    for name, dataset in resolved.config.datasets.items():
        path: Path = ("datasets", name, "updater" if dataset.updater else "job")
        spec = dataset.updater or dataset.job or ""
        if ":" in spec and not _is_mistaken(resolved.document, path):
            try:
                search(name, spec, resolved.in_tree)
            except BadInput as problem:
                place = "" if _PLACE.match(problem.message) else f"{resolved.document.place(path)}: "
                yield BadInput(f"{place}{problem.message}", hint=problem.hint, key=dotted(path))
        path = ("datasets", name, "license")
        wrong = problem_of(dataset.license, dataset.license_text or "") if dataset.license.strip() else None
        if wrong is not None and not _is_mistaken(resolved.document, path):
            yield BadInput(f"{resolved.document.place(path)}: {wrong.what}", hint=wrong.cure, key=dotted(path))
        for source_name, source in dataset.sources.items():
            path = ("datasets", name, "sources", source_name, "contract")
            if not _is_mistaken(resolved.document, path):
                for what in contract_problems(source.data_contract()):
                    message = f"{resolved.document.place(path)}: {what}"
                    yield BadInput(message, hint="correct the contract there", key=dotted(path))


def _is_mistaken(document: Document, path: Path) -> bool:
    """Return whether a mistake in this part or below it is already known."""
    keys = (str(problem.fields.get("key", "")) for problem in document.mistakes or ())
    start = dotted(path)
    return any(key == start or key.startswith((f"{start}.", f"{start}[")) for key in keys)
