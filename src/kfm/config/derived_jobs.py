"""The settings of a dataset that a job makes: its type, its parameters, and the datasets that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kfm.config.source_settings import SourceConfig
from kfm.model import names
from kfm.model.jobs.job_settings import BY_JOB, INDEX, REPORT, STORY, TILES, IndexSettings, JobSettings, TileSettings
from kfm.parsing.characters import is_printable
from kfm.parsing.documents import Document, Path
from kfm.parsing.record_shape import nearest, part_into

PUBLISHED = "write zone: published"
RUNS_ITSELF = ("ingest.pull_source", "backfill.partition")  # types that run a dataset which has an updater or outputs


class DerivedJob(NamedTuple):
    """What a dataset says of the job that makes it."""

    job: str
    parameters: dict[str, Any]
    sources: Mapping[str, SourceConfig]
    others: dict[str, bool]  # settings that it must not have, and whether it has them


def check_job(document: Document, path: Path, said: DerivedJob) -> None:
    """Raise BadInput unless the job, its parameters and its sources fit together. The parameters of a type that another
    package brings are checked when its code is loaded."""
    job = said.job
    for name, given in said.others.items():
        if given:
            document.refuse((*path, name), "cannot be combined with a job, which brings its own", "remove it")
    family, dot, verb = job.partition(".")
    if ":" in job:
        _check_sources(document, path, said)
        return
    if not (is_printable(job) and family and dot and verb) or len(job) > 100:
        close = nearest(job, list(BY_JOB))
        hint = f"did you mean {close}?" if close else f"write one of {', '.join(BY_JOB)}"
        document.refuse((*path, "job"), "does not name a type of job", hint)
    elif job in RUNS_ITSELF:
        document.refuse((*path, "job"), "runs a dataset that has an updater or outputs, and makes none", "remove it")
    _check_sources(document, path, said)
    if job in BY_JOB:
        with document:
            here = (*path, "parameters")
            _check_settings(document, path, said, part_into(document, here, said.parameters, BY_JOB[job]))
    else:
        close = nearest(job, list(BY_JOB))
        if close and close.partition(".")[0] == family:
            document.refuse((*path, "job"), "is not a type of job that is known here", f"did you mean {close}?")


def _check_sources(document: Document, path: Path, said: DerivedJob) -> None:
    if not any(source.dataset for source in said.sources.values()):
        document.refuse(path, "has a job and reads no dataset", "add sources: {rows: {dataset: NAME}}")
    for name, source in said.sources.items():
        if not source.dataset and said.job != STORY:
            document.refuse(
                (*path, "sources", name),
                "is not a dataset, and a job reads versions of datasets",
                "write dataset: NAME, and fetch the file in a dataset of its own",
            )
    if said.job in (TILES, REPORT) and len(said.sources) > 1:
        document.refuse((*path, "sources"), f"are several, and {said.job} reads one", "give each a dataset of its own")
    if said.job == STORY:
        _check_story(document, path, said.sources)


def _check_story(document: Document, path: Path, sources: Mapping[str, SourceConfig]) -> None:
    """Raise BadInput unless one source is the text of the story, and each other the public version of a dataset."""
    texts = [name for name, source in sources.items() if not source.dataset]
    if len(texts) != 1:
        what = f"have {len(texts)} files, and the text of a story is one"
        document.refuse((*path, "sources"), what, "write text: {uri: stories/NAME.md}, and a dataset for all others")
    seen: dict[str, str] = {}
    for name, source in sources.items():
        here = (*path, "sources", name)
        if name in texts:
            if source.data_contract().format != "text":
                document.refuse(here, "is the text of a story, and is not read as text", "write format: text")
            if source.mask:
                document.refuse((*here, "mask"), "has no meaning for the text of a story", "remove it")
            continue
        if source.zone != "published":
            document.refuse(here, "is read before it is public, and a story cites what is public", PUBLISHED)
        for key in ("version", "key"):
            if getattr(source, key):
                hint = "remove it, and cite kfm://dataset/NAME@sha256:DIGEST#KEY in the text"
                document.refuse((*here, key), "has no meaning for a story, whose text says what it cites", hint)
        other = seen.setdefault(names.dataset_id(source.dataset), name)
        if other != name:
            document.refuse(here, f"is the dataset that {other} is", "remove one of them")


def _check_settings(document: Document, path: Path, said: DerivedJob, settings: JobSettings) -> None:
    here = (*path, "parameters")
    if isinstance(settings, TileSettings) and settings.min_zoom > settings.max_zoom:
        document.refuse((*here, "min_zoom"), "is above max_zoom", "swap them")
    if not isinstance(settings, IndexSettings):
        return
    for name, source in said.sources.items():
        if source.zone != "published":
            document.refuse(
                (*path, "sources", name),
                "is read before it is public, and an index is of public text",
                PUBLISHED,
            )
    for key in ("title", "id"):
        if getattr(settings, key) and not settings.columns:
            document.refuse((*here, key), "has no meaning without columns", "name the columns to search, too")


def alias_of(name: str, job: str, parameters: Mapping[str, Any]) -> str:
    """Return the search alias of a dataset; empty if it is no index."""
    if job != INDEX:
        return ""
    said = parameters.get("alias", "")
    return said if isinstance(said, str) and said else name
