"""The base of the jobs that make a dataset from versions of other datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

from kfm.model.canonical import canonical
from kfm.model.jobs.job_settings import JobSettings
from kfm.model.keys import digest
from kfm.model.records import SourceRef, Trigger
from kfm.model.updater import Sources, Updater

P = TypeVar("P", bound=JobSettings)


class JobUpdater(Updater, Generic[P]):
    """Reads the version of each dataset that kfm.yml names. Same versions and parameters give the same bytes.

    The parameters are part of the updater's version, so changed parameters are new work. A version of the dataset is
    complete: a key that an earlier one had and this one has not is removed, within the deletion budget.
    """

    job: ClassVar[str] = ""  # the type of job, such as report.count_rows
    settings: ClassVar[type[JobSettings]] = JobSettings  # the record of `parameters` in kfm.yml
    op = "job"
    declared = True
    reads_keys = True

    def __init__(self, name: str, parameters: P, read: Mapping[str, str]) -> None:
        self.id = name
        self.job_type = self.job
        self.parameters = parameters
        self.read = dict(sorted(read.items()))  # the ref of each source, by its name
        said = digest(canonical({"job": self.job, "version": self.version, "parameters": parameters}))
        self.version = f"{self.version}{'.' if '+' in self.version else '+'}{said[7:19]}"
        self.code_hash = said

    def inputs(self, trigger: Trigger, sources: Sources) -> list[SourceRef]:  # noqa: ARG002
        return [sources.pin(name, complete=True) for name in self.read]
