"""Loads the updater of a dataset that a job makes: one of KFM's own, one that an installed package brings, or one in a
file of the installation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from kfm.errors import BadInput, KfmError, place_of
from kfm.model.jobs.job_settings import BY_JOB, INDEX, REPORT, STORY, TILES
from kfm.model.keys import digest
from kfm.model.updater import Updater, check_updater
from kfm.parsing.characters import printable
from kfm.parsing.documents import Document
from kfm.parsing.record_shape import part_into

UPDATERS = {
    TILES: "kfm.updaters.jobs.map_tiles:MapTiles",
    REPORT: "kfm.updaters.jobs.quality_report:QualityReport",
    INDEX: "kfm.updaters.jobs.search_index:SearchIndex",
    STORY: "kfm.updaters.jobs.story_node:StoryNode",
}
GROUP = "kfm.jobs"  # of entry points: the name is a type of job, the value the description of it in a module

At = Callable[[str], str]


def load_job(
    name: str, job: str, parameters: Mapping[str, Any], read: Mapping[str, str], document: Document, at: At
) -> Updater:
    """Return the updater of a dataset with a job. `job` is a type, or `file.py:Class` as for an updater; `read` has the
    ref of each source; `at` finds files of the installation. Raise BadInput, with the place in kfm.yml, if there is no
    such job or if its parameters do not fit."""
    here = ("datasets", name, "parameters")
    if job in UPDATERS:
        said: Any = part_into(document, here, dict(parameters), BY_JOB[job])
        module, _, class_name = UPDATERS[job].partition(":")
        made: Updater = getattr(import_module(module), class_name)(name, said, read)
        return check_updater(made)
    from kfm.model.jobs.job_updater import JobUpdater
    from kfm.updaters.code_digest import code_listing
    from kfm.updaters.updater_loader import updater_class

    is_local = ":" in job
    described = None if is_local else _described(name, job)
    spec = job if is_local else str(getattr(described, "updater", ""))
    if ":" not in spec:
        raise BadInput(
            f"the job {printable(job)} makes no dataset of its own",
            hint=f"remove `job:` from dataset {name}, and see `kfm jobs types`",
        )
    module_of, kind = updater_class(name, spec, at)
    if not issubclass(kind, JobUpdater):
        raise BadInput(f"{printable(spec)} is not a JobUpdater", hint="let the class inherit from kfm.JobUpdater")
    settings = getattr(described, "settings", None) or kind.settings
    said = part_into(document, here, dict(parameters), settings)
    try:
        own = kind(name, said, read)
        own.declared = False
        own.job_type = job if described is not None else own.job_type or "job.local"
        own.code_listing = code_listing(module_of, at(""), installed=described is not None)
        own.code_hash = digest(own.code_listing)
        return check_updater(own)
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:
        raise _unusable(job, problem) from problem


def _described(name: str, job: str) -> Any:
    """Return the description of a job that an installed package brings."""
    from importlib.metadata import entry_points

    offered = entry_points(group=GROUP)
    found = sorted({each.value for each in offered if each.name == job})
    if len(found) != 1:
        known = ", ".join(sorted({each.name for each in offered})) or "none"
        what = f"is brought by {' and '.join(found)}" if found else "is brought by no installed package"
        raise BadInput(
            f"the job {printable(job)} of dataset {name} {what}",
            hint=f"install one package with it where kfm is installed; entry points {GROUP} there are: {known}",
        )
    where, _, attribute = found[0].partition(":")
    try:
        described = getattr(import_module(where), attribute, None)
    except KfmError:
        raise
    except (Exception, SystemExit) as problem:
        raise _unusable(job, problem) from problem
    if getattr(described, "name", None) != job:
        raise BadInput(
            f"{printable(found[0])} is not the description of the job {printable(job)}",
            hint=f"let the entry point of the group {GROUP} name a JobType of that name",
        )
    return described


def _unusable(job: str, problem: BaseException) -> BadInput:
    return BadInput(
        f"the job {printable(job)} cannot be loaded: {type(problem).__name__} at {place_of(problem)}",
        hint="repair its code, or the package that brings it",
    )
